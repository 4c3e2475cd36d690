"""The command line.  Verbs are short: they turn options into calls.

Level 12.  Read first: main.py.
"""

import os
import sys
from contextlib import suppress

from jumok import messages
from jumok.cli.language import take_language
from jumok.errors import UnknownName

with suppress(
    UnknownName
):  # which main.run reports; before the verbs are imported, because typer reads their help then
    messages.speak(take_language(sys.argv[1:], os.environ)[1])
