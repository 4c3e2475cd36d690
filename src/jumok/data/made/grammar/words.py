"""The words of the phrasebook: who, what, where, when.

Nouns carry tags; a verb or an adjective names the tags it accepts, so that food is eaten and not read.  In the tables
an underscore stands for a space and "-" for nothing.

Not here  endings (endings.py), sentences (draft.py).
"""

from dataclasses import dataclass
from typing import Literal, cast

from jumok.data.made.grammar.endings import Stem

Aspect = Literal["action", "moment", "change", "state", "loss"]  # which tenses a verb allows


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun.  `plural` is "" if it is not counted; `measure` is the English unit (cup), `unit` the Korean one."""

    english: str
    plural: str
    korean: str
    measure: str
    unit: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A place: "at the library" 도서관에서, "to the library" 도서관에."""

    english: str
    korean: str
    at: str
    to: str


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """English base, third person, past and -ing (with its preposition), and the Korean stem."""

    base: str
    third: str
    past: str
    ing: str
    stem: Stem
    honorific: str
    aspect: Aspect
    splits: bool  # a noun with 하다, which 안 and 못 cannot precede


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """`more` is the comparative; `short` tells whether 안 may precede it."""

    english: str
    more: str
    stem: Stem
    tags: tuple[str, ...]
    short: bool
    bare: str = ""  # a body part that comes first: 배 in 배가 고파요


def _rows(table: str) -> list[list[str]]:
    rows = [line.split() for line in table.strip().split("\n")]
    return [[cell.replace("_", " ") if cell != "-" else "" for cell in row] for row in rows]


def _nouns(table: str) -> tuple[Noun, ...]:
    return tuple(
        Noun(english, plural, korean, measure, unit, tuple(tags.split(",")))
        for english, plural, korean, measure, unit, tags in _rows(table)
    )


