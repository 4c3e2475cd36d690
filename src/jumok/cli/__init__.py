"""The command line.  Verbs are short: they turn options into calls.

Level 12.  Read first: main.py.
"""
