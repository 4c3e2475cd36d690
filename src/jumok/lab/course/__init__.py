"""Material for a class of five lessons: worksheets, a quiz and figures for slides, in Korean and English.

    python tools/course.py          # writes docs/class from the findings on disk

Level 10.  Read first: worksheets.py.

Texts are in worksheets.toml, quiz.toml and slides.toml.  A number in a key or an answer is a placeholder whose path
leads into a finding (lab/notes/numbers.py), and what is right in the quiz is decided by comparing such numbers.
"""
