"""The study notes, checked: 105 statements with a verdict, what is right instead, a number and a command.

    page = read_page()                              # from the package; torch is not loaded
    to_markdown(page, "ko")                         # docs/notes.ko.md
    to_html(page, "ko")                             # what the studio shows

Level 10.  Read first: page.py.

Written are statements.toml (statements and verdicts) and figures.toml (which numbers, and how they are worded).
numbers.json has the numbers: `python tools/notes.py` reads them from the findings on disk and writes the pages.
"""
