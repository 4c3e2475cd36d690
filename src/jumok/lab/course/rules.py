"""Comparisons and small sums over named numbers, written as text: "attention > rnn and chain == 1".

The quiz says with them which of its choices is right.  Floats are equal if they agree to six digits, which is how many
a finding has.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from jumok.errors import UsageError

SUMS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
NEAR, SMALL = 1e-5, 1e-9  # how far equal numbers may be apart, relatively and near 0


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal, numbers up to rounding."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=NEAR, abs_tol=SMALL)
    return bool(one == other)


def compare(sign: ast.cmpop, one: Any, other: Any) -> bool:
    same = is_same(one, other)
    match sign:
        case ast.Eq():
            return same
        case ast.NotEq():
            return not same
        case ast.Lt():
            return bool(one < other) and not same
        case ast.Gt():
            return bool(one > other) and not same
        case _:
            raise UsageError("lab.bad_rule", rule=type(sign).__name__)


def evaluate(rule: str, values: Mapping[str, Any]) -> Any:
    """The value of a rule; a name stands for its value."""

    def walk(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in values:
                return values[name]
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in SUMS:
                return SUMS[type(sign)](walk(left), walk(right))
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(walk(part) for part in parts)
            case ast.Compare(left=left, ops=[sign], comparators=[right]):
                return compare(sign, walk(left), walk(right))
            case _:
                raise UsageError("lab.bad_rule", rule=rule)

    return walk(ast.parse(rule, mode="eval").body)
