"""The custom API of Immersive Translate, a browser extension: lists of texts, the key as `?token=`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from jumok.server.languages import AUTO
from jumok.server.refusals import Refusal, libretranslate_shape
from jumok.server.routes import Api, Call, Route
from jumok.server.translating import Order, describe, translate

API = Api("immersive", "Immersive Translate", libretranslate_shape, key_in=("token",))


class ImmersiveRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text_list: list[str] = Field(description="Texts to translate.", examples=[["Hello!"]])
    target_lang: str = Field(examples=["de"])
    source_lang: str = Field(default=AUTO, description="Language code, or auto.")


class ImmersiveTranslation(BaseModel):
    detected_source_lang: str
    text: str


class ImmersiveAnswer(BaseModel):
    translations: list[ImmersiveTranslation]


async def translate_list(call: Call) -> ImmersiveAnswer:
    request = call.parse(ImmersiveRequest)
    served = call.front.languages
    automatic = request.source_lang.strip().lower() in (AUTO, "")
    source = None if automatic else served.find(request.source_lang, served.sources)
    target = served.find(request.target_lang, served.targets)
    if target is None or (source is None and not automatic):
        raise Refusal(400, "server.unknown_pair", source=request.source_lang[:40], target=request.target_lang[:40])
    order = Order(texts=request.text_list, source=source, target=target)
    results = await translate(call.front, order, deadline=call.deadline)
    call.texts, call.characters = len(order.texts), sum(map(len, order.texts))
    call.headers |= describe(results)
    return ImmersiveAnswer(
        translations=[ImmersiveTranslation(detected_source_lang=one.source, text=one.text) for one in results]
    )


ROUTES = [
    Route("POST", "/imme", translate_list, API, "Translate a list of texts.", ImmersiveRequest, ImmersiveAnswer,
          works=True),
]  # fmt: skip
