"""The people of the phrasebook, English and Korean: names, relatives, titles, jobs."""

NAMES = (
    ("Minsu", "민수"), ("Jisu", "지수"), ("Yuna", "유나"), ("Junho", "준호"),
    ("Minji", "민지"), ("Sora", "소라"), ("Jiho", "지호"), ("Mina", "미나"),
    ("Jimin", "지민"), ("Seojun", "서준"), ("Sumin", "수민"), ("Hyejin", "혜진"),
    ("Dohyun", "도현"), ("Jihun", "지훈"), ("Subin", "수빈"), ("Hayun", "하윤"),
)  # fmt: skip
RELATIVES = (
    ("friend", "친구"), ("younger brother", "남동생"), ("younger sister", "여동생"), ("cousin", "사촌"),
)  # fmt: skip
ELDERS = (
    ("mother", "어머니"), ("father", "아버지"), ("grandmother", "할머니"), ("grandfather", "할아버지"),
)  # fmt: skip
WOMEN = frozenset(["Jisu", "Yuna", "Minji", "Sora", "Mina", "Sumin", "Hyejin", "Subin", "Hayun"]) | {
    "younger sister", "mother", "grandmother", "woman",
}  # fmt: skip
MEN = frozenset(["Minsu", "Junho", "Jiho", "Jimin", "Seojun", "Dohyun", "Jihun"]) | {
    "younger brother", "father", "grandfather", "man",
}  # fmt: skip
STRANGERS = (("man", "남자"), ("woman", "여자"), ("student", "학생"), ("child", "아이"))
CROWDS = (("the children", "아이들"), ("the students", "학생들"))
SURNAMES = (("Kim", "김"), ("Park", "박"), ("Choi", "최"))
TITLES = (("Mr.", "선생님"), ("Ms.", "선생님"), ("Professor", "교수님"), ("Dr.", "박사님"))
JOBS = (
    ("doctor", "의사"), ("nurse", "간호사"), ("student", "학생"), ("singer", "가수"), ("writer", "작가"),
    ("cook", "요리사"), ("farmer", "농부"), ("soldier", "군인"), ("police officer", "경찰관"),
    ("office worker", "회사원"), ("university student", "대학생"), ("scientist", "과학자"),
)  # fmt: skip
