"""Generated corpora: the phrasebook and its grammar, stories with questions.

Read first: phrasebook.py.
"""
