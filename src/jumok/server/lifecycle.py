"""The life of a server: start, signals, drain, end.

    serve(settings)          # returns the exit code

SIGTERM: /readyz turns 503 at once, the server goes on for `grace` seconds while load balancers notice, then stops
listening, finishes what it has accepted and exits with 0 within `drain` seconds.  Ctrl-C leaves out the grace; a second
one exits at once.  SIGHUP loads newer versions of the models.  The engine process starts while this one imports.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from jumok.disk.locks import lock
from jumok.errors import DiskError, JumokError, MissingPackage, UsageError
from jumok.extras import hint, is_installed
from jumok.service.service import Service, ServiceOptions

if TYPE_CHECKING:
    from jumok.server.front import Front
    from jumok.server.settings import Settings

FILES = 65_536  # most open files that are asked for
INTERRUPTED = 130
NEEDED = ("uvicorn", "starlette", "httptools", "uvloop", "python_multipart", "sentencex", "segno")


def make_service(settings: Settings) -> Service:
    """Return the service of the models that the settings name."""
    from jumok.service.admission import Limits

    limits = Limits(cache=int(settings.cache_megabytes * 1_000_000))
    options = ServiceOptions(
        threads=settings.threads or 0, shortlist=settings.shortlist, limits=limits,
        torch_idle=60 * settings.torch_idle_minutes,
    )  # fmt: skip
    entries = {name: f"{name}={folder}" if name else folder for name, folder in settings.models.items()}
    plain = [entry for name, entry in entries.items() if name not in settings.follow]
    followed = [entries[name] for name in settings.follow]
    return Service(plain, follow=followed, options=options)


def check(settings: Settings) -> None:
    """Refuse settings that are not safe or cannot work, before anything is started."""
    from jumok.server.keys import KeyFile

    for module in NEEDED:
        if not is_installed(module):
            raise MissingPackage("cli.verb_needs_package", command="jumok serve", module=module, advice=hint(module))
    open_to_all = not settings.is_loopback and not settings.without_keys and not settings.classroom
    if settings.workspace is not None and not settings.workspace.is_dir():
        raise UsageError("server.bad_workspace", folder=settings.workspace)
    if open_to_all and not KeyFile(settings.keys_file):
        raise UsageError("server.needs_keys", host=settings.host)
    if (settings.certificate is None) != (settings.private_key is None):
        raise UsageError("server.half_of_tls")
    if settings.certificate is not None:
        make_tls(settings)
    if unknown := [name for name in settings.follow if name not in settings.models]:
        raise UsageError("server.follows_unknown", given=unknown[0])


def make_tls(settings: Settings) -> ssl.SSLContext:
    """Return the context of TLS by files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    assert settings.certificate is not None
    try:
        context.load_cert_chain(settings.certificate, settings.private_key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError("server.bad_certificate", file=settings.certificate, reason=error) from None
    return context


def bind(settings: Settings) -> socket.socket:
    """Return a listening socket; port 0 takes any that is free."""
    host = settings.host.strip("[]")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2_048)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise DiskError(
            "server.cannot_listen", host=settings.host, port=settings.port, reason=error.strerror or error
        ) from None
    listener.setblocking(False)
    return listener


