"""Record what every kind of model computes, so that a refactor can be compared with the code before it.

    python tools/record.py before.json                  # all kinds and variants, with and without kernels
    python tools/record.py after.json --against before.json
    python tools/record.py x.json --only paper,gpt

Every case trains for 50 updates from a fixed seed and records the losses, the sha256 of weights and optimizer state,
translations with their scores by every engine that takes the model, and teacher-forced scores.  Only the public API is
used.  The figures depend on the processor and on torch, so both records must come from the same machine.  With
`--against` the exit code is 1 if anything differs, and the largest difference of a loss and of a score is printed.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LINES = [f"{who} {does} {what}." for who in ("a man", "a dog") for does in ("sees", "has") for what in ("tea", "a hat")]
SENTENCES = ["a b c", "d e f g h", "b", "c c a d", "h g f e d c b a", "", "zz a 42"]
ALL = {
    "training.validations": 2,
    "training.valid_pairs": 12,
    "training.tokens_per_update": 256,
    "data.hold_out": 20,
    "model.d_model": 32,
}
SMALL = {"vocabulary.size": 300, "vocabulary.at_most": True} | {
    f"data.clean.{rule}": False for rule in ("duplicates", "near_duplicates", "copies", "scripts", "symbols")
}
STACK = {"model.encoder_layers": 2, "model.decoder_layers": 2, "model.d_ff": 48, "model.heads": 4}
HEADS = {"model.layers": 2, "model.heads": 4, "model.d_ff": 48}
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm": {"model.norm_place": "pre"},
    "rms": {"model.norm": "rms"},
    "batch": {"model.norm": "batch"},
    "no-norm": {"model.norm": "none"},
    "learned": {"model.positions": "learned"},
    "rotary": {"model.positions": "rotary"},
    "rotary-pre-muon": {
        "model.positions": "rotary",
        "model.norm_place": "pre",
        "training.optimizer": "muon",
        "training.schedule": "linear",
        "training.peak": 0.01,
        "training.warmup": 10,
        "training.word_dropout": 0.1,
        "vocabulary.sampling": 0.1,
        "training.ema": 0.9,
    },
    "appended": {"model.positions": "appended", "model.join": "concatenate"},
    "concatenated": {"model.join": "concatenate"},
    "nowhere": {"model.positions": "none"},
    "plain-dot": {"model.score": "dot"},
    "additive": {"model.score": "additive"},
    "gelu": {"model.activation": "gelu"},
    "swiglu": {"model.activation": "swiglu"},
    "linear": {"model.activation": "linear"},
    "narrow-keys": {"model.d_k": 4, "model.d_v": 6},
    "deep-encoder": {"model.encoder_layers": 3, "model.decoder_layers": 1},
    "no-residual": {"model.residual": False},
    "no-bias": {"model.bias": False},
    "untied": {"model.tied": "none"},
    "target-tied": {"model.tied": "target"},
    "bf16": {"training.precision": "bf16"},
    "micro-batches": {"data.tokens_per_batch": 64},
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "rnn": {"model.kind": "rnn"},
    "rnn-lstm": {"model.kind": "rnn", "model.cell": "lstm", "model.attention": "multiplicative"},
    "convs2s": {"model.kind": "convs2s", "model.encoder_layers": 2, "model.decoder_layers": 2},
    "bytenet": {"model.kind": "bytenet", "model.encoder_sets": 1, "model.decoder_sets": 1},
    "gpt": {"model.kind": "gpt", **HEADS},
    "gpt-rotary": {"model.kind": "gpt", **HEADS, "model.positions": "rotary"},
    "memory": {"model.kind": "memory"},
}
TEXTS: dict[str, dict[str, Any]] = {
    "gpt-text": {"model.kind": "gpt", **HEADS},
    "bert": {"model.kind": "bert", **HEADS},
    "electra": {"model.kind": "electra", **HEADS},
    "memory-words": {"model.kind": "memory", "model.memory": "words"},
}
LABELS = ("classifier", "tagger")
CASES = [*TRANSFORMERS, *TRANSLATORS, *TEXTS, *LABELS]


def train(case: str, folder: Path, steps: int) -> Any:
    """Train one case in `folder`."""
    import jumok

    if case in TEXTS:
        (folder / "text").write_text("\n".join(LINES * 12) + "\n")
        changes = {"data.stretch": 40, **SMALL, **ALL, **TEXTS[case]}
        kind = changes.pop("model.kind")
        return jumok.train(
            model=kind, text=str(folder / "text"), steps=steps, changes=changes, recipe="tiny", out=folder / "run"
        )
    if case in LABELS:
        verbs = {"sees": "VERB", "has": "VERB"}
        tags = [" ".join(verbs.get(word, "O") for word in line.split()) for line in LINES * 6]
        classes = ["tea" if "tea" in line else "no-tea" for line in LINES * 6]
        (folder / "a").write_text("\n".join(LINES * 6) + "\n")
        (folder / "b").write_text("\n".join(tags if case == "tagger" else classes) + "\n")
        files = {"source": str(folder / "a"), "target": str(folder / "b")}
        files |= {f"valid_{side}": path for side, path in files.items()}
        changes = {**SMALL, **ALL, **HEADS}
        return jumok.train(model=case, **files, steps=steps, changes=changes, recipe="tiny", out=folder / "run")
    given = TRANSFORMERS.get(case)
    changes = {"data.pairs": 300, "decoding.extra_length": 5, **ALL, **(TRANSLATORS[case] if given is None else STACK)}
    changes |= given or {}
    kind = changes.pop("model.kind", "transformer")
    return jumok.train(model=kind, corpus="copy", steps=steps, changes=changes, recipe="base", out=folder / "run")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def translate(case: str, folder: Path) -> dict[str, Any]:
    """Translations and scores by every engine that takes the model, and scores of given translations."""
    import jumok

    results: dict[str, Any] = {}
    sentences = LINES[:4] if case in LABELS else SENTENCES
    for engine in ("native", "torch", "ctranslate2"):
        try:
            model = jumok.load(folder / "run", engine=engine)
            for beam in (1, 4):
                answers = model.translate(sentences, beam=beam)
                results[f"{engine}-{beam}"] = [[answer.text, answer.score] for answer in answers]
        except (jumok.JumokError, ImportError) as error:
            results[engine] = type(error).__name__
    model = jumok.load(folder / "run", engine="torch")
    try:
        scored = model.score(sentences[:3], sentences[:3])
        results["score"] = [[score.log_probability, score.score] for score in scored]
    except (jumok.JumokError, AttributeError) as error:
        results["score"] = type(error).__name__
    return results


def record(case: str, steps: int) -> dict[str, Any]:
    """Everything about one case."""
    with tempfile.TemporaryDirectory(prefix="jumok-record-") as temporary:
        folder = Path(temporary)
        train(case, folder, steps)
        run = folder / "run"
        rows = [line.split("\t") for line in (run / "losses.tsv").read_text().splitlines()]
        files = [run / "model" / "model.safetensors", *sorted(run.glob("checkpoints/*/*.safetensors"))]
        result: dict[str, Any] = {
            "losses": [float(row[2]) for row in rows if row[0].isdigit()],
            "files": {str(path.relative_to(run)): digest(path) for path in files},
        }
        if case not in TEXTS:
            result |= translate(case, folder)
        return result


def numbers(value: Any, path: str = "") -> dict[str, Any]:
    """A nested value as a flat dictionary."""
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in numbers(inner, f"{path}/{key}").items()}
    if isinstance(value, list):
        return {k: v for i, inner in enumerate(value) for k, v in numbers(inner, f"{path}/{i}").items()}
    return {path: value}


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print the differences between two records; returns the number of cases that differ."""
    differing = 0
    for case in sorted(before.keys() | after.keys()):
        old, new = numbers(before.get(case, {})), numbers(after.get(case, {}))
        changed = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
        if not changed:
            continue
        differing += 1
        floats = [key for key in changed if isinstance(old.get(key), float) and isinstance(new.get(key), float)]
        losses = max((abs(old[key] - new[key]) for key in floats if key.startswith("/losses")), default=0.0)
        scores = max((abs(old[key] - new[key]) for key in floats if not key.startswith("/losses")), default=0.0)
        rest = sorted(set(changed) - set(floats))
        print(f"{case}: {len(changed)} values differ; losses by {losses:.2e}, scores by {scores:.2e}; {rest[:4]}")
    print(f"{differing} of {len(after)} cases differ")
    return differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", help="cases, separated by commas; default: all")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--inside", metavar="PREFIX", help=argparse.SUPPRESS)
    given = parser.parse_args()
    cases = given.only.split(",") if given.only else CASES
    if given.inside is not None:
        results = {}
        for case in cases:
            print(f"{given.inside}{case}", file=sys.stderr, flush=True)
            results[f"{given.inside}{case}"] = record(case, given.steps)
        given.out.write_text(json.dumps(results))
        return 0
    results = {}
    with tempfile.TemporaryDirectory(prefix="jumok-record-") as folder:
        plain = {"XDG_CACHE_HOME": folder, "PATH": folder, "CC": "none"}  # no compiler: no kernels
        for prefix, environment in (("", {}), ("plain-", plain)):
            part = Path(folder) / f"{prefix}part.json"
            words = [sys.executable, __file__, str(part), "--inside", prefix, "--steps", str(given.steps)]
            words += ["--only", ",".join(cases)]
            subprocess.run(words, env=os.environ | {"OMP_NUM_THREADS": "2"} | environment, check=True)
            results |= json.loads(part.read_text())
    given.out.write_text(json.dumps(results, indent=1, sort_keys=True))
    return int(bool(given.against and compare(json.loads(given.against.read_text()), results)))


if __name__ == "__main__":
    sys.exit(main())
