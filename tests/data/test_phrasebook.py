"""The phrasebook is grammatical, aligned, free of leaks, and the same everywhere."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import product
from random import Random

import pytest

from jumok.data.made import phrasebook
from jumok.data.made.grammar.actions import Clause, tell
from jumok.data.made.grammar.draft import Draft, Part, Person, Talk
from jumok.data.made.grammar.endings import (
    COPULAS,
    Stem,
    before_noun,
    copula_forms,
    finish,
    honorific,
    loose,
    negate_copula,
    open_form,
    order,
    past_stem,
    pick,
)
from jumok.data.made.grammar.frames import THINGS, Frame
from jumok.data.made.grammar.nouns import KINDS, noun_phrase, person, place_phrase
from jumok.data.made.grammar.predicates import Manner, verb_group
from jumok.data.made.grammar.times import LAST_WEEKDAY, NEAR, WEEKDAY, date
from jumok.data.made.grammar.words import (
    ADJECTIVES,
    CLIMATES,
    FEELINGS,
    NOUNS,
    PLACE_ADJECTIVES,
    PLACES,
    VERBS,
    Noun,
    noun,
)
from jumok.data.made.phrasebook import Phrase, particle_fits, particles, particles_match, phrases, task
from jumok.errors import UnknownName, UsageError


@cache
def train() -> list[Phrase]:
    return phrases("train", 50_000)


@cache
def held_back() -> list[Phrase]:
    return phrases("test", 2_000) + phrases("validation", 1_000)


@cache
def drafts() -> list[Draft]:
    random = Random("tests")
    return [phrasebook.draft_sentence(random) for _ in range(10_000)]


def everything() -> list[Phrase]:
    return train() + held_back()


# ---------------------------------------------------------------- one corpus, the same everywhere

PRINT_DIGEST = """
import hashlib
from jumok.data.made.phrasebook import phrases, task
text = repr(phrases("train", 400) + phrases("test", 100) + task("sort", 20))
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_another_process_with_another_hash_seed_generates_the_same_sentences():
    here = repr(phrases("train", 400) + phrases("test", 100) + task("sort", 20))
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run(
        [sys.executable, "-c", PRINT_DIGEST], capture_output=True, text=True, check=True, env=environment
    )
    assert other.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


def test_a_shorter_list_is_the_beginning_of_a_longer_one():
    for split in phrasebook.SPLITS:
        assert phrases(split, 20) == phrases(split, 60)[:20]


def test_another_seed_draws_other_sentences_from_the_same_split():
    one, two = phrases("test", 200, seed=1), phrases("test", 200, seed=2)
    assert one != two
    assert {phrase.korean for phrase in two}.isdisjoint(phrase.korean for phrase in train())


def test_no_english_sentence_comes_twice():
    for sentences in (train(), held_back()):
        assert len({phrase.english for phrase in sentences}) == len(sentences)


def test_an_english_sentence_has_one_translation():
    translations: dict[str, str] = {}
    for phrase in everything():
        assert translations.setdefault(phrase.english, phrase.korean) == phrase.korean
    for draft in drafts():
        english, korean = draft.spell()
        assert translations.setdefault(english, korean) == korean


def test_a_verb_in_its_sentence_has_one_translation():
    """All verbs, moods, negations, persons and levels; the object tells which "take" or "wear" it is."""
    translations: dict[object, object] = {}
    moods = ("present", "past", "future", "progressive", "want", "wanted", "can", "could", "must")
    levels = ("polite", "formal", "plain")
    for verb, mood, number, level in product(VERBS.values(), moods, ("I", "we", "you", "third"), levels):
        for negation, asks, honoured in product(("", "short", "long"), (False, True), (False, True)):
            refused = mood == "must" or (negation == "long" and (mood in ("want", "wanted") or asks))
            if (negation and refused) or (negation == "short" and number == "I" and mood == "progressive"):
                continue  # the grammar never says so
            if mood == "present" and verb.base == verb.past and number != "third" and not (negation or asks):
                continue  # nor "I read" for a habit
            manner = Manner(level, asks, honoured, number == "third")
            front, rest, korean = verb_group(verb, mood, negation, number, asks, manner)
            english = " ".join(text for text, _ in (*front, ("_", 0), *rest))
            spoken = [stem for stem, _, _ in korean]
            key = (english, verb.stem, level, asks, honoured, number == "third")
            assert translations.setdefault(key, spoken) == spoken


