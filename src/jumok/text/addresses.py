"""Addresses of corpora: which are allowed, how they are shown, and what the files fetched from them are called.

A closed list of protocols, never chained (`a::b`), never with a password.  http is for this machine only, because
others on the network could change the text.  The query of an address may be a signature, so an address is only shown,
logged or stored as `redact` returns it.

Not here the network (remote.py).
"""

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from jumok.errors import UnknownName, UsageError
from jumok.messages import Message

PROTOCOLS = ("https", "http", "s3", "gs", "hf")  # gs and hf are untested with the real services
LONGEST = 4_096  # most characters of an address

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*(::[a-z][a-z0-9+.-]*)*://", re.IGNORECASE)
_SIGNED = re.compile(  # names in a query that are part of a signature, and change whenever an address is signed again
    r"x-amz-.*|x-goog-.*|awsaccesskeyid|googleaccessid|signature|sig|expires|policy|key-pair-id|.*token|.*key|auth.*"
    r"|password|.*secret.*|se|sp|sv|sr|st|spr|sk[a-z]+",
    re.IGNORECASE,
)


def is_address(spec: str) -> bool:
    """Whether `spec` has the form of an address, allowed or not, rather than of a file name."""
    return _ADDRESS.match(spec) is not None or ("::" in spec and "://" in spec)


def protocol(address: str) -> str:
    """The protocol of an address, in lower case."""
    return address.partition("://")[0].lower()


def check_address(address: str) -> None:
    """Raise a UsageError if `address` is not one that may be fetched."""
    redacted = redact(address)
    if not is_address(address):
        raise UsageError("text.not_an_address", address=redacted)
    if ("::" in address and "://" in address.partition("::")[2]) or "::" in address.partition("://")[0]:
        raise UsageError("text.chained_address", address=redacted)
    kind = protocol(address)
    if kind == "file":
        raise UsageError("text.file_address", address=redacted)
    if kind not in PROTOCOLS:
        raise UnknownName("text.unknown_protocol", kind, PROTOCOLS, address=redacted)
    if len(address) > LONGEST or re.search(r"[\s\\]|[^\x20-\U0010ffff]", address):
        raise UsageError("text.malformed_address", limit=LONGEST, address=redacted)
    host, _, path = address.partition("://")[2].partition("/")
    if "@" in host:
        raise UsageError("text.password_in_address", address=redacted, advice=credentials_hint(address))
    if not host or not path.strip("/"):
        raise UsageError("text.address_without_file", address=redacted, protocol=kind, host=host or "HOST")
    if kind in ("http", "https"):
        _check_host(address)


def _check_host(address: str) -> None:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError("text.invalid_host", address=redact(address)) from None
    if parts.scheme.lower() == "http" and not _is_loopback(host):
        raise UsageError("text.http_elsewhere", address=redact(address))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def credentials_hint(address: str) -> Message:
    """How to authenticate with the service of an address."""
    if (kind := protocol(address)) == "s3":
        return Message("text.aws_credentials")
    if kind == "gs":
        return Message("text.google_credentials")
    if kind == "hf":
        return Message("text.hugging_face_credentials")
    return Message("text.fetch_with_password")


def redact(address: str) -> str:
    """An address as it may be shown and stored: without user, password, query and fragment."""
    if not is_address(address):
        return address
    has_query = re.search(r"[?#]" if "http" in address.partition("://")[0].lower() else r"\?(?=.*=)", address)
    redacted = address[: has_query.start()] if has_query else address
    redacted = re.sub(r"://(?:[^/]*|[^@]*:.*)@", "://…@", redacted)
    return f"{redacted}?…" if has_query else redacted


def local_name(address: str) -> str:
    """The name of the file that `address` is fetched to: a hash of the address, then the file name in it.

    Signing an address again does not change the name; any other change does.
    """
    location, _, query = address.partition("?") if protocol(address) in ("http", "https") else (address, "", "")
    parameters = [pair for pair in parse_qsl(query, keep_blank_values=True) if not _SIGNED.fullmatch(pair[0])]
    identity = repr((location.partition("#")[0], sorted(parameters)))
    tag = hashlib.sha256(identity.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.+-]", "_", unquote(location.partition("#")[0].rstrip("/").rpartition("/")[2]))
    return f"{tag}-{name[-100:]}"


def refuse_addresses(data: Mapping[str, object] | Iterable[tuple[str, object]], *, where: str = "") -> None:
    """Raise a UsageError if a section of a recipe that came with a model names an address.

    Addresses come from the command line or from the folder of a run.  A bundle may come from a stranger, and loading it
    must not cause connections to other machines.  `where` is the folder of the model; `data` may be a pydantic section.
    """
    origin = where or Message("text.the_model")
    items = data.items() if isinstance(data, Mapping) else data
    for name, value in items:
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str) and is_address(text):
                raise UsageError("text.address_in_model", setting=name, address=redact(text), origin=origin)
