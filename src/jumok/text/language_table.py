"""The languages that jumok knows by name: tag, other codes, English, own and Korean name, scripts.

The codes are the three-letter codes of ISO 639-2 and 639-3 and tags that BCP 47 has replaced.  Scripts are named as
in scripts.py, the usual one first.  Languages that are not listed can be translated too; they are shown by their tag.
"""

from typing import NamedTuple


class Language(NamedTuple):
    """A language of the table."""

    tag: str
    codes: tuple[str, ...]  # other codes that mean it
    english: str
    own: str
    korean: str
    scripts: tuple[str, ...]


# tag | other codes | English | own name | Korean | scripts
_ROWS = """
af|afr|Afrikaans|Afrikaans|아프리칸스어|Latin
am|amh|Amharic|አማርኛ|암하라어|Ethiopic
ar|ara arb|Arabic|العربية|아랍어|Arabic
as|asm|Assamese|অসমীয়া|아삼어|Bengali
ast|ast|Asturian|asturianu|아스투리아어|Latin
az|aze azj|Azerbaijani|azərbaycan|아제르바이잔어|Latin Cyrillic Arabic
ba|bak|Bashkir|башҡорт теле|바시키르어|Cyrillic
be|bel|Belarusian|беларуская|벨라루스어|Cyrillic
bg|bul|Bulgarian|български|불가리아어|Cyrillic
bn|ben|Bengali|বাংলা|벵골어|Bengali
bo|bod tib|Tibetan|བོད་སྐད་|티베트어|Tibetan
br|bre|Breton|brezhoneg|브르타뉴어|Latin
bs|bos|Bosnian|bosanski|보스니아어|Latin Cyrillic
ca|cat|Catalan|català|카탈로니아어|Latin
ceb|ceb|Cebuano|Cebuano|세부아노어|Latin
co|cos|Corsican|corsu|코르시카어|Latin
cs|ces cze|Czech|čeština|체코어|Latin
cv|chv|Chuvash|чӑваш|추바시어|Cyrillic
cy|cym wel|Welsh|Cymraeg|웨일스어|Latin
da|dan|Danish|dansk|덴마크어|Latin
de|deu ger|German|Deutsch|독일어|Latin
dv|div|Dhivehi|ދިވެހިބަސް|디베히어|Thaana
el|ell gre|Greek|Ελληνικά|그리스어|Greek
en|eng|English|English|영어|Latin
eo|epo|Esperanto|Esperanto|에스페란토어|Latin
es|spa|Spanish|español|스페인어|Latin
et|est ekk|Estonian|eesti|에스토니아어|Latin
eu|eus baq|Basque|euskara|바스크어|Latin
fa|fas per pes|Persian|فارسی|페르시아어|Arabic
fi|fin|Finnish|suomi|핀란드어|Latin
fil|fil|Filipino|Filipino|필리핀어|Latin
fo|fao|Faroese|føroyskt|페로어|Latin
fr|fra fre|French|français|프랑스어|Latin
fy|fry|Western Frisian|Frysk|서프리지아어|Latin
ga|gle|Irish|Gaeilge|아일랜드어|Latin
gd|gla|Scottish Gaelic|Gàidhlig|스코틀랜드 게일어|Latin
gl|glg|Galician|galego|갈리시아어|Latin
gn|grn|Guarani|avañe'ẽ|과라니어|Latin
gu|guj|Gujarati|ગુજરાતી|구자라트어|Gujarati
ha|hau|Hausa|Hausa|하우사어|Latin
haw|haw|Hawaiian|ʻŌlelo Hawaiʻi|하와이어|Latin
he|heb iw|Hebrew|עברית|히브리어|Hebrew
hi|hin|Hindi|हिन्दी|힌디어|Devanagari
hr|hrv scr|Croatian|hrvatski|크로아티아어|Latin
ht|hat|Haitian Creole|kreyòl ayisyen|아이티 크리올어|Latin
hu|hun|Hungarian|magyar|헝가리어|Latin
hy|hye arm|Armenian|հայերեն|아르메니아어|Armenian
ia|ina|Interlingua|interlingua|인터링구아|Latin
id|ind in|Indonesian|Indonesia|인도네시아어|Latin
ig|ibo|Igbo|Igbo|이그보어|Latin
is|isl ice|Icelandic|íslenska|아이슬란드어|Latin
it|ita|Italian|italiano|이탈리아어|Latin
ja|jpn|Japanese|日本語|일본어|Kana Han
jv|jav jw|Javanese|Jawa|자바어|Latin
ka|kat geo|Georgian|ქართული|조지아어|Georgian
kk|kaz|Kazakh|қазақ тілі|카자흐어|Cyrillic
km|khm|Khmer|ខ្មែរ|크메르어|Khmer
kn|kan|Kannada|ಕನ್ನಡ|칸나다어|Kannada
ko|kor|Korean|한국어|한국어|Hangul
ku|kur kmr|Kurdish|kurdî|쿠르드어|Latin Arabic
ky|kir|Kyrgyz|кыргызча|키르기스어|Cyrillic
la|lat|Latin|Latina|라틴어|Latin
lb|ltz|Luxembourgish|Lëtzebuergesch|룩셈부르크어|Latin
lo|lao|Lao|ລາວ|라오어|Lao
lt|lit|Lithuanian|lietuvių|리투아니아어|Latin
lv|lav lvs|Latvian|latviešu|라트비아어|Latin
mg|mlg plt|Malagasy|Malagasy|말라가시어|Latin
mi|mri mao|Maori|te reo Māori|마오리어|Latin
mk|mkd mac|Macedonian|македонски|마케도니아어|Cyrillic
ml|mal|Malayalam|മലയാളം|말라얄람어|Malayalam
mn|mon khk|Mongolian|монгол|몽골어|Cyrillic Mongolian
mr|mar|Marathi|मराठी|마라티어|Devanagari
ms|msa may zsm|Malay|Melayu|말레이어|Latin
mt|mlt|Maltese|Malti|몰타어|Latin
my|mya bur|Burmese|မြန်မာ|버마어|Myanmar
nb|nob|Norwegian Bokmål|norsk bokmål|노르웨이어(보크말)|Latin
ne|nep npi|Nepali|नेपाली|네팔어|Devanagari
nl|nld dut|Dutch|Nederlands|네덜란드어|Latin
nn|nno|Norwegian Nynorsk|norsk nynorsk|노르웨이어(니노르스크)|Latin
no|nor|Norwegian|norsk|노르웨이어|Latin
ny|nya|Nyanja|Nyanja|냔자어|Latin
oc|oci|Occitan|occitan|오크어|Latin
or|ori ory|Odia|ଓଡ଼ିଆ|오리야어|Oriya
pa|pan|Punjabi|ਪੰਜਾਬੀ|펀잡어|Gurmukhi Arabic
pl|pol|Polish|polski|폴란드어|Latin
ps|pus|Pashto|پښتو|파슈토어|Arabic
pt|por|Portuguese|português|포르투갈어|Latin
qu|que|Quechua|Runasimi|케추아어|Latin
ro|ron rum mo|Romanian|română|루마니아어|Latin
ru|rus|Russian|русский|러시아어|Cyrillic
rw|kin|Kinyarwanda|Ikinyarwanda|르완다어|Latin
sa|san|Sanskrit|संस्कृत भाषा|산스크리트어|Devanagari
sd|snd|Sindhi|سنڌي|신디어|Arabic Devanagari
se|sme|Northern Sami|davvisámegiella|북부 사미어|Latin
si|sin|Sinhala|සිංහල|스리랑카어|Sinhala
sk|slk slo|Slovak|slovenčina|슬로바키아어|Latin
sl|slv|Slovenian|slovenščina|슬로베니아어|Latin
sm|smo|Samoan|Gagana faʻa Sāmoa|사모아어|Latin
sn|sna|Shona|chiShona|쇼나어|Latin
so|som|Somali|Soomaali|소말리아어|Latin
sq|sqi alb|Albanian|shqip|알바니아어|Latin
sr|srp scc|Serbian|српски|세르비아어|Cyrillic Latin
st|sot|Southern Sotho|Sesotho|남부 소토어|Latin
su|sun|Sundanese|Basa Sunda|순다어|Latin
sv|swe|Swedish|svenska|스웨덴어|Latin
sw|swa swh|Swahili|Kiswahili|스와힐리어|Latin
ta|tam|Tamil|தமிழ்|타밀어|Tamil
te|tel|Telugu|తెలుగు|텔루구어|Telugu
tg|tgk|Tajik|тоҷикӣ|타지크어|Cyrillic
th|tha|Thai|ไทย|태국어|Thai
ti|tir|Tigrinya|ትግርኛ|티그리냐어|Ethiopic
tk|tuk|Turkmen|türkmen dili|투르크멘어|Latin
tl|tgl|Tagalog|Tagalog|타갈로그어|Latin
tn|tsn|Tswana|Setswana|츠와나어|Latin
tr|tur|Turkish|Türkçe|튀르키예어|Latin
tt|tat|Tatar|татар|타타르어|Cyrillic
ug|uig|Uyghur|ئۇيغۇرچە|위구르어|Arabic
uk|ukr|Ukrainian|українська|우크라이나어|Cyrillic
ur|urd|Urdu|اردو|우르두어|Arabic
uz|uzb uzn|Uzbek|o‘zbek|우즈베크어|Latin Cyrillic
vi|vie|Vietnamese|Tiếng Việt|베트남어|Latin
wo|wol|Wolof|Wolof|월로프어|Latin
xh|xho|Xhosa|IsiXhosa|코사어|Latin
yi|yid ji|Yiddish|ייִדיש|이디시어|Hebrew
yo|yor|Yoruba|Èdè Yorùbá|요루바어|Latin
yue|yue|Cantonese|粵語|광둥어|Han
zh|zho chi cmn|Chinese|中文|중국어|Han
zh-Hans|chs|Chinese (Simplified)|简体中文|중국어(간체)|Han
zh-Hant|cht|Chinese (Traditional)|繁體中文|중국어(번체)|Han
zu|zul|Zulu|isiZulu|줄루어|Latin
"""


def _parse(row: str) -> Language:
    tag, codes, english, own, korean, scripts = row.split("|")
    return Language(tag, tuple(codes.split()), english, own, korean, tuple(scripts.split()))


LANGUAGES = {language.tag: language for language in map(_parse, _ROWS.strip().split("\n"))}
