"""Several models trained alike and compared.

Level 10.  Read first: run.py.
"""
