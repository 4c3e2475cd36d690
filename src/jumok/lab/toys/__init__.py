"""Toy tasks: one attention layer learns in a second what a claim says it can or cannot do.

Read first: fitting.py.  A task is a module: lookup.py (the symbol two to the left), table.py (an arbitrary function of
two symbols), fetch.py (several marked symbols at once).
"""
