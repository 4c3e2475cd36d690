"""The loop, the update on all cores, optimizers, schedules, the budget of time, validation.

Level 7.  Read first: loop.py.
"""
