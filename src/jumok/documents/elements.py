"""Elements and attributes of HTML by what they are to a translator."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins mark nobr q rp rt ruby s small span strike strong "
    "sub sup time tt u"
)
VOID = _names("area base basefont bgsound br col embed frame hr img input link meta param source track wbr")
OPAQUE_INLINE = _names("code kbd samp var math svg tt canvas audio video object")
OPAQUE = _names("script style pre textarea template noscript iframe xmp noembed noframes plaintext")
RAW = _names("script style textarea title iframe xmp noembed noframes")
REPEATED = _names("p li dt dd td th tr option")  # a second one ends the first
HTML_NAMES = _names(
    "html head body div p h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table tr td th thead tbody tfoot caption section article "
    "nav main aside header footer form label button select option fieldset legend blockquote figure figcaption address "
    "title details summary"
)
BLOCK = _names(
    "center dir menu frameset hgroup dialog optgroup colgroup map picture search datalist output meter progress"
)
ATTRIBUTES = frozenset(("alt", "title", "placeholder", "aria-label"))
DESCRIPTIONS = _names("description title og:title og:description og:image:alt twitter:title twitter:description")


def is_inline(name: str) -> bool:
    """Whether an element stands in a line; elements that HTML does not know do."""
    return name in INLINE or not (name in HTML_NAMES or name in OPAQUE or name in VOID or name in BLOCK)
