"""What was found out: the claims of the lab and their verdicts, and the errors of a model.

Findings are those on disk below the workspace.  Their pages are shown in frames (frames.py); a page is made by a
process of its own, because the claims need torch, and kept for the next time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from jumok import lab
from jumok.errors import JumokError
from jumok.lab.verdicts import Verdict
from jumok.lab.wording import Words
from jumok.monitor.runs import Run, walk
from jumok.server import frames
from jumok.server.own import Closed
from jumok.server.refusals import Refusal, own_shape
from jumok.server.routes import Answer, Api, Call, Route
from jumok.server.runs import find
from jumok.storage import bundle

API = Api("findings", "Lab and errors", own_shape)
CLAIMS = (*lab.NAMES, *lab.PAPER)
BEGINNINGS = tuple(f"{name}-" for name in CLAIMS)  # of files in the lab's folder: mask-quick-1.json
LARGEST = 20_000_000  # bytes of a finding or a page
SCALES = ("quick", "minutes", "hours")
INDEX = re.compile(rb"<nav>.*?</nav>", re.S)  # a link to the index, which the studio has itself
Orders = Literal["chrf", "long", "sure", "copied"]
PAIRS = 1_000


class ClaimRequest(Closed):
    scale: str = Field(default="quick", max_length=20)
    language: Literal["en", "ko"] = "en"
    again: bool = False


class PageRequest(Closed):
    language: Literal["en", "ko"] = "en"


class ErrorsRequest(Closed):
    order: Orders = "chrf"
    begin: int = Field(default=0, ge=0, le=PAIRS)
    most: int = Field(default=50, ge=1, le=200)


async def list_claims(call: Call) -> dict[str, Any]:
    folder = call.front.workspace.folder
    stored = await asyncio.to_thread(find_findings, folder) if folder is not None else {}
    tasks = call.front.workspace.children.list_running("claim")
    return {"claims": [describe_claim(name, stored, tasks) for name in CLAIMS], "scales": list(SCALES)}


def describe_claim(name: str, stored: dict[str, dict[str, Any]], tasks: list[Any]) -> dict[str, Any]:
    """Return the text of a claim in both languages, and its findings."""
    words = Words.read(name)
    texts = {key: words(key)._asdict() for key in ("title", "claim")}
    findings = [one for one in stored.values() if one["claim"] == name]
    shown = [{key: value for key, value in one.items() if key not in ("claim", "path")} for one in findings]
    running = next((task.id for task in tasks if task.name == name), None)
    return {"name": name, **texts, "findings": shown, "task": running}


def find_findings(workspace: Path) -> dict[str, dict[str, Any]]:
    """Return the findings below a workspace by id; of those with the same content only one."""
    findings: dict[str, dict[str, Any]] = {}
    for folder, entries in walk(workspace):
        for entry in entries:
            is_named = entry.name.removesuffix(".json") in CLAIMS or entry.name.startswith(BEGINNINGS)
            if not is_named or not entry.name.endswith(".json") or not entry.is_file(follow_symlinks=False):
                continue
            if (finding := read_finding(folder / entry.name)) is not None:
                findings.setdefault(finding["id"], finding)
    return findings


def read_finding(path: Path) -> dict[str, Any] | None:
    """Return what a list shows of a finding; None if the file is none."""
    try:
        if path.stat().st_size > LARGEST:
            return None
        values = json.loads(path.read_bytes())
        texts = [(str(check["told"]), check["holds"]) for check in values["checks"]]
        checks = [{"text": text, "holds": None if holds is None else bool(holds)} for text, holds in texts]
        names = ("claim", "scale", "holds", "seconds", "machine", "date", "command")
        content = json.dumps([values["numbers"], values["scale"], values["claim"], values["date"]], sort_keys=True)
        id = hashlib.sha256(content.encode()).hexdigest()[:16]
        known = values["claim"] in CLAIMS
        verdict = Verdict(values.get("verdict") or Verdict.of(values["holds"]).value).value  # format 1 has two verdicts
        finding = {"id": id, "path": path, "checks": checks, "verdict": verdict}
        return finding | {name: values[name] for name in names} if known else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


async def start_claim(call: Call) -> dict[str, Any]:
    request, workspace = call.parse(ClaimRequest), call.front.workspace
    name, place = call.path["name"], workspace.place
    if name not in CLAIMS:
        raise Refusal(404, "server.no_such_claim")
    if request.scale not in SCALES:
        raise Refusal(400, "server.bad_parameter", parameter="scale", reason=f"must be one of {', '.join(SCALES)}")
    if any(task.name == name for task in workspace.children.list_running("claim")):
        raise Refusal(409, "server.claim_running")
    folder = place / "runs" / "lab"
    if (place / "runs").is_symlink() or folder.is_symlink():
        raise Refusal(409, "server.run_outside")
    arguments = ["lab", name, "--scale", request.scale, "--lang", request.language, "--runs", str(folder)]
    arguments += ["--again"] * request.again
    task = await workspace.children.start("claim", name, arguments, folder=place)
    call.front.log.write("claim_started", task=task.id)
    return task.describe()


async def show_finding(call: Call) -> Answer:
    return await frames.answer(await find_page(call))


async def lend_finding(call: Call) -> dict[str, Any]:
    return call.front.workspace.frames.lend(await find_page(call))


async def find_page(call: Call) -> Path:
    """Return the page of the finding that a request names; the first time, it is made."""
    request, workspace = call.parse(PageRequest), call.front.workspace
    stored = await asyncio.to_thread(find_findings, workspace.place)
    finding = stored.get(call.path["id"])
    if finding is None:
        raise Refusal(404, "server.no_such_finding")
    page = workspace.pages / f"{finding['id']}-{request.language}.html"
    if not page.is_file():
        await make_page(call, finding, request.language, page)
    return page


async def make_page(call: Call, finding: dict[str, Any], language: str, page: Path) -> None:
    """Make the page of a finding, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="jumok-page-") as scratch:
        folder, name = Path(scratch), str(finding["claim"])
        await asyncio.to_thread(shutil.copyfile, finding["path"], folder / f"{name}.json")
        arguments = ["lab", scratch, "--lang", language, "--out", str(folder / "pages")]
        async for _ in call.front.workspace.children.read(arguments):
            pass
        made = folder / "pages" / f"{name}.html"
        if not made.is_file():
            raise Refusal(422, "server.task_failed")
        page.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        bundle.write_file(page, INDEX.sub(b"", made.read_bytes(), count=1))


