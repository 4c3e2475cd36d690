"""The price of quality: BLEU against sentences per second and against file size, and the best choices.

    figures = compare(["runs/tiny", "runs/tiny-student"], source="val.en", target="val.de")
    Path("front.svg").write_text(picture(figures))

Every model runs on every engine with every beam, in one run of the protocol of bench decode.  A choice is on the front
if no other is at least as good and as fast (or as small), and better in one of the two.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from jumok.bench import decode
from jumok.data.lexicon import FILE
from jumok.engines.ctranslate2_engine import export_to_cache
from jumok.errors import UsageError
from jumok.storage import bundle

ENGINES = tuple(decode.ENGINES)


class Choice(NamedTuple):
    """A model, an engine and a beam, with the results."""

    model: str
    engine: str
    beam: int
    bleu: float
    speed: float  # sentences per second
    size: int  # bytes

    @property
    def label(self) -> str:
        return f"{self.model}, {self.engine}, beam {self.beam}"


def compare(
    models: Sequence[str],
    *,
    source: str,
    target: str,
    engines: Sequence[str] = ENGINES,
    beams: Sequence[int] = (1, 5),
    rounds: int = 3,
    sentences: int = 1_000,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Measure every choice, as plain values."""
    names = name_models(models)
    pairs = decode.test_set(source, target, sentences)
    contenders = []
    for name, model in names.items():
        for contender in decode.own_contenders(model, engines):
            contenders.append(decode.Contender(f"{name} {contender.name.removeprefix('jumok ')}", contender.command))
    figures = decode.contest(contenders, pairs, beams=decode.check_beams(beams), rounds=rounds, say=say, alone=20)
    sizes = {name: dict(size_of(model, engines)) for name, model in names.items()}
    for row in figures["systems"]:
        name, engine = row["system"].rsplit(" ", 1)
        row |= {"model": name, "engine": engine, "size": sizes[name][engine]}
    return figures | {"model": ", ".join(names), "source": Path(source).name, "target": Path(target).name}


def name_models(models: Sequence[str]) -> dict[str, str]:
    """Models by the name of their folder; equal names are distinguished by the parent folder."""
    names: dict[str, str] = {}
    for model in models:
        path = Path(model).absolute()
        path = path.parent if path.name == "model" else path
        name = path.name if path.name not in names else f"{path.parent.name}/{path.name}"
        if name in names:
            raise UsageError("bench.repeated_model", model=name, folder=model)
        names[name] = model
    return names


