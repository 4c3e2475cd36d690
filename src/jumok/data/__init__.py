"""Corpora to batches."""
