"""Token ids in, hypotheses out: torch (the reference), our kernels, CTranslate2.

Level 7.  Read first: interface.py.
"""
