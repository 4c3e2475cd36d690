"""Randomness by name: everything random in jumok is drawn from a key made of (seed, purpose, numbers).

No generator is passed around or saved: the dropout of update 1,200 is the same in an uninterrupted run and in one that
was resumed after a crash.
"""

from hashlib import blake2b

import numpy as np


def key(seed: int, purpose: str, *numbers: int) -> int:
    """A 63-bit number that depends only on the arguments."""
    text = ":".join([str(seed), purpose, *map(str, numbers)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """A NumPy generator that is seeded with `key`."""
    return np.random.Generator(np.random.PCG64(key(seed, purpose, *numbers)))
