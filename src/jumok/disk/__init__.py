"""Locks on folders, and the per-user cache.

Level 2.  Read first: locks.py.
"""