NOUNS = _nouns("""
apple         apples         사과       -      개    food,fruit,sweet,cut,sell,size
banana        bananas        바나나     -      개    food,fruit,sweet,cut,sell
orange        oranges        오렌지     -      개    food,fruit,sweet,cut,sell
strawberry    strawberries   딸기       -      개    food,fruit,sweet,sell
peach         peaches        복숭아     -      개    food,fruit,sweet,cut,sell
watermelon    watermelons    수박       -      통    food,fruit,sweet,cut,sell,size
tangerine     tangerines     귤         -      개    food,fruit,sweet,sell
tomato        tomatoes       토마토     -      개    food,fruit,cut,sell
potato        potatoes       감자       -      개    food,fruit,cut,sell
carrot        carrots        당근       -      개    food,fruit,cut,sell
egg           eggs           계란       -      개    food,fruit,sell
sandwich      sandwiches     샌드위치   -      개    food,made
hamburger     hamburgers     햄버거     -      개    food,made
cookie        cookies        쿠키       -      개    food,made,sweet,bakery
dumpling      dumplings      만두       -      개    food,made,chopsticks
bread         -              빵         piece  조각  food,made,bakery,cut,sell
cake          -              케이크     piece  조각  food,made,bakery,cut,sweet
pizza         -              피자       piece  조각  food,made,cut
pie           pies           파이       -      개    food,made,bakery
rice          -              밥         bowl   그릇  food,spoon
soup          -              수프       bowl   그릇  food,made,spoon,hot
bibimbap      -              비빔밥     bowl   그릇  food,made,spoon
ramen         -              라면       bowl   그릇  food,chopsticks,spicy,hot
kimchi        -              김치       -      -     food,made,spicy,sell
bulgogi       -              불고기     -      -     food,made
fish          -              생선       -      -     food,sell
chocolate     -              초콜릿     -      -     food,sweet,made
coffee        -              커피       cup    잔    drink,hot
green_tea     -              녹차       cup    잔    drink,hot
water         -              물         bottle 병    drink,cold
milk          -              우유       glass  잔    drink,cold
juice         -              주스       glass  잔    drink,cold,sweet
beer          -              맥주       bottle 병    drink,cold
wine          -              와인       glass  잔    drink
cola          -              콜라       can    캔    drink,cold,sweet
bag           bags           가방       -      개    thing,goods,carry,size,pretty,lose,hold
hat           hats           모자       -      개    thing,goods,hat,pretty,lose
umbrella      umbrellas      우산       -      개    thing,goods,carry,size,lose,lend,shop
watch         watches        시계       -      개    thing,goods,pretty,lose
doll          dolls          인형       -      개    thing,goods,pretty,size,made,draw
ring          rings          반지       -      개    thing,goods,pretty,lose
mirror        mirrors        거울       -      개    thing,goods,carry,size
cup           cups           컵         -      개    thing,goods,pretty,size
wallet        wallets        지갑       -      개    thing,goods,pretty,lose
present       presents       선물       -      개    thing,gift
key           keys           열쇠       -      개    thing,lose,size
chair         chairs         의자       -      개    thing,furniture,carry,size
desk          desks          책상       -      개    thing,furniture,carry,size
box           boxes          상자       -      개    thing,carry,size
knife         knives         칼         -      자루  tool
pencil        pencils        연필       -      자루  thing,lend,shop
flower        flowers        꽃         -      송이  thing,pretty,draw,gift,sell
computer      computers      컴퓨터     -      대    thing,machine,carry
camera        cameras        카메라     -      대    thing,machine,carry,lose,lend
car           cars           자동차     -      대    costly,size,draw
bicycle       bicycles       자전거     -      대    costly,lend
book          books          책         -      권    thing,text,level,hard,lend,carry
novel         novels         소설       -      권    text,level,hard,lend
magazine      magazines      잡지       -      권    text,level,hard
dictionary    dictionaries   사전       -      권    thing,level,lend,carry,machine
letter        letters        편지       -      통    post,long,script,text,ink
e-mail        e-mails        이메일     -      통    post,long,script,text
report        reports        보고서     -      -     post,long,script,text,ink,hard
picture       pictures       사진       -      장    post,photo
ticket        tickets        표         -      장    lose,ticket
paper         -              종이       sheet  장    thing,cut
shirt         shirts         셔츠       -      벌    clothes,goods,pretty,size
skirt         skirts         치마       -      벌    clothes,goods,pretty,long
coat          coats          코트       -      벌    clothes,goods,pretty,size,long
sweater       sweaters       스웨터     -      벌    clothes,goods,pretty,size
shoes         =              신발       pair   켤레  feet,goods,pretty,size
socks         =              양말       pair   켤레  feet,goods,pretty,size
cat           cats           고양이     -      마리  animal,pet,draw,size
puppy         puppies        강아지     -      마리  animal,pet,draw,size
rabbit        rabbits        토끼       -      마리  animal,pet,zoo,draw,size
bird          birds          새         -      마리  animal,pet,zoo,draw
horse         horses         말         -      마리  animal,zoo,draw,size
bear          bears          곰         -      마리  animal,zoo,draw,size
tiger         tigers         호랑이     -      마리  animal,zoo,draw
lion          lions          사자       -      마리  animal,zoo,draw
monkey        monkeys        원숭이     -      마리  animal,zoo,draw
friend        friends        친구       -      명    relation
student       students       학생       -      명    folk
child         children       아이       -      명    folk,guest
customer      customers      손님       -      명    guest
bus           buses          버스       -      대    ride
train         trains         기차       -      -     ride
subway        -              지하철     -      -     ride,the
taxi          taxis          택시       -      대    ride
movie         movies         영화       -      편    film,screen,long
drama         dramas         드라마     -      편    film,long
news          -              뉴스       -      -     hear,view,the
music         -              음악       -      -     sound,hear
radio         -              라디오     -      -     hear,the
song          songs          노래       -      곡    sound,hear,sing
Korean        -              한국어     -      -     language,subject
English       -              영어       -      -     language,subject
Japanese      -              일본어     -      -     language,subject
math          -              수학       -      -     subject
history       -              역사       -      -     subject
science       -              과학       -      -     subject
piano         -              피아노     -      -     strings,lesson,the
guitar        -              기타       -      -     strings,lesson,the
tennis        -              테니스     -      -     racket,lesson
soccer        -              축구       -      -     sport,lesson
baseball      -              야구       -      -     sport,lesson
basketball    -              농구       -      -     sport,lesson
taekwondo     -              태권도     -      -     lesson
room          -              방         -      -     room,the
kitchen       -              부엌       -      -     room,the
classroom     -              교실       -      -     room,the
house         -              집         -      -     room,the
door          -              문         -      -     opening,the
window        -              창문       -      -     opening,the
""")