def past_statement(subject: Person, frame: Frame, thing_: Noun, time: Part) -> str:
    draft, clause = Draft(), Clause(frame, subject, "past", role="object", time=time)
    clause.object = noun_phrase(thing_, "the", "polite")
    tell(Talk(Random("none"), "polite"), draft, clause)
    return draft.spell()[0]


def test_one_family_alone_holds_more_than_300_000_sentences():
    """Somebody did something with the thing on such a day: counted by writing all of them, a few by the grammar."""
    subjects = [person(kind, n, "polite") for kind, many in KINDS for n in range(many)]
    doings = [(frame, each) for frame in THINGS for each in frame.objects]
    times = (*NEAR["past"], *LAST_WEEKDAY, *WEEKDAY, *(date(3, day) for day in range(1, 31)))

    def text(pieces):
        return " ".join(text for text, _ in pieces)

    tails = {f" {frame.verb.past} {text(noun_phrase(each, 'the', 'polite').english)} " for frame, each in doings}
    ends = [text(time.english) + "." for time in times]
    starts = [text(subject.part.english) for subject in subjects]
    family = {start[0].upper() + start[1:] + tail + end for start in starts for tail in tails for end in ends}
    assert len(family) == len(starts) * len(tails) * len(ends) > 300_000
    random = Random("family")
    for _ in range(200):
        assert past_statement(random.choice(subjects), *random.choice(doings), random.choice(times)) in family


def test_english_sentences_are_short():
    lengths = Counter(len(phrase.english.split()) for phrase in train())
    assert min(lengths) >= phrasebook.SHORTEST
    assert max(lengths) <= phrasebook.LONGEST
    assert 6 < sum(length * count for length, count in lengths.items()) / len(train()) < 10


# ---------------------------------------------------------------- splits


def test_nothing_of_validation_or_test_occurs_in_training():
    for side in ("english", "korean"):
        seen = {getattr(phrase, side) for phrase in train()}
        assert seen.isdisjoint(getattr(phrase, side) for phrase in held_back())


def test_validation_and_test_share_no_sentence():
    sides = [{phrase.korean for phrase in phrases(split, 1_000)} for split in ("validation", "test")]
    assert sides[0].isdisjoint(sides[1])


def test_every_third_sentence_of_test_holds_an_unseen_combination_and_none_of_training_does():
    assert [phrase.unseen for phrase in phrases("test", 9)] == [True, False, False] * 3
    assert sum(phrase.unseen for phrase in phrases("test", 900)) == 300
    assert not any(phrase.unseen for phrase in train())


VERB_FORMS = {  # hand-written forms of four verbs, to look for held-out pairs without the grammar's help
    "읽다": r"읽",
    "만들다": r"만[들드든듭]",
    "팔다": r"(팔(?!천|만|십)|파[시세셨십셔])",
    "그리다": r"그[리린릴립려렸]",
}


@pytest.mark.parametrize("verb", VERB_FORMS)
def test_a_held_out_verb_and_object_never_meet_in_training(verb):
    objects = [key.split("+")[1] for key in phrasebook.held_out() if key.startswith(verb + "+")]
    assert objects
    for held in objects:
        counted = rf"{held}(을|를|은|는|만|도)? (\S+ \S+(을|를|만)? )?(안 |못 )?{VERB_FORMS[verb]}\S*"
        pattern = re.compile(rf"(?:^| ){counted}")
        assert not [phrase.korean for phrase in train() if pattern.search(phrase.korean)]
        assert [phrase for phrase in held_back() if pattern.search(phrase.korean)]


def test_no_word_loses_more_than_a_sixth_of_its_partners():
    meetings = {word + other for word, others in phrasebook.partners().items() for other in others}
    assert phrasebook.held_out() < meetings
    assert len(phrasebook.held_out()) > 60
    for side in (0, 1):
        every = Counter(re.split("[+@]", key)[side] for key in meetings)
        kept = Counter(re.split("[+@]", key)[side] for key in phrasebook.held_out())
        assert all(6 * kept[word] <= every[word] for word in kept)


def test_every_word_of_the_test_is_common_in_training():
    for side, limit in (("english", 0.001), ("korean", 0.015)):  # a Korean verb has more than a hundred forms
        seen = Counter(word.strip(",.?") for phrase in train() for word in getattr(phrase, side).split())
        test = (getattr(phrase, side) for phrase in held_back())
        words = Counter(word.strip(",.?") for sentence in test for word in sentence.split())
        rare = sum(count for word, count in words.items() if seen[word] < 5)
        assert rare < limit * sum(words.values())


