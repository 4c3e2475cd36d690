"""From a recipe to a finished model in a run folder, resumed where it was stopped.

Level 9.  Read first: experiment.py.
"""
