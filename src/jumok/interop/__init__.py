"""Models for other engines.

Level 6.  Read first: ctranslate2.py.  No torch.
"""