PLACES = {
    row[0]: Place(row[0], row[1], row[2], row[3])
    for row in _rows("""
home              집         at_home                   home
school            학교       at_school                 to_school
library           도서관     at_the_library            to_the_library
park              공원       in_the_park               to_the_park
market            시장       at_the_market             to_the_market
supermarket       슈퍼마켓   at_the_supermarket        to_the_supermarket
convenience_store 편의점     at_the_convenience_store  to_the_convenience_store
department_store  백화점     at_the_department_store   to_the_department_store
bookstore         서점       at_the_bookstore          to_the_bookstore
bakery            빵집       at_the_bakery             to_the_bakery
restaurant        식당       at_the_restaurant         to_the_restaurant
cafe              카페       at_the_cafe               to_the_cafe
office            사무실     at_the_office             to_the_office
hospital          병원       at_the_hospital           to_the_hospital
bank              은행       at_the_bank               to_the_bank
post_office       우체국     at_the_post_office        to_the_post_office
hotel             호텔       at_the_hotel              to_the_hotel
airport           공항       at_the_airport            to_the_airport
station           역         at_the_station            to_the_station
theater           극장       at_the_theater            to_the_theater
museum            박물관     at_the_museum             to_the_museum
zoo               동물원     at_the_zoo                to_the_zoo
beach             바닷가     at_the_beach              to_the_beach
pool              수영장     at_the_pool               to_the_pool
gym               체육관     at_the_gym                to_the_gym
playground        놀이터     at_the_playground         to_the_playground
kitchen           부엌       in_the_kitchen            to_the_kitchen
classroom         교실       in_the_classroom          to_the_classroom
Seoul             서울       in_Seoul                  to_Seoul
Busan             부산       in_Busan                  to_Busan
Incheon           인천       in_Incheon                to_Incheon
Daegu             대구       in_Daegu                  to_Daegu
Gyeongju          경주       in_Gyeongju               to_Gyeongju
Jeju_Island       제주도     on_Jeju_Island            to_Jeju_Island
Korea             한국       in_Korea                  to_Korea
Japan             일본       in_Japan                  to_Japan
China             중국       in_China                  to_China
America           미국       in_America                to_America
France            프랑스     in_France                 to_France
Germany           독일       in_Germany                to_Germany
""")
}


def places(names: str) -> tuple[Place, ...]:
    return tuple(PLACES[name.replace("_", " ")] for name in names.split())


STREETS = places(
    "school library park market supermarket convenience_store department_store bookstore bakery restaurant cafe "
    "hospital bank post_office hotel station theater museum"
)
CITIES = places("Seoul Busan Incheon Daegu Gyeongju Jeju_Island")
COUNTRIES = places("Korea Japan China America France Germany")
BUILDINGS = tuple(place for place in PLACES.values() if place.at.split()[1] == "the")
INDOORS = places("library restaurant cafe office bank bookstore gym theater post_office bakery")


def with_tags(*tags: str) -> tuple[Noun, ...]:
    """Return the nouns that carry any of these tags, in the order of the table."""
    return tuple(noun for noun in NOUNS if not set(tags).isdisjoint(noun.tags))


