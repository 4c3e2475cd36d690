"""Locks on folders, and the per-user cache.

Level 1.  Read first: locks.py.
"""
