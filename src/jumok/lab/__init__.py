"""The lab: every claim of the paper and of the notes can be tested with one command.

    jumok lab                      list all claims
    jumok lab mask                 test one: numbers, a verdict, pictures, a page
    jumok lab all --out report     test all of them and write an index

Level 10.  Read first: claim.py.

A claim is one file in claims/: `CLAIM` holds its texts and the functions that measure, check and draw it (claim.py).
This table alone knows their names; the file of a claim is imported when it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from jumok.errors import UnknownName

if TYPE_CHECKING:
    from jumok.lab.claim import Claim

NAMES: tuple[str, ...] = (
    "order",
    "positions",
    "relative",
    "scale",
    "linearity",
    "mask",
    "norm",
    "residual",
    "warmup",
    "smoothing",
    "averaging",
    "table-1",
    "additive",
    "bottleneck",
    "heads",
    "alignment",
    "forcing",
    "search",
)
PAPER: tuple[str, ...] = ("table-3", "table-4", "figures")  # the paper's own tables and figures: `jumok lab paper`


def get(name: str) -> "Claim":
    """A claim by its name."""
    if name not in NAMES + PAPER:
        raise UnknownName("lab.unknown_claim", name, [*NAMES, *PAPER])
    claim: Claim = import_module(f"jumok.lab.claims.{name.replace('-', '_')}").CLAIM
    return claim
