"""Run folders, checkpoints and finished models on disk: whole or ignored.

Level 4.  Read first: bundle.py.
"""
