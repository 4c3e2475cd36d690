"""The phrasebook: everyday English and Korean, generated from a grammar, with gold word alignments.

English decides Korean: every English sentence has exactly one translation here.  Nobody is called: polite speech
(해요).  A friend is called by name, or "Hey,": plain speech (해).  "Sir," or "Professor Kim,": formal speech (합니다).

Splits   A Korean sentence belongs to one split by its hash, whatever the seed.  Some meetings of two words (this verb
         with this object, this adjective with this noun) are kept from training altogether; a third of validation
         and of test is made of sentences that hold one.
Order    `phrases(split, 10)` are the first ten of `phrases(split, 100)`.
Not here the words and the grammar (grammar/), corpora on disk (corpora.py).
"""

import re
from bisect import bisect
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import accumulate, islice
from random import Random

from jumok.data.made.grammar import actions, appeals, frames, occasions, questions, states, words
from jumok.data.made.grammar.draft import Draft, Talk
from jumok.data.made.grammar.endings import COPULAS, PARTICLES, copula_forms, pick, tail
from jumok.data.made.grammar.nouns import ADJECTIVES_OF, a_call
from jumok.errors import UnknownName, UsageError

SPLITS = ("train", "validation", "test")
UNSEEN_EVERY = 3  # every third sentence of validation and test holds an unseen combination
HELD_OUT = 6  # at most one in six of a word's partners is held out
SHORTEST, LONGEST = 3, 14  # English words
TIRED = 20_000  # drafts in a row that bring nothing new: the split is exhausted

Writer = Callable[[Talk, Draft], None]
WRITERS: tuple[tuple[Writer, float], ...] = (
    (actions.statement, 38),
    (questions.question, 17),
    (appeals.request, 4),
    (appeals.prohibition, 3),
    (appeals.permission, 3),
    (appeals.suggestion, 3),
    (actions.contrast, 5),
    (actions.becoming, 2),
    (states.quality, 5),
    (states.comparison, 4.5),
    (states.feeling, 2),
    (states.job, 2.5),
    (states.price, 3),
    (states.possession, 4),
    (states.existence, 3.5),
    (states.location, 3.5),
    (states.whereabouts, 3),
    (states.floor, 1),
    (occasions.weather, 3),
    (occasions.event, 2),
    (occasions.calendar, 2),
)
LINKS = tuple(tuple((i, j) for j in range(32)) for i in range(32))  # one object each, however many sentences
STEPS = tuple(accumulate(weight for _, weight in WRITERS))


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence, its translation, which words of the two belong together, and whether training lacks a pairing."""

    english: str
    korean: str
    alignment: tuple[tuple[int, int], ...]  # (English word, Korean word), 0-based, words between spaces
    unseen: bool  # holds a word combination that training never shows


# ---------------------------------------------------------------- sentences and splits


def draft_sentence(random: Random) -> Draft:
    """Draw one sentence: first whom one speaks to, then what one says."""
    share = random.random()
    talk = Talk(random, "polite" if share < 0.5 else "plain" if share < 0.78 else "formal")
    writer = WRITERS[bisect(STEPS, random.random() * STEPS[-1])][0]
    if writer is appeals.suggestion and talk.level == "formal":  # nobody says "let's" to a professor
        writer = actions.statement
    draft = Draft()
    a_call(talk, draft)
    writer(talk, draft)
    return draft


def align(draft: Draft) -> tuple[tuple[int, int], ...]:
    """Pair the words whose masks share a bit."""
    ours = [mask for text, mask in draft.english_pieces() for _ in range(text.count(" ") + 1)]
    theirs = [mask for _, _, mask in draft.korean_pieces()]
    return tuple([LINKS[i][j] for i, mask in enumerate(ours) for j, other in enumerate(theirs) if mask & other])


def digest(text: str) -> int:
    """A number from 0 to 2^32 that depends on the text alone."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest())


def split_of(korean: str, unseen: bool) -> str:
    """A sixteenth of all sentences goes to validation, as many to test; unseen combinations half to each."""
    bucket = digest(korean) % 16
    if unseen:
        return SPLITS[1 + bucket % 2]
    return {0: "validation", 1: "test"}.get(bucket, "train")


