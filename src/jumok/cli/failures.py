"""Errors to lines on stderr and exit codes: the user's, the system's, typer's about wrong options, and our bugs.

    code = report(error, app)

The codes are in errors.py.
"""

import re
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from jumok import messages
from jumok.errors import DiskError, JumokError, MissingPackage, UsageError
from jumok.extras import find_missing, hint

INTERRUPTED = 130
MISUSE: type[Exception] = typer.BadParameter.__mro__[2]  # ClickException, of click or of typer's copy of it


def report(error: BaseException, app: typer.Typer) -> int:
    """Print an error that ended a verb of `app`; returns the exit code of the process."""
    if isinstance(error, JumokError):
        return print_error(error)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        print(messages.text("cli.interrupted"), file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, OSError):
        return print_error(describe_system_error(error))
    if isinstance(error, MISUSE):
        return report_usage(error)
    if isinstance(error, ImportError) and (module := find_missing(error)) is not None:
        command = name_verb(app, sys.argv[1:])
        return print_error(
            MissingPackage("cli.verb_needs_package", command=command, module=module, advice=hint(module))
        )
    return report_bug(error)


def print_error(error: JumokError) -> int:
    """Print an error; returns its exit code."""
    print(f"jumok: {error}", file=sys.stderr)
    return error.code


def report_bug(error: BaseException) -> int:
    """Print the traceback of an error that should not happen."""
    traceback.print_exception(error)
    print(f"jumok: {messages.text('cli.bug')}", file=sys.stderr)
    return 1


def name_verb(app: typer.Typer, arguments: Sequence[str]) -> str:
    """Return the command that arguments begin with: `jumok train`, `jumok data check`."""
    command: Any = typer.main.get_command(app)
    words = ["jumok"]
    for word in arguments:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        words.append(word)
    return " ".join(words)


def describe_system_error(error: OSError) -> DiskError:
    """Return an error of the system as one that the user can repair."""
    reason = error.strerror or error
    if error.filename:
        return DiskError("cli.system_error_in_file", reason=reason, file=error.filename)
    return DiskError("cli.system_error", reason=reason)


def report_usage(error: Any) -> int:
    """Print what typer reports about wrong options as an error of ours; without any arguments, print the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return UsageError.code
    reason = error.format_message().rstrip(".").replace(". Did you", "; did you")
    is_english = messages.spoken() == messages.ENGLISH
    reason = reason[:1].lower() + reason[1:] if is_english else translate_reason(reason)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "jumok"
    return print_error(UsageError("cli.misuse", reason=reason, command=command))


def translate_reason(reason: str) -> str:
    """Return what typer reports in the language that was chosen, where it is one of the usual mistakes."""
    if match := re.match(r"No such option: ([^\s;]+)", reason):
        return messages.text("cli.no_such_option", option=match[1])
    if match := re.match(r"No such command '(.+?)'", reason):
        return messages.text("cli.no_such_command", command=match[1])
    if match := re.match(r"Missing (?:argument|option|parameter) '(.+?)'", reason):
        return messages.text("cli.missing_parameter", parameter=match[1])
    return reason
