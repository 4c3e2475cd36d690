"""Speed under one fixed protocol: ours and the peers are timed alike.

Level 10.  Read first: measure.py.
"""