def test_nonsense_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'train'"):
        phrases("trian", 1)
    with pytest.raises(UsageError):
        phrases("train", -1)
    with pytest.raises(UnknownName):
        task("revers", 1)
    with pytest.raises(UnknownName):
        particle_fits("사과", "xyz")


def test_a_split_that_has_run_dry_says_so(monkeypatch):
    monkeypatch.setattr(phrasebook, "TIRED", 1)
    with pytest.raises(UsageError, match="not have 500 sentences"):
        phrases("validation", 500)


# ---------------------------------------------------------------- alignments


def test_alignments_point_at_words():
    for phrase in everything():
        ours, theirs = len(phrase.english.split()), len(phrase.korean.split())
        assert all(0 <= i < ours and 0 <= j < theirs for i, j in phrase.alignment)
        assert len(set(phrase.alignment)) == len(phrase.alignment)


def test_every_word_of_both_sides_is_aligned():
    for phrase in everything():
        assert {j for _, j in phrase.alignment} == set(range(len(phrase.korean.split()))), phrase
        assert {i for i, _ in phrase.alignment} == set(range(len(phrase.english.split()))), phrase


GLOSSES = {noun.english: noun.korean for noun in NOUNS if " " not in noun.english}


def test_a_noun_is_aligned_with_its_translation():
    checked = 0
    for phrase in train()[:5_000]:
        english, korean = phrase.english.rstrip(".?").split(), phrase.korean.split()
        for i, word in enumerate(english):
            if word in GLOSSES and english[i - 1] in ("a", "an", "the", "this", "that") and english.count(word) == 1:
                if not any(GLOSSES[word] in each for each in korean):
                    continue  # a library is no book; "the watch" may be a verb's neighbour
                assert any(GLOSSES[word] in korean[j] for k, j in phrase.alignment if k == i), phrase
                checked += 1
    assert checked > 1_000


def test_an_alignment_written_by_hand_agrees():
    talk, draft = Talk(Random("hand"), "polite"), Draft()
    clause = Clause(THINGS[0], person("name", 0, "polite"), "want", "short", role="object")
    clause.object, clause.place = noun_phrase(noun("kimchi"), "the", "polite"), place_phrase(PLACES["home"], "at")
    tell(talk, draft, clause)
    english, korean = (sentence.split() for sentence in draft.spell())
    assert english == ["Minsu", "doesn't", "want", "to", "eat", "the", "kimchi", "at", "home."]
    assert korean == ["민수", "씨는", "집에서", "김치를", "먹고", "싶어", "하지", "않아요."]
    pairs = "Minsu-민수 Minsu-씨는 doesn't-않아요. want-싶어 want-하지 to-싶어 to-하지 eat-먹고 "
    pairs += "the-김치를 kimchi-김치를 at-집에서 home.-집에서"
    assert [f"{english[i]}-{korean[j]}" for i, j in phrasebook.align(draft)] == pairs.split()


# ---------------------------------------------------------------- Korean endings

