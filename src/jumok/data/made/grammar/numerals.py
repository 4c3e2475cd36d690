"""Numbers, prices, days, times and events of the phrasebook, English and Korean.

Not here  the sentences that tell times (times.py).
"""

NATIVE = ("한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉", "열", "열한", "열두")
SINO = ("일", "이", "삼", "사", "오", "육", "칠", "팔", "구", "십")
CARDINALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
MINUTES = (
    ("ten", "십"), ("fifteen", "십오"), ("twenty", "이십"), ("twenty-five", "이십오"), ("thirty", "삼십"),
    ("thirty-five", "삼십오"), ("forty", "사십"), ("forty-five", "사십오"), ("fifty", "오십"),
)  # fmt: skip
TENS = ("ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
CHEAP = tuple((f"{CARDINALS[n]} thousand", (SINO[n] if n else "") + "천") for n in range(9))
DEAR = tuple((f"{TENS[n]} thousand", (SINO[n] if n else "") + "만") for n in range(9))
DEAREST = tuple((f"{CARDINALS[n]} hundred thousand", (SINO[n] if n else "") + "십만") for n in range(9))
WEEKDAYS = (
    ("Monday", "월요일"), ("Tuesday", "화요일"), ("Wednesday", "수요일"), ("Thursday", "목요일"),
    ("Friday", "금요일"), ("Saturday", "토요일"), ("Sunday", "일요일"),
)  # fmt: skip
MONTHS = (
    ("January", 31), ("February", 28), ("March", 31), ("April", 30), ("May", 31), ("June", 30),
    ("July", 31), ("August", 31), ("September", 30), ("October", 31), ("November", 30), ("December", 31),
)  # fmt: skip
YEARS = tuple(range(2015, 2025))
EVENTS = (
    ("meeting", "회의"), ("party", "파티"), ("class", "수업"), ("exam", "시험"), ("concert", "콘서트"),
    ("game", "경기"),
)  # fmt: skip
# Korean adverbials; "/에" marks the particle
NEAR_PAST = (
    ("yesterday", "어제"), ("yesterday morning", "어제 아침/에"), ("yesterday afternoon", "어제 오후/에"),
    ("the day before yesterday", "그저께"), ("last night", "어젯밤/에"), ("this morning", "오늘 아침/에"),
    ("last week", "지난주/에"), ("last weekend", "지난 주말/에"),
)  # fmt: skip
FAR_PAST = (
    ("last month", "지난달/에"), ("last year", "작년/에"), ("last spring", "지난봄/에"), ("last summer", "지난여름/에"),
    ("last winter", "지난겨울/에"),
)  # fmt: skip
NEAR_FUTURE = (
    ("tomorrow", "내일"), ("tomorrow morning", "내일 아침/에"), ("tomorrow afternoon", "내일 오후/에"),
    ("tomorrow evening", "내일 저녁/에"), ("the day after tomorrow", "모레"), ("tonight", "오늘 밤/에"),
    ("this evening", "오늘 저녁/에"), ("next week", "다음 주/에"), ("this weekend", "이번 주말/에"),
    ("next weekend", "다음 주말/에"),
)  # fmt: skip
FAR_FUTURE = (("next month", "다음 달/에"), ("next year", "내년/에"), ("this summer", "이번 여름/에"))
HABITS = (
    ("every day", "매일"), ("every morning", "매일 아침"), ("every evening", "매일 저녁"),
    ("every weekend", "주말/마다"),
)  # fmt: skip
DAY_PARTS = (
    ("in the morning", "아침/에"), ("in the afternoon", "오후/에"), ("in the evening", "저녁/에"),
    ("at night", "밤/에"), ("on weekends", "주말/에"),
)  # fmt: skip
FREQUENCIES = (("often", "자주"), ("always", "항상"), ("sometimes", "가끔"), ("usually", "보통"))
CLOCK_PARTS = (  # with a day, "in the morning" becomes "yesterday morning" or "every morning"
    ("in the morning", "morning", "아침", (7, 8, 9)),
    ("in the afternoon", "afternoon", "오후", (1, 2, 3, 4, 5)),
    ("in the evening", "evening", "저녁", (6, 7, 8)),
)
