"""The texts of the lab, in English and in Korean: words/NAME.toml holds all text of a claim.

WORDS = Words.read("mask")
WORDS("checks.loss", without=0.03, with_=0.52)        # a Text: .en and .ko, numbers filled in
"""

from jumok.reports.wording import LANGUAGES, Text, Words, flatten, korean, korean_machine

__all__ = ["LANGUAGES", "Text", "Words", "flatten", "korean", "korean_machine"]