CONJUGATIONS = """
stem  change  open    past     will     polite   formal    honoured
먹    -       먹어    먹었     먹을     먹어요   먹습니다  먹으세요
가    -       가      갔       갈       가요     갑니다    가세요
오    -       와      왔       올       와요     옵니다    오세요
보    -       봐      봤       볼       봐요     봅니다    보세요
하    -       해      했       할       해요     합니다    하세요
마시  -       마셔    마셨     마실     마셔요   마십니다  마시세요
배우  -       배워    배웠     배울     배워요   배웁니다  배우세요
보내  -       보내    보냈     보낼     보내요   보냅니다  보내세요
주    -       줘      줬       줄       줘요     줍니다    주세요
쉬    -       쉬어    쉬었     쉴       쉬어요   쉽니다    쉬세요
쓰    -       써      썼       쓸       써요     씁니다    쓰세요
크    -       커      컸       클       커요     큽니다    크세요
바쁘  -       바빠    바빴     바쁠     바빠요   바쁩니다  바쁘세요
예쁘  -       예뻐    예뻤     예쁠     예뻐요   예쁩니다  예쁘세요
고프  -       고파    고팠     고플     고파요   고픕니다  고프세요
되    -       돼      됐       될       돼요     됩니다    되세요
만들  -       만들어  만들었   만들     만들어요 만듭니다  만드세요
팔    -       팔아    팔았     팔       팔아요   팝니다    파세요
살    -       살아    살았     살       살아요   삽니다    사세요
열    -       열어    열었     열       열어요   엽니다    여세요
길    -       길어    길었     길       길어요   깁니다    기세요
달    -       달아    달았     달       달아요   답니다    다세요
읽    -       읽어    읽었     읽을     읽어요   읽습니다  읽으세요
찾    -       찾아    찾았     찾을     찾아요   찾습니다  찾으세요
입    -       입어    입었     입을     입어요   입습니다  입으세요
신    -       신어    신었     신을     신어요   신습니다  신으세요
닫    -       닫아    닫았     닫을     닫아요   닫습니다  닫으세요
있    -       있어    있었     있을     있어요   있습니다  있으세요
없    -       없어    없었     없을     없어요   없습니다  없으세요
않    -       않아    않았     않을     않아요   않습니다  않으세요
싶    -       싶어    싶었     싶을     싶어요   싶습니다  싶으세요
짧    -       짧아    짧았     짧을     짧아요   짧습니다  짧으세요
넓    -       넓어    넓었     넓을     넓어요   넓습니다  넓으세요
기다리 -      기다려  기다렸   기다릴   기다려요 기다립니다 기다리세요
가르치 -      가르쳐  가르쳤   가르칠   가르쳐요 가르칩니다 가르치세요
뛰    -       뛰어    뛰었     뛸       뛰어요   뜁니다    뛰세요
듣    ㄷ      들어    들었     들을     들어요   듣습니다  들으세요
걷    ㄷ      걸어    걸었     걸을     걸어요   걷습니다  걸으세요
돕    ㅂ      도와    도왔     도울     도와요   돕습니다  도우세요
춥    ㅂ      추워    추웠     추울     추워요   춥습니다  추우세요
맵    ㅂ      매워    매웠     매울     매워요   맵습니다  매우세요
가볍  ㅂ      가벼워  가벼웠   가벼울   가벼워요 가볍습니다 가벼우세요
아름답 ㅂ     아름다워 아름다웠 아름다울 아름다워요 아름답습니다 아름다우세요
부르  르      불러    불렀     부를     불러요   부릅니다  부르세요
고르  르      골라    골랐     고를     골라요   고릅니다  고르세요
자르  르      잘라    잘랐     자를     잘라요   자릅니다  자르세요
마르  르      말라    말랐     마를     말라요   마릅니다  마르세요
"""


@pytest.mark.parametrize("row", CONJUGATIONS.strip().splitlines()[1:], ids=lambda row: row.split()[0])
def test_a_stem_is_conjugated_as_the_table_says(row):
    text, change, opened, past, will, polite, formal, honoured = row.split()
    stem = Stem(text, change.strip("-"))
    assert open_form(stem) == opened
    assert past_stem(stem) == past
    assert loose(stem, "ㄹ") == will
    assert finish(stem, "present", "polite", False) == polite
    assert finish(stem, "present", "formal", False) == formal
    assert finish(stem, "present", "plain", False) == opened
    assert finish(stem, "past", "polite", False) == past + "어요"
    assert finish(stem, "past", "formal", True) == past + "습니까"
    assert finish(honorific(stem), "present", "polite", False) == honoured


def test_every_changing_stem_of_the_vocabulary_is_in_the_table():
    table = {tuple(row.split()[:2]) for row in CONJUGATIONS.strip().splitlines()[1:]}
    adjectives = (*ADJECTIVES, *PLACE_ADJECTIVES, *FEELINGS, *CLIMATES)
    irregular = {each.stem for each in (*VERBS.values(), *adjectives) if each.stem.change}
    covered = {stem.change for stem in irregular}
    assert covered == {"ㄷ", "ㅂ", "르"}
    for stem in irregular:  # words of one kind end alike, so one row each stands for the kind
        assert any(stem.change == change for _, change in table)
    for verb in VERBS.values():
        if not verb.stem.change:  # no stem in ㄷ, ㅂ or 르 is regular by mistake
            assert verb.stem.text[-1] not in "듣걷돕춥덥르"


