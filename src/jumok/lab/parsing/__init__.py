"""Constituency parsing as translation (section 6.3): trees, rare words, outputs that are trees, drawings.

Read first: trees.py.
"""
