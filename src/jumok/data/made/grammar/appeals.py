"""Requests, prohibitions, permission, suggestions.

Not here  statements, and the parts that they share with requests (actions.py).
"""

from jumok.data.made.grammar.actions import Clause, a_clause, an_object, combine, english_clause, korean_clause
from jumok.data.made.grammar.draft import AUX, MAIN, NEG, VERB, Draft, English, Korean, Negation, Part, Person, Talk
from jumok.data.made.grammar.endings import Stem, finish, loose, open_form, order
from jumok.data.made.grammar.frames import GIVING, MEETING, STAYING, THINGS, TRAVELLING, Frame
from jumok.data.made.grammar.nouns import place_phrase
from jumok.data.made.grammar.times import SOON
from jumok.data.made.grammar.words import places

ADDRESSEE = Person(Part((), ()), "you")
ASKABLE = tuple(frame for frame in (*THINGS, *GIVING, *MEETING, *STAYING) if frame.please)
TOGETHER = Part((("together", 1),), (("같이", "", 1),), fixed=True)
DOABLE = tuple(
    frame
    for frame in (*THINGS, *STAYING, *TRAVELLING[:3])
    if frame.verb.aspect in ("action", "moment")
    and not frame.receiver
    and frame.verb.base not in ("find", "look for", "lose", "wait", "wait for")
)
FORBIDDEN = tuple(  # what one asks others not to do
    frame
    for frame in DOABLE
    if frame.verb.base in ("eat", "drink", "watch", "open", "close", "use", "cut", "sleep", "run", "swim", "take")
    and not frame.tools
)
LEAVE = ["eat", "drink", "watch", "open", "close", "use", "borrow", "take", "read", "rest", "go", "play", "swim"]
ALLOWED = tuple(frame for frame in DOABLE if frame.verb.base in LEAVE and (not frame.tools or frame.takes == "place"))
UNWANTED = frozenset(("eat", "drink", "run", "sleep", "take"))
UNTIMED = frozenset(("open", "close", "eat", "drink"))  # said of this very moment
QUIET = places("library museum classroom hospital theater office")
SHARED = tuple(frame for frame in DOABLE if frame.company and frame.verb.base not in ("come", "sleep", "stay", "work"))


def appeal(
    talk: Talk,
    draft: Draft,
    frames: tuple[Frame, ...],
    opening: tuple[English, ...],
    korean: tuple[Korean, ...] = (),
    company: Part | None = None,
    negation: Negation = "",
) -> Clause:
    """Add all parts of a request before the verb; the caller adds the Korean verb."""
    clause = a_clause(talk, ADDRESSEE, talk.choose(frames), "future", negation)
    clause.company, clause.span = company, None
    if clause.object and clause.object.combination and not korean:
        clause.object = None
        clause.object = an_object(talk, clause.frame, "future", "short", ADDRESSEE)
    if negation:
        clause.place = (
            place_phrase(talk.choose(QUIET), "at") if clause.place and clause.frame.verb.base in UNWANTED else None
        )
    if talk.chance(0.3) and not (clause.frame.verb.base in UNTIMED or (negation and clause.place)):
        clause.time = talk.choose(SOON[:3] if negation else SOON)
    draft.say(opening, VERB)
    english_clause(draft, clause, (), ((clause.frame.verb.base, MAIN),))
    draft.korean.append((korean, 0, ""))
    korean_clause(talk, draft, clause)
    combine(draft, clause)
    return clause


def request(talk: Talk, draft: Draft) -> None:
    """Please open the window: 창문을 열어 주세요; giving and lending are asked for directly (주세요)."""
    verb = appeal(talk, draft, ASKABLE, (("please", AUX),)).frame.verb
    if verb.stem.text.endswith("주"):
        return draft.end(((order(verb.stem, talk.level), "", MAIN | AUX),))
    draft.end(((open_form(verb.stem), "", MAIN), (order(Stem("주"), talk.level), "", AUX)))


def prohibition(talk: Talk, draft: Draft) -> None:
    """Please don't open the window: 창문을 열지 마세요."""
    verb = appeal(talk, draft, FORBIDDEN, (("please", NEG), ("don't", NEG)), negation="short").frame.verb
    stem = verb.honorific if talk.level == "formal" and verb.honorific else verb.stem.text
    stop = {"polite": "마세요", "formal": "마십시오", "plain": "마"}[talk.level]
    draft.end(((stem + "지", "", MAIN), (stop, "", NEG)))


def permission(talk: Talk, draft: Draft) -> None:
    """May I open the window: 창문을 열어도 돼요?"""
    verb = appeal(talk, draft, ALLOWED, (("may", AUX), ("I", AUX))).frame.verb
    allowed = finish(Stem("되"), "present", talk.level, True)
    draft.end(((open_form(verb.stem) + "도", "", MAIN), (allowed, "", AUX)), asks=True)


def suggestion(talk: Talk, draft: Draft) -> None:
    """Shall we swim: 우리 수영할까요?  Let's swim together: 우리 같이 수영해요; among friends 수영하자."""
    plain, us = talk.level == "plain", (("우리", "", NEG),)
    if talk.chance(0.5):
        verb = appeal(talk, draft, SHARED, (("shall", MAIN), ("we", NEG)), us).frame.verb
        return draft.end(((loose(verb.stem, "ㄹ까") + ("" if plain else "요"), "", MAIN),), asks=True)
    verb = appeal(talk, draft, SHARED, (("let's", NEG | MAIN),), us, TOGETHER).frame.verb
    come = verb.stem.text + "자" if plain else finish(verb.stem, "present", talk.level, False)
    draft.end(((come, "", MAIN),))