def test_adjectives_before_nouns_copulas_and_orders():
    adjectives = {
        "크": "큰",
        "작": "작은",
        "예쁘": "예쁜",
        "달": "단",
        "길": "긴",
        "맛있": "맛있는",
        "재미있": "재미있는",
    }
    assert {text: before_noun(Stem(text)) for text in adjectives} == adjectives
    assert before_noun(Stem("맵", "ㅂ")) == "매운"
    assert before_noun(Stem("무겁", "ㅂ")) == "무거운"
    assert finish(Stem("드시"), "present", "polite", False) == "드세요"
    assert finish(Stem("계시"), "past", "plain", False) == "계셨어"
    assert order(Stem("주"), "formal") == "주십시오"
    assert order(Stem("열"), "polite") == "여세요"
    assert copula_forms("예요") == ("예요", "이에요")
    assert copula_forms("였습니다") == ("였습니다", "이었습니다")
    assert pick("의사", copula_forms(COPULAS["plain", "present", False, False])) == "야"
    assert pick("학생", copula_forms(COPULAS["plain", "present", False, False])) == "이야"
    assert [negate_copula(level, "present", False, False) for level in ("polite", "formal", "plain")] == [
        "아니에요",
        "아닙니다",
        "아니야",
    ]
    assert negate_copula("polite", "past", False, False) == "아니었어요"
    assert negate_copula("plain", "present", False, True) == "아니셔"


# ---------------------------------------------------------------- particles

FITTING = (
    "사과를 책을 사과는 책은 사과가 책이 서울로 부산으로 학교로 칼로 붓으로 친구와 동생과 지민이랑 동생이랑 민수야 "
    "지민아 의사예요 학생이에요 의사야 학생이야 집에서 학교에서 오늘도 책만"
)
WRONG = (
    "사과을 책를 사과은 책는 사과이 책가 서울으로 부산로 학교으로 칼으로 붓로 친구과 동생와 민수아 지민야 "
    "의사이에요 학생예요 의사이야 학생야"
)


def cut(word: str) -> tuple[str, str]:
    """Divide a word without the phrasebook: the longest known ending that leaves a stem of this list."""
    stems = [
        "사과",
        "책",
        "서울",
        "부산",
        "학교",
        "칼",
        "붓",
        "친구",
        "동생",
        "지민이",
        "지민",
        "민수",
        "의사",
        "학생",
        "집",
        "오늘",
    ]
    stem = max((stem for stem in stems if word.startswith(stem)), key=len)
    return stem, word[len(stem) :]


def test_a_particle_agrees_with_the_final_sound_of_its_stem():
    assert all(particle_fits(*cut(word)) for word in FITTING.split())
    assert not any(particle_fits(*cut(word)) for word in WRONG.split())


def test_every_particle_of_the_corpus_fits_its_stem():
    for phrase in everything():
        assert all(particle_fits(*found) for found in particles(phrase.korean)), phrase


def test_the_finder_sees_exactly_the_particles_the_grammar_put():
    for draft in drafts():
        put = [(stem, particle) for stem, particle, _ in draft.korean_pieces() if particle]
        assert particles(draft.spell()[1]) == put, draft.spell()


def test_words_that_merely_end_like_a_particle_are_left_alone():
    assert particles("우리 같이 고양이 세 마리 가을 많이 제주도 먹을 수 있어요.") == []
    assert particles("지민이 가방은 바나나와 함께 있어요.") == [("가방", "은"), ("바나나", "와")]
    assert particles("야, 사과 네 개 샀어?") == []
    assert particles("12월 27일에 비가 왔어요.") == [("27일", "에"), ("비", "가")]


def test_planted_errors_are_caught():
    right = "저는 어제 시장에서 사과를 샀어요."
    assert particles_match(right, right)
    assert particles("저는 사과을 먹어요.") == [("저", "는"), ("사과", "을")]
    for wrong in ("사과을", "사과가", "사과"):
        assert not particles_match(right.replace("사과를", wrong), right)
    assert not particles_match("저은 어제 시장에서 사과를 샀어요.", right)
    assert not particles_match("저는 어제 시장에 사과를 샀어요.", right)
    assert particles_match("어제 저는 시장에서 사과를 샀어요.", right)  # order is not a particle's business


SUFFIX = {"을": "를", "를": "을", "은": "는", "는": "은", "이": "가", "가": "이", "와": "과", "과": "와"}


def test_any_particle_turned_into_its_twin_is_an_error():
    turned = 0
    for phrase in train()[:2_000]:
        for stem, particle in set(particles(phrase.korean)):
            if particle in SUFFIX and stem not in ("제", "내", "누"):
                wrong = re.sub(rf"(^| ){stem}{particle}(?=[ .?,])", rf"\g<1>{stem}{SUFFIX[particle]}", phrase.korean)
                assert not particles_match(wrong, phrase.korean), (phrase.korean, wrong)
                turned += 1
    assert turned > 2_000


