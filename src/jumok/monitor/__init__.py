"""Runs as others see them: which there are, whether they train, their curves, texts and recipes.  No torch.

Level 5.  Read first: runs.py.

Nothing here changes a run or waits for one: logs are read while training writes them.
"""
