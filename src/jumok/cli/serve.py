"""`jumok serve` and its keys: options to settings, and what a person reads when the server starts.

What it calls is imported inside the verbs, so that the engine process starts as early as possible.
"""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # searching for plugins takes longer than a translation

import typer

from jumok import messages
from jumok.cli.options import SETTINGS, Beam, Json, LengthPenalty, Shortlist, Words, argument, flag, option, verb
from jumok.cli.terminal import dumps, print_aside
from jumok.errors import UsageError

if TYPE_CHECKING:
    from jumok.server.lifecycle import Life
    from jumok.server.settings import Settings
    from jumok.service.models import ServedModel

key_app = typer.Typer(**verb("help.serve_key"), no_args_is_help=True, rich_markup_mode=None, context_settings=SETTINGS)
StateFolder = Annotated[Path | None, option("FOLDER", "help.serve_state")]
KeyFilePath = Annotated[Path | None, option("FILE", "help.serve_keys")]
EVERYWHERE = "0.0.0.0"  # where a class can reach the server
KEY = "key"  # the first argument of `jumok serve` that is a verb and not a model


def find_state(given: Path | None) -> Path:
    """Return the folder of glossaries, corrections, jobs and keys: the one given, or the user's own."""
    if given is not None:
        return given
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "jumok" / "serve"


def serve(
    models: Annotated[list[str] | None, argument("help.serve_models", "[NAME=]MODEL…")] = None,
    config: Annotated[Path | None, option("FILE", "help.serve_config")] = None,
    host: Annotated[str | None, option("ADDRESS", "help.serve_host")] = None,
    port: Annotated[int | None, option("N", "help.serve_port")] = None,
    follow: Annotated[Words, option("NAME", "help.serve_follow", "--follow")] = None,
    state: StateFolder = None,
    keys: KeyFilePath = None,
    without_keys: Annotated[bool, flag("--without-keys", "help.serve_without_keys")] = False,
    allow_host: Annotated[Words, option("NAME", "help.serve_allow_host", "--allow-host")] = None,
    allow_origin: Annotated[Words, option("ORIGIN", "help.serve_allow_origin", "--allow-origin")] = None,
    trust_proxy: Annotated[Words, option("NETWORK", "help.serve_trust_proxy", "--trust-proxy")] = None,
    root_path: Annotated[str | None, option("PATH", "help.serve_root_path")] = None,
    public_url: Annotated[str | None, option("URL", "help.serve_public_url")] = None,
    certificate: Annotated[Path | None, option("FILE", "help.serve_certificate")] = None,
    private_key: Annotated[Path | None, option("FILE", "help.serve_private_key")] = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    shortlist: Shortlist = False,
    threads: Annotated[int | None, option("N", "help.serve_threads")] = None,
    torch_idle: Annotated[float | None, option("MINUTES", "help.serve_torch_idle")] = None,
    deadline: Annotated[float | None, option("SECONDS", "help.serve_deadline")] = None,
    grace: Annotated[float | None, option("SECONDS", "help.serve_grace")] = None,
    drain: Annotated[float | None, option("SECONDS", "help.serve_drain")] = None,
    openai: Annotated[bool, flag("--openai", "help.serve_openai")] = False,
    without_studio: Annotated[bool, flag("--without-studio", "help.serve_without_studio")] = False,
    log: Annotated[str | None, option("FORM", "help.serve_log")] = None,
    workspace: Annotated[Path | None, option("FOLDER", "help.serve_workspace")] = None,
    classroom: Annotated[bool, flag("--class", "help.serve_class")] = False,
    check: Annotated[bool, flag("--check", "help.serve_check")] = False,
    as_json: Json = False,
) -> None:
    from jumok.server.settings import Settings

    settings = (Settings.read(config) if config is not None else Settings()).change(
        models=name_models(models or [], follow or []) or None, follow=name_followed(follow or []) or None,
        host=host or (EVERYWHERE if classroom else None), workspace=workspace, classroom=classroom or None,
        port=port, state=find_state(state) if state or config is None else None, keys=keys,
        without_keys=without_keys or None, allow_host=allow_host, allow_origin=allow_origin, trust_proxy=trust_proxy,
        root_path=root_path, public_url=public_url, certificate=certificate, private_key=private_key, beam=beam,
        length_penalty=length_penalty, shortlist=shortlist or None, threads=threads, torch_idle_minutes=torch_idle,
        deadline_seconds=deadline, grace=grace, drain=drain, openai=openai or None, log=log,
        studio=False if without_studio else None,
    )  # fmt: skip
    if settings.state is None:
        settings = settings.change(state=find_state(None))
    if check:
        return check_only(settings, as_json=as_json)
    from jumok.server.lifecycle import serve as run

    with messages.speaking(messages.ENGLISH):  # what clients are told does not depend on the server's locale
        code = run(settings, announce)
    if code:
        raise typer.Exit(code)


def name_models(given: list[str], follow: list[str]) -> dict[str, str]:
    """Return names and folders of the models, as `[NAME=]FOLDER` gives them."""
    from jumok.service.models import read_entries

    return {entry.name: entry.folder for entry in read_entries(given, follow)} if given or follow else {}


