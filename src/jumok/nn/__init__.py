"""The parts of figure 1 in plain torch, and their variants; what makes them fast is in kernels/.

Level 2.  Read first: attention.py, then layers.py and positions.py.
"""
