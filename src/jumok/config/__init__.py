"""Recipes: a whole run as one value, made of closed and bounded sections.

Level 2.  Read first: sections.py, then presets.py.  No torch.
"""