def noun(english: str) -> Noun:
    """Return the noun with this English name."""
    return next(each for each in NOUNS if each.english == english)


def _verbs(table: str) -> dict[str, Verb]:
    """Read the table of verbs; the key is English and Korean, as "take 타다"."""
    verbs = {}
    for *forms, preposition, korean, change, aspect, honorific in _rows(table):
        base, third, past, ing = (f"{form} {preposition}".rstrip() for form in forms)
        splits = korean.endswith("하다") and korean not in ("하다", "좋아하다", "고마워하다")
        stem = Stem(korean.removesuffix("다"), change)
        verbs[f"{base} {korean}"] = Verb(base, third, past, ing, stem, honorific, cast(Aspect, aspect), splits)
    return verbs


VERBS = _verbs("""
eat       eats       ate        eating      -     먹다        -   action  드시
drink     drinks     drank      drinking    -     마시다      -   action  드시
buy       buys       bought     buying      -     사다        -   action  -
read      reads      read       reading     -     읽다        -   action  -
write     writes     wrote      writing     -     쓰다        -   action  -
watch     watches    watched    watching    -     보다        -   action  -
see       sees       saw        seeing      -     보다        -   moment  -
listen    listens    listened   listening   to    듣다        ㄷ  action  -
make      makes      made       making      -     만들다      -   action  -
learn     learns     learned    learning    -     배우다      -   action  -
study     studies    studied    studying    -     공부하다    -   action  -
teach     teaches    taught     teaching    -     가르치다    -   action  -
need      needs      needed     needing     -     필요하다    -   state   -
have      has        had        having      -     있다        -   state   -
become    becomes    became     becoming    -     되다        -   moment  -
look      looks      looked     looking     for   찾아보다    -   action  -
find      finds      found      finding     -     찾다        -   moment  -
lose      loses      lost       losing      -     잃어버리다  -   loss    -
clean     cleans     cleaned    cleaning    -     청소하다    -   action  -
sell      sells      sold       selling     -     팔다        -   action  -
take      takes      took       taking      -     타다        -   action  -
take      takes      took       taking      -     찍다        -   action  -
choose    chooses    chose      choosing    -     고르다      르  moment  -
draw      draws      drew       drawing     -     그리다      -   action  -
borrow    borrows    borrowed   borrowing   -     빌리다      -   moment  -
use       uses       used       using       -     사용하다    -   action  -
cut       cuts       cut        cutting     -     자르다      르  action  -
open      opens      opened     opening     -     열다        -   moment  -
close     closes     closed     closing     -     닫다        -   moment  -
play      plays      played     playing     -     치다        -   action  -
play      plays      played     playing     -     하다        -   action  -
sing      sings      sang       singing     -     부르다      르  action  -
wear      wears      wore       wearing     -     입다        -   action  -
wear      wears      wore       wearing     -     신다        -   action  -
wear      wears      wore       wearing     -     쓰다        -   action  -
give      gives      gave       giving      -     주다        -   moment  -
send      sends      sent       sending     -     보내다      -   moment  -
lend      lends      lent       lending     -     빌려주다    -   moment  -
meet      meets      met        meeting     -     만나다      -   action  -
help      helps      helped     helping     -     도와주다    -   action  -
follow    follows    followed   following   -     따라가다    -   action  -
know      knows      knew       knowing     -     알다        -   state   -
love      loves      loved      loving      -     사랑하다    -   state   -
like      likes      liked      liking      -     좋아하다    -   state   -
thank     thanks     thanked    thanking    -     고마워하다  -   loss    -
hit       hits       hit        hitting     -     때리다      -   loss    -
show      shows      showed     showing     -     보여주다    -   moment  -
stay      stays      stayed     staying     -     있다        -   action  계시
wait      waits      waited     waiting     for   기다리다    -   action  -
wait      waits      waited     waiting     -     기다리다    -   action  -
call      calls      called     calling     -     전화하다    -   moment  -
work      works      worked     working     -     일하다      -   action  -
rest      rests      rested     resting     -     쉬다        -   action  -
walk      walks      walked     walking     -     걷다        ㄷ  action  -
run       runs       ran        running     -     뛰다        -   action  -
swim      swims      swam       swimming    -     수영하다    -   action  -
sleep     sleeps     slept      sleeping    -     자다        -   action  주무시
exercise  exercises  exercised  exercising  -     운동하다    -   action  -
cook      cooks      cooked     cooking     -     요리하다    -   action  -
go        goes       went       going       -     가다        -   action  -
come      comes      came       coming      -     오다        -   action  -
arrive    arrives    arrived    arriving    -     도착하다    -   change  -
leave     leaves     left       leaving     for   떠나다      -   change  -
move      moves      moved      moving      -     이사하다    -   change  -
live      lives      lived      living      -     살다        -   state   -
rain      rains      rained     raining     -     오다        -   action  -
snow      snows      snowed     snowing     -     오다        -   action  -
""")


