"""What is in a corpus, what is wrong with it, and copies that are repaired.

Read first: survey.py.
"""
