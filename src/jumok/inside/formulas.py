"""Formulas of the blocks of figure 1 as MathML, which browsers draw themselves.

FORMULAS["attention"]        # softmax(Q Kᵀ / √d_k) V, equation 1 of the paper
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


def call(function: str, *arguments: str) -> str:
    """A function and its arguments in parentheses."""
    inner = mo(",").join(arguments)
    return row(mi(function), mo("("), inner, mo(")"))


def math(*parts: str) -> str:
    """A whole formula."""
    return f'<math display="block">{row(*parts)}</math>'


X, Q, K, V, W, P = (mi(name) for name in "xQKVWP")
SPACE = '<mspace width="0.3em"/>'
DK, DM = sub(mi("d"), mi("k")), sub(mi("d"), mi("model"))
WO = sup(W, mi("O"))
SUBLAYER = call("Sublayer", X)
SUM = row(X, mo("+"), SUBLAYER)
W1, W2 = sub(W, mn("1")), sub(W, mn("2"))
B1, B2 = sub(mi("b"), mn("1")), sub(mi("b"), mn("2"))
INNER = row(X, W1, mo("+"), B1)


def attention(scores: str) -> str:
    """Heads of an attention with these scores, and W^O."""
    head = row(sub(mi("head"), mi("i")), mo("="), call("softmax", scores), V)
    concat = row(call("Concat", sub(mi("head"), mn("1")), mo("…"), sub(mi("head"), mi("h"))), WO)
    return math(head, mo(","), SPACE, mi("MultiHead"), mo("="), concat)


def feed_forward(activation: str) -> str:
    return math(call("FFN", X), mo("="), row(activation, W2, mo("+"), B2))


QK = row(Q, sup(K, mi("T")))
SCALED = frac(QK, root(DK))
MASKED = row(SCALED, mo("+"), mi("M"))
ADDITIVE = row(sup(mi("w"), mi("T")), call("tanh", row(Q, mo("+"), K)))
SINE = frac(mi("pos"), sup(mn("10000"), row(mn("2"), mi("i"), mo("/"), DM)))
EXP_I, EXP_J = (sup(mi("e"), sub(mi("z"), mi(index))) for index in "ij")
BEFORE = sub(mi("h"), row(mi("t"), mo("−"), mn("1")))
MATCH = row(sup(mi("u"), mi("T")), sub(mi("m"), mi("i")))
TURN = row(mi("R"), mo("("), mi("pos"), mo(")"))

FORMULAS: dict[str, str] = {
    "embedding": math(X, mo("="), mi("E"), mo("["), mi("token"), mo("]"), mo("·"), root(DM)),
    "embedding-plain": math(X, mo("="), mi("E"), mo("["), mi("token"), mo("]")),
    "embedding-segments": math(X, mo("="), mi("E"), mo("["), mi("token"), mo("]"), mo("+"), mi("S"), mo("["),
                               mi("segment"), mo("]")),
    "positions": math(X, mo("+"), sub(mi("PE"), mi("pos")), mo(","), SPACE,
                      sub(mi("PE"), row(mi("pos"), mo(","), mn("2"), mi("i"))), mo("="), call("sin", SINE)),
    "positions-learned": math(X, mo("+"), P, mo("["), mi("pos"), mo("]")),
    "positions-rotary": math(Q, mo("→"), TURN, Q, mo(","), SPACE, K, mo("→"), TURN, K),
    "positions-appended": math(W, mo("["), X, mo(";"), mi("pos"), mo("]")),
    "positions-concatenated": math(W, mo("["), X, mo(";"), sub(mi("PE"), mi("pos")), mo("]")),
    "attention": attention(SCALED),
    "attention-dot": attention(QK),
    "attention-additive": attention(ADDITIVE),
    "masked": attention(MASKED),
    "masked-dot": attention(row(QK, mo("+"), mi("M"))),
    "masked-additive": attention(row(ADDITIVE, mo("+"), mi("M"))),
    "add": math(SUM),
    "norm": math(mi("γ"), mo("⊙"), frac(row(X, mo("−"), mi("μ")), root(row(sup(mi("σ"), mn("2")), mo("+"), mi("ε")))),
                 mo("+"), mi("β")),
    "norm-rms": math(mi("γ"), mo("⊙"), frac(X, root(row(mi("mean"), mo("("), sup(X, mn("2")), mo(")"), mo("+"),
                                                        mi("ε"))))),
    "post-norm": math(call("LayerNorm", SUM)),
    "pre-norm": math(X, mo("+"), call("Sublayer", call("LayerNorm", X))),
    "feed-forward": feed_forward(call("max", mn("0"), INNER)),
    "feed-forward-gelu": feed_forward(call("gelu", INNER)),
    "feed-forward-linear": feed_forward(row(mo("("), INNER, mo(")"))),
    "feed-forward-swiglu": math(call("FFN", X), mo("="), mo("("), call("swish", row(X, W)), mo("⊙"), X, V, mo(")"), W2),
    "output": math(mi("logits"), mo("="), mi("h"), sup(mi("E"), mi("T"))),
    "output-untied": math(mi("logits"), mo("="), mi("h"), sup(W, mi("T"))),
    "softmax": math(sub(mi("p"), mi("i")), mo("="), frac(EXP_I, row(sub(mo("∑"), mi("j")), EXP_J))),
    "states": math(sub(mi("h"), mi("t")), mo("="), call("f", sub(X, mi("t")), BEFORE)),
    "hop": math(mi("o"), mo("="), sub(mo("∑"), mi("i")), call("softmax", MATCH), sub(mi("c"), mi("i"))),
}  # fmt: skip
