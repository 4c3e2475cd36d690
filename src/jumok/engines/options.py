"""What any engine may be asked: how to search, and what a translation must and must not have; no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jumok.errors import UsageError

LONGEST_SOURCE = 2_048  # subwords; what is beyond is cut, so that an absurd line cannot take the machine down
AT_ONCE = 1 << 23  # tokens of output that one call of the kernels has place for


@dataclass(frozen=True)
class Options:
    """How to search; the defaults are the paper's."""

    beam: int = 4
    length_penalty: float = 0.6
    extra_length: int = 50
    best: int = 1
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    exact: bool = False
    shortest: int = 0  # tokens before the end
    no_repeat: int = 0  # no so many tokens in a row twice; 0 allows it
    groups: int = 1  # parts of the beam that keep away from each other
    diversity: float = 0.5  # how far, where there are several
    coverage: float = 0.0  # what a source word that nobody looks at costs (Wu et al. 2016, beta)

    def __post_init__(self) -> None:
        checks = {
            "beam": 1 <= self.beam <= 1_000,
            "n-best": 1 <= self.best <= (1_000 if self.sample else self.beam),
            "temperature": 0.0 <= self.temperature <= 100.0,
            "top-k": self.top_k >= 0,
            "top-p": 0.0 < self.top_p <= 1.0,
            "length penalty": 0.0 <= self.length_penalty <= 10.0,
            "extra length": 1 <= self.extra_length <= 10_000,
            "min-length": 0 <= self.shortest <= 10_000,
            "no-repeat": 0 <= self.no_repeat <= 100,
            "groups": 1 <= self.groups <= self.beam and self.beam % self.groups == 0,
            "diversity": 0.0 <= self.diversity <= 100.0,
            "coverage": 0.0 <= self.coverage <= 100.0,
        }
        for name, fine in checks.items():
            if not fine:
                hint = HINTS.get(name, "see: jumok translate --help")
                raise UsageError(f"{name} is out of range", where=f"in {self}", hint=hint)


HINTS = {
    "n-best": "the n best of a beam are at most its width",
    "groups": "the beam is divided evenly: try: --beam 6 --groups 3",
}


class Kind(NamedTuple):
    """Which wishes there are."""

    prefix: bool
    require: bool
    forbid: bool


@dataclass(frozen=True)
class Wish:
    """What one translation must have, as ids, and what it must not say, as text."""

    prefix: tuple[int, ...] = ()
    require: tuple[tuple[int, ...], ...] = ()
    forbid: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return Kind(bool(self.prefix), bool(self.require), bool(self.forbid))


ANYTHING = Wish()


def features(options: Options, wishes: Sequence[Wish] = ()) -> list[str]:
    """What is asked for beyond greedy and beam search, as one says it."""
    asked = {
        "drawing": options.sample,
        "exact search": options.exact,
        "groups": options.groups > 1,
        "coverage": options.coverage > 0.0,
        "minimum length": options.shortest > 0,
        "ban on repeats": options.no_repeat > 0,
        "prefix": any(wish.prefix for wish in wishes),
        "words that must be said": any(wish.require for wish in wishes),
        "words that must not be said": any(wish.forbid for wish in wishes),
    }
    return [name for name, true in asked.items() if true]
