"""The claim about the mask: what it measures is what the model does."""

import json

import numpy as np
import pytest
import torch

from jumok.lab.claims import mask
from jumok.lab.laboratory import Lab
from jumok.models import build
from jumok.models.base import START
from jumok.nn.attention import EVERYTHING, Mask
from tests.house.test_house import ROOT

DOCS = ROOT.parent.parent / "docs" / "lab"


def test_the_gradients_of_the_mask_claim_are_those_of_the_model_patched_by_hand_to_the_last_digit(tmp_path):
    """As the published finding was measured: the decoder's input is a leaf, and its layers get a mask or none."""
    published = json.loads((DOCS / "mask.json").read_text(encoding="utf-8"))["numbers"]
    plain = Lab(tmp_path)
    for name, masked in (("with", True), ("without", False)):
        torch.manual_seed(plain.seed)
        model = build(plain.recipe({"model.dropout": 0.0}).model, 40, 40).double()
        source = torch.arange(8, 14)[None]
        target = torch.cat([torch.tensor([START]), torch.arange(10, 10 + mask.TOKENS - 1)])[None]
        memory, padding = model.encode(source)
        vectors = model.target(target).detach().requires_grad_()
        x, allowed = vectors, Mask(target != 0, causal=True) if masked else EVERYTHING
        for layer in model.decoder:
            x = layer(x, allowed, memory, padding)
        states = model.decoder_norm(x)
        direction = torch.randn(states.shape[-1], dtype=states.dtype, generator=torch.Generator().manual_seed(1))
        rows = []
        for t in range(mask.TOKENS):
            [gradient] = torch.autograd.grad((states[0, t] * direction).sum(), vectors, retain_graph=True)
            sizes = gradient[0].norm(dim=-1)
            rows.append((sizes / sizes.sum()).tolist())
        found = mask.map_untrained(plain, mask=masked)
        assert found == rows
        assert np.array(found) == pytest.approx(np.array(published[name]["felt"]), abs=1e-12)


def test_the_trained_model_without_a_mask_depends_on_the_future_and_the_other_does_not():
    numbers = json.loads((DOCS / "mask.json").read_text(encoding="utf-8"))["numbers"]
    masked, free = (np.array(numbers[name]["trained"]) for name in ("with", "without"))
    assert np.triu(masked, 1).max() == 0.0
    assert np.triu(free, 1).sum() > 0.3 * len(free)
    assert numbers["with"]["learned"] == 0.0


def test_the_share_of_the_future_is_what_is_above_the_diagonal():
    assert mask.future_share([[0.5, 0.5], [0.5, 0.5]]) == 0.25
    assert mask.future_share([[1.0, 0.0], [0.5, 0.5]]) == 0.0
