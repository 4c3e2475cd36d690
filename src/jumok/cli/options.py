"""Options, arguments and help of the verbs: their texts come from the catalogue (messages/*/help.toml).

    source: Annotated[str | None, option("FILE", "help.source")] = None

    @app.command(**verb("help.train"))
    def train(...): ...

What several verbs share is named here once.  No torch.
"""

from typing import Annotated, Any, TypedDict

import typer

from jumok import messages

SETTINGS = {"help_option_names": ["-h", "--help"]}
ALL_ENGINES = "torch,native,native-shortlist,ctranslate2-float32,ctranslate2-int8,ctranslate2-int8-shortlist"


class Help(TypedDict):
    """What typer shows of a verb: a line in a list of verbs, and a page."""

    short_help: str
    help: str


def verb(key: str) -> Help:
    """Return the help of a verb, or of a group of verbs: an explanation, then its examples, which are not wrapped."""
    entry = messages.find(key)
    assert isinstance(entry, dict), f"{key} is not the help of a verb"
    examples = f"\n\n\b\n{entry['examples']}" if "examples" in entry else ""
    return Help(short_help=entry["short"], help=entry["long"] + examples)


def option(metavar: str, key: str, *names: str) -> Any:
    """Return an option with a value; it is named like its parameter unless names are given."""
    return typer.Option(*names, metavar=metavar, help=messages.text(key))


def flag(name: str, key: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=messages.text(key))


def argument(key: str, metavar: str | None = None) -> Any:
    """Return an argument, which is given without the name of an option."""
    return typer.Argument(help=messages.text(key), metavar=metavar)


File = str | None
Files = list[str] | None
Words = list[str] | None

ModelPath = Annotated[str, argument("help.model", "MODEL")]
Json = Annotated[bool, flag("--json", "help.json")]
Device = Annotated[str, option("NAME", "help.device")]

Source = Annotated[File, option("FILE", "help.source")]
Target = Annotated[File, option("FILE", "help.target")]
Table = Annotated[File, option("FILE", "help.table")]
Corpus = Annotated[File, option("NAME", "help.corpus")]
ValidSource = Annotated[File, option("FILE", "help.valid_source")]
ValidTarget = Annotated[File, option("FILE", "help.valid_target")]
ValidTable = Annotated[File, option("FILE", "help.valid_table")]
Sources = Annotated[Files, option("FILE", "help.source", "--source")]
Targets = Annotated[Files, option("FILE", "help.target", "--target")]
Tables = Annotated[Files, option("FILE", "help.table", "--table")]
ValidSources = Annotated[Files, option("FILE", "help.valid_source", "--valid-source")]
ValidTargets = Annotated[Files, option("FILE", "help.valid_target", "--valid-target")]
ValidTables = Annotated[Files, option("FILE", "help.valid_table", "--valid-table")]
Shares = Annotated[str | None, option("NUMBERS", "help.shares")]
Temperature = Annotated[float | None, option("T", "help.corpora_temperature")]
Columns = Annotated[str | None, option("NAMES", "help.columns")]
Excluded = Annotated[Files, option("FILE", "help.exclude", "--exclude")]

SourceLanguage = Annotated[str | None, option("TAG", "help.source_language")]
TargetLanguage = Annotated[str | None, option("TAG", "help.target_language")]

Steps = Annotated[int | None, option("N", "help.steps")]
Tokens = Annotated[int | None, option("N", "help.tokens")]
Changes = Annotated[list[str] | None, option("KEY=VALUE", "help.set", "--set")]

Beam = Annotated[int | None, option("N", "help.beam")]
LengthPenalty = Annotated[float | None, option("A", "help.length_penalty", "--length-penalty")]
Engine = Annotated[str, option("NAME", "help.engine")]
Precision = Annotated[str | None, option("NAME", "help.precision")]
Shortlist = Annotated[bool, flag("--shortlist", "help.shortlist")]
Deterministic = Annotated[bool, flag("--deterministic", "help.deterministic")]

Sentences = Annotated[str, option("FILE", "help.sentences")]
References = Annotated[str, option("FILE", "help.references")]
Beams = Annotated[str, option("NUMBERS", "help.beams")]
Rounds = Annotated[int, option("N", "help.rounds")]
FirstSentences = Annotated[int, option("N", "help.first_sentences")]
