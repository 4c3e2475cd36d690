"""Where things are: on the desk, behind the car, and what there is in a park.

Not here  the things (words.py).
"""

SPOTS = (
    ("on", "위", "desk chair box"),
    ("under", "밑", "desk chair"),
    ("in", "안", "box bag car"),
    ("next to", "옆", "desk chair box car"),
    ("behind", "뒤", "desk chair box car"),
    ("in front of", "앞", "desk chair box car"),
)
STREET = (("next to", "옆"), ("behind", "뒤"), ("in front of", "앞"))
SCENES = (
    ("park", "pet folk"),
    ("zoo", "zoo"),
    ("classroom", "furniture"),
    ("office", "furniture machine"),
    ("restaurant", "guest"),
    ("playground", "pet folk"),
    ("library", "furniture text"),
)
