"""The three verdicts on a claim: it holds here, it does not hold here, or it is not testable here."""

from __future__ import annotations

from enum import Enum

from jumok.lab.wording import Text


class Verdict(Enum):
    """The verdict on a check, on a part of a claim, or on a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    UNTESTABLE = "untestable"

    @classmethod
    def of(cls, holds: bool | None) -> Verdict:
        """The verdict on a check; None if what was measured cannot decide it."""
        return cls.UNTESTABLE if holds is None else cls.HOLDS if holds else cls.FAILS


VERDICTS = {
    Verdict.HOLDS: Text("holds here", "이 실험에서는 성립합니다"),
    Verdict.FAILS: Text("does not hold here", "이 실험에서는 성립하지 않습니다"),
    Verdict.UNTESTABLE: Text("not testable here", "여기서는 확인할 수 없음"),
}
MARKS = {Verdict.HOLDS: "✓", Verdict.FAILS: "✗", Verdict.UNTESTABLE: "?"}
UNTESTABLE = ("smoothing", "figures", "table-3")  # the claims that may use the third verdict; at most four
