"""One sentence is translated with few modules and without detours."""

import subprocess
import sys

import pytest
import typer

import jumok
from jumok.cli import main
from jumok.engines.native_engine import NativeEngine

FILES_AND_MORE = [
    "torch", "jumok.text.lines", "jumok.text.files", "jumok.text.columnar", "jumok.text.check", "jumok.text.drafts",
    "jumok.text.trainer", "jumok.config.keywords", "jumok.decoding.graph", "jumok.decoding.search",
    "jumok.evaluation.metrics", "jumok.training", "jumok.data",
]  # fmt: skip


def test_a_sentence_of_the_command_line_loads_nothing_that_reads_files_or_trains(micro):
    code = (
        "import sys\n"
        "from jumok.cli.main import main\n"
        f"sys.argv = ['jumok', 'translate', {str(micro)!r}, 'a b c']\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert not left.code, left.code\n"
        f"print([name for name in {FILES_AND_MORE!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr == "[]\n"


def test_a_sentence_alone_is_decoded_at_once_and_blocks_of_a_file_in_the_background(micro, monkeypatch):
    calls = []
    for name in ("decode", "submit"):
        method = getattr(NativeEngine, name)

        def watched(self, *given, method=method, name=name, **named):
            calls.append(name)
            return method(self, *given, **named)

        monkeypatch.setattr(NativeEngine, name, watched)
    model, texts = jumok.load(micro), ["a b c", "", "c b", "a"] * 5
    alone = model.translate(texts)
    assert calls == ["decode"]
    assert list(model.lines(iter(texts), chunk=7)) == alone
    assert calls == ["decode", "submit", "submit", "submit"]
    assert list(model.lines(iter(texts), chunk=1)) == alone
    assert set(calls[4:]) == {"decode"}
    assert model.translate([]) == []
    assert [one.text for one in model.translate(["", " "])] == ["", ""]


def test_a_verb_has_the_same_options_alone_as_among_all_verbs():
    """typer is given only what is asked for (`select_verbs`)."""
    every = typer.main.get_command(main.app).commands
    for name, command in every.items():
        arguments = main.join_words([*name.split(" "), "--help"])
        part = typer.main.get_command(main.select_verbs(arguments)).commands
        assert len(part) < len(every)
        assert describe(part[name]) == describe(command), name


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["trian"], [], ["--version"]])
def test_without_a_verb_all_of_them_are_listed(arguments):
    every = typer.main.get_command(main.app).commands
    listed = typer.main.get_command(main.select_verbs(arguments)).commands
    assert [(name, verb.short_help) for name, verb in listed.items()] == [
        (name, verb.short_help) for name, verb in every.items()
    ]


def describe(command) -> list:
    """The options of a verb, or of the verbs of a group."""
    verbs = getattr(command, "commands", {"": command})
    return [(name, option.name, option.opts, option.help) for name, verb in verbs.items() for option in verb.params]
