"""The same training for jumok and for others, alternated in one run."""
