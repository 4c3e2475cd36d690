"""Comparisons of things and of people: this bag is heavier than that one, Minsu is taller than Jisu.

Not here  other qualities (states.py).
"""

from jumok.data.made.grammar import words
from jumok.data.made.grammar.draft import AUX, MAIN, NEG, NOUN, OBJECT, SUBJECT, VERB, Draft, Talk
from jumok.data.made.grammar.endings import Stem, attach, finish
from jumok.data.made.grammar.nouns import ADJECTIVES_OF, a_name, an_equal, noun_phrase
from jumok.data.made.grammar.predicates import be_group
from jumok.data.made.grammar.states import DESCRIBED
from jumok.data.made.grammar.words import Adjective, Noun

ALIKE = ("fruit", "drink", "pet", "clothes", "text", "furniture", "film", "machine", "made", "hold", "script")


def _alike(adjective: Adjective) -> list[list[Noun]]:
    """Group the nouns an adjective describes by kind, so that cats are compared with dogs."""
    kinds = [
        [noun for noun in DESCRIBED if adjective in ADJECTIVES_OF[noun] and noun.plural != "=" and tag in noun.tags]
        for tag in ALIKE
    ]
    return [nouns for nouns in kinds if len(nouns) > 1] or [[n] for n in DESCRIBED if adjective in ADJECTIVES_OF[n]]


COMPARED = {adjective: _alike(adjective) for adjective in words.ADJECTIVES}
PEOPLE_COMPARED = (
    ("taller", "키", Stem("크")), ("older", "나이", Stem("많")), ("stronger", "힘", Stem("세")),
    ("faster", "", Stem("빠르", "르")),
)  # fmt: skip


def comparison(talk: Talk, draft: Draft) -> None:
    """This bag is more expensive than that hat: 이 가방은 그 모자보다 더 비싸요."""
    asks = talk.chance(0.2)
    if talk.chance(0.45):
        return compare_people(talk, draft, asks=asks)
    adjective = talk.choose(words.ADJECTIVES)
    nouns = talk.choose(COMPARED[adjective])
    first, second = (talk.choose(nouns),) * 2 if len(nouns) < 2 or talk.chance(0.4) else talk.random.sample(nouns, 2)
    front, rest = be_group("present", "", "third", asks)
    draft.say(front, VERB)
    draft.both(noun_phrase(first, "this", talk.level), SUBJECT, "topic")
    *more, word = adjective.more.split()
    draft.say((*rest, ("more", NEG), (word, MAIN)) if more else (*rest, (word, MAIN | NEG)), VERB)
    draft.say((("than", NOUN),), OBJECT)
    draft.both(noun_phrase(second, "that", talk.level), OBJECT, "than")
    draft.end((("더", "", NEG), (finish(adjective.stem, "present", talk.level, asks), "", MAIN | AUX)), asks=asks)
    draft.combinations += [f"{adjective.stem.text}다+{noun.korean}" for noun in (first, second)]


def compare_people(talk: Talk, draft: Draft, *, asks: bool) -> None:
    """Minsu is taller than Jisu: 민수 씨는 지수 씨보다 키가 더 커요."""
    more, bare, stem = talk.choose(PEOPLE_COMPARED)
    first, second = (a_name(talk), a_name(talk)) if asks else (an_equal(talk), an_equal(talk))
    front, rest = be_group("present", "", "third", asks)
    draft.say(front, VERB)
    draft.both(first.part, SUBJECT, "topic")
    draft.say((*rest, (more, MAIN | NEG)), VERB)
    draft.say((("than", NOUN),), OBJECT)
    draft.both(second.part, OBJECT, "than")
    if bare:
        draft.add(*attach(bare, "subject"), MAIN)
    draft.roles = (SUBJECT, OBJECT)
    draft.end((("더", "", NEG), (finish(stem, "present", talk.level, asks), "", MAIN | AUX)), asks=asks)
