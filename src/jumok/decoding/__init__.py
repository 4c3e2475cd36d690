"""Search over a step and a state; it never sees a model.

Level 5.  Read first: search.py.
"""
