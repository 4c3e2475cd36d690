"""Inside a model: every number that it makes of a sentence, and what changes when a part of it is switched off.

    reading = read(model, source, target)             # each block of figure 1 with its tensors
    reading.blocks["encoder.0.attention"]["weights"]  # (B, H, T, S)
    read(model, source, target, Edits(off={"positions"}))

A reading calls the model's own parts one after the other and records what they return; its last value is that of the
model, bit for bit.  `Edits` are applied by the same reading, so an edited model can also be searched and scored.  Where
the kernels translate, they read, edit and search in the same way, without torch (native_inspector.py).

Level 8.  Read first: inspector.py, then reading.py and passes.py.
"""
