"""Start, signals, drain, reload: what operators rely on (promise S4)."""

import json
import os
import signal
import socket
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.running import Running, read_all, status_of


def start(micro, tmp_path, *options, **settings) -> Running:
    return Running(tmp_path, {"en-de": micro}, *options, **({"grace": 0.3} | settings))


def test_the_first_lines_say_where_what_and_how_to_try(running):
    log = running.log.read_text()
    assert f"serving at {running.address}/" in log
    assert "en-de: English to German" in log
    assert "curl" in log
    assert running.request("/readyz")[0] == 200


def test_sigterm_turns_readiness_off_at_once_and_loses_nothing(micro, tmp_path, kept):
    server = start(micro, tmp_path, grace=1.0)
    server.translate("a b")
    body = {"q": ["a b c d " * 20] * 20, "source": "en", "target": "de"}
    with ThreadPoolExecutor(32) as pool:
        answers = [
            pool.submit(server.request, "/translate", body | {"q": [f"a {n} b c d " * 9] * 8}) for n in range(32)
        ]
        time.sleep(0.15)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert server.request("/readyz")[0] == 503
        assert server.request("/healthz")[0] == 200
        assert server.translate("still here") is not None  # for the grace, load balancers may not know yet
        statuses = [answer.result()[0] for answer in answers]
    assert set(statuses) <= {200, 429}
    assert 200 in statuses
    assert server.process.wait(12) == 0
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        server.request("/healthz", timeout=1)
    kept("S4", "SIGTERM with 32 requests in flight", count=32, figures=f"{statuses.count(200)} answered, none lost")


def test_an_interrupt_has_no_grace_and_idle_connections_do_not_delay_the_end(micro, tmp_path):
    server = start(micro, tmp_path, grace=20.0)
    with server.connect() as idle, server.connect() as used:
        used.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status_of(used.recv(4_096)) == 200
        began = time.monotonic()
        assert server.stop(signal.SIGINT) == 0
        assert time.monotonic() - began < 5
        assert read_all(idle) == b""


def test_a_client_that_never_ends_its_request_does_not_delay_the_end_beyond_the_drain_time(micro, tmp_path):
    server = start(micro, tmp_path, grace=0.0, drain=1.0, limits={"body_seconds": 60.0})
    with server.connect() as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        time.sleep(0.3)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 6
        assert status_of(read_all(connection)) in {0, 503}


def test_sighup_and_the_admin_call_reload_without_losing_an_answer(micro, tmp_path):
    server = start(micro, tmp_path)
    expected, stop, wrong = server.translate("a b c"), threading.Event(), []

    def keep_asking() -> None:
        while not stop.is_set():
            status, value, _ = server.request("/translate", {"q": "a b c", "source": "en", "target": "de"})
            if status != 200 or value["translatedText"] != expected:
                wrong.append((status, value))

    threads = [threading.Thread(target=keep_asking) for _ in range(2)]
    for thread in threads:
        thread.start()
    server.process.send_signal(signal.SIGHUP)
    status, value, _ = server.request("/v1/models/en-de/reload", {}, timeout=60)
    stop.set()
    for thread in threads:
        thread.join()
    assert (status, value["model"], value["changed"]) == (200, "en-de", False)
    assert wrong == []
    assert server.stop() == 0


