"""Run folders, checkpoints and finished models on disk: whole or ignored.

Level 3.  Read first: bundle.py.
"""
