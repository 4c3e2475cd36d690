"""Several models on the same text with the same budget, in turn: who learns what in how long, and at what cost."""
