"""Addresses of corpora: which are allowed, how they are shown, and what the files fetched from them are called.

A closed list of protocols, none of them chained (`a::b`), none with a password in it.  http is for this machine only:
anyone on the way could change the text.  What is in the query of an address may be a signature, so an address is never
shown, logged or stored except by way of `redact`.

Not here the network (remote.py).
"""

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from jumok.errors import UnknownName, UsageError

PROTOCOLS = ("https", "http", "s3", "gs", "hf")  # gs and hf are accepted but were never tried against the real service
LONGEST = 4_096  # characters of an address

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*(::[a-z][a-z0-9+.-]*)*://", re.IGNORECASE)
_SIGNED = re.compile(  # names in a query that prove who asks, and change whenever an address is signed again
    r"x-amz-.*|x-goog-.*|awsaccesskeyid|googleaccessid|signature|sig|expires|policy|key-pair-id|.*token|.*key|auth.*"
    r"|password|.*secret.*|se|sp|sv|sr|st|spr|sk[a-z]+",
    re.IGNORECASE,
)


def is_address(spec: str) -> bool:
    """Whether `spec` has the form of an address, allowed or not, rather than that of a file's name."""
    return _ADDRESS.match(spec) is not None or ("::" in spec and "://" in spec)


def protocol(address: str) -> str:
    return address.partition("://")[0].lower()


def check_address(address: str) -> None:
    """Raise a UsageError if `address` is not one that may be fetched."""
    shown = redact(address)

    def refuse(what: str, hint: str = "") -> UsageError:
        return UsageError(what, where=shown, hint=hint)

    if not is_address(address):
        raise refuse("this is not an address", "try: https://HOST/FILE or s3://BUCKET/FILE")
    if ("::" in address and "://" in address.partition("::")[2]) or "::" in address.partition("://")[0]:
        raise refuse("addresses cannot be chained with ::", "try: the last address alone")
    kind = protocol(address)
    if kind == "file":
        raise refuse("a file on this machine has no address", "try: the name of the file without file://")
    if kind not in PROTOCOLS:
        raise UnknownName("protocol", kind, PROTOCOLS, where=shown)
    if len(address) > LONGEST or re.search(r"[\s\\]|[^\x20-\U0010ffff]", address):
        raise refuse(f"an address has at most {LONGEST:,} characters, none of them white space or a backslash")
    host, _, path = address.partition("://")[2].partition("/")
    if "@" in host:
        raise refuse("an address must not have a user or password in it", _credentials(kind))
    if not host or not path.strip("/"):
        raise refuse("the address names no file", f"try: {kind}://{host or 'HOST'}/FILE")
    if kind in ("http", "https"):
        _check_host(address)


def _check_host(address: str) -> None:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError("the address has no valid host", where=redact(address)) from None
    if parts.scheme.lower() == "http" and not _is_loopback(host):
        raise UsageError(
            "http without encryption is for this machine only: anyone on the way could change the text",
            where=redact(address),
            hint="try: https://, or fetch the file yourself and name it",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _credentials(kind: str) -> str:
    ways = {
        "s3": "try: aws configure, or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        "gs": "try: gcloud auth application-default login",
        "hf": "try: hf auth login, or the variable HF_TOKEN",
    }
    return ways.get(kind, "try: fetch the file yourself, with curl --user, and name it")


def credentials_hint(address: str) -> str:
    """Return how to say who you are where `address` is."""
    return _credentials(protocol(address))


def redact(address: str) -> str:
    """Return an address as it may be shown and stored: without user, password, query and fragment."""
    if not is_address(address):
        return address
    has_query = re.search(r"[?#]" if "http" in address.partition("://")[0].lower() else r"\?(?=.*=)", address)
    shown = address[: has_query.start()] if has_query else address
    shown = re.sub(r"://(?:[^/]*|[^@]*:.*)@", "://…@", shown)
    return f"{shown}?…" if has_query else shown


def local_name(address: str) -> str:
    """Return the name of the file that `address` is fetched to: its own, after some letters that tell addresses apart.

    Signing an address again does not change the name; any other change of it does.
    """
    place, _, query = address.partition("?") if protocol(address) in ("http", "https") else (address, "", "")
    asked = [pair for pair in parse_qsl(query, keep_blank_values=True) if not _SIGNED.fullmatch(pair[0])]
    identity = repr((place.partition("#")[0], sorted(asked)))
    tag = hashlib.sha256(identity.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.+-]", "_", unquote(place.partition("#")[0].rstrip("/").rpartition("/")[2]))
    return f"{tag}-{name[-100:]}"


def refuse_addresses(data: Mapping[str, object] | Iterable[tuple[str, object]], *, where: str = "") -> None:
    """Raise a UsageError if a section of a recipe that came with a model names an address.

    Addresses come from the command line or from a run's own folder.  A bundle may be a stranger's, and loading it must
    not make this machine ask other machines for anything.  A pydantic section can be given as it is.
    """
    items = data.items() if isinstance(data, Mapping) else data
    for name, value in items:
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str) and is_address(text):
                raise UsageError(
                    "the model names an address as its text, and addresses are not taken from models",
                    where=f"data.{name} = {redact(text)}" + f" in {where}" * bool(where),
                    hint="try: name the text yourself, with --source and --target",
                )
