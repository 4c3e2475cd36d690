"""A class: who joins, what students reach, and that they see what the teacher shows."""

import pytest

from jumok.server.classroom import ALPHABET, LENGTH, Classroom
from jumok.server.lifecycle import check
from jumok.server.settings import Settings
from tests.server.test_runs import CHANGING, READING, follow
from tests.support.logs import write_run
from tests.support.pretend import ask, pretend_server

STUDENT = {"client": ("192.168.0.20", 40_000)}
LAN = {"host": "192.168.0.2:5000"}
TEXT = {"text": "a dog", "model": "en-de"}


@pytest.fixture
def server(tmp_path):
    write_run(tmp_path / "work" / "runs" / "one")
    return pretend_server(
        host="0.0.0.0", classroom=True, workspace=tmp_path / "work", state=tmp_path / "state"
    )  # fmt: skip


def student(app, method, path, body=None, *, token=None, header=False, **headers):
    given = LAN | headers
    if token is not None:
        given |= {"x-class": token} if header else {"cookie": f"theme=dark; jumok_class={token}"}
    return ask(app, method, path, body, headers=given, scope=STUDENT)


def join(front, app, code=None):
    return student(app, "POST", "/v1/class/join", {"code": code or front.classroom.code})


def test_the_code_gives_a_token_that_scripts_cannot_read(server):
    front, app = server
    assert len(front.classroom.code) == LENGTH
    assert set(front.classroom.code) <= set(ALPHABET)
    assert student(app, "GET", "/v1/class").json == {"active": True, "role": "guest"}
    answer = join(front, app, f" {front.classroom.code[:3].lower()}-{front.classroom.code[3:]} ")
    assert answer.status == 200
    token = answer.json["token"]
    assert answer.headers["set-cookie"] == f"jumok_class={token}; Path=/; HttpOnly; SameSite=Strict"
    for header in (False, True):
        assert student(app, "POST", "/v1/translate", TEXT, token=token, header=header).status == 200
    assert student(app, "GET", "/v1/class", token=token).json["role"] == "student"
    assert join(*pretend_server(host="0.0.0.0", classroom=True), code="AAAAAA").status == 403


def test_without_the_code_nothing_is_translated(server):
    _, app = server
    for token in (None, "", "x" * 32, "x" * 5_000):
        assert student(app, "POST", "/v1/translate", TEXT, token=token).status == 401
        assert student(app, "GET", "/v1/models", token=token).status == 401
    assert student(app, "GET", "/").status == 200, "the page itself asks for the code"


def test_codes_cannot_be_guessed_by_trying(server):
    front, app = server
    got = [join(front, app, f"AAAAA{number % 10}").status for number in range(30)]
    assert got[:10] == [403] * 10
    assert set(got[10:]) == {429}
    assert join(front, app).status == 429, "also the right one, for a minute"
    elsewhere = ask(
        app, "POST", "/v1/class/join", {"code": front.classroom.code}, headers=LAN,
        scope={"client": ("192.168.0.21", 1)},
    )  # fmt: skip
    assert elsewhere.status == 200, "another student is not locked out"


def test_students_cannot_start_stop_or_read_runs(server):
    front, app = server
    token = join(front, app).json["token"]
    (run,) = ask(app, "GET", "/v1/runs", headers={"host": "localhost:5000"}).json["runs"]
    for method, paths in (("GET", READING), ("POST", [*CHANGING, "/v1/models/en-de/reload"])):
        for path in paths:
            answer = student(app, method, path.replace("ID", run["id"]), {} if method == "POST" else None, token=token)
            assert answer.status == 403, path
    for path in ("/v1/class/code", "/metrics", "/suggest", "/v2/glossaries", "/translate"):
        assert student(app, "GET" if "v1" in path or path == "/metrics" else "POST", path, token=token).status in (
            403,
            405,
        )
    assert front.state.glossaries.list() == [] if hasattr(front.state.glossaries, "list") else True


def test_a_foreign_page_in_a_students_browser_reaches_nothing(server):
    front, app = server
    token = join(front, app).json["token"]
    answer = student(app, "POST", "/v1/translate", TEXT, token=token, origin="https://evil.example")
    assert answer.status == 403


def test_the_teacher_is_at_this_machine_or_has_an_administrators_key(server, tmp_path):
    front, app = server
    about = ask(app, "GET", "/v1/class").json
    assert (about["role"], about["code"], about["students"]) == ("teacher", front.classroom.code, 0)
    assert ask(app, "GET", "/v1/runs").status == 200
    assert ask(app, "POST", "/v1/translate", TEXT).status == 200
    from jumok.server.keys import KeyFile

    admin = KeyFile(tmp_path / "keys.json").add("t", admin=True, created="x")
    app = pretend_server(host="0.0.0.0", classroom=True, keys=tmp_path / "keys.json")[1]
    assert student(app, "GET", "/v1/runs", authorization=f"Bearer {admin}").status == 200


def test_a_proxy_on_this_machine_does_not_make_everybody_a_teacher(tmp_path):
    app = pretend_server(host="127.0.0.1", classroom=True, trust_proxy=["127.0.0.1"], state=tmp_path)[1]
    assert ask(app, "GET", "/v1/class", headers={"x-forwarded-for": "203.0.113.9"}).json["role"] == "guest"


def test_everybody_is_sent_to_the_teachers_view(server):
    front, app = server
    token = join(front, app).json["token"]
    seen = []

    def until(one):
        seen.append(one)
        if one[0] == "joined":
            assert front.classroom.present == 1
            front.classroom.show("#/inside?text=a+dog&layer=1")
        return one[0] == "view"

    got = follow(app, "/v1/class/events", until, **{"x-class": token})
    assert got[-1][2] == {"view": "#/inside?text=a+dog&layer=1"}
    assert front.classroom.present == 0
    for view in ("https://evil.example", "javascript:alert(1)", "#", "/x", "#/" + "a" * 9_000):
        assert ask(app, "POST", "/v1/class/view", {"view": view}).status == 400
    assert ask(app, "POST", "/v1/class/view", {"view": "#/lab"}).json["sent"] == 2


def test_the_link_is_drawn_as_a_code_for_telephones(server):
    front, app = server
    front.classroom.address = "http://192.168.0.2:5000"
    picture = ask(app, "GET", "/v1/class/code")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert "<path" in picture.text
    import segno

    link = ask(app, "GET", "/v1/class").json["link"]
    assert link == f"http://192.168.0.2:5000/#/translate?join={front.classroom.code}"
    size = segno.make(link, error="m", micro=False).symbol_size(scale=4, border=4)[0]
    assert f'width="{size}"' in picture.text


def test_only_a_class_may_listen_beyond_this_machine_without_keys(tmp_path):
    check(Settings(host="0.0.0.0", classroom=True))
    room = Classroom()
    for _ in range(3):
        room.join(room.code, "a")
    assert len(room.tokens) == 3
