"""The command line.  Verbs are short: they turn options into calls.

Level 10.  Read first: main.py.
"""
