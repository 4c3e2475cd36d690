"""Several models trained alike and compared.

Level 9.  Read first: run.py.
"""
