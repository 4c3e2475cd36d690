"""From batches to weights.  Nothing here knows text, files of the user, or how to translate."""
