"""Plain data to terminal, SVG and one-file HTML pages.

Level 2.  Read first: attention.py.  No torch.
"""
