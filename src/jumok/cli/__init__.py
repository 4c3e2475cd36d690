"""The command line.  Verbs are short: they turn options into calls.

Level 12.  Read first: main.py.
"""

import os
import sys
from contextlib import suppress

from jumok import messages
from jumok.cli.language import take_language
from jumok.errors import UnknownName

# Before the verbs are imported, because typer reads their help then.  An unknown language is reported by main.run.
with suppress(UnknownName):
    messages.speak(take_language(sys.argv[1:], os.environ)[1])
