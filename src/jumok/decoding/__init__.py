"""Search over a step and a state; it never sees a model.

Level 4.  Read first: search.py.
"""
