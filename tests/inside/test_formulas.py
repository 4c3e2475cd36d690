"""Formulas: well-formed MathML in which the list of terms explains every symbol."""

import xml.etree.ElementTree as ElementTree

import pytest

from jumok.inside.formulas import FORMULAS
from jumok.reports.terms import read_terms

PLAIN = set("=+−·()[],;/→…")  # signs that need no explanation


@pytest.mark.parametrize("name", FORMULAS)
def test_every_symbol_of_a_formula_has_a_term(name):
    root = ElementTree.fromstring(FORMULAS[name])
    parents = {child: parent for parent in root.iter() for child in parent}
    assert {one.attrib["data-term"] for one in root.iter() if "data-term" in one.attrib} <= read_terms().keys()
    for one in root.iter():
        place = one
        while place is not root and "data-term" not in place.attrib:
            place = parents[place]
        if one.tag in ("mi", "mo") and one.text not in PLAIN:
            assert place is not root, f"{one.text} is not explained"


@pytest.mark.parametrize("name", FORMULAS)
def test_bases_and_scripts_are_pairs(name):
    for one in ElementTree.fromstring(FORMULAS[name]).iter():
        if one.tag in ("msub", "msup", "mfrac"):
            assert len(one) == 2, ElementTree.tostring(one)
