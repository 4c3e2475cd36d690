"""One file for each claim; lab/__init__.py is their table."""
