"""Statistics and faults of a corpus, and repaired copies of its files.

Read first: survey.py.
"""
