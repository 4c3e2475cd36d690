"""Corpora of any size to a prepared folder: read once, in parts, on all cores, resumed after a kill.

Read first: pipeline.py, then reading.py, parts.py, sift.py, decide.py.
"""
