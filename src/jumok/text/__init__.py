"""Strings to ids and exactly back; no torch."""
