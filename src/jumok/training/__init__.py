"""The loop, the update on all cores, optimizers, schedules, the budget of time, validation.

Level 8.  Read first: loop.py.
"""
