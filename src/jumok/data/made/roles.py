"""Who does it to whom: whether a translation gives two people the roles that they have in the source.

    Minsu likes Jisu.   민수 씨는 지수 씨를 좋아해요 is right, 지수 씨는 민수 씨를 좋아해요 is wrong.

Korean marks roles by particles, so the order of the two people does not matter.
"""

import re

DOES = frozenset(["은", "는", "이", "가", "도", "께서"])
UNDERGOES = frozenset(["을", "를", "에게", "한테", "께", "보다", "와", "과", "하고", "랑", "이랑"])


def roles_right(roles: tuple[str, ...], hypothesis: str) -> bool:
    """Whether the first of two people does it in `hypothesis`, and the second one undergoes it.

    `roles` are those of a `Phrase`, in Korean and without particles: ("민수 씨", "지수 씨").  False if one of them is
    missing, or has both roles.
    """
    agent, patient = roles
    return _marks(agent, hypothesis) == {True} and _marks(patient, hypothesis) == {False}


def _marks(person: str, hypothesis: str) -> set[bool]:
    """The roles of a person in a sentence: True who does it, False who undergoes it."""
    marked = re.findall(rf"(?:^|(?<= )){re.escape(person)}([가-힣]+)(?=[ .,?!]|$)", hypothesis)
    return {particle in DOES for particle in marked if particle in DOES | UNDERGOES}
