"""What makes models fast: kernels in C, and modules that take the place of a model's own.

Level 4.  Read first: modules.py, then library.py, ops.py, pack.py.  The sources of the kernels are in c/.
"""
