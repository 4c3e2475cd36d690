"""The ids that are the same in every vocabulary and every model, and are not words."""

PAD, UNKNOWN, START, END = 0, 1, 2, 3
SEPARATOR, CLASS, MASK = 4, 5, 6  # between the parts of a text; before it; in place of a word
RESERVED = ("<sep>", "<cls>", "<mask>", "<extra>")  # the names of ids 4 … 7
SPECIALS = 4 + len(RESERVED)  # words have ids from here on
NEVER = (PAD, UNKNOWN, START, *range(4, SPECIALS))  # tokens that no output contains
