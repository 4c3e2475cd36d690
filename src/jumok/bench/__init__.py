"""Benchmarks of speed with a fixed protocol, the same for jumok and its peers.

Level 10.  Read first: measure.py.
"""