def size_of(model: str, engines: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The bytes that each engine reads, the vocabulary included."""
    contents = bundle.read(model)
    vocabulary = sum(map(len, contents.vocabularies.files().values()))
    for engine in engines:
        if engine in ("torch", "native"):
            yield engine, vocabulary + (contents.folder / bundle.WEIGHTS).stat().st_size
            continue
        if engine == "native-shortlist":
            yield (
                engine,
                vocabulary + sum((contents.folder / name).stat().st_size for name in (bundle.WEIGHTS, FILE)),
            )
            continue
        _, precision, *short = engine.split("-")
        unused = set() if short else {"vmap.txt"}
        files = (
            path for path in export_to_cache(contents, precision).iterdir() if path.suffix in (".bin", ".json", ".txt")
        )
        yield engine, vocabulary + sum(path.stat().st_size for path in files if path.name not in unused)


def choices(figures: Mapping[str, Any]) -> list[Choice]:
    return [
        Choice(row["model"], row["engine"], row["beam"], row["bleu"], row["sentences_per_second"], row["size"])
        for row in figures["systems"]
    ]


def front(points: Sequence[Choice], cost: Callable[[Choice], float]) -> list[Choice]:
    """The choices that no other beats, cheapest first."""
    best: list[Choice] = []
    for point in sorted(points, key=lambda point: (cost(point), -point.bleu)):
        if not best or point.bleu > best[-1].bleu:
            best.append(point)
    return best


def slowness(point: Choice) -> float:
    return 1.0 / point.speed


def size(point: Choice) -> float:
    return float(point.size)


def table(figures: Mapping[str, Any]) -> list[str]:
    """The choices as a table, fastest first; * marks the front of speed, + that of size."""
    points = sorted(choices(figures), key=slowness)
    fast, small = front(points, slowness), front(points, size)
    width = max(len(point.label) for point in points)
    lines = [f"{'':3}{'':{width}}  {'BLEU':>6}  {'sentences/s':>11}  {'MB':>6}"]
    for point in points:
        mark = ("*" if point in fast else " ") + ("+" if point in small else " ")
        lines.append(f"{mark} {point.label:{width}}  {point.bleu:6.2f}  {point.speed:11,.0f}  {point.size / 1e6:6.1f}")
    lines.append("* nothing is as good and faster    + nothing is as good and smaller")
    return lines + decode.notes(figures)


# ------------------------------------------------------------------ the picture

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 980, 440, 56, 40, 96, 70
PANEL = (WIDTH - 2 * LEFT - GAP) // 2
COLORS = ("#2563c9", "#c2410c", "#15803d", "#9333ea", "#b91c1c", "#0e7490")
SHAPES = {  # by engine
    "torch": "circle",
    "native": "star",
    "native-shortlist": "triangle",
    "ctranslate2-float32": "square",
    "ctranslate2-int8": "diamond",
    "ctranslate2-int8-shortlist": "wedge",
}
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600; font-size: 14px }
.axis { stroke: #8c959f; stroke-width: 1; fill: none } .grid { stroke: #d0d7de; stroke-width: .6 }
.front { fill: none; stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 5 4 } .small { font-size: 10.5px }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .grid { stroke: #30363d } .front { stroke: #adbac7 } .paper { fill: #0d1117 }
}
"""


class Scale(NamedTuple):
    """Maps values to pixels of an axis."""

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool

    def __call__(self, value: float) -> float:
        low, high, here = (math.log(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return self.start + (here - low) / (high - low) * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """Round numbers on the axis."""
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            numbers = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
        else:
            step = next(
                s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if (self.high - self.low) / s <= 8
            )
            numbers = [step * number for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [number for number in numbers if self.low <= number <= self.high]


def picture(figures: Mapping[str, Any]) -> str:
    """Both fronts as SVG, readable on light and dark pages."""
    points = choices(figures)
    models = list(dict.fromkeys(point.model for point in points))
    sides = (
        ("sentences per second", lambda point: point.speed, slowness),
        ("megabytes", lambda point: point.size / 1e6, size),
    )
    parts = []
    for number, (title, value, cost) in enumerate(sides):
        left = LEFT + number * (PANEL + GAP)
        parts += panel(points, models, left, title, value, front(points, cost))
    parts += legend(models, [engine for engine in SHAPES if engine in {point.engine for point in points}])
    about = f"{figures['sentences']:,} sentences, {escape(str(figures['machine']['processor']))}, "
    about += f"{figures['machine']['cores']} cores; filled: beam {max(point.beam for point in points)}, hollow: greedy"
    parts.append(f'<text class="small" x="{LEFT}" y="{HEIGHT - 10}">{about}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="BLEU against speed and against size">\n<style>{STYLE}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def panel(
    points: Sequence[Choice],
    models: Sequence[str],
    left: int,
    title: str,
    value: Callable[[Choice], float],
    best: Sequence[Choice],
) -> list[str]:
    """One chart: BLEU against a cost."""
    xs, ys = [value(point) for point in points], [point.bleu for point in points]
    margin = max(0.3, 0.08 * (max(ys) - min(ys)))
    x = Scale(min(xs) / 1.3, max(xs) * 1.3, left, left + PANEL, True)
    y = Scale(min(ys) - margin, max(ys) + margin, HEIGHT - BOTTOM, TOP, False)
    parts = [f'<text class="title" x="{left}" y="{TOP - 16}">BLEU against {title}</text>']
    for tick in x.ticks():
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{y.start}" y2="{y.stop}"/>')
        parts.append(f'<text class="small" x="{x(tick):.1f}" y="{y.start + 15}" text-anchor="middle">{tick:,g}</text>')
    for tick in y.ticks():
        parts.append(f'<line class="grid" x1="{x.start}" x2="{x.stop}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text class="small" x="{x.start - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<path class="axis" d="M{x.start} {y.stop}V{y.start}H{x.stop}"/>')
    line = " ".join(f"{x(value(point)):.1f},{y(point.bleu):.1f}" for point in best)
    parts.append(f'<polyline class="front" points="{line}"/>')
    for point in points:
        color = COLORS[models.index(point.model) % len(COLORS)]
        words = f"{point.label}: BLEU {point.bleu:.2f}, {point.speed:,.0f} sentences/s, {point.size / 1e6:.1f} MB"
        parts.append(mark(x(value(point)), y(point.bleu), point.engine, color, hollow=point.beam == 1, words=words))
    return parts


def mark(x: float, y: float, shape: str, color: str, *, hollow: bool, words: str = "") -> str:
    paths = {
        "circle": f"M{x - 5:.1f} {y:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
        "square": f"M{x - 4.5:.1f} {y - 4.5:.1f}h9v9h-9z",
        "diamond": f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z",
        "triangle": f"M{x:.1f} {y - 6:.1f}l6 10h-12z",
        "wedge": f"M{x:.1f} {y + 6:.1f}l6 -10h-12z",
        "star": f"M{x:.1f} {y - 7:.1f}l2 5h5l-4 3.5l1.6 5l-4.6 -3l-4.6 3l1.6 -5l-4 -3.5h5z",
    }
    fill = "none" if hollow else color
    tooltip = f"<title>{escape(words)}</title>" if words else ""
    return f'<path d="{paths[SHAPES[shape]]}" fill="{fill}" stroke="{color}" stroke-width="2">{tooltip}</path>'


def legend(models: Sequence[str], shapes: Sequence[str]) -> list[str]:
    """Colours are models, shapes are engines."""
    parts, x, y = list[str](), LEFT + 6, HEIGHT - 40
    for index, model in enumerate(models):
        parts.append(f'<rect x="{x - 5}" y="{y - 9}" width="10" height="10" fill="{COLORS[index % len(COLORS)]}"/>')
        parts.append(f'<text x="{x + 10}" y="{y}">{escape(model)}</text>')
        x += 34 + 7 * len(model)
    for shape in shapes:
        label = shape.replace("-", " ").replace("ctranslate2", "CT2")
        parts.append(mark(x, y - 4, shape, "#57606a", hollow=False))
        parts.append(f'<text x="{x + 12}" y="{y}">{label}</text>')
        x += 34 + 6 * len(label)
    return parts
