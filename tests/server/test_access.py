"""Who may ask: hosts, origins, keys, rates and proxies."""

import json

import pytest

from jumok.errors import DataError, UsageError
from jumok.server import keys as keys_module
from jumok.server.keys import KeyFile, Rates
from jumok.server.lifecycle import check
from jumok.server.settings import Settings
from tests.support.pretend import ask, pretend_server

ASKED = {"q": "a dog", "source": "en", "target": "de"}
EXTENSIONS = [
    "chrome-extension://amkbmndfnliijdhojkpoglbnaaahippg",
    "moz-extension://3d4b8c3e-0b1f-4e8e-9d8a-1c2d3e4f5a6b",
]


@pytest.fixture(scope="module")
def app():
    return pretend_server(allow_host=["translate.example.org", "*.internal"], allow_origin=["https://friend.example"])[
        1
    ]


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "localhost:5000", "LOCALHOST:1", "127.0.0.1:5000", "[::1]:5000", "192.168.1.7", "10.0.0.3:80",
        "translate.example.org", "Translate.Example.ORG:443", "translate.example.org.", "weblate.internal:5000",
    ],
)  # fmt: skip
def test_own_names_and_addresses_are_answered(app, host):
    assert ask(app, "GET", "/languages", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "translate.example.org.evil.example",
        "xtranslate.example.org", "internal", "evilinternal", "1.2.3", "0x7f000001", "2130706433",
    ],
)  # fmt: skip
def test_names_that_somebody_pointed_here_are_refused(app, host):
    for method, path in (("GET", "/languages"), ("POST", "/translate"), ("GET", "/"), ("GET", "/metrics")):
        answer = ask(app, method, path, ASKED if method == "POST" else None, headers={"host": host})
        assert answer.status == 403
        assert "host" in answer.text


@pytest.mark.parametrize("host", ["", "a b", "user@localhost", "localhost:99999x", "local/host", "[::1"])
def test_a_malformed_host_is_400(app, host):
    assert ask(app, "GET", "/languages", headers={"host": host}).status == 400


def test_without_a_host_only_http_1_0_is_answered(app):
    headers = [(b"accept", b"*/*")]
    assert ask(app, "GET", "/languages", scope={"headers": headers}).status == 400
    assert ask(app, "GET", "/languages", scope={"headers": headers, "http_version": "1.0"}).status == 200
    twice = [(b"host", b"localhost"), (b"host", b"evil.example")]
    assert ask(app, "GET", "/languages", scope={"headers": twice}).status == 400


@pytest.mark.parametrize("origin", [*EXTENSIONS, "https://friend.example", "http://localhost:5000"])
def test_extensions_friends_and_the_own_page_may_translate_and_read_the_answer(app, origin):
    answer = ask(app, "POST", "/translate", ASKED, headers={"origin": origin})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert "Origin" in answer.headers["vary"]
    preflight = ask(app, "OPTIONS", "/translate", headers={"origin": origin, "access-control-request-method": "POST"})
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == origin
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "content-type" in preflight.headers["access-control-allow-headers"]


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost:6000", "https://friend.example.evil.example", "file://"],
)
def test_pages_of_other_sites_are_refused(app, origin):
    for method in ("POST", "OPTIONS"):
        answer = ask(app, method, "/translate", ASKED if method == "POST" else None, headers={"origin": origin})
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", [*EXTENSIONS, "https://friend.example", "null"])
def test_administration_is_for_the_own_page_only(app, origin):
    assert ask(app, "POST", "/v1/models/en-de/reload", headers={"origin": origin}).status == 403
    assert ask(app, "POST", "/v1/models/en-de/reload", headers={"sec-fetch-site": "cross-site"}).status == 403
    assert ask(app, "POST", "/v1/models/en-de/reload", headers={"origin": "http://localhost:5000"}).status == 200
    assert ask(app, "POST", "/v1/models/en-de/reload").status == 200


# ------------------------------------------------------------------------------------------ keys


@pytest.fixture
def keyed(tmp_path):
    file = KeyFile(tmp_path / "keys.json")
    user, admin = (file.add(name, admin=name == "root", created="2026-11-18") for name in ("user", "root"))
    return pretend_server(state=tmp_path)[1], user, admin


