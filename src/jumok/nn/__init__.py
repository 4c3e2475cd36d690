"""The parts of figure 1: plain arguments in, tensors out, nothing else of jumok imported."""
