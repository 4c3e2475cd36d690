"""Look inside a model: its attention as arrays, how sharp every head is, and a picture of the sharpest one.

python examples/look_inside.py runs/example
python examples/look_inside.py runs/tiny "A man rides a bike." --svg attention.svg
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import jumok
from jumok.reports.attention import heatmap_svg


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a run folder")
    parser.add_argument("text", nargs="?", default="I drank two cups of coffee.")
    parser.add_argument("--svg", type=Path, help="write the picture there")
    chosen = parser.parse_args(arguments)

    view = jumok.load(chosen.model).attention(chosen.text)
    print(f"{view.text} → {view.translation}")
    for kind in ("encoder", "decoder", "cross"):
        print(f"{kind:8} (layers, heads, queries, keys) = {getattr(view, kind).shape}")

    # The entropy of a row of weights, in bits: 0 if a head attends to one token, log2(keys) if to all alike.
    weights = np.maximum(view.cross, 1e-12)
    bits = -(weights * np.log2(weights)).sum(axis=-1).mean(axis=-1)  # (layers, heads)
    print("mean entropy of every cross-attention head, in bits:")
    for layer, row in enumerate(bits, start=1):
        print(f"  layer {layer}: " + " ".join(f"{value:.2f}" for value in row))

    layer, head = np.unravel_index(bits.argmin(), bits.shape)
    sharpest = view.cross[layer, head]  # (target tokens, source tokens)
    print(f"the sharpest is layer {layer + 1}, head {head + 1}:")
    for piece, row in zip(view.target, sharpest, strict=True):
        print(f"  {piece:12} attends to {view.source[int(row.argmax())]} ({row.max():.0%})")
    if chosen.svg is not None:
        title = f"layer {layer + 1}, head {head + 1}"
        chosen.svg.write_text(heatmap_svg(sharpest, view.target, view.source, title=title), encoding="utf-8")
        print(f"written: {chosen.svg}")


if __name__ == "__main__":
    main()