def name_followed(follow: list[str]) -> tuple[str, ...]:
    """Return the names of the models that are followed."""
    from jumok.service.models import read_entries

    return tuple(entry.name for entry in read_entries([], follow)) if follow else ()


def announce(life: Life, port: int) -> None:
    """Say where the server is, what it translates and how to try it."""
    settings, models = life.settings, list(life.service.models.values())
    address = find_address(settings, port)
    lines = [f"serving at {address}{settings.root_path}/", *(f"  {describe_model(model)}" for model in models)]
    print_aside("\n".join([*lines, *suggest_call(address + settings.root_path, models), "stop with Ctrl-C"]))
    announce_class(life, port)
    life.front.log.write("ready", port=port, models=len(models))


def announce_class(life: Life, port: int) -> None:
    """Say how students join: an address, a code, and both as a picture for telephones."""
    room, settings = life.front.classroom, life.settings
    if room is None:
        return
    import io

    import segno

    from jumok.server.classroom import find_own_address

    host = settings.host.strip("[]")
    shown = find_own_address() if host in (EVERYWHERE, "::") else host
    scheme = "https" if settings.certificate else "http"
    room.address = (settings.public_url or f"{scheme}://{shown}:{port}") + settings.root_path
    picture = io.StringIO()
    segno.make(f"{room.address}/#/translate?join={room.code}", error="m", micro=False).terminal(picture, compact=True)
    print_aside(f"class at {room.address}/ with the code {room.code}\n{picture.getvalue()}")


def find_address(settings: Settings, port: int) -> str:
    """Return the address that a person on this machine can open."""
    host = settings.host.strip("[]")
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return settings.public_url or f"{'https' if settings.certificate else 'http'}://{shown}:{port}"


def describe_model(model: ServedModel) -> str:
    """Return one line about a model."""
    from jumok.server.languages import name_in

    if model.generates:
        return f"{model.name}: continues text ({model.kind})"
    if model.source is None or model.target is None:
        return f"{model.name}: languages unknown; name them: jumok serve en-de=FOLDER, or jumok model set-languages"
    return f"{model.name}: {name_in(model.source)} to {name_in(model.target)}"


def suggest_call(address: str, models: list[ServedModel]) -> list[str]:
    """Return a line to try the server with."""
    pair = next(((one.source, one.target) for one in models if one.source and one.target), None)
    if pair is None:
        return []
    values = dumps({"q": "Hello!", "source": pair[0], "target": pair[1]})
    return [f"  curl {address}/translate -H 'Content-Type: application/json' -d {shlex.quote(values)}"]


def check_only(settings: Settings, *, as_json: bool) -> None:
    """Load the models, print what would be served, and end; refuses what `serve` would refuse."""
    import asyncio

    from jumok.server import lifecycle

    lifecycle.check(settings)
    service = lifecycle.make_service(settings)
    service.launch()

    async def load() -> list[ServedModel]:
        try:
            await service.start()
            return list(service.models.values())
        finally:
            await service.close(0.0)

    models = asyncio.run(load())
    rows: list[dict[str, Any]] = [
        {"name": one.name, "source": one.source, "target": one.target, "kind": one.kind, "digest": one.digest}
        for one in models
    ]
    if as_json:
        print(dumps({"settings": settings.model_dump(mode="json"), "models": rows}))
        return
    print(f"{find_address(settings, settings.port)}: ready to serve {len(models)} model{'s' * (len(models) != 1)}")
    print("\n".join(f"  {describe_model(one)}" for one in models))


@key_app.command("add", **verb("help.serve_key_add"))
def key_add(
    name: Annotated[str, argument("help.serve_key_name", "NAME")],
    rate: Annotated[int, option("N", "help.serve_key_rate")] = 0,
    admin: Annotated[bool, flag("--admin", "help.serve_key_admin")] = False,
    state: StateFolder = None,
    keys: KeyFilePath = None,
) -> None:
    print(open_keys(state, keys).add(name, admin=admin, rate=rate, created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))
    print_aside("this key is shown once; only its hash is stored")


@key_app.command("list", **verb("help.serve_key_list"))
def key_list(state: StateFolder = None, keys: KeyFilePath = None, as_json: Json = False) -> None:
    for key in open_keys(state, keys).list():
        shown = key.model_dump(exclude={"hash"})
        limit = f"{key.rate} per minute" if key.rate else "no limit"
        print(dumps(shown) if as_json else f"{key.id}\t{key.name}\t{key.created}\t{limit}{', admin' * key.admin}")


@key_app.command("revoke", **verb("help.serve_key_revoke"))
def key_revoke(
    name: Annotated[str, argument("help.serve_key_name", "NAME")], state: StateFolder = None, keys: KeyFilePath = None
) -> None:
    print(f"revoked {open_keys(state, keys).revoke(name).id}")


def open_keys(state: Path | None, keys: Path | None) -> Any:
    """Return the file of keys."""
    from jumok.server.keys import KeyFile

    if state is not None and keys is not None:
        raise UsageError("server.two_key_files")
    return KeyFile(keys or find_state(state) / "keys.json")
