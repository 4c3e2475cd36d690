"""From text to batches: pairs, preparation, token store, batches; and the corpora that jumok makes itself.

Level 5.  Read first: corpora.py, then batches.py.
"""