def raise_file_limit() -> None:
    """Allow as many open files, and so connections, as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Life:
    """A server that runs: its parts, and what signals do to them."""

    def __init__(self, settings: Settings, service: Service, front: Front, server: Any) -> None:
        self.settings, self.service, self.front, self.server = settings, service, front, server
        self.closing: asyncio.Task[None] | None = None
        self.forced = False

    def terminate(self, grace: float) -> None:
        """Begin to close; called by signals, any number of times."""
        if self.closing is None:
            self.front.closing = True
            self.front.log.write("closing", active=self.front.active)
            self.closing = asyncio.get_running_loop().create_task(self._close(grace))

    async def _close(self, grace: float) -> None:
        await asyncio.sleep(grace)
        self.server.should_exit = True

    def interrupt(self) -> None:
        """Handle Ctrl-C: close without grace; a second one exits at once."""
        if self.closing is not None:
            self.forced = self.server.force_exit = self.server.should_exit = True
        self.terminate(0.0)

    def reload(self) -> None:
        """Load newer versions of all models, one after the other."""
        self.reloading = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        for name in self.service.models:
            try:
                await self.service.reload(name)
                self.front.log.write("reload", model=name, digest=self.service.models[name].digest)
            except JumokError as error:
                self.front.log.write("reload_failed", level="error", model=name, reason=error.what)

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Handle SIGTERM, SIGINT and SIGHUP while the server runs."""
        loop = asyncio.get_running_loop()
        actions: dict[int, Callable[[], None]] = {
            signal.SIGTERM: lambda: self.terminate(self.settings.grace),
            signal.SIGINT: self.interrupt,
            signal.SIGHUP: self.reload,
        }
        for number, act in actions.items():
            loop.add_signal_handler(number, act)
        try:
            yield
        finally:
            for number in actions:
                loop.remove_signal_handler(number)

    async def run(self, listener: socket.socket, announce: Callable[[Life, int], None]) -> int:
        """Serve until a signal ends it; returns the exit code."""
        self.front.lag.start()
        with self.handle_signals():
            starting = asyncio.ensure_future(self._start(listener, announce))
            try:
                await self.server.serve_quietly([listener])
            finally:
                starting.cancel()
            began = monotonic()
            self.front.jobs.close()
            self.front.workspace.children.close()
            if starting.done() and not starting.cancelled() and (error := starting.exception()) is not None:
                raise error
            await self.service.close(max(0.0, self.settings.drain - (monotonic() - began)))
        self.front.log.write("closed")
        return INTERRUPTED if self.forced else 0

    async def _start(self, listener: socket.socket, announce: Callable[[Life, int], None]) -> None:
        """Wait until the models are loaded, then say so; a model that cannot be loaded ends the server."""
        try:
            await self.service.start()
        except BaseException:
            self.server.should_exit = True
            raise
        self.front.started.set()
        gc.collect()
        gc.freeze()  # what is there now stays: looking through it again and again stops every request for a while
        self.front.jobs.resume()
        announce(self, listener.getsockname()[1])


def build(settings: Settings, service: Any) -> tuple[Any, Any]:
    """Return the front and the ASGI application of a service."""
    from jumok.server.app import Application
    from jumok.server.front import Front
    from jumok.server.logs import Log
    from jumok.server.table import list_routes

    front = Front(settings, service, Log(settings.log))
    return front, Application(front, list_routes())


def make_server(settings: Settings, app: Any) -> Any:
    """Return uvicorn's server without its signal handlers and its logs."""
    import uvicorn

    from jumok.server.accepting import Acceptor
    from jumok.server.logs import silence_libraries
    from jumok.server.protocol import Guard

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Accept connections ourselves."""
            config, state = self.config, self.server_state

            def make_protocol() -> asyncio.Protocol:
                kind: Any = config.http_protocol_class
                protocol: asyncio.Protocol = kind(config=config, server_state=state, app_state={})
                return protocol

            self.servers = [Acceptor(listener, make_protocol, config.ssl) for listener in sockets or ()]  # type: ignore[misc]
            self.started = True

        async def serve_quietly(self, sockets: list[socket.socket]) -> None:
            """Serve without touching the handlers of signals."""
            await self._serve(sockets)

    limits = settings.limits
    config = uvicorn.Config(
        app, http=Guard(limits).make_protocol(), loop="none", ws="none", lifespan="off", access_log=False,
        log_config=None, server_header=False, proxy_headers=False, timeout_keep_alive=int(limits.keep_alive_seconds),
        timeout_graceful_shutdown=max(1, int(settings.drain)), interface="asgi3",
    )  # fmt: skip
    config.load()
    if settings.certificate is not None:
        config.ssl = make_tls(settings)
    silence_libraries()
    return Server(config)


def serve(settings: Settings, announce: Callable[[Life, int], None]) -> int:
    """Serve until a signal ends it; `announce` is called when the models are ready.  Returns the exit code.

    One server at a time uses a folder of state: each holds its glossaries and jobs in memory.
    """
    check(settings)
    with lock(settings.state, "the state of a server", option="--state") if settings.state else nullcontext():
        return _serve(settings, announce)


def _serve(settings: Settings, announce: Callable[[Life, int], None]) -> int:
    service = make_service(settings)
    listener = bind(settings)
    service.launch()  # before the imports below, which take as long as loading a model
    import uvloop

    raise_file_limit()
    front, app = build(settings, service)
    server = make_server(settings, app)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(Life(settings, service, front, server).run(listener, announce))