def test_every_protocol_carries_the_key_in_its_own_way(keyed):
    app, key, _ = keyed
    deepl = {"text": ["a dog"], "target_lang": "DE"}
    immersive = {"source_lang": "en", "target_lang": "de", "text_list": ["a dog"]}
    answers = [
        ask(app, "POST", "/translate", ASKED | {"api_key": key}),
        ask(app, "POST", "/translate", ASKED | {"apiKey": key}),
        ask(app, "POST", "/translate", form=ASKED | {"api_key": key}),
        ask(app, "POST", f"/translate?q=a&source=en&target=de&api_key={key}"),
        ask(app, "POST", "/translate", ASKED, headers={"authorization": f"Bearer {key}"}),
        ask(app, "POST", "/translate", ASKED, headers={"x-api-key": key}),
        ask(app, "POST", "/v2/translate", deepl, headers={"authorization": f"DeepL-Auth-Key {key}"}),
        ask(app, "POST", "/v2/translate", form=deepl | {"auth_key": key}),
        ask(app, "POST", f"/imme?token={key}", immersive),
        ask(app, "POST", f"/language/translate/v2?key={key}", {"q": "a dog", "source": "en", "target": "de"}),
        ask(app, "POST", "/v1/translate", {"text": "a", "target": "de"}, headers={"authorization": f"Bearer {key}"}),
    ]
    assert [answer.status for answer in answers] == [200] * len(answers)


def test_without_a_key_and_with_a_wrong_one_nothing_is_translated(keyed):
    app, key, _ = keyed
    missing = "Please contact the server operator to get an API key"
    assert ask(app, "POST", "/translate", ASKED).json == {"error": missing}
    assert ask(app, "POST", "/translate", ASKED).status == 400
    for wrong in ("x", key + "x", key[:-1], key.upper(), "\u00e9\u4e2d", "\ud800"):
        answer = ask(app, "POST", "/translate", ASKED | {"api_key": wrong})
        assert (answer.status, answer.json) == (403, {"error": "Invalid API key"})
    refused = ask(app, "POST", "/v2/translate", {"text": ["a"], "target_lang": "DE"})
    assert (refused.status, list(refused.json)) == (403, ["message"])
    assert ask(app, "POST", "/v1/translate", {"text": "a"}).status == 401
    assert ask(app, "GET", "/metrics").status == 401
    assert ask(app, "GET", "/healthz").status == 200


def test_only_the_key_of_an_administrator_may_reload(keyed):
    app, user, admin = keyed
    path = "/v1/models/en-de/reload"
    assert ask(app, "POST", path).status == 401
    assert ask(app, "POST", path, headers={"authorization": f"Bearer {user}"}).status == 403
    assert ask(app, "POST", path, headers={"authorization": f"Bearer {admin}"}).status == 200


def test_keys_are_ignored_where_none_are_needed():
    _, app = pretend_server()
    assert ask(app, "POST", "/translate", ASKED | {"api_key": "whatever"}).status == 200


def test_the_file_holds_hashes_and_is_its_owners_alone(tmp_path):
    file = KeyFile(tmp_path / "keys.json")
    secret = file.add("weblate", created="2026-11-18")
    stored = (tmp_path / "keys.json").read_text()
    assert secret not in stored
    assert secret[4:] not in stored
    assert (tmp_path / "keys.json").stat().st_mode & 0o077 == 0
    assert file.find(secret).name == "weblate"
    with pytest.raises(UsageError, match="already a key"):
        file.add("weblate", created="2026-11-18")


def test_a_revoked_key_stops_working_in_a_running_server(tmp_path, monkeypatch):
    monkeypatch.setattr(keys_module, "FRESH", 0.0)
    secret = KeyFile(tmp_path / "keys.json").add("weblate", created="2026-11-18")
    KeyFile(tmp_path / "keys.json").add("other", created="2026-11-18")
    _, app = pretend_server(state=tmp_path)
    assert ask(app, "POST", "/translate", ASKED | {"api_key": secret}).status == 200
    KeyFile(tmp_path / "keys.json").revoke("weblate")
    assert ask(app, "POST", "/translate", ASKED | {"api_key": secret}).status == 403


def test_a_server_whose_last_key_is_damaged_or_deleted_does_not_open(tmp_path, monkeypatch):
    monkeypatch.setattr(keys_module, "FRESH", 0.0)
    path = tmp_path / "keys.json"
    KeyFile(path).add("weblate", created="2026-11-18")
    _, app = pretend_server(state=tmp_path)
    path.write_text("{")
    assert ask(app, "POST", "/translate", ASKED).status == 400
    path.unlink()
    assert ask(app, "POST", "/translate", ASKED).status == 400
    path.write_text(json.dumps({"format": 1, "keys": [], "more": 1}))
    with pytest.raises(DataError):
        KeyFile(path)


