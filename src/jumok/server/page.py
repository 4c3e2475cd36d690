"""The page at `/`: the studio, which tools/studio.py builds from studio/; where it was not built, two boxes and a call.

Nothing comes from other hosts, no script is inline, and what is on the screen stays behind # in the address.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from html import escape
from importlib import resources
from urllib.parse import quote

from jumok.server.libretranslate import interface_language
from jumok.server.refusals import Refusal, libretranslate_shape
from jumok.server.routes import Answer, Api, Call, Route

API = Api("page", "Page", libretranslate_shape)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SCRIPT, SHEET = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
KINDS = {"page.js": SCRIPT, "page.css": SHEET}
BUNDLE = {"studio.js": SCRIPT, "studio.css": SHEET}
FOR_EVER = "public, max-age=31536000, immutable"  # the address of a bundle holds its hash
WORDS = {
    "en": {
        "title": "Jumok translates", "from": "From", "to": "to", "auto": "detect the language", "swap": "Swap",
        "text": "Text", "translation": "Translation", "copy": "Copy", "key": "API key", "call": "The same with curl",
        "noscript": "This page needs JavaScript.", "copied": "Copied.", "failed": "Not translated",
        "detected": "Detected",
    },
    "ko": {
        "title": "주목 번역기", "from": "출발 언어", "to": "도착 언어", "auto": "언어 감지", "swap": "언어 맞바꾸기",
        "text": "번역할 글", "translation": "번역 결과", "copy": "복사", "key": "API 키", "call": "curl로 호출하기",
        "noscript": "이 페이지를 쓰려면 자바스크립트를 켜야 합니다.", "copied": "복사했습니다.",
        "failed": "번역하지 못했습니다", "detected": "감지한 언어",
    },
}  # fmt: skip


@cache
def read_asset(name: str) -> str:
    """Return a file of the page."""
    return (resources.files("jumok.server") / "assets" / name).read_text(encoding="utf-8")


@cache
def read_bundle() -> dict[str, tuple[bytes, bytes]]:
    """Return the files of the studio, plain and compressed; none where it was not built."""
    folder = resources.files("jumok") / "built"
    try:
        return {name: ((folder / name).read_bytes(), (folder / f"{name}.gz").read_bytes()) for name in BUNDLE}
    except OSError:
        return {}


@cache
def find_version() -> str:
    """Return a hash of the studio's files, which is part of their addresses."""
    return sha256(b"".join(plain for plain, _ in read_bundle().values())).hexdigest()[:16]


async def show(call: Call) -> Answer:
    language = interface_language(call)
    if call.front.settings.studio and read_bundle():
        settings = call.front.settings
        values = {"language": language, "root": escape(settings.root_path), "version": find_version()}
        values |= {"warm": str(int(settings.warm)), "preloads": preload(call)}
        return answer_page("studio.html", values | {"noscript": escape(WORDS[language]["noscript"])})
    words = {name: escape(text) for name, text in WORDS[language].items()}
    return answer_page("page.html", words | {"language": language, "root": escape(call.front.settings.root_path)})


def preload(call: Call) -> str:
    """Return links to what the page asks for first: who is asking, the models, and the card of the first.

    The browser then fetches them beside the script.  A guest of a class may not see models before joining.
    """
    settings, models = call.front.settings, call.front.service.models.values()
    paths = ["/v1/class"]
    if not settings.classroom:
        first = next((model for model in models if not model.generates), None)
        paths += ["/v1/models"] + ([] if first is None else [f"/v1/models/{quote(first.name, safe='')}/card"])
    return "\n".join(
        f'<link rel="preload" as="fetch" crossorigin href="{escape(settings.root_path + path)}">' for path in paths
    )


def answer_page(name: str, values: dict[str, str]) -> Answer:
    """Return a page with its values."""
    page = read_asset(name)
    for key, value in values.items():
        page = page.replace(f"{{{key}}}", value)
    headers = {"content-security-policy": POLICY, "vary": "Origin, Accept-Language", "x-frame-options": "DENY"}
    return Answer(200, page.encode(), "text/html; charset=utf-8", headers)


async def give_asset(call: Call) -> Answer:
    name = call.path["name"]
    if name in BUNDLE and read_bundle():
        plain, compressed = read_bundle()[name]
        headers = {"cache-control": FOR_EVER, "vary": "Accept-Encoding"}
        if "gzip" in call.exchange.headers.get("accept-encoding", ""):
            return Answer(200, compressed, BUNDLE[name], headers | {"content-encoding": "gzip"})
        return Answer(200, plain, BUNDLE[name], headers)
    if name not in KINDS:
        raise Refusal(404, "server.no_such_path")
    return Answer(200, read_asset(name).encode(), KINDS[name], {"cache-control": "no-cache"})


ROUTES = [
    Route("GET", "/", show, API, "The page.", media_type="text/html", who="everyone"),
    Route("GET", "/assets/{name}", give_asset, API, "A file of the page.", media_type="text/javascript",
          who="everyone", described=False),
]  # fmt: skip
