"""Fetching from addresses: whole or absent, continued after any break, and no secret left anywhere."""

import datetime
import ipaddress
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import time
import tracemalloc
from collections import namedtuple
from pathlib import Path

import pytest

from jumok import stopping
from jumok.errors import DataError, DiskError, JumokError, Resumable, UsageError
from jumok.stopping import Stopped
from jumok.text import partial, remote
from jumok.text.remote import expand_address, fetch, fetch_in_steps
from jumok.text.sources import expand
from tests.support.web import Site, serving

pytest.importorskip("fsspec", reason="fsspec is not installed: pip install jumok[remote]")
pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install jumok[remote]")

CONTENT = random.Random(1).randbytes(3_000_000)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(remote, "PAUSE", 0.01)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def only(folder: Path, content: bytes = CONTENT) -> bool:
    """Whether the folder holds this one file, whole, and nothing else."""
    (path,) = folder.iterdir()
    return path.name.endswith("-train.en") and path.read_bytes() == content


# ------------------------------------------------------------------------------------------ a good server


@pytest.mark.parametrize("how", [{}, {"chunked": True}, {"etag": ""}, {"ranges": False}, {"content": b""}])
def test_what_arrives_is_what_is_there(tmp_path, how):
    seen = []
    with serving(Site(**{"content": CONTENT, **how})) as site:
        path = follow(fetch_in_steps(site.address, tmp_path / "new"), lambda done, size: seen.append((done, size)))
    assert only(tmp_path / "new", site.content)
    assert path.parent == tmp_path / "new"
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert {size for _, size in seen} <= {None if site.chunked else len(site.content)}
    assert not seen or seen[-1][0] == len(site.content)


def test_what_is_there_already_is_not_asked_for_again(tmp_path):
    with serving(Site(CONTENT)) as site:
        first = fetch(site.address, tmp_path)
        assert fetch(site.address, tmp_path) == first
    assert fetch(site.address, tmp_path) == first  # nor does it need a server
    assert site.starts == [0]


