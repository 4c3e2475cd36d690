"""Formulas of the blocks of figure 1 as MathML, which browsers draw themselves.

FORMULAS["attention"]        # softmax(Q Kᵀ / √d_k) V, equation 1 of the paper

Every symbol is inside an element whose `data-term` names its entry in the list of terms (reports/terms.toml).
"""

from __future__ import annotations


def mi(name: str) -> str:
    """An identifier; longer names are upright."""
    return f"<mi>{name}</mi>" if len(name) == 1 else f'<mi mathvariant="normal">{name}</mi>'


def mo(sign: str) -> str:
    return f"<mo>{sign}</mo>"


def mn(number: str) -> str:
    return f"<mn>{number}</mn>"


def row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def sub(base: str, below: str) -> str:
    return f"<msub>{base}{below}</msub>"


def sup(base: str, above: str) -> str:
    return f"<msup>{base}{above}</msup>"


def frac(top: str, bottom: str) -> str:
    return f"<mfrac>{top}{bottom}</mfrac>"


def root(inner: str) -> str:
    return f"<msqrt>{inner}</msqrt>"


def term(key: str, *parts: str) -> str:
    """A symbol that the list of terms explains under a key."""
    return f'<mrow data-term="{key}">{"".join(parts)}</mrow>'


def call(key: str, function: str, *arguments: str) -> str:
    """A function, which a term explains, and its arguments in parentheses."""
    inner = mo(",").join(arguments)
    return row(term(key, mi(function)), mo("("), inner, mo(")"))


def math(*parts: str) -> str:
    """A whole formula."""
    return f'<math display="block">{row(*parts)}</math>'


X, Q, K, V = (term(key, mi(name)) for key, name in (("vector", "x"), ("query", "Q"), ("key", "K"), ("value", "V")))
E, H, POS = term("embedding", mi("E")), term("state", mi("h")), term("position", mi("pos"))
SPACE = '<mspace width="0.3em"/>'
DK, DM = term("d-k", sub(mi("d"), mi("k"))), term("d-model", sub(mi("d"), mi("model")))
W, WO = term("weight-matrix", mi("W")), term("w-o", sup(mi("W"), mi("O")))
W1, W2 = (term("weight-matrix", sub(mi("W"), mn(number))) for number in "12")
B1, B2 = (term("bias", sub(mi("b"), mn(number))) for number in "12")
PE, TIMES = term("positional-encoding", sub(mi("PE"), mi("pos"))), term("elementwise", mo("⊙"))
SUBLAYER = call("sub-layer", "Sublayer", X)
SUM = row(X, mo("+"), SUBLAYER)
INNER = row(X, W1, mo("+"), B1)
MASK, EPSILON = term("mask", mi("M")), term("epsilon", mi("ε"))
GAIN, SHIFT = (term("gain-and-shift", mi(name)) for name in "γβ")


def head(index: str) -> str:
    return term("head", sub(mi("head"), index))


def transpose(matrix: str) -> str:
    return sup(matrix, term("transpose", mi("T")))


def lookup(table: str, key: str, name: str) -> str:
    """A row of a table."""
    return row(table, mo("["), term(key, mi(name)), mo("]"))


def attention(scores: str) -> str:
    """Heads of an attention with these scores, and W^O."""
    one = row(head(mi("i")), mo("="), call("softmax", "softmax", scores), V)
    concat = row(call("concat", "Concat", head(mn("1")), mo("…"), head(mi("h"))), WO)
    return math(one, mo(","), SPACE, term("multi-head", mi("MultiHead")), mo("="), concat)


def feed_forward(activation: str) -> str:
    return math(call("feed-forward", "FFN", X), mo("="), row(activation, W2, mo("+"), B2))


