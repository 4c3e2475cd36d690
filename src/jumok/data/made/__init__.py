"""Corpora that jumok makes itself: the phrasebook and the grammar behind it, stories with questions.

Read first: phrasebook.py.
"""
