"""What every page says beside the verdict: how good the models are, what judging seeds said, which version it was."""

from __future__ import annotations

from jumok.lab.claim import Finding
from jumok.lab.judging import SEEDS, count_equal, is_current
from jumok.lab.wording import Words

WORDS = Words.read("pages")


def tell_standing(finding: Finding, language: str) -> str:
    """How good the models are, of how many seeds, how certain, and at which scale: one paragraph."""
    return " ".join(finding.claim.stand(finding.numbers).tell(finding.scale, language))


def tell_judging(finding: Finding, language: str) -> list[str]:
    """How many of the judging seeds came to the same verdicts; nothing if they were not run."""
    equal, count = count_equal(finding)
    if not finding.record or not count:
        return []
    values = {"equal": equal, "count": count, "first": SEEDS[0], "last": SEEDS[-1]}
    texts = [WORDS("judged.equal", **values, digest=finding.record["thresholds"]).of(language)]
    return texts if is_current(finding) else [*texts, WORDS("judged.old").of(language)]


def tell_version(finding: Finding, language: str) -> list[str]:
    """Which version of the claim's code measured it, if that is not today's."""
    if finding.version == finding.claim.version:
        return []
    return [WORDS("version", old=finding.version, new=finding.claim.version).of(language)]
