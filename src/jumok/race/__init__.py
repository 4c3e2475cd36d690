"""Races: several models trained with the same data and budget, and compared.

Level 10.  Read first: run.py.
"""