def test_a_key_has_a_rate(tmp_path):
    secret = KeyFile(tmp_path / "keys.json").add("slow", rate=2, created="2026-11-18")
    _, app = pretend_server(state=tmp_path)
    answers = [ask(app, "POST", "/translate", ASKED | {"api_key": secret}) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].json == {"error": "Slowdown: 2 per 1 minute"}
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30


def test_the_number_of_rates_that_are_remembered_is_bounded():
    rates = Rates()
    for number in range(rates.LARGEST + 100):
        rates.take(str(number), 10)
    assert len(rates._buckets) == rates.LARGEST


# ------------------------------------------------------------------------------------------ proxies


def test_a_forwarded_address_is_believed_from_listed_proxies_only():
    def statuses(client: str, *forwarded: str) -> list[int]:
        _, app = pretend_server(trust_proxy=["10.0.0.0/16"], requests_per_minute=1)
        return [
            ask(
                app, "POST", "/translate", ASKED, headers={"x-forwarded-for": one}, scope={"client": (client, 1)}
            ).status
            for one in forwarded
        ]

    assert statuses("10.0.0.1", "1.1.1.1", "2.2.2.2") == [200, 200]
    assert statuses("10.9.0.1", "1.1.1.1", "2.2.2.2") == [200, 429]
    # what comes before the nearest hop that is no proxy of ours could be invented
    assert statuses("10.0.0.1", "9.9.9.1, 3.3.3.3, 10.0.0.7", "9.9.9.2, 3.3.3.3") == [200, 429]


def test_downloads_have_the_address_of_the_connection_and_not_of_the_header():
    def build(host: str, **settings) -> str:
        front, app = pretend_server(**settings)
        scope = {"type": "http", "method": "GET", "headers": [(b"host", host.encode())], "scheme": "http",
                 "server": ("192.168.1.5", 5000), "client": ("10.0.0.1", 1)}  # fmt: skip
        from jumok.server.exchange import Exchange

        return app.access.build_url(Exchange(scope, None, None, front.settings.limits), "/download_file/x")

    assert build("192.168.1.5:5000") == "http://192.168.1.5:5000/download_file/x"
    assert build("6.6.6.6") == "http://192.168.1.5:5000/download_file/x"
    assert build("a.example", allow_host=["a.example"], root_path="/t") == "http://a.example/t/download_file/x"
    assert build("6.6.6.6", public_url="https://a.example/t/") == "https://a.example/t/download_file/x"


def test_a_root_path_is_stripped_where_the_proxy_does_not():
    _, app = pretend_server(root_path="/translate-me")
    assert ask(app, "GET", "/translate-me/languages").status == 200
    assert ask(app, "GET", "/languages").status == 200
    assert ask(app, "GET", "/translate-menot/languages").status == 404
    assert 'src="/translate-me/assets/' in ask(app, "GET", "/translate-me/").text


# ------------------------------------------------------------------------------------------ before the start


def test_beyond_loopback_a_server_needs_keys_or_an_explicit_word(tmp_path):
    for host in ("0.0.0.0", "192.168.1.5", "::", "translate.example.org"):
        settings = Settings().change(host=host, state=tmp_path)
        with pytest.raises(UsageError, match="no API keys"):
            check(settings)
        check(settings.change(without_keys=True))
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        check(Settings().change(host=host, state=tmp_path))
    KeyFile(tmp_path / "keys.json").add("weblate", created="2026-11-18")
    check(Settings().change(host="0.0.0.0", state=tmp_path))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"prot": 1}, "no such setting"),
        ({"port": 70_000}, "65535"),
        ({"limits": {"body_bytes": 0}}, "1000"),
        ({"limits": {"bodybytes": 1}}, "no such setting"),
        ({"allow_host": ["https://a.example"]}, "host name"),
        ({"allow_origin": ["a.example"]}, "origin"),
        ({"trust_proxy": ["everyone"]}, "network"),
        ({"root_path": "translate"}, "/translate"),
        ({"log": "xml"}, "json"),
        ({"models": {"a": 1}}, "string"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(values, word, tmp_path):
    import tomli_w

    (tmp_path / "serve.toml").write_text(tomli_w.dumps(values))
    with pytest.raises(UsageError) as caught:
        Settings.read(tmp_path / "serve.toml")
    assert word in str(caught.value)
    assert next(iter(values)) in str(caught.value)


def test_half_of_tls_and_a_broken_certificate_are_refused(tmp_path):
    (tmp_path / "a.pem").write_text("no certificate")
    with pytest.raises(UsageError, match="both"):
        check(Settings().change(certificate=tmp_path / "a.pem"))
    with pytest.raises(UsageError, match="cannot be used"):
        check(Settings().change(certificate=tmp_path / "a.pem", private_key=tmp_path / "a.pem"))