def test_no_word_that_bears_particles_is_another_one_with_a_particle():
    ambiguous = [stem for stem in phrasebook.stems() for cut in range(1, len(stem))
                 if stem[:cut] in phrasebook.stems() and stem[cut:] in phrasebook._after()]  # fmt: skip
    names = {name + "이" for _, name in phrasebook.people.NAMES}
    assert set(ambiguous) <= names | {"제주도", "나이"}  # 나 becomes 내 before 가


# ---------------------------------------------------------------- levels of speech, and Korean and English themselves

PLAIN_CALL = re.compile(r"^(?:\w+[야아]|야), ")
FORMAL_CALL = re.compile(r"^(?:[김박최] )?(?:선생님|교수님|박사님), ")
TITLE = r"(?:[Ss]ir|(?:Mr\.|Ms\.|Dr\.|Professor) \w+)"
TITLED = re.compile(rf"^{TITLE}, |, {TITLE}[.?]$")
CALLED = re.compile(r"^(?!Hello|Goodbye)[A-Z]\w+, |, [A-Z]\w+[.?]$")


def test_the_level_of_speech_follows_the_call():
    for phrase in train()[:20_000]:
        end = phrase.korean[:-1]
        if TITLED.search(phrase.english):
            assert FORMAL_CALL.match(phrase.korean), phrase
            assert end.endswith(("니다", "니까", "십시오")), phrase
        elif CALLED.search(phrase.english):
            assert PLAIN_CALL.match(phrase.korean), phrase
            assert not end.endswith(("요", "니다", "니까", "십시오")), phrase
        else:
            assert "," not in phrase.korean or phrase.korean.startswith(("저기요, ", "안녕하세요, ")), phrase
            assert end.endswith("요"), phrase


def test_pronouns_follow_the_level_of_speech():
    for phrase in train()[:20_000]:
        words = set(phrase.korean.split())
        humble = words & {"저는", "저도", "제", "저희"}
        familiar = words & {"나는", "나도", "내"}
        assert not (familiar if phrase.korean.endswith(("요.", "요?", "다.", "까?", "오.")) else humble), phrase


def test_elders_are_honoured():
    checked = 0
    for phrase in train()[:20_000]:
        if re.match(r"(저희|우리) (어머니|아버지|할머니|할아버지)[는도] ", phrase.korean):
            assert re.search(r"[시세셨십셔신실으]|드[시세셨실]|계[시세셨]", phrase.korean.split(" ", 2)[2]), phrase
            assert re.search(r"(세요|십니다|셔|셨|실|셔야|시고|시지|으시|계)", phrase.korean), phrase
            checked += 1
    assert checked > 300


def test_tenses_agree_with_times():
    for phrase in train()[:20_000]:
        if re.search(r"\b(yesterday|ago|last (night|week|month|year|weekend))\b", phrase.english) and (
            not re.search(r"before|\b(who|that|because|so)\b", phrase.english)
        ):
            last = phrase.korean.split()[-1]
            assert re.search(r"[\uAC00-\uD7A3]", last)
            assert re.search(r"(?:었|았|했|였|셨|갔|왔|샀|봤|[가-힣](?=어요|어|습니))", last), phrase


def test_articles_agree_with_the_next_word():
    for phrase in everything():
        assert not re.search(r"\b[Aa] [aeio]", phrase.english), phrase
        assert not re.search(r"\b[Aa]n [^aeiou]", phrase.english), phrase


def test_places_exist_once():
    assert len({place.korean for place in PLACES.values()}) == len(PLACES)


def test_sentences_are_clean_text():
    for phrase in everything():
        assert re.fullmatch(r"[A-Z][A-Za-z0-9'\-, ]*[.?]", re.sub(r"\b(Mr|Ms|Dr)\.", r"\1", phrase.english)), phrase
        assert re.fullmatch(r"[가-힣0-9, ]+[.?]", phrase.korean), phrase
        assert "  " not in phrase.english + phrase.korean


# ---------------------------------------------------------------- toy tasks


@pytest.mark.parametrize("name", phrasebook.TASKS)
def test_a_task_is_what_its_name_says(name):
    done = {"copy": lambda x: x, "reverse": lambda x: x[::-1], "sort": sorted}[name]
    pairs = task(name, 300)
    assert len(pairs) == 300
    assert pairs[:10] == task(name, 10)
    assert pairs != task(name, 300, seed=2)
    for source, target in pairs:
        symbols = source.split(" ")
        assert 4 <= len(symbols) <= 10
        assert set(symbols) <= set(phrasebook.ALPHABET)
        assert target.split(" ") == list(done(symbols))
