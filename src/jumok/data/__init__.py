"""From text to batches: corpora, preparation, token store, batches; and the corpora that jumok generates itself.

Level 5.  Read first: corpora.py, then resolve.py and batches.py.
"""
