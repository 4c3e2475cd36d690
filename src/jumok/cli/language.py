"""The language of help, errors and reports: --lang, JUMOK_LANG, or else the locale.

    arguments, language = take_language(["--lang", "ko", "train"], os.environ)      # ["train"], "ko"

typer reads help texts when the verbs are imported, so cli/__init__.py chooses before that.  JSON is for programs and
does not depend on it: with --json everything is English.
"""

from collections.abc import Mapping, Sequence

from jumok.errors import UnknownName
from jumok.messages import ENGLISH, LANGUAGES

LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides, as in POSIX
OPTION = "--lang"
SPEAKING = ("inside", "lab", "look")  # verbs with an option --lang of their own, which also names the language of pages


def read_locale(environment: Mapping[str, str]) -> str:
    """Return the language that the environment asks for; English if jumok does not speak it.

    >>> read_locale({"LANG": "ko_KR.UTF-8"}), read_locale({"LC_ALL": "C", "LANG": "ko_KR.UTF-8"})
    ('ko', 'en')
    """
    values = (environment.get(name, "") for name in ("JUMOK_LANG", *LOCALE))
    value = next(filter(None, values), ENGLISH).lower()
    return next((language for language in LANGUAGES if value.startswith(language)), ENGLISH)


def take_language(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the arguments without --lang, and the language to show messages in."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rest: list[str] = []
    language, verb, position = read_locale(environment), "", 0
    while position < end:
        word, width = arguments[position], 1
        given = word.removeprefix(f"{OPTION}=") if word.startswith(f"{OPTION}=") else None
        if word == OPTION and position + 1 < end:
            given, width = arguments[position + 1], 2
        if given is None or verb in SPEAKING:
            rest += arguments[position : position + width]
        elif given not in LANGUAGES:
            raise UnknownName("cli.unknown_language", given, LANGUAGES)
        language = given if given in LANGUAGES else language
        verb = verb or ("" if word.startswith("-") else word)
        position += width
    is_for_programs = "--json" in arguments[:end]
    return [*rest, *arguments[end:]], ENGLISH if is_for_programs else language
