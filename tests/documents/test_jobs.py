"""Documents that wait to be translated: from upload to download, what is deleted when, and what there is room for."""

import os

import pytest

from jumok.documents.jobs import DONE, ERROR, QUEUED, TRANSLATING, JobStore, clean_name
from jumok.errors import UsageError


def test_a_job_from_upload_to_download(tmp_path):
    store = JobStore(tmp_path)
    job, key = store.create("../../etc/my talk.srt", b"text", {"target": "de"})
    assert (job.name, job.status) == ("my talk.srt", QUEUED)
    assert store.find(job.id, key) == job
    assert store.find(job.id, "wrong") is None
    assert key not in (tmp_path / job.id / "job.json").read_text()
    assert store.read_result(job.id) is None
    assert store.start(job.id) == b"text"
    store.set_progress(job.id, 0.5)
    now = store.find(job.id)
    assert now is not None
    assert (now.status, now.progress) == (TRANSLATING, 0.5)
    store.finish(job.id, b"Text", characters=4)
    done = store.find(job.id, key)
    assert done is not None
    assert (done.status, done.characters) == (DONE, 4)
    assert store.read_result(job.id) == b"Text"
    assert store.take_result(job.id) == b"Text"
    assert store.take_result(job.id) is None
    assert list(tmp_path.iterdir()) == []


def test_interrupted_jobs_are_done_again_but_not_for_ever(tmp_path):
    job, _ = JobStore(tmp_path).create("a.txt", b"text")
    for _ in range(3):
        store = JobStore(tmp_path)
        assert [waiting.id for waiting in store.list_waiting()] == [job.id]
        assert store.start(job.id) == b"text"
    failed = JobStore(tmp_path).find(job.id)
    assert failed is not None
    assert failed.status == ERROR


def test_everything_is_deleted_after_an_hour_but_what_is_in_work(tmp_path):
    now = [1_000.0]
    store = JobStore(tmp_path, now=lambda: now[0])
    waiting, _ = store.create("a.txt", b"a")
    working, _ = store.create("b.txt", b"b")
    store.start(working.id)
    now[0] += 3_601
    assert store.find(waiting.id) is None
    assert store.find(working.id) is not None
    store.fail(working.id, "bad\x1b[31m file")
    failed = store.find(working.id)
    assert failed is not None
    assert "\x1b" not in failed.message
    now[0] += 3_601
    assert store.find(working.id) is None
    assert list(tmp_path.iterdir()) == []


def test_a_result_is_kept_for_an_hour_however_long_it_took(tmp_path):
    now = [1_000.0]
    store = JobStore(tmp_path, now=lambda: now[0])
    job, _ = store.create("a.txt", b"a")
    store.start(job.id)
    now[0] += 3_599
    store.create("b.txt", b"b")
    store.finish(job.id, b"A")
    now[0] += 3_599
    assert JobStore(tmp_path, now=lambda: now[0]).read_result(job.id) == b"A"
    assert store.find(job.id) is not None
    now[0] += 2
    assert store.find(job.id) is None
    assert list(tmp_path.iterdir()) == []


def test_a_thousand_results_that_nobody_fetched_keep_no_document_out(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # of 7,000 files
    store = JobStore(tmp_path, most_jobs=3)
    jobs = []
    for number in range(1_000):
        job, _ = store.create("a.txt", b"%d" % number)
        store.start(job.id)
        store.finish(job.id, b"result %d" % number)
        jobs.append(job.id)
    assert [store.take_result(id) for id in jobs] == [b"result %d" % number for number in range(1_000)]
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_results_make_room_but_not_those_of_the_last_minute(tmp_path):
    now = [1_000.0]
    store = JobStore(tmp_path, most_results=3, most_bytes=100, now=lambda: now[0])

    def upload(content: bytes) -> str:
        now[0] += 1
        return store.create("a.txt", content)[0].id

    ids = [upload(b"a") for _ in range(3)]
    for id in reversed(ids):  # the last upload is the oldest result
        now[0] += 1
        store.finish(id, b"r")
    with pytest.raises(UsageError, match="no room"):
        upload(b"a")
    now[0] += 57  # the first result is a minute old, the second is not
    another = upload(b"a")
    assert [store.find(id) is not None for id in ids] == [True, True, False]
    store.finish(another, b"r")
    now[0] += 60
    upload(b"x" * 97)
    assert [store.find(id) is not None for id in (*ids, another)] == [True, False, False, True]
    assert store.used == 99
    upload(b"y")
    with pytest.raises(UsageError, match="no room"):  # what waits stays
        upload(b"y" * 4)
    assert [job.size for job in store.list_waiting()] == [97, 1]


def test_waiting_jobs_and_bytes_are_bounded(tmp_path):
    store = JobStore(tmp_path, most_jobs=2, most_bytes=100)
    first, _ = store.create("a.txt", b"x" * 60)
    with pytest.raises(UsageError, match="no room"):
        store.create("b.txt", b"x" * 60)
    store.create("b.txt", b"x")
    with pytest.raises(UsageError, match="no room"):
        store.create("c.txt", b"x")
    store.finish(first.id, b"y" * 60)
    failed = store.find(first.id)
    assert failed is not None
    assert failed.status == ERROR


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\dir\\talk.srt", "talk.srt"),
        ("..", "document"),
        ("", "document"),
        (".txt", "document.txt"),
        ("a\x00b\r\n.txt", "ab.txt"),
        ("x" * 500 + ".html", "x" * 139 + ".html"),
        ("한글 문서.txt", "한글 문서.txt"),
        ("\ud800.txt", "document.txt"),
    ],
)
def test_names_of_uploads_are_for_people(name, clean):
    assert clean_name(name) == clean


def test_what_is_not_a_whole_job_is_removed(tmp_path):
    store = JobStore(tmp_path)
    job, _ = store.create("a.txt", b"a")
    (tmp_path / ".abc.partial").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("x")
    broken, _ = store.create("b.txt", b"b")
    (tmp_path / broken.id / "job.json").write_text('{"id": 3')
    assert [waiting.id for waiting in JobStore(tmp_path).list_waiting()] == [job.id]
    assert [path.name for path in tmp_path.iterdir()] == [job.id]