def partners() -> dict[str, list[str]]:
    """Every verb with its objects ("먹다+") and places ("먹다@"), every adjective with its nouns ("크다+")."""
    found: dict[str, list[str]] = {}
    for frame in (*frames.THINGS, *frames.GIVING, *frames.MEETING, *frames.STAYING, *frames.TRAVELLING):
        verb = frame.verb.stem.text + "다"
        found.setdefault(f"{verb}+", []).extend(each.korean for each in frame.objects)
        found.setdefault(f"{verb}@", []).extend(place.korean for place in frame.places)
    for noun, adjectives in ADJECTIVES_OF.items():
        for adjective in adjectives:
            found.setdefault(f"{adjective.stem.text}다+", []).append(noun.korean)
    for adjective in words.PLACE_ADJECTIVES:
        found.setdefault(f"{adjective.stem.text}다+", []).extend(place.korean for place in words.BUILDINGS)
    return {word: list(dict.fromkeys(others)) for word, others in found.items()}


@cache
def held_out() -> frozenset[str]:
    """The word combinations that training never shows, chosen by hash.

    A verb or adjective loses at most one in six of its partners, and so does a noun or place: every word stays
    familiar, only the meeting is new.
    """
    meetings = partners()
    total = Counter(other for others in meetings.values() for other in others)
    lost, chosen = Counter[str](), list[str]()
    for word, others in meetings.items():
        spare = len(others) // HELD_OUT
        for other in sorted(others, key=lambda other: digest(word + other)):
            if spare and lost[other] < total[other] // HELD_OUT:
                chosen.append(word + other)
                lost[other] += 1
                spare -= 1
    return frozenset(chosen)


def stream(split: str, seed: int) -> Iterator[Phrase]:
    """Yield the distinct sentences of a split without end, or until it is exhausted."""
    random = Random(f"phrasebook/{split}/{seed}")
    kept, seen, idle = held_out(), set[str](), 0
    while idle < TIRED:
        idle += 1
        draft = draft_sentence(random)
        unseen = not kept.isdisjoint(draft.combinations)
        if unseen and split == "train":
            continue
        english, korean = draft.spell()
        if not SHORTEST <= english.count(" ") + 1 <= LONGEST:
            continue
        if english not in seen and split_of(korean, unseen) == split:
            seen.add(english)
            idle = 0
            yield Phrase(english, korean, align(draft), unseen)


def mixed(stream: Iterator[Phrase]) -> Iterator[Phrase]:
    """Reorder a stream so that exactly every third sentence is an unseen one."""
    waiting: dict[bool, deque[Phrase]] = {True: deque(), False: deque()}
    turn = 0
    for phrase in stream:
        waiting[phrase.unseen].append(phrase)
        while waiting[turn % UNSEEN_EVERY == 0]:
            yield waiting[turn % UNSEEN_EVERY == 0].popleft()
            turn += 1


def phrases(split: str, count: int, *, seed: int = 1) -> list[Phrase]:
    """Return `count` distinct sentences of "train", "validation" or "test"."""
    if split not in SPLITS:
        raise UnknownName("made.unknown_phrasebook_split", split, SPLITS)
    _check(count)
    endless = stream(split, seed)
    found = list(islice(endless if split == "train" else mixed(endless), count))
    if len(found) < count:
        raise UsageError("made.too_many_sentences", count=count, split=split, available=len(found))
    return found


def _check(count: int) -> None:
    if count < 0:
        raise UsageError("made.negative_sentences", count=count)


# ---------------------------------------------------------------- particles

NUMBERED = re.compile(r"\d+(?:년|월|일)")
CLOSING = ",.?!"
OTHERS = "저 제 나 내 누 누구 우리 씨 무엇 어디 언제 얼마 시 분 반 원 층 전 후 오늘 내일 지금 생일 비 눈 배 목"