def test_memory_does_not_grow_with_the_file(tmp_path):
    with serving(Site(CONTENT[:1_000_000] * 40)) as site:
        tracemalloc.start()
        try:
            fetch(site.address, tmp_path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 12e6  # of 40 MB, with what the server holds


# ------------------------------------------------------------------------------------------ bad servers


def test_broken_connections_are_continued_where_they_broke(tmp_path):
    with serving(Site(CONTENT, breaks=[700_000, 700_000, 1, 900_000])) as site:
        fetch(site.address, tmp_path)
    assert only(tmp_path)
    assert len(site.starts) == 5
    assert site.starts == sorted(site.starts)
    assert site.starts[-1] > 1_000_000
    assert site.sent < len(CONTENT) + 5 * 400_000  # what was on its way when a connection broke comes again


def test_a_server_without_ranges_is_asked_from_the_start_again(tmp_path):
    with serving(Site(CONTENT, ranges=False, breaks=[2_000_000, 1_000_000])) as site:
        fetch(site.address, tmp_path)
    assert only(tmp_path)
    assert site.starts[1] > 0


def test_a_file_without_etag_or_date_is_never_continued(tmp_path):
    with serving(Site(CONTENT, etag="", breaks=[2_000_000])) as site:
        fetch(site.address, tmp_path)
    assert only(tmp_path)
    assert site.starts[-1] == 0


@pytest.mark.parametrize("mark", ["etag", "modified"])
@pytest.mark.parametrize("size", [len(CONTENT), 100_000, 4_000_000])
def test_a_file_that_changes_between_two_attempts_is_fetched_anew(tmp_path, mark, size):
    other = random.Random(2).randbytes(size)
    with serving(Site(CONTENT, etag="", always_breaks=1_000_000)) as site:
        setattr(site, mark, "Wed, 18 Nov 2026 00:00:00 GMT")
        with pytest.raises(Stop):
            follow(fetch_in_steps(site.address, tmp_path), stop_after(900_000))
        site.content, site.always_breaks = other, None
        setattr(site, mark, "Thu, 19 Nov 2026 00:00:00 GMT")
        fetch(site.address, tmp_path)
    assert site.starts[1] > 0
    assert only(tmp_path, other)


class Stop(Exception):
    pass


def follow(steps, progress) -> Path:
    """Run a fetch to its end and hand on how far it is."""
    try:
        while True:
            if (step := next(steps)) is not None:
                progress(*step)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def stop_after(most: int):
    def progress(done, size):
        if done >= most:
            raise Stop

    return progress


def test_a_server_that_always_sends_too_little_leaves_no_file_and_what_came_is_kept(tmp_path):
    with serving(Site(CONTENT, ranges=False, always_breaks=2_999_990)) as site:
        with pytest.raises(Resumable, match="fetching failed") as raised:
            fetch(site.address, tmp_path)
        assert remote.ATTEMPTS <= len(site.starts) < 3 * remote.ATTEMPTS
        assert "bytes have arrived" in raised.value.hint
        assert [name.rpartition("-")[2] for name in left_in(tmp_path)] == [
            "train.en.fetching",
            "train.en.fetching.json",
        ]
        site.always_breaks = None
        fetch(site.address, tmp_path)
    assert only(tmp_path)


def test_an_answer_that_ends_early_without_an_error_is_noticed(tmp_path, monkeypatch):
    short = remote.WebFile.read
    monkeypatch.setattr(remote.WebFile, "read", lambda self: short(self) if self.start else b"")
    with serving(Site(CONTENT)) as site, pytest.raises(DataError, match="after 0 of 3,000,000 bytes"):
        fetch(site.address, tmp_path)


def test_a_server_that_does_not_say_where_the_end_is_is_refused(tmp_path):
    with serving(Site(CONTENT, length=False)) as site, pytest.raises(DataError, match="does not say how long"):
        fetch(site.address, tmp_path)
    assert not list(tmp_path.glob("*-train.en"))


def test_a_chunked_answer_that_breaks_is_not_taken_for_whole(tmp_path):
    with serving(Site(CONTENT, chunked=True, ranges=False, breaks=[1_000_000])) as site:
        fetch(site.address, tmp_path)
    assert only(tmp_path)
    assert len(site.starts) == 2


def test_a_server_that_sends_another_part_than_was_asked_for_is_not_believed(tmp_path):
    with serving(Site(CONTENT, breaks=[1_000_000], shift=5)) as site, pytest.raises(Resumable, match="another part"):
        fetch(site.address, tmp_path)
    assert len(site.starts) == remote.ATTEMPTS


def test_an_answer_with_more_bytes_than_the_file_has_is_thrown_away(tmp_path):
    with serving(Site(CONTENT, breaks=[1_000_000], more=4)) as site:
        fetch(site.address, tmp_path)
    assert only(tmp_path)
    assert site.starts[0] == site.starts[2] == 0 < site.starts[1]


@pytest.mark.parametrize(
    ("status", "words"), [(404, "no such file"), (403, "may not read"), (401, "may not read"), (400, "status 400")]
)
def test_a_refusal_is_told_at_once(tmp_path, status, words):
    with serving(Site(CONTENT, statuses=[status] * 9)) as site, pytest.raises(DataError, match=words) as raised:
        fetch(site.address, tmp_path)
    assert len(site.starts) == 1
    assert raised.value.where == site.address


def test_a_busy_server_is_asked_again(tmp_path):
    with serving(Site(CONTENT, statuses=[503, 429, 500])) as site:
        fetch(site.address, tmp_path)
    assert only(tmp_path)
    assert len(site.starts) == 4


def test_a_server_that_is_not_there_is_given_up(tmp_path):
    with serving(Site(CONTENT)) as site:
        pass
    with pytest.raises(DataError, match="cannot fetch"):
        fetch(site.address, tmp_path)


# ------------------------------------------------------------------------------------------ stops

CHILD = "import sys; from jumok.text.remote import fetch; fetch(sys.argv[1], sys.argv[2])"


def test_a_killed_fetch_continues_with_what_is_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(partial, "INTERVAL", 1)
    child = "from jumok.text import partial; partial.INTERVAL = 1; " + CHILD
    with serving(Site(CONTENT, pace=0.02)) as site:
        process = subprocess.Popen([sys.executable, "-c", child, site.address, str(tmp_path)])
        end = time.monotonic() + 30
        while not any(path.stat().st_size > 500_000 for path in tmp_path.glob("*.fetching")):
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        site.pace = 0
        fetch(site.address, tmp_path)
    assert site.starts[-1] >= 250_000
    assert only(tmp_path)


def test_a_fetch_killed_before_the_rename_only_asks_for_the_last_byte(tmp_path, monkeypatch):
    with serving(Site(CONTENT)) as site:
        monkeypatch.setattr(partial.Partial, "finish", lambda self: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            fetch(site.address, tmp_path)
        monkeypatch.undo()
        fetch(site.address, tmp_path)
    assert site.starts == [0, len(CONTENT) - 1]
    assert only(tmp_path)


def test_bytes_that_no_note_vouches_for_are_fetched_again(tmp_path):
    with serving(Site(CONTENT)) as site:
        with pytest.raises(Stop):
            follow(fetch_in_steps(site.address, tmp_path), stop_after(1_000_000))
        (kept,) = tmp_path.glob("*.fetching")
        (note,) = tmp_path.glob("*.json")
        with open(kept, "ab") as stream:
            stream.write(bytes(5_000_000))
        fetch(site.address, tmp_path)
        assert only(tmp_path)
        about = {"size": len(CONTENT), "mark": '"1"'}
        beyond = [json.dumps(about | {"done": done}) for done in (-5, 2_000_000, 9_999_999)]
        for broken in ("", "{}", "[]", "\0" * 40, *beyond):
            next(tmp_path.iterdir()).unlink()
            kept.write_bytes(bytes(1_000))
            note.write_text(broken)
            fetch(site.address, tmp_path)
            assert only(tmp_path)


def test_a_fetch_is_stopped_within_a_second_though_the_server_is_silent(tmp_path):
    with serving(Site(CONTENT, always_breaks=1_000_000, hangs=True)) as site:
        began = time.monotonic()
        with pytest.raises(Stopped):
            stopping.Stop(lambda: time.monotonic() > began + 0.5).finish(fetch_in_steps(site.address, tmp_path))
        assert time.monotonic() - began < 1.5
        site.always_breaks = None
        fetch(site.address, tmp_path)
    assert site.starts[-1] > 0
    assert only(tmp_path)


def test_two_processes_do_not_fetch_the_same_file_into_one_folder(tmp_path):
    def meanwhile(done, size):
        with pytest.raises(UsageError, match="another process"):
            fetch(site.address, tmp_path)
        raise Stop

    with serving(Site(CONTENT)) as site:
        with pytest.raises(Stop):
            follow(fetch_in_steps(site.address, tmp_path), meanwhile)
        fetch(site.address, tmp_path)
    assert only(tmp_path)


def test_a_file_that_does_not_fit_is_refused_before_it_is_fetched(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(partial.shutil, "disk_usage", lambda path: usage(0, 0, 1_000_000))
    with serving(Site(CONTENT)) as site, pytest.raises(DiskError, match="3,000,000 bytes, but only 1,000,000 are free"):
        fetch(site.address, tmp_path)


def test_a_folder_that_cannot_be_written_to_is_a_disk_error(tmp_path):
    (tmp_path / "file").write_text("")
    with serving(Site(CONTENT)) as site, pytest.raises(DiskError):
        fetch(site.address, tmp_path / "file" / "folder")


# ------------------------------------------------------------------------------------------ secrets


@pytest.mark.parametrize("how", [{"statuses": [403]}, {"always_breaks": 900_000}, {"statuses": [500] * 9}, {}])
def test_a_signature_is_sent_and_appears_nowhere_else(tmp_path, capfd, how):
    secret = "X-Amz-Signature=0a1b2c3d%2F"
    told = ""
    with serving(Site(CONTENT, ranges=False, **how)) as site:
        try:
            fetch(f"{site.address}?{secret}", tmp_path)
        except JumokError as error:
            told = str(error)
    assert site.paths[0].endswith(secret)
    everything = [told, *capfd.readouterr(), *left_in(tmp_path)]
    everything += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    assert not any("0a1b2c3d" in text for text in everything)
    assert bool(told) == bool(how)


@pytest.mark.parametrize("kind", [OSError, TimeoutError, ConnectionResetError, FileNotFoundError, PermissionError])
def test_the_words_of_a_library_that_repeat_an_address_are_not_passed_on(tmp_path, monkeypatch, kind):
    address = "https://127.0.0.1/a?sig=0a1b2c3d"

    def fail(self, *_):
        raise kind(f"cannot open {address}")

    monkeypatch.setattr(remote.WebFile, "__init__", fail)
    with pytest.raises(DataError) as raised:
        fetch(address, tmp_path)
    assert "0a1b2c3d" not in str(raised.value)


def test_the_key_of_an_address_is_not_in_what_a_missing_library_says(tmp_path, monkeypatch):
    for library, address in (("fsspec", "https://h/a?sig=0a1b2c3d"), ("aiohttp", "https://h/a"), ("s3fs", "s3://b/a")):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, library, None)
            with pytest.raises(UsageError, match="not installed") as raised:
                fetch(address, tmp_path)
        assert "pip install 'jumok[remote]'" in raised.value.hint
        assert "0a1b2c3d" not in str(raised.value)


def test_naming_an_address_does_not_import_fsspec():
    code = "import sys; from jumok.text.sources import expand; expand('https://h/a'); sys.exit('fsspec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------------------------------ https


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that nobody but this test trusts."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed: pip install jumok[test]")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("https") / "server.pem"
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem = serialization.Encoding.PEM
    path.write_bytes(key.private_bytes(pem, *plain) + made.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return path, context


def fetch_in_child(address: str, folder: Path, trusted: Path | None) -> subprocess.CompletedProcess[str]:
    """Fetch in a process that trusts this certificate: certificates are read when a process starts."""
    environment = os.environ | {"NO_PROXY": "127.0.0.1"} | ({"SSL_CERT_FILE": str(trusted)} if trusted else {})
    child = f"from jumok.text import remote; remote.PAUSE = 0.01; {CHILD}"
    command = [sys.executable, "-c", child, address, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_https_is_continued_by_ranges_like_http(tmp_path, certificate):
    trusted, context = certificate
    with serving(Site(CONTENT, breaks=[1_000_000, 1_000_000]), context) as site:
        done = fetch_in_child(site.address, tmp_path, trusted)
    assert done.returncode == 0, done.stderr
    assert only(tmp_path)
    assert site.starts[-1] > 1_000_000


def test_a_server_that_cannot_prove_its_name_is_not_believed(tmp_path, certificate):
    with serving(Site(CONTENT), certificate[1]) as site:
        done = fetch_in_child(site.address, tmp_path, None)
    assert "cannot fetch" in done.stderr
    assert site.sent == 0


def test_https_that_sends_us_on_to_http_is_refused(tmp_path, certificate):
    trusted, context = certificate
    with serving(Site(CONTENT)) as plain, serving(Site(b"", redirect=plain.address), context) as site:
        done = fetch_in_child(site.address, tmp_path, trusted)
    assert "without encryption" in done.stderr
    assert not list(tmp_path.glob("*-train.en"))


# ------------------------------------------------------------------------------------------ s3


@pytest.fixture(scope="module")
def store():
    """A bucket called corpora on moto's server, and the client that fills it."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install jumok[remote]")
    server = pytest.importorskip("moto.server", reason="moto is not installed: pip install jumok[test]")
    import boto3

    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings.items():
            patched.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket="corpora")
        yield client
    running.stop()


def put(store, key: str, content: bytes) -> str:
    store.put_object(Bucket="corpora", Key=key, Body=content)
    return f"s3://corpora/{key}"


def test_an_object_of_s3_arrives_in_ranges(tmp_path, monkeypatch, store):
    monkeypatch.setattr(remote, "RANGE", 700_000)
    seen = []
    address = put(store, "whole/train.en", CONTENT)
    follow(fetch_in_steps(address, tmp_path), lambda done, size: seen.append((done, size)))
    assert only(tmp_path)
    assert seen == [(min(n * 700_000, len(CONTENT)), len(CONTENT)) for n in range(1, 6)]


def test_a_fetch_from_s3_is_continued_unless_the_object_has_changed(tmp_path, monkeypatch, store):
    monkeypatch.setattr(remote, "RANGE", 500_000)
    other = random.Random(3).randbytes(len(CONTENT))
    for content in (CONTENT, other):
        address = put(store, "continued/train.en", CONTENT)
        with pytest.raises(Stop):
            follow(fetch_in_steps(address, tmp_path / "x"), stop_after(1_000_000))
        put(store, "continued/train.en", content)
        firsts = []
        follow(fetch_in_steps(address, tmp_path / "x"), lambda done, size, firsts=firsts: firsts.append(done))
        assert firsts[0] == (1_500_000 if content is CONTENT else 500_000)
        assert only(tmp_path / "x", content)
        next((tmp_path / "x").iterdir()).unlink()


@pytest.mark.parametrize("after", [1_000_000, len(CONTENT)])
def test_an_object_that_changes_while_it_is_read_is_read_anew(tmp_path, monkeypatch, store, after):
    monkeypatch.setattr(remote, "RANGE", 500_000)
    other = random.Random(4).randbytes(len(CONTENT))
    address = put(store, "changing/train.en", CONTENT)
    changes = iter([True])

    def change(done, size):
        if done >= after and next(changes, False):
            put(store, "changing/train.en", other)

    follow(fetch_in_steps(address, tmp_path), change)
    assert only(tmp_path, other)


def test_a_glob_on_s3_is_its_objects_in_natural_order(tmp_path, store):
    for name in ("1.en", "2.en", "10.en", "10.de", "deep/3.en"):
        put(store, f"glob/{name}", name.encode())
    listed = expand("s3://corpora/glob/*.en")
    assert listed == [f"s3://corpora/glob/{name}" for name in ("1.en", "2.en", "10.en")]
    assert [fetch(address, tmp_path).read_bytes() for address in listed] == [b"1.en", b"2.en", b"10.en"]
    assert "s3://corpora/glob/deep/3.en" in expand_address("s3://corpora/glob/**/*.en")
    with pytest.raises(DataError, match="no file matches"):
        expand("s3://corpora/glob/*.fr")


@pytest.mark.parametrize("address", ["s3://corpora/none/train.en", "s3://nobody-has-this-bucket/train.en"])
def test_an_object_that_is_not_there_is_told(tmp_path, store, address):
    with pytest.raises(DataError, match="no such file"):
        fetch(address, tmp_path)


def test_a_folder_of_s3_is_not_taken_for_a_file(tmp_path, store):
    put(store, "folder/train.en", b"text")
    with pytest.raises(DataError, match="is a folder") as raised:
        fetch("s3://corpora/folder", tmp_path)
    assert "s3://corpora/folder/*" in raised.value.hint


def test_a_web_server_has_no_globs():
    with pytest.raises(UsageError, match="no globs"):
        expand("https://example.org/*.en")


def test_a_public_bucket_needs_no_credentials(tmp_path, monkeypatch, store):
    store.put_object(Bucket="corpora", Key="public/train.en", Body=CONTENT, ACL="public-read")
    address = "s3://corpora/public/train.en"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    fetch(address, tmp_path)
    assert only(tmp_path)
    private = put(store, "private/train.en", CONTENT)
    with pytest.raises(DataError, match="may not read") as raised:
        fetch(private, tmp_path)
    assert "AWS_ACCESS_KEY_ID" in raised.value.hint