def _adjective(english: str, more: str, korean: str, tags: str, *, short: bool = True, bare: str = "") -> Adjective:
    lemma, _, change = korean.partition("/")
    return Adjective(english, more, Stem(lemma.removesuffix("다"), change), tuple(tags.split()), short, bare)


ADJECTIVES = (
    _adjective("big", "bigger", "크다", "size"),
    _adjective("small", "smaller", "작다", "size"),
    _adjective("expensive", "more expensive", "비싸다", "goods machine costly furniture"),
    _adjective("cheap", "cheaper", "싸다", "goods machine costly furniture"),
    _adjective("pretty", "prettier", "예쁘다", "pretty pet"),
    _adjective("heavy", "heavier", "무겁다/ㅂ", "carry"),
    _adjective("light", "lighter", "가볍다/ㅂ", "carry"),
    _adjective("delicious", "more delicious", "맛있다", "made drink spoon chopsticks sweet", short=False),
    _adjective("sweet", "sweeter", "달다", "sweet"),
    _adjective("spicy", "spicier", "맵다/ㅂ", "spicy"),
    _adjective("hot", "hotter", "뜨겁다/ㅂ", "hot"),
    _adjective("cold", "colder", "차갑다/ㅂ", "cold"),
    _adjective("interesting", "more interesting", "재미있다", "text film", short=False),
    _adjective("difficult", "more difficult", "어렵다/ㅂ", "hard"),
    _adjective("easy", "easier", "쉽다/ㅂ", "hard"),
    _adjective("long", "longer", "길다", "long"),
    _adjective("short", "shorter", "짧다", "long"),
)
PLACE_ADJECTIVES = (
    _adjective("quiet", "quieter", "조용하다", "", short=False),
    _adjective("clean", "cleaner", "깨끗하다", "", short=False),
    _adjective("spacious", "more spacious", "넓다", ""),
    _adjective("famous", "more famous", "유명하다", "", short=False),
    _adjective("beautiful", "more beautiful", "아름답다/ㅂ", "", short=False),
    _adjective("big", "bigger", "크다", ""),
    _adjective("small", "smaller", "작다", ""),
)
FEELINGS = (
    _adjective("tired", "", "피곤하다", "", short=False),
    _adjective("busy", "", "바쁘다", ""),
    _adjective("happy", "", "행복하다", "", short=False),
    _adjective("sleepy", "", "졸리다", ""),
    _adjective("hungry", "", "고프다", "", bare="배"),
    _adjective("thirsty", "", "마르다/르", "", bare="목"),
    _adjective("sick", "", "아프다", ""),
    _adjective("bored", "", "심심하다", "", short=False),
)
CLIMATES = (
    _adjective("cold", "colder", "춥다/ㅂ", ""),
    _adjective("hot", "hotter", "덥다/ㅂ", ""),
    _adjective("warm", "warmer", "따뜻하다", "", short=False),
    _adjective("cool", "cooler", "시원하다", "", short=False),
)
