"""Measure a class: students who each act every few seconds, on one server of this machine.

    python tools/class_load.py runs/tiny --students 30 --every 5 --seconds 60

Every student joins with the code, follows the teacher, and then translates, looks inside or switches a head off in
turn.  Students are told apart by X-Forwarded-For, as behind a proxy, because all of them are this machine.  Prints the
number of requests, those that were refused, and the median, 95th percentile and maximum of seconds by action.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from urllib.error import HTTPError

SENTENCES = [
    "A man rides a bike.",
    "Two dogs run on the beach.",
    "A woman is reading a book.",
    "Children play outside.",
]


def ask(address, path, body=None, *, token="", student=0, timeout=60):
    """Send a request as a student; returns status and value."""
    headers = {"X-Forwarded-For": f"192.168.7.{student + 1}", "Content-Type": "application/json"}
    headers |= {"X-Class": token} if token else {}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, data, headers), timeout=timeout) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, None


def follow(address, token, student, stop):
    """Keep the teacher's stream open."""
    headers = {"X-Forwarded-For": f"192.168.7.{student + 1}", "X-Class": token}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(address + "/v1/class/events", None, headers), timeout=30
        ) as stream:
            while not stop.is_set() and stream.readline():
                pass
    except OSError:
        pass


def act(number, student):
    """The name, path and body of a student's next action."""
    text = SENTENCES[(number + student) % len(SENTENCES)] if number % 2 else f"{SENTENCES[student % 4][:-1]} {number}."
    kind = ("translate", "inside", "break")[(number + student) % 3]
    if kind == "translate":
        return kind, "/v1/translate", {"text": text, "model": "model", "details": True, "align": True}
    if kind == "inside":
        return kind, "/v1/inside", {"text": text, "model": "model", "map": False}
    return kind, "/v1/break", {"text": text, "model": "model", "edits": {"heads": [["cross", 0, student % 2]]}}


def study(address, code, student, options, times, stop):
    """Be one student until the time is over."""
    time.sleep(options.every * student / options.students)
    _, joined = ask(address, "/v1/class/join", {"code": code}, student=student)
    token = joined["token"]
    threading.Thread(target=follow, args=(address, token, student, stop), daemon=True).start()
    number = 0
    while not stop.is_set():
        began = time.monotonic()
        kind, path, body = act(number, student)
        status, _ = ask(address, path, body, token=token, student=student)
        times[kind].append((time.monotonic() - began, status))
        number += 1
        stop.wait(max(0.0, options.every - (time.monotonic() - began)))


def start(model, folder):
    """Start a server with a class; returns the process and its address."""
    config = folder / "serve.toml"
    config.write_text(
        f'port = 0\nclassroom = true\nhost = "127.0.0.1"\ntrust_proxy = ["127.0.0.1"]\nstate = "{folder}/state"\n'
        f'log = "off"\n[models]\nmodel = "{Path(model).absolute()}"\n'
    )
    log = open(folder / "log", "w+", encoding="utf-8")  # noqa: SIM115 (open as long as the server runs)
    process = subprocess.Popen(
        [sys.executable, "-m", "jumok", "serve", "--config", str(config)], stderr=log, stdout=log
    )
    while not (found := re.search(r"serving at (http://\S+?)/\n", (folder / "log").read_text())):
        if process.poll() is not None:
            raise SystemExit((folder / "log").read_text())
        time.sleep(0.2)
    return process, found[1]


def describe(kind, values):
    """Return one line about an action."""
    seconds, refused = sorted(one for one, _ in values), Counter(status for _, status in values if status != 200)
    at = [seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.95, 1.0)]
    spread = f"{at[0]:.3f} s median {at[1]:.3f} s p95 {at[2]:.3f} s max"
    return f"{kind:<10} {len(seconds):5} requests, refused {dict(refused)}   {spread}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--students", type=int, default=30)
    parser.add_argument("--every", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        process, address = start(options.model, Path(scratch))
        try:
            teacher = urllib.request.Request(address + "/v1/class")
            code = json.loads(urllib.request.urlopen(teacher, timeout=60).read())["code"]
            warm = urllib.request.Request(
                address + "/v1/inside/warm", b'{"model": "model"}', {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(warm, timeout=300).read()
            stop, times = threading.Event(), defaultdict(list)
            threads = [
                threading.Thread(target=study, args=(address, code, student, options, times, stop))
                for student in range(options.students)
            ]
            for thread in threads:
                thread.start()
            time.sleep(options.seconds)
            stop.set()
            for thread in threads:
                thread.join()
        finally:
            process.terminate()
            process.wait(30)
    print("\n".join(describe(kind, times[kind]) for kind in sorted(times)))
    print(describe("all", [one for several in times.values() for one in several]))


if __name__ == "__main__":
    main()