def test_a_killed_engine_is_replaced_and_nobody_hangs(micro, tmp_path, tries, kept):
    server = start(micro, tmp_path)
    for _ in range(count := tries(2, 20)):
        server.translate("a b")
        pid = server.process.pid
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        assert children
        with ThreadPoolExecutor(4) as pool:
            asked = {"q": ["a b c d e " * 10] * 10, "source": "en", "target": "de"}
            answers = [pool.submit(server.request, "/translate", asked) for _ in range(4)]
            time.sleep(0.03)
            os.kill(children[0], signal.SIGKILL)
            assert {answer.result()[0] for answer in answers} <= {200, 429, 503}
        until = time.monotonic() + 8
        while server.request("/translate", {"q": "a", "source": "en", "target": "de"})[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
    assert server.stop() == 0
    kept("S1", "engine killed with SIGKILL under load", count=count)


def test_a_model_that_cannot_be_loaded_ends_the_start_with_its_reason(tmp_path):
    with pytest.raises(AssertionError) as caught:
        Running(tmp_path, {"en-de": tmp_path / "nowhere"})
    assert "nowhere" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_check_says_what_would_be_served(micro, tmp_path, jumok):
    answer = jumok("serve", f"en-de={micro}", "--check", "--state", tmp_path)
    assert answer.code == 0, answer.err
    assert "ready to serve 1 model" in answer.out
    assert "en-de: English to German" in answer.out
    refused = jumok("serve", f"en-de={micro}", "--check", "--state", tmp_path, "--host", "0.0.0.0")
    assert refused.code == 2
    assert "no API keys" in refused.err


def test_keys_from_the_command_line_open_a_server(micro, tmp_path, jumok):
    state = tmp_path / "state"
    secret = jumok("serve", "key", "add", "weblate", "--state", state).out.strip()
    assert secret.startswith("jmk_")
    assert "weblate" in jumok("serve", "key", "list", "--state", state).out
    server = start(micro, tmp_path)
    asked = {"q": "a b", "source": "en", "target": "de"}
    assert server.request("/translate", asked)[0] == 400
    assert server.request("/translate", asked | {"api_key": secret})[0] == 200
    assert jumok("serve", "key", "revoke", "weblate", "--state", state).code == 0
    jumok("serve", "key", "add", "other", "--state", state)
    time.sleep(1.2)
    assert server.request("/translate", asked | {"api_key": secret})[0] == 403
    assert server.stop() == 0
    assert secret not in server.log.read_text()


def test_every_line_of_the_log_is_json_whatever_is_sent(running):
    form = b'--x\r\nContent-Disp[osition: form-data; name="q"\r\n\r\na\r\n--x--\r\n'
    assert running.request("/translate", form, content_type="multipart/form-data; boundary=x")[0] == 400
    lines = [line for line in running.log.read_text().split("\n") if line]
    assert all(line.startswith("{") for line in lines[lines.index("stop with Ctrl-C") + 1 :])


def test_logs_and_metrics_hold_no_texts_addresses_or_keys(running):
    running.request("/translate", {"q": "confidential words", "source": "en", "target": "de", "api_key": "sesame"})
    running.request("/download_file/secret-name.txt")
    _, metrics, _ = running.request("/metrics")
    for page in (running.log.read_text(), metrics.decode()):
        assert not any(word in page for word in ("confidential", "sesame", "secret-name"))
    entry = [line for line in running.lines() if line["event"] == "request" and line["api"] == "libretranslate"][-1]
    assert {"request", "route", "status", "ms"} <= entry.keys()
    assert entry["route"] == "/download_file/{name}"


def test_a_taken_port_is_an_error_with_advice(micro, tmp_path, jumok):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = jumok("serve", f"en-de={micro}", "--port", taken.getsockname()[1], "--state", tmp_path)
    assert answer.code == 74
    assert "--port" in answer.err


def test_a_folder_of_state_that_cannot_be_written_is_an_error_that_names_its_option(micro, tmp_path, jumok):
    state = tmp_path / "file" / "state"
    state.parent.write_text("")
    for verb in (["serve", f"en-de={micro}", "--port", "0"], ["serve", "key", "add", "a"], ["serve", "key", "list"]):
        answer = jumok(*verb, "--state", state)
        assert answer.code == 74
        assert str(state) in answer.err
        assert f"ls -ld {state.parent}, or another --state" in answer.err
        assert "--out" not in answer.err


def test_the_front_process_never_loads_torch(running):
    maps = Path(f"/proc/{running.process.pid}/maps").read_text()
    assert "libtorch" not in maps


def test_tls_by_files(micro, tmp_path):
    import ssl
    import subprocess

    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=False, capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl is not installed")
    import tests.support.running as support

    pattern, support.ADDRESS = support.ADDRESS, support.re.compile(r"serving at (https://127\.0\.0\.1:(\d+))/")
    try:
        server = start(micro, tmp_path, certificate=str(certificate), private_key=str(key))
    finally:
        support.ADDRESS = pattern
    context = ssl.create_default_context(cafile=str(certificate))
    with context.wrap_socket(server.connect(), server_hostname="127.0.0.1") as connection:
        body = json.dumps({"q": "a b", "source": "en", "target": "de"}).encode()
        head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        connection.sendall(head % len(body) + body)
        assert status_of(read_all(connection)) == 200
    assert server.stop() == 0


def test_two_servers_do_not_share_a_folder_of_state(running, micro, jumok):
    answer = jumok("serve", f"en-de={micro}", "--port", "0", "--state", running.folder / "state")
    assert answer.code == 2
    assert f"in use by process {running.process.pid}" in answer.err
