"""Models for other engines.

Level 5.  Read first: ctranslate2.py.  No torch.
"""
