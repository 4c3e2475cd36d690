"""The command line.  Verbs are short: they turn options into calls.

Level 12.  Read first: main.py.
"""

import os
import sys

from jumok import messages
from jumok.cli.language import take_language
from jumok.errors import UnknownName

try:  # before the verbs are imported: typer reads their help then
    messages.speak(take_language(sys.argv[1:], os.environ)[1])
except UnknownName:  # main.run reports it
    pass