@cache
def stems() -> frozenset[str]:
    """Every word of the phrasebook that can bear a particle."""
    found = [noun.korean for noun in words.NOUNS] + [noun.unit for noun in words.NOUNS if noun.unit]
    found += [place.korean for place in words.PLACES.values()]
    found += [korean for _, korean in frames.TOOLS.values()]
    people = (*words.NAMES, *words.RELATIVES, *words.ELDERS, *words.CROWDS, *words.JOBS)
    found += [korean for _, korean in (*people, *words.EVENTS, *words.WEEKDAYS)]
    found += [korean + pick(korean, ("", "이")) for _, korean in words.NAMES]
    adverbials = (
        *words.NEAR_PAST,
        *words.FAR_PAST,
        *words.NEAR_FUTURE,
        *words.FAR_FUTURE,
        *words.HABITS,
        *words.DAY_PARTS,
    )
    found += [word.partition("/")[0] for _, korean in adverbials for word in korean.split() if "/" in word]
    found += [spot for _, spot, _ in words.SPOTS]
    found += OTHERS.split()
    return frozenset(found)


NAMED = ("시", "분", "반", "원", "언제", "얼마")
CALLS = PARTICLES["call"]


@cache
def bearers(particle: str) -> frozenset[str]:
    """The words the phrasebook puts this particle behind: 주세요 is no copula after 주, 달아 no call to the moon."""
    found: list[str] = []
    if particle in CALLS:
        found += [korean for _, korean in words.NAMES]
    if any(particle in copula_forms(ending) for ending in COPULAS.values()):
        found += [korean for _, korean in (*words.JOBS, *words.WEEKDAYS)]
        found += NAMED
    if particle not in CALLS and any(particle in forms for forms in PARTICLES.values()):
        found += stems()
    return frozenset(found)


@cache
def _after() -> dict[str, frozenset[str]]:
    """Which final sounds a particle may follow: "-" a vowel, ㄹ, "+" any other consonant."""
    after: dict[str, set[str]] = {}
    for vowel, consonant in (*PARTICLES.values(), *(copula_forms(ending) for ending in COPULAS.values())):
        after.setdefault(vowel, set()).update("-ㄹ" if vowel == "로" else "-")
        after.setdefault(consonant, set()).update("+" if vowel == "로" else "ㄹ+")
    return {particle: frozenset(finals) for particle, finals in after.items()}


def particle_fits(stem: str, particle: str) -> bool:
    """Tell whether the particle agrees with the final sound of its stem: 사과를, 책을, 서울로."""
    if particle not in _after():
        raise UnknownName("made.unknown_particle", particle, _after())
    final = tail(stem)
    if not final:  # digits or letters: only what never changes is sure
        return len(_after()[particle]) == 3
    return (final if final in "-ㄹ" else "+") in _after()[particle]


def particles(korean: str) -> list[tuple[str, str]]:
    """Return every (stem, particle) of a sentence of this phrasebook, right or wrong: [("사과", "을")].

    A word counts when all but a particle of it is a word of the phrasebook that bears particles, so 같이, 고양이 or
    가을 do not; the longest such stem wins (지민이랑 is 지민이 with 랑).
    """
    found = (_divide(word.rstrip(CLOSING)) for word in korean.split())
    return [each for each in found if each]


@cache
def _divide(word: str) -> tuple[str, str] | None:
    if word in stems():
        return None
    for cut in range(len(word) - 1, 0, -1):
        stem, particle = word[:cut], word[cut:]
        if particle in _after() and (stem in bearers(particle) or NUMBERED.fullmatch(stem)):
            return stem, particle
    return None


def particles_right(hypothesis: str, reference: str) -> bool:
    """Tell whether every particle fits its stem and the same stems bear the same particles as in the reference."""
    found = particles(hypothesis)
    return all(particle_fits(*each) for each in found) and Counter(found) == Counter(particles(reference))


# ---------------------------------------------------------------- toy tasks

TASKS: dict[str, Callable[[list[str]], list[str]]] = {
    "copy": list,
    "reverse": lambda symbols: symbols[::-1],
    "sort": sorted,
}
ALPHABET = "abcdefghij"


def task(name: str, count: int, *, seed: int = 1) -> list[tuple[str, str]]:
    """Return `count` pairs of 4 to 10 symbols, copied, reversed or sorted: tasks that are learnt in seconds."""
    if name not in TASKS:
        raise UnknownName("made.unknown_task", name, TASKS)
    _check(count)
    random = Random(f"task/{name}/{seed}")
    drawn = (random.choices(ALPHABET, k=random.randint(4, 10)) for _ in range(count))
    return [(" ".join(symbols), " ".join(TASKS[name](symbols))) for symbols in drawn]
