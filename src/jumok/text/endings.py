"""What may be attached to a word: Korean particles and the copula, and inflectional endings of Latin scripts.

A Korean particle is a word of its own that is written together with the noun before it (사과 + 를), and several may
follow each other (학교 + 에서 + 는).  An inflectional ending belongs to its word (Haus, Hauses).  What this means for
required and forbidden words is in boundaries.py.
"""

from collections.abc import Sequence

# role -> (after a vowel, after a consonant)
PARTICLES: dict[str, tuple[str, str]] = {
    "topic": ("는", "은"),
    "subject": ("가", "이"),
    "object": ("를", "을"),
    "toward": ("로", "으로"),
    "and": ("와", "과"),
    "and plain": ("랑", "이랑"),
    "and spoken": ("하고", "하고"),
    "call": ("야", "아"),
    "in": ("에", "에"),
    "at": ("에서", "에서"),
    "person": ("에게", "에게"),
    "person plain": ("한테", "한테"),
    "also": ("도", "도"),
    "only": ("만", "만"),
    "every": ("마다", "마다"),
    "than": ("보다", "보다"),
}
MORE_PARTICLES = (
    "의", "께", "께서", "에게서", "한테서", "부터", "까지", "처럼", "같이", "마저", "조차", "밖에", "나",
    "이나", "라도", "이라도", "든지", "이든지", "로서", "으로서", "로써", "으로써", "커녕", "대로", "만큼",
    "뿐", "들", "란", "이란", "라는", "이라는", "라고", "이라고",
)  # fmt: skip
COPULA = (
    "다", "이다", "예요", "이에요", "입니다", "입니까", "이야", "였다", "이었다", "였어요", "이었어요", "였습니다",
    "이었습니다", "였습니까", "이었습니까", "였어", "이었어", "세요", "이세요", "십니다", "이십니다", "지만", "이지만",
)  # fmt: skip
KOREAN = tuple(dict.fromkeys((*(form for pair in PARTICLES.values() for form in pair), *MORE_PARTICLES, *COPULA)))
STACKED = 3  # most Korean particles in a row: 친구 + 들 + 에게 + 는

# Of nouns and adjectives, for the most part German, English and Romance
INFLECTIONS = ("e", "em", "en", "ens", "er", "ern", "es", "n", "nen", "s", "se", "sen", "ses", "x")


def find_forms(pieces: Sequence[str]) -> dict[int, list[int]]:
    """Return for each subword that is a Korean word with a particle those of the same word with another one or none.

    Subwords are written with ▁ at the beginning of a word, and named by their place: 씨에게 has the forms 씨는 and 씨.
    """
    particles = set(KOREAN)
    by_stem: dict[str, set[int]] = {}
    stems: dict[int, list[str]] = {}
    for number, piece in enumerate(pieces):
        if len(piece) > 1 and piece[0] == "▁" and "가" <= piece[1] <= "힣":
            by_stem.setdefault(piece, set()).add(number)
            stems[number] = [piece[:end] for end in range(2, len(piece)) if piece[end:] in particles]
            for stem in stems[number]:
                by_stem.setdefault(stem, set()).add(number)
    forms = {number: set[int]().union(*(by_stem[stem] for stem in some)) - {number} for number, some in stems.items()}
    return {number: sorted(others) for number, others in forms.items() if others}
