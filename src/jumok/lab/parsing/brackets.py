"""Constrained search for trees: a rule that allows only well-formed brackets over the words of a sentence.

    brackets = Brackets(surfaces, words=["XX"])                   # the symbols (S )S (NP )NP XX of a target vocabulary
    engine.decode(sources, options, ruling=brackets.ruling([7, 4]))     # sentences of 7 and of 4 words

Open     A bracket may open while words are left and the limit leaves enough steps for all words, closing brackets, END.
Close    Only the innermost bracket may close, with its own label, and not while it is empty; the outermost closes when
         no words are left, and only END follows.
Ends     The rule never leads into a dead end: what remains to be generated shrinks by one per step, unless a bracket
         opens, which is allowed only where the limit leaves enough steps.

Shapes   N rows (hypotheses) · V vocabulary · t tokens so far
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from jumok.decoding.rules import MINUS, Moment, Rule, Ruling
from jumok.errors import UsageError
from jumok.models.base import END


class Brackets:
    """Which symbols of a vocabulary open a phrase, close it, or stand for a word."""

    def __init__(
        self, surfaces: Sequence[str], words: Sequence[str], *, in_turn: bool = False, deepest: int = 64
    ) -> None:
        """`surfaces` are the symbols as text, words beginning with a space; at most `deepest` brackets are nested.

        With `in_turn` the symbols for words follow each other in order, and start again after the last.
        """
        numbers = {text[1:]: number for number, text in enumerate(surfaces) if text.startswith(" ") and text != " "}
        pairs = {number: numbers.get(f"){name[1:]}") for name, number in numbers.items() if name.startswith("(")}
        self.words = [numbers[name] for name in words if name in numbers]
        self.opening = {first: last for first, last in pairs.items() if last is not None}
        self.deepest, self.in_turn = deepest, in_turn
        if in_turn and len(self.words) < len(words):
            missing = next(name for name in words if name not in numbers)
            raise UsageError("lab.missing_symbol", symbol=missing)
        if not self.words:
            raise UsageError("lab.no_word_symbols")
        if not self.opening:
            raise UsageError("lab.no_bracket_symbols")
        size = len(surfaces)
        self.change = torch.zeros(size, dtype=torch.long)  # (V,) by how much a symbol changes the depth
        self.closing = torch.full((size,), -1)  # (V,) the symbol that closes an opening one
        self.is_word = torch.zeros(size, dtype=torch.long)  # (V,)
        for first, last in self.opening.items():
            self.change[first], self.change[last], self.closing[first] = 1, -1, last
        self.is_word[self.words] = 1

    def ruling(self, words: Sequence[int]) -> Ruling:
        """The rule for sentences with these numbers of words, for any subset that is decoded together."""
        return lambda rows, limits: self.rule([words[row] for row in rows], limits)

    def rule(self, words: Sequence[int], limits: Sequence[int]) -> Rule:
        """The rule that makes sentence b a tree over words[b] words with at most limits[b] symbols."""
        for count, limit in zip(words, limits, strict=True):
            if not 1 <= count <= limit - 3:
                raise UsageError("lab.tree_too_long", words=count, symbols=limit)
        total, most = torch.tensor(list(words)), torch.tensor(list(limits))
        opens, symbols = torch.tensor(list(self.opening)), torch.tensor(self.words)

        def rule(logits: Tensor, now: Moment) -> None:
            history, sentence = now.history.cpu(), now.sentence.cpu()
            depth, innermost, fresh = self.find_innermost(history)  # (N,)
            used = self.is_word[history].sum(dim=1)  # (N,)
            left = total[sentence] - used  # (N,)
            allowed = torch.zeros(logits.shape, dtype=torch.bool)  # (N, V)
            inside = (depth > 0) | (now.step == 0)
            fits = now.step + left + depth + 3 <= most[sentence]  # this symbol, the words, all closing brackets, END
            allowed[:, opens] = (inside & fits & (left > 0) & (depth < self.deepest))[:, None]
            more = (depth > 0) & (left > 0)
            if self.in_turn:
                allowed[torch.arange(len(used)), symbols[used % len(symbols)]] = more
            else:
                allowed[:, symbols] = more[:, None]
            closes = (depth > 0) & ~fresh & ((depth > 1) | (left == 0))
            rows = (closes & (innermost >= 0)).nonzero().squeeze(1)
            allowed[rows, innermost[rows]] = True
            allowed[:, END] = (depth == 0) & (now.step > 0)
            logits.masked_fill_(~allowed.to(logits.device), MINUS)

        return rule

    def find_innermost(self, history: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For every row (N,): the number of open brackets, the symbol that closes the innermost, whether that is empty.

        The innermost open bracket is the last one that opened to the current depth.
        """
        if history.shape[1] == 0:
            nothing = torch.zeros(len(history), dtype=torch.long)
            return nothing, nothing - 1, nothing.bool()
        change = self.change[history]  # (N, t)
        depth = change.cumsum(dim=1)  # (N, t)
        now = depth[:, -1]
        positions = torch.arange(1, history.shape[1] + 1)
        last = ((change > 0) & (depth == now[:, None])).long().mul(positions).amax(dim=1) - 1  # (N,) -1: none
        innermost = self.closing[history.gather(1, last.clamp(min=0)[:, None]).squeeze(1)]
        return now, innermost.masked_fill(last < 0, -1), change[:, -1] > 0
