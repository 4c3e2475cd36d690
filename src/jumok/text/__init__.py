"""Reading files by rule, subwords, word boundaries, tables, addresses.

Level 2.  Read first: lines.py, then vocabulary.py.  No torch.
"""
