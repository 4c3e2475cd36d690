"""Addresses: a closed list of what may be fetched, and no secret of one is ever shown."""

import pytest

from jumok.config.sections import DataConfig
from jumok.errors import UsageError
from jumok.text.addresses import check_address, is_address, local_name, redact, refuse_addresses

SECRET = "s3cr3t"
ALLOWED = [
    "https://example.org/a/train.en.gz",
    "https://example.org:8443/a?id=5",
    "http://127.0.0.1:8000/a.txt",
    "http://localhost/a.txt",
    "http://[::1]:80/a.txt",
    "s3://bucket/folder/*.parquet",
    "gs://bucket/a.tsv",
    "hf://datasets/wmt/wmt14@main/de-en/train-00000-of-00003.parquet",
]
REFUSED = {
    f"https://user:{SECRET}@example.org/a": "user or password",
    f"https://{SECRET}@example.org/a": "user or password",
    f"s3://key:{SECRET}@bucket/a": "user or password",
    f"https://user:{SECRET}/x@example.org/a": "no valid host",
    f"simplecache::https://example.org/a?sig={SECRET}": "chained",
    "https://example.org/a::s3://bucket/b": "chained",
    "zip://a.txt::s3://bucket/b.zip": "chained",
    "http://example.org/a": "this machine only",
    "http://10.0.0.1/a": "this machine only",
    "http://127.0.0.1.example.org/a": "this machine only",
    "file:///etc/passwd": "has no address",
    "ftp://example.org/a": "no protocol is called 'ftp'",
    "htps://example.org/a": "did you mean 'https'",
    "https://": "names no file",
    "https://example.org/": "names no file",
    "s3://bucket": "names no file",
    "https://example.org/a b": "white space",
    "https://example.org/a\nb": "white space",
    "https://example.org/\x00": "white space",
    "https://example.org:port/a": "no valid host",
    "https://example.org/" + "a" * 5_000: "at most 4,096",
}


@pytest.mark.parametrize("address", ALLOWED)
def test_addresses_of_the_closed_list_are_allowed(address):
    assert is_address(address)
    check_address(address)


@pytest.mark.parametrize("address", REFUSED)
def test_any_other_address_is_refused_without_repeating_its_secrets(address):
    assert is_address(address)
    with pytest.raises(UsageError, match=REFUSED[address]) as raised:
        check_address(address)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("path", ["train.en", "a::b", "c:/train.en", "news/*.en", "/x//y", "-", "a:b", "2://x"])
def test_names_of_files_are_not_addresses(path):
    assert not is_address(path)
    assert redact(path) == path


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"https://h/a.en?X-Amz-Signature={SECRET}&x=1", "https://h/a.en?…"),
        (f"https://h/a.en#{SECRET}", "https://h/a.en?…"),
        (f"https://u:{SECRET}@h/a.en", "https://…@h/a.en"),
        (f"https://u:{SECRET}/{SECRET}@h/a.en?k={SECRET}", "https://…@h/a.en?…"),
        (f"a::https://u:{SECRET}@h/a?b={SECRET}", "a::https://…@h/a?…"),
        (f"s3://b/a?AWSAccessKeyId={SECRET}", "s3://b/a?…"),
        ("s3://b/a?.en", "s3://b/a?.en"),
        ("hf://datasets/u/r@rev/a", "hf://datasets/u/r@rev/a"),
        ("https://h/@scope/a", "https://h/@scope/a"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(address, shown):
    assert redact(address) == shown


def test_a_fetched_file_keeps_its_suffix_and_addresses_keep_apart():
    base = "https://h/x/train.en.gz"
    assert local_name(base).endswith("-train.en.gz")
    others = [
        "https://h/y/train.en.gz",
        "https://i/x/train.en.gz",
        f"{base}?id=5",
        f"{base}?id=6",
        "s3://h/x/train.en.gz",
    ]
    assert len({local_name(address) for address in [base, *others]}) == 6
    assert "/" not in local_name("https://h/a/..%2F..%2Fetc%2Fpasswd")
    assert len(local_name("https://h/" + "a" * 4_000 + ".tsv.gz")) < 150
    assert local_name("https://h/" + "a" * 4_000 + ".tsv.gz").endswith(".tsv.gz")


def test_signing_an_address_again_does_not_change_the_name_of_its_file():
    signed = "https://h/a.en?X-Amz-Credential=me&X-Amz-Signature={0}&X-Amz-Date={0}&id=5"
    assert local_name(signed.format(1)) == local_name(signed.format(2)) == local_name("https://h/a.en?id=5")
    assert local_name(signed.format(1)) != local_name("https://h/a.en")


@pytest.mark.parametrize("field", ["source", "target", "table", "text", "valid_source", "valid_table"])
def test_a_model_that_names_an_address_is_refused(field):
    address = f"https://example.org/a?sig={SECRET}"
    with pytest.raises(UsageError, match="not taken from models") as raised:
        refuse_addresses(DataConfig(**{field: address}), where="runs/theirs/model")
    assert f"data.{field}" in raised.value.where
    assert SECRET not in str(raised.value)


def test_a_model_that_names_files_passes_and_lists_are_looked_into():
    refuse_addresses(DataConfig(source="train.en", target="/data/train.de"))
    refuse_addresses({"source": ["a.en", "b.en"], "pairs": 5, "table": None})
    with pytest.raises(UsageError):
        refuse_addresses({"source": ["a.en", "memory://b.en"]})
