"""Engines: ids to hypotheses."""
