"""Hugging Face transformers with our weights: a Marian model and `generate`, in batches of similar length.

    python -m bench.peers.decode_hf BUNDLE

BUNDLE is a model folder.  Answers the requests of jumok.bench.worker.  Only models like the paper's have a counterpart:
Marian adds sinusoids, norms after the residual sum and shares one matrix; `obstacle` describes what differs.
"""

import argparse
import tomllib
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from bench.peers.task import END, PAD, START, pad
from jumok.bench.worker import System, Unavailable, serve

BATCH = 128  # sentences
POSITIONS = 1_024  # positions of the table
MARIAN = {
    "norm": "layer", "norm_place": "post", "positions": "sinusoidal", "join": "add", "score": "scaled-dot",
    "residual": True, "bias": True, "tied": "all", "d_k": None, "d_v": None,
}  # fmt: skip

Weights = dict[str, Tensor]


class Marian(System):
    """A MarianMTModel and its vocabulary."""

    def __init__(self, bundle: str) -> None:
        folder = Path(bundle)
        recipe = tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8"))
        if (reason := obstacle(recipe["model"])) is not None:
            raise Unavailable(reason)
        self.version, self.once = transformers.__version__, ["-m", "bench.peers.decode_hf", bundle, "--once"]
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "vocabulary.model"))
        self.model = marian(load_file(folder / "model.safetensors"), recipe["model"])
        self.extra = recipe["decoding"]["extra_length"]

    @torch.inference_mode()
    def translate(self, texts: list[str], beam: int) -> list[str]:
        sources = [[*ids, END] for ids in self.processor.encode(texts)]
        order = sorted(range(len(texts)), key=lambda row: len(sources[row]))
        translations = [""] * len(texts)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            outputs = self.generate([sources[row] for row in rows], beam)
            for row, text in zip(rows, self.processor.decode(outputs), strict=True):
                translations[row] = text
        return translations

    def generate(self, sources: list[list[int]], beam: int) -> list[list[int]]:
        grid = torch.tensor(pad(sources))  # (B, S)
        output = self.model.generate(
            input_ids=grid, attention_mask=(grid != PAD).long(), num_beams=beam, do_sample=False,
            max_new_tokens=grid.shape[1] + self.extra,
        )  # fmt: skip
        return [[token for token in ids if token > END] for ids in output.tolist()]

    def tokens(self, texts: list[str]) -> int:
        return sum(map(len, self.processor.encode(texts)))


def obstacle(model: dict[str, Any]) -> str | None:
    """The reason why transformers has no such model; None if it has."""
    wrong = [f"{name}={model.get(name)!r}" for name, value in MARIAN.items() if model.get(name, value) != value]
    if model["activation"] not in ("relu", "gelu"):
        wrong.append(f"activation={model['activation']!r}")
    return f"transformers has no such model: {', '.join(wrong)}" if wrong else None


def marian(weights: Weights, model: dict[str, Any]) -> MarianMTModel:
    """Our weights under the names of a Marian."""
    matrix = weights["matrix"]
    config = MarianConfig(
        vocab_size=len(matrix), d_model=model["d_model"], max_position_embeddings=POSITIONS,
        encoder_layers=model["encoder_layers"], encoder_ffn_dim=model["d_ff"], encoder_attention_heads=model["heads"],
        decoder_layers=model["decoder_layers"], decoder_ffn_dim=model["d_ff"], decoder_attention_heads=model["heads"],
        activation_function=model["activation"], scale_embedding=True, pad_token_id=PAD, bos_token_id=START,
        eos_token_id=END, decoder_start_token_id=START, forced_eos_token_id=None,
    )  # fmt: skip
    theirs = MarianMTModel(config).eval()
    never = torch.zeros(1, len(matrix)).index_fill_(1, torch.tensor([PAD]), float("-inf"))
    renamed = {"model.shared.weight": matrix, "final_logits_bias": never}
    for side in ("encoder", "decoder"):
        renamed[f"model.{side}.embed_positions.weight"] = sinusoids(POSITIONS, model["d_model"])
        for number in range(model[f"{side}_layers"]):
            renamed |= layer(weights, f"{side}.{number}", f"model.{side}.layers.{number}")
    result = theirs.load_state_dict(renamed, strict=False)
    wrong = [name for name in result.missing_keys if not name.endswith(("embed_tokens.weight", "lm_head.weight"))]
    wrong += result.unexpected_keys
    assert not wrong, f"not the weights of a Marian: {wrong}"
    theirs.tie_weights()
    return theirs


def layer(weights: Weights, ours: str, theirs: str) -> Weights:
    """One layer's weights, renamed."""
    blocks = {"self_attn": ("attention", ("attention.qkv",))}
    if f"{ours}.cross.query.weight" in weights:
        blocks["encoder_attn"] = ("cross", ("cross.query", "cross.memory"))
    renamed: Weights = {}
    for kind in ("weight", "bias"):
        for name, (block, matrices) in blocks.items():
            whole = torch.cat([weights[f"{ours}.{matrix}.{kind}"] for matrix in matrices])
            for part, value in zip("qkv", whole.chunk(3), strict=True):
                renamed[f"{theirs}.{name}.{part}_proj.{kind}"] = value
            renamed[f"{theirs}.{name}.out_proj.{kind}"] = weights[f"{ours}.{block}.output.{kind}"]
            renamed[f"{theirs}.{name}_layer_norm.{kind}"] = weights[f"{ours}.{block}_path.norm.{kind}"]
        for name, part in (("fc1", "feed_forward.inner"), ("fc2", "feed_forward.outer")):
            renamed[f"{theirs}.{name}.{kind}"] = weights[f"{ours}.{part}.{kind}"]
        renamed[f"{theirs}.final_layer_norm.{kind}"] = weights[f"{ours}.feed_forward_path.norm.{kind}"]
    return renamed


def sinusoids(positions: int, width: int) -> Tensor:
    """The paper's positions, alternating sines and cosines."""
    angle = torch.arange(positions)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.decode_hf", description=__doc__)
    parser.add_argument("bundle")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--once", action="store_true", help="print the translation of one text and exit")
    parser.add_argument("text", nargs="?")
    given = parser.parse_intermixed_args()
    if given.once:
        print(Marian(given.bundle).alone(given.text, given.beam), flush=True)
    else:
        serve(lambda: Marian(given.bundle))


if __name__ == "__main__":
    main()