QK = row(Q, transpose(K))
SCALED = frac(QK, root(DK))
MASKED = row(SCALED, mo("+"), MASK)
ADDITIVE = row(transpose(term("additive-attention", mi("w"))), call("activation", "tanh", row(Q, mo("+"), K)))
PAIR = row(mn("2"), term("pair-index", mi("i")))
SINE = frac(POS, sup(mn("10000"), row(PAIR, mo("/"), DM)))
EXP_I, EXP_J = (sup(term("exponential", mi("e")), term("logit", sub(mi("z"), mi(index)))) for index in "ij")
TOTAL = term("sum", sub(mo("∑"), mi("j")))
BEFORE = term("state", sub(mi("h"), row(mi("t"), mo("−"), mn("1"))))
MATCH = row(transpose(term("question", mi("u"))), term("memory", sub(mi("m"), mi("i"))))
TURN = row(term("rotation", mi("R")), mo("("), POS, mo(")"))
SQUARES = row(term("mean", mi("mean")), mo("("), sup(X, mn("2")), mo(")"), mo("+"), EPSILON)
SPREAD = row(sup(term("deviation", mi("σ")), mn("2")), mo("+"), EPSILON)
TOKEN = lookup(E, "token", "token")
GATE = term("weight-matrix", mi("V"))

FORMULAS: dict[str, str] = {
    "embedding": math(X, mo("="), TOKEN, mo("·"), root(DM)),
    "embedding-plain": math(X, mo("="), TOKEN),
    "embedding-segments": math(X, mo("="), TOKEN, mo("+"), lookup(term("segment", mi("S")), "segment", "segment")),
    "positions": math(X, mo("+"), PE, mo(","), SPACE,
                      term("positional-encoding", sub(mi("PE"), row(mi("pos"), mo(","), mn("2"), mi("i")))), mo("="),
                      call("positional-encoding", "sin", SINE)),
    "positions-learned": math(X, mo("+"), lookup(term("positional-encoding", mi("P")), "position", "pos")),
    "positions-rotary": math(Q, mo("→"), TURN, Q, mo(","), SPACE, K, mo("→"), TURN, K),
    "positions-appended": math(W, mo("["), X, mo(";"), POS, mo("]")),
    "positions-concatenated": math(W, mo("["), X, mo(";"), PE, mo("]")),
    "attention": attention(SCALED),
    "attention-dot": attention(QK),
    "attention-additive": attention(ADDITIVE),
    "masked": attention(MASKED),
    "masked-dot": attention(row(QK, mo("+"), MASK)),
    "masked-additive": attention(row(ADDITIVE, mo("+"), MASK)),
    "add": math(SUM),
    "norm": math(GAIN, TIMES, frac(row(X, mo("−"), term("mean", mi("μ"))), root(SPREAD)), mo("+"), SHIFT),
    "norm-rms": math(GAIN, TIMES, frac(X, root(SQUARES))),
    "post-norm": math(call("layer-norm", "LayerNorm", SUM)),
    "pre-norm": math(X, mo("+"), call("sub-layer", "Sublayer", call("layer-norm", "LayerNorm", X))),
    "feed-forward": feed_forward(call("activation", "max", mn("0"), INNER)),
    "feed-forward-gelu": feed_forward(call("activation", "gelu", INNER)),
    "feed-forward-linear": feed_forward(row(mo("("), INNER, mo(")"))),
    "feed-forward-swiglu": math(call("feed-forward", "FFN", X), mo("="), mo("("),
                                call("activation", "swish", row(X, W)), TIMES, X, GATE, mo(")"), W2),
    "output": math(term("logit", mi("logits")), mo("="), H, transpose(E)),
    "output-untied": math(term("logit", mi("logits")), mo("="), H, transpose(W)),
    "softmax": math(term("probability", sub(mi("p"), mi("i"))), mo("="), frac(EXP_I, row(TOTAL, EXP_J))),
    "states": math(term("state", sub(mi("h"), mi("t"))), mo("="),
                   call("recurrence", "f", term("vector", sub(mi("x"), mi("t"))), BEFORE)),
    "hop": math(term("memory", mi("o")), mo("="), term("sum", sub(mo("∑"), mi("i"))),
                call("softmax", "softmax", MATCH), term("memory", sub(mi("c"), mi("i")))),
}  # fmt: skip
