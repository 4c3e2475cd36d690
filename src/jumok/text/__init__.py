"""Strict reading of text files, subwords, word boundaries, tables, addresses.

Level 2.  Read first: lines.py, then vocabulary.py.  No torch.
"""
