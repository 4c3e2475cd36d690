"""Steer a translation: forbid a word, require it elsewhere, fix the beginning, list alternatives.

python examples/constrained.py runs/example
python examples/constrained.py runs/tiny "A man rides a bike."
"""

import argparse
from collections.abc import Sequence

import jumok


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a run folder")
    parser.add_argument("text", nargs="?", default="I drank two cups of coffee.")
    chosen = parser.parse_args(arguments)

    model = jumok.load(chosen.model)
    free = model.translate(chosen.text, min_length=3)  # at least three tokens, even if the model is barely trained
    print(f"free         {free.text}")
    first, last = free.words[0].text.strip(), free.words[-1].text.strip()

    # A forbidden word is excluded however it may be spelled in subwords; what is left keeps the model's probabilities.
    print(f"without {first!r}  {model.translate(chosen.text, forbid=[first]).text}")

    # A required word or phrase appears somewhere; several may be given, in any order.
    print(f"with {last!r}  {model.translate(chosen.text, require=[last]).text}")

    # A prefix fixes the beginning; alternatives begin differently.
    print(f"after {first!r}  {model.translate(chosen.text, prefix=first).text}")
    for other in model.alternatives(chosen.text, count=3):
        print(f"alternative  {other.text}  ({other.score:.2f})")


if __name__ == "__main__":
    main()
