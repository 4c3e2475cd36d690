"""Who may ask: the name a client used for this server, the page that sent it, the proxy in between.

A page on the internet can make a browser send requests to a server on its user's machine.  Two headers tell: `Host`,
which is a foreign name when a domain was pointed at 127.0.0.1 (DNS rebinding), and `Origin`, the page that asks.
Browser extensions are admitted to translations; what changes the server is for its own page only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from jumok.server.exchange import Exchange
from jumok.server.refusals import Refusal
from jumok.server.settings import Settings

EXTENSIONS = ("chrome-extension://", "moz-extension://", "safari-web-extension://", "extension://")
HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+)(?::(\d{1,5}))?")
ALLOWED_HEADERS = "authorization, content-type, x-api-key, x-request-id, x-timeout-ms"
EXPOSED = "x-request-id, x-model, x-cache, retry-after"
MAX_AGE = 24 * 3_600  # seconds for which a browser remembers what is allowed


class Access:
    """The rules of one server about hosts, origins and proxies."""

    def __init__(self, settings: Settings) -> None:
        self.hosts = {"localhost", *settings.allow_host}
        self.origins = set(settings.allow_origin)
        self.proxies = settings.trust_proxy
        self.public_url, self.root_path = settings.public_url, settings.root_path

    def check_host(self, exchange: Exchange) -> None:
        """Refuse a host name that is not this server's; an address is never a domain pointed here."""
        given = exchange.headers.getlist("host")
        if not given and exchange.scope.get("http_version") == "1.0":
            return
        if len(given) != 1 or (match := HOST.fullmatch(given[0])) is None:
            raise Refusal(400, "server.bad_host")
        if not self._is_allowed(match[1].strip("[]").lower().removesuffix(".")):
            raise Refusal(403, "server.foreign_host")

    def _is_allowed(self, name: str) -> bool:
        if name in self.hosts or "*" in self.hosts or is_address(name):
            return True
        return any(host.startswith("*.") and name.endswith(host[1:]) for host in self.hosts)

    def check_origin(self, exchange: Exchange, *, admin: bool) -> None:
        """Refuse a request that another site's page makes."""
        origin = exchange.headers.get("origin")
        if origin is not None and not self._is_origin_allowed(exchange, origin.lower(), admin=admin):
            raise Refusal(403, "server.foreign_origin")
        if admin and exchange.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refusal(403, "server.foreign_origin")

    def _is_origin_allowed(self, exchange: Exchange, origin: str, *, admin: bool) -> bool:
        host = exchange.headers.get("host", "").lower()
        if host and origin in (f"http://{host}", f"https://{host}"):
            return True
        if (self.public_url and self.public_url.lower().startswith(f"{origin}/")) or self.public_url.lower() == origin:
            return True
        if admin:
            return False
        return origin in self.origins or "*" in self.origins or origin.startswith(EXTENSIONS)

    def describe_cors(self, exchange: Exchange, *, admin: bool) -> Mapping[str, str]:
        """Return the headers that let the page of an allowed origin read the answer."""
        origin = exchange.headers.get("origin")
        if origin is None or not self._is_origin_allowed(exchange, origin.lower(), admin=admin):
            return {"vary": "Origin"}
        return {"access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED, "vary": "Origin"}

    def answer_preflight(self, methods: str) -> Mapping[str, str]:
        """Return the headers that tell a browser what it may send."""
        return {
            "access-control-allow-methods": methods,
            "access-control-allow-headers": ALLOWED_HEADERS,
            "access-control-max-age": str(MAX_AGE),
            "access-control-allow-private-network": "true",
            "allow": methods,
        }

    def find_client(self, exchange: Exchange) -> str:
        """Return the address of the client: what a trusted proxy says, else the other end of the connection."""
        client: Any = exchange.scope.get("client")
        address = client[0] if client else ""
        if not self._is_proxy(address):
            return address
        forwarded = ",".join(exchange.headers.getlist("x-forwarded-for")).split(",")
        for hop in reversed(forwarded):  # the nearest hop that is no proxy of ours; those before it could be invented
            hop = hop.strip().strip("[]")
            if not is_address(hop):
                break
            address = hop
            if not self._is_proxy(hop):
                break
        return address

    def _is_proxy(self, address: str) -> bool:
        if not self.proxies or not is_address(address):
            return False
        ip = ipaddress.ip_address(address)
        return any(ip in network for network in self.proxies if ip.version == network.version)

    def build_url(self, exchange: Exchange, path: str) -> str:
        """Return the address of a path of this server; a host that the client invented is not repeated to it."""
        if self.public_url:
            return self.public_url + path
        client: Any = exchange.scope.get("client")
        scheme = exchange.scope.get("scheme", "http")
        if client and self._is_proxy(client[0]) and exchange.headers.get("x-forwarded-proto") in ("http", "https"):
            scheme = exchange.headers["x-forwarded-proto"]
        given, server = exchange.headers.get("host", ""), exchange.scope.get("server") or ("localhost", 80)
        match = HOST.fullmatch(given)
        name = match[1].strip("[]").lower() if match else ""
        if not name or (is_address(name) and name not in self.hosts and name != server[0]):
            host = f"[{server[0]}]" if ":" in server[0] else server[0]
            given = f"{host}:{server[1]}"
        return f"{scheme}://{given}{self.root_path}{path}"


def is_address(name: str) -> bool:
    """Whether a host is written as a number."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
