"""Scores of translations: BLEU, chrF, TER, significance, alignment error.

Level 6.  Read first: evaluate.py.  No torch.
"""
