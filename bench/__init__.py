"""Comparisons with peers: conductors of the standard library only, each system in an environment of its own."""
