"""Search for the best translation over any step function; knows models.base and nothing else of a model."""
