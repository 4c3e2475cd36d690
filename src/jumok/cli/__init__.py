"""The command line.  Verbs are short: they turn options into calls.

Level 11.  Read first: main.py.
"""