async def list_errors(call: Call) -> dict[str, Any]:
    """The sentences that a model translates worst; made in the background the first time."""
    request, run = call.parse(ErrorsRequest), await find(call)
    workspace, digest = call.front.workspace, await asyncio.to_thread(find_digest, run)
    path = workspace.faults / f"{digest[:32]}.jsonl"
    if not path.is_file():
        tasks, name = workspace.children.tasks, f"{run.id} {digest[:16]}"
        task = next((one for one in tasks.values() if (one.kind, one.name) == ("errors", name)), None)
        if task is None:
            arguments = ["errors", str(run.folder), "--most", "0", "--pairs", str(PAIRS), "--json"]
            task = await workspace.children.start("errors", name, arguments, folder=workspace.children.folder)
        if task.running:
            return {"ready": False, "errors": [], "pairs": 0}
        del tasks[task.id]
        if task.process.returncode:
            raise Refusal(422, "server.task_failed")
        workspace.faults.mkdir(parents=True, exist_ok=True, mode=0o700)
        await asyncio.to_thread(bundle.write_file, path, task.log.read_bytes())
    rows = await asyncio.to_thread(read_errors, path, request.order)
    return {"ready": True, "errors": rows[request.begin : request.begin + request.most], "pairs": len(rows)}


def find_digest(run: Run) -> str:
    """Return the digest of a run's finished model."""
    try:
        return str(bundle.manifest(run.folder / "model")[bundle.WEIGHTS]["sha256"])
    except (JumokError, KeyError, TypeError):
        raise Refusal(409, "server.not_finished") from None


def read_errors(path: Path, order: str) -> list[dict[str, Any]]:
    """Return the sentences of a file in an order, worst first."""
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            row = json.loads(line)
            rows.append(row | {"surprise": row["chrf"] - 100 * row["probability"]})
        except (ValueError, KeyError, TypeError):
            continue
    keys: dict[str, Any] = {
        "chrf": lambda row: row["chrf"], "long": lambda row: -row["ratio"], "sure": lambda row: row["surprise"],
        "copied": lambda row: -row["copied"],
    }  # fmt: skip
    return sorted(rows, key=lambda row: (keys[order](row), row["row"]))


ROUTES = [
    Route("GET", "/v1/lab", list_claims, API, "List the claims and what was found.", None, dict[str, Any],
          who="admins"),
    Route("POST", "/v1/lab/{name}/start", start_claim, API, "Test a claim.", ClaimRequest, dict[str, Any],
          who="admins"),
    Route("GET", "/v1/findings/{id}/page", show_finding, API, "The page of a finding.", PageRequest, None,
          media_type="text/html", who="admins"),
    Route("POST", "/v1/findings/{id}/address", lend_finding, API, "An address that opens the page for a minute.",
          PageRequest, dict[str, Any], who="admins"),
    Route("GET", "/v1/runs/{id}/errors", list_errors, API, "The sentences that a model translates worst.",
          ErrorsRequest, dict[str, Any], who="admins"),
]  # fmt: skip
