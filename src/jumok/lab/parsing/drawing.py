"""A tree as a picture: phrases above their words, with lines from each phrase to its parts."""

from __future__ import annotations

from jumok.lab.parsing.trees import TOP, Leaf, Tree
from jumok.reports.drawing import FONT, GREY, PALETTE, display_width, escape, svg_page

ROW, SIDE = 46.0, 16.0


def tree_svg(tree: Tree, *, title: str = "") -> str:
    """The tree as SVG, legible on white and on black; words are in the bottom row, a root TOP is left out."""
    root = tree.children[0] if tree.label == TOP and len(tree.children) == 1 else tree
    upper = 56.0 if title else 26.0
    words_at = upper + ROW * height(root)
    body = [f'<g font-family="{FONT}" font-size="14" fill="{GREY}">']
    if title:
        body.append(f'<text x="16" y="28" font-size="16" font-weight="600">{escape(title)}</text>')
    lines: list[str] = []
    right = SIDE

    def draw_node(node: Tree | Leaf, level: int) -> tuple[float, float]:
        """Draw a node at this level; returns the position of its label."""
        nonlocal right
        if isinstance(node, Leaf):
            wide = 8.6 * display_width(node.word) + 14
            across, right = right + wide / 2, right + wide
            body.append(f'<text x="{across:.1f}" y="{words_at:.1f}" text-anchor="middle">{escape(node.word)}</text>')
            return across, words_at
        start, below = right, [draw_node(child, level + 1) for child in node.children]
        right = max(right, start + 9.5 * display_width(node.label) + 12)  # a long label above a short word
        across, down = (below[0][0] + below[-1][0]) / 2, upper + ROW * level
        fork = down + 15  # lines go straight down from here, so none crosses the label of another phrase
        lines.extend(f"M{across:.1f} {down + 6:.1f}V{fork:.1f}H{x:.1f}V{y - 15:.1f}" for x, y in below)
        body.append(
            f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="middle" font-weight="600" '
            f'fill="{PALETTE[0]}">{escape(node.label)}</text>'
        )
        return across, down

    draw_node(root, 0)
    body.append(f'<path d="{"".join(lines)}" stroke="{GREY}" stroke-opacity=".6" fill="none"/>')
    return svg_page(right + SIDE, words_at + 20, [*body, "</g>"], title or "Tree")


def height(node: Tree | Leaf) -> int:
    """The number of phrases above the deepest word."""
    return 0 if isinstance(node, Leaf) else 1 + max(height(child) for child in node.children)
