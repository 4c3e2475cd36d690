"""Comparisons with peers: scripts that need only the standard library, with a separate environment per system."""
