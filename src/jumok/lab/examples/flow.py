"""Figure 1 in order: every block that one pair of sentences goes through, with the shape of what it returns."""

from __future__ import annotations

from typing import Any

import torch

from jumok.inside.passes import read
from jumok.lab.examples.doubling import spell, to_batch, train
from jumok.lab.examples.example import Example, Numbers, Part, Say

TEXT = "cab"


def compute() -> dict[str, Any]:
    model = train()
    source, target, _ = to_batch([TEXT])
    with torch.no_grad():
        reading = read(model, source, target)
        memory = model.encode(source)[0][0]
    assert reading.logits is not None
    outputs = {name: values["output"] for name, values in reading.blocks.items() if "output" in values}
    blocks = [[name, list(output.shape[1:])] for name, output in outputs.items()]
    names = list(outputs)
    return {
        "source": [spell(token) for token in source[0].tolist()],
        "target": [spell(token) for token in target[0].tolist()],
        "n": source.shape[1], "m": target.shape[1], "blocks": blocks, "d_model": model.config.d_model,
        "memory": list(memory.shape), "z": memory[0, :4].tolist(), "logits": list(reading.logits.shape[1:]),
        "probabilities": float(reading.logits[0].softmax(dim=-1).sum(dim=-1).max()),
        "of_encoder_layer": [name for name in names if name.startswith("encoder.0.")],
        "of_decoder_layer": [name for name in names if name.startswith("decoder.0.")],
        "attentions": {side: count_attentions(names, f"{side}.0.") for side in ("encoder", "decoder")},
        "layers": [model.config.encoder_layers, model.config.decoder_layers],
        "moved": float((memory - reading.blocks["source.embedding"]["scaled"][0]).norm() / memory.norm()),
    }  # fmt: skip


def count_attentions(names: list[str], layer: str) -> int:
    """The attentions among the blocks of a layer."""
    return sum(name.startswith(layer) and name.endswith((".attention", ".cross")) for name in names)


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [[say("block"), say("shape")]]
    rows += [[name, " × ".join(map(str, shape))] for name, shape in numbers["blocks"]]
    rows.append([say("logits"), " × ".join(map(str, numbers["logits"]))])
    given = {"source": " ".join(numbers["source"]), "target": " ".join(numbers["target"])}
    return [Part(say("table", **given), rows), Part(say("memory", n=numbers["n"], d_model=numbers["d_model"]))]


EXAMPLE = Example(name="flow", compute=compute, show=show)
