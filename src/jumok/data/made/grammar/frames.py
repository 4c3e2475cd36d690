"""Frames: the words that fit each verb, so that bread is bought at the bakery and cut with a knife.

Not here  the words themselves (words.py).
"""

from dataclasses import dataclass
from typing import Literal

from jumok.data.made.grammar.words import CITIES, COUNTRIES, VERBS, Noun, Place, Verb, places, with_tags

Takes = Literal["thing", "person", "place", "nothing"]
Form = Literal["to", "at", "english"]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A verb with its possible objects, places and tools."""

    verb: Verb
    objects: tuple[Noun, ...] | tuple[Place, ...]
    takes: Takes
    role: str  # the particle of the object
    form: Form  # the English form of an object that is a place
    places: tuple[Place, ...]
    tools: tuple[tuple[str, str], ...]
    determiners: str
    company: bool  # may have company: with Minsu
    lasts: bool  # may have a duration: for two hours
    receiver: bool  # has a receiver: to Minsu
    please: bool  # makes a sensible request
    era: bool  # may have a year
    once: bool  # not a habit: never in the present
    place_role: str = "at"  # the particle of the place


TOOLS = {
    "spoon": ("with a spoon", "숟가락"),
    "chopsticks": ("with chopsticks", "젓가락"),
    "fork": ("with a fork", "포크"),
    "pencil": ("with a pencil", "연필"),
    "pen": ("with a pen", "펜"),
    "brush": ("with a brush", "붓"),
    "knife": ("with a knife", "칼"),
    "bus": ("by bus", "버스"),
    "train": ("by train", "기차"),
    "subway": ("by subway", "지하철"),
    "taxi": ("by taxi", "택시"),
    "bicycle": ("by bicycle", "자전거"),
    "plane": ("by plane", "비행기"),
    "ship": ("by ship", "배"),
    "pie": ("with a pie", "파이"),
    "pillow": ("with a pillow", "베개"),
    "umbrella": ("with an umbrella", "우산"),
    "newspaper": ("with a newspaper", "신문"),
}
GENERAL = "a the this that number adjective"


def _frame(
    verb: str,
    objects: str | tuple[Noun, ...] | tuple[Place, ...] = "",
    *,
    at: str = "",
    tools: str = "",
    determiners: str = GENERAL,
    role: str = "object",
    form: Form = "to",
    flags: str = "",
) -> Frame:
    """Read tags of objects, names of places and tools, and flags named like the fields.

    `to` is the receiver; `inside` and `along` are places with 에 and 를 instead of 에서.
    """
    things = with_tags(*objects.split()) if isinstance(objects, str) else objects
    takes: Takes = "thing" if things else "nothing"
    if objects == "person":
        takes = "person"
    elif things and isinstance(things[0], Place):
        takes = "place"
    marks = flags.split()
    return Frame(
        verb=VERBS[verb],
        objects=things,
        takes=takes,
        role=role,
        form=form,
        places=places(at),
        tools=tuple(TOOLS[tool] for tool in tools.split()),
        determiners=determiners,
        company="company" in marks,
        lasts="lasts" in marks,
        receiver="to" in marks,
        please="please" in marks,
        era="era" in marks,
        once="once" in marks,
        place_role="in" if "inside" in marks else "object" if "along" in marks else "at",
    )


MEALS = "home restaurant school hotel park office"
STAYS = "home library cafe school office park"
OWN = "a the this that adjective"
PLENTY = "a the number adjective"
SHOPS = "market supermarket convenience_store"
WORKPLACES = "office hospital bank hotel restaurant library museum post_office"
LOST = "park airport station school market zoo"
SEARCHED = "home school park office airport"

# fmt: off
THINGS = (
    _frame("eat 먹다", "food", at=MEALS, determiners=PLENTY, flags="company"),
    _frame("eat 먹다", "spoon", at=MEALS, tools="spoon", determiners="a the", flags="company"),
    _frame("eat 먹다", "chopsticks", at=MEALS, tools="chopsticks", determiners="a the number", flags="company"),
    _frame("drink 마시다", "drink", at="home cafe restaurant office", determiners=PLENTY, flags="company"),
    _frame("buy 사다", "fruit", at=SHOPS, flags="please company"),
    _frame("buy 사다", "drink", at=SHOPS, determiners="a the this adjective", flags="please"),
    _frame("buy 사다", "goods", at="market department_store", flags="company please once"),
    _frame("buy 사다", "ticket clothes costly machine furniture", determiners="a the this number", flags="please once"),
    _frame("buy 사다", "level", at="bookstore", determiners="a this number adjective", flags="please company"),
    _frame("buy 사다", "bakery", at="bakery supermarket market", flags="please"),
    _frame("read 읽다", "text", at="home library cafe school", determiners=GENERAL, flags="lasts please"),
    _frame("write 쓰다", "script", at="home library cafe office", determiners="a the number", flags="lasts please"),
    _frame("write 쓰다", "ink", tools="pencil pen", determiners="a the adjective", flags="lasts"),
    _frame("watch 보다", "film view", at="home hotel school", flags="company lasts"),
    _frame("watch 보다", "screen", at="theater home", flags="company"),
    _frame("see 보다", "zoo", at="zoo", determiners="a number adjective", flags="era once"),
    _frame("listen to 듣다", "hear", at="home cafe park gym", flags="lasts company"),
    _frame("make 만들다", "made", at="home restaurant", determiners="generic adjective", flags="company please"),
    _frame("learn 배우다", "language lesson", at="school", flags="company lasts era"),
    _frame("study 공부하다", "subject", at="library school home cafe classroom", flags="company lasts"),
    _frame("teach 가르치다", "subject lesson", at="school", flags="lasts to please era"),
    _frame("like 좋아하다", "food drink animal sport lesson subject sound goods", determiners="generic this that"),
    _frame("like 좋아하다", "film level clothes", determiners="this that"),
    _frame("need 필요하다", "lose thing goods clothes", role="subject", determiners="a number this"),
    _frame("look for 찾아보다", "lose pet", at=SEARCHED, determiners="the my", flags="please lasts once"),
    _frame("find 찾다", "lose pet", at=SEARCHED, determiners="the my", flags="once"),
    _frame("lose 잃어버리다", "lose", at=LOST, determiners="a my"),
    _frame("clean 청소하다", "room", determiners="the", flags="company lasts please"),
    _frame("sell 팔다", "sell", at="market supermarket", determiners="generic"),
    _frame("take 타다", "ride", determiners="a the", flags="company"),
    _frame("take 찍다", "photo", at="park beach zoo museum", determiners="a number", flags="company"),
    _frame("wait for 기다리다", "ride", at="station", determiners="a the", flags="company lasts please"),
    _frame("choose 고르다", "goods gift", at="department_store market", determiners=OWN, flags="please company once"),
    _frame("choose 고르다", "level", at="bookstore library", determiners="a this that adjective", flags="please once"),
    _frame("draw 그리다", "draw", at="school home park zoo", determiners="a number", flags="please"),
    _frame("draw 그리다", "draw", tools="pencil brush", determiners="a", flags="lasts"),
    _frame("borrow 빌리다", "lend", determiners="a this that number", flags="once"),
    _frame("use 사용하다", "machine", at="office home library", determiners="a the this that my adjective"),
    _frame("cut 자르다", "cut", at="kitchen", tools="knife", determiners="a the this number", flags="please"),
    _frame("open 열다", "opening", determiners="the", flags="please"),
    _frame("close 닫다", "opening", determiners="the", flags="please"),
    _frame("play 치다", "strings", at="school home cafe", flags="company lasts"),
    _frame("play 치다", "racket", at="school park", flags="company lasts"),
    _frame("play 하다", "sport", at="school park playground", flags="company lasts"),
    _frame("sing 부르다", "sing", at="school park home", determiners="a the this number", flags="company"),
    _frame("wear 입다", "clothes", determiners="a this my adjective"),
    _frame("wear 신다", "feet", determiners="a my adjective"),
    _frame("wear 쓰다", "hat", determiners="a this my adjective"),
)
GIVING = (
    _frame("give 주다", "gift goods lend", determiners="a the this adjective", flags="to please once"),
    _frame("send 보내다", "post gift", determiners="a the this", flags="to please once"),
    _frame("lend 빌려주다", "lend", determiners="a the this my", flags="to please once"),
    _frame("show 보여주다", "photo level pretty", determiners="a the this my", flags="to please once"),
)
MEETING = (
    _frame("meet 만나다", "person", at="station library cafe airport park hotel restaurant", flags="era"),
    _frame("help 도와주다", "person", at="school office home library", flags="please"),
    _frame("wait for 기다리다", "person", at="station airport cafe library school", flags="lasts please"),
    _frame("call 전화하다", "person", role="person", at="home school office", flags="please"),
)
RIVALS = (  # done by one person to another, who could do the same
    *MEETING,
    _frame("like 좋아하다", "person"),
    _frame("like 좋아하다", "person"),
    _frame("love 사랑하다", "person"),
    _frame("know 알다", "person"),
    _frame("follow 따라가다", "person", at="school park station market"),
    _frame("thank 고마워하다", "person", role="person"),
    _frame("hit 때리다", "person", tools="pie pillow umbrella newspaper", at="school park home"),
)
STAYING = (
    _frame("work 일하다", at=WORKPLACES, flags="company lasts era"),
    _frame("study 공부하다", at="library school home cafe classroom", flags="company lasts"),
    _frame("rest 쉬다", at="home park hotel beach", flags="company lasts"),
    _frame("stay 있다", at="home library hotel hospital", flags="company lasts inside"),
    _frame("walk 걷다", at="park beach", flags="company lasts along"),
    _frame("run 뛰다", at="park gym beach playground", flags="company lasts"),
    _frame("swim 수영하다", at="pool beach", flags="company lasts"),
    _frame("sleep 자다", at="home", flags="lasts"),
    _frame("exercise 운동하다", at="gym park home school", flags="company lasts"),
    _frame("cook 요리하다", at="home restaurant", flags="company"),
    _frame("wait 기다리다", at="station airport cafe library hospital bank", flags="company lasts please"),
)
VISITS = places(
    "home school library park market supermarket department_store bookstore restaurant cafe office hospital bank "
    "hotel airport station theater museum zoo beach pool gym"
)
TRIPS = CITIES + COUNTRIES
BY_LAND, BY_SEA, BY_AIR = CITIES[:-1], places("Jeju_Island Japan China"), places("Korea America France Germany")
TRAVELLING = (
    _frame("go 가다", VISITS, role="in", tools="bus subway taxi bicycle", flags="company"),
    _frame("go 가다", BY_LAND, role="in", tools="train bus", flags="company era once"),
    _frame("go 가다", BY_SEA, role="in", tools="plane ship", flags="company era once"),
    _frame("go 가다", BY_AIR, role="in", tools="plane", flags="company era once"),
    _frame("come 오다", VISITS, role="in", tools="bus subway taxi bicycle", flags="company"),
    _frame("arrive 도착하다", VISITS[1:] + TRIPS, role="in", form="at"),
    _frame("leave for 떠나다", TRIPS, role="toward", form="english", flags="company era"),
    _frame("move 이사하다", TRIPS, role="toward", flags="company era"),
    _frame("live 살다", TRIPS, role="in", form="at", flags="company"),
)
# fmt: on
