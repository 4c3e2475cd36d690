"""Scores of translations: BLEU, chrF, TER, significance, alignment error.

Level 5.  Read first: evaluate.py.  No torch.
"""
