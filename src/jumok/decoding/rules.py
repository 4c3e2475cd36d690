"""What a hypothesis may not do next: rules over candidates, applied after the softmax so that scores stay the model's.

A rule gets the logits (N, V) of a step and its number, and sets what is forbidden to minus infinity in place.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

Rule = Callable[[Tensor, int], None]


def never(tokens: Sequence[int]) -> Rule:
    """Forbid tokens at every step, e.g. padding and the start symbol."""
    listed = list(tokens)

    def rule(logits: Tensor, step: int) -> None:
        logits[:, listed] = -float("inf")

    return rule


def at_least(length: int, end: int) -> Rule:
    """Forbid the end before `length` tokens."""

    def rule(logits: Tensor, step: int) -> None:
        if step < length:
            logits[:, end] = -float("inf")

    return rule
