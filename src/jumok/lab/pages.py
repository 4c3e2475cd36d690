"""Findings as HTML pages: one for each claim and an index; offline, light and dark, large enough for a projector."""

from collections.abc import Sequence

from jumok.lab.claim import Finding, tell_checks, tell_part
from jumok.lab.remarks import tell_judging, tell_standing, tell_version
from jumok.lab.verdicts import MARKS, VERDICTS, Verdict
from jumok.lab.wording import Words, korean_machine
from jumok.reports.page import document, safe

STYLE = """
body{font-size:18px}.verdict{display:inline-block;padding:.15rem .7rem;border-radius:999px;border:2px solid;
font-weight:700}
.holds{color:var(--yes)}.fails{color:var(--no)}.untestable{color:var(--soft)}.verdict{margin:.15rem .3rem .15rem 0}
.claim{font-size:1.35rem;line-height:1.45;max-width:52rem;margin:1.2rem 0}
figure{margin:1.5rem 0}figcaption{color:var(--soft);max-width:46rem}
figure svg{min-width:min(100%,32rem);max-height:80vh}
:lang(ko){word-break:keep-all}
ul.checks{list-style:none;padding:0}ul.checks li{margin:.35rem 0}
ul.checks li{color:inherit}ul.checks b.holds{color:var(--yes)}ul.checks b.fails{color:var(--no)}
pre{background:var(--panel);padding:.8rem 1rem;overflow-x:auto;border-radius:.4rem}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(19rem,1fr));gap:1rem;padding:0;list-style:none}
.cards a{display:block;height:100%;box-sizing:border-box;padding:1rem;border:1px solid var(--line);border-radius:.6rem;
text-decoration:none}.cards a:hover,.cards a:focus{border-color:currentColor}.cards
h3{margin:0 0 .4rem;font-size:1.1rem}
.cards p{margin:.4rem 0 0;font-size:.95rem;color:var(--soft)}nav{margin-bottom:1.5rem}
@media print{.cards{grid-template-columns:1fr 1fr}nav{display:none}}
"""

WORDS = Words.read("pages")


def word(name: str, language: str, **values: object) -> str:
    return safe(WORDS(name, **values).of(language))


def page(finding: Finding, language: str = "en", *, index: str | None = "index.html") -> str:
    """The page of one claim."""
    claim = finding.claim
    body = [f"<nav><a href='{index}'>← {word('index', language)}</a></nav>" if index else ""]
    body += [
        f"<h1>{safe(claim.words('title').of(language))}</h1>",
        f"<p class='claim'>{safe(claim.words('claim').of(language))}</p>",
    ]
    body += [f"<p>{badge(finding, language)}</p>", f"<p class='soft'>{source(finding, language)}</p>"]
    body += [heading("setup", language), paragraphs(claim.words("setup").of(language))]
    body += [heading("standing.title", language), f"<p>{safe(tell_standing(finding, language))}</p>"]
    for picture in claim.draw(finding.numbers, language):
        caption = f"<figcaption>{safe(picture.caption.of(language))}</figcaption>"
        body.append(f"<figure>{inline(picture.svg)}{caption}</figure>")
    body += [heading("checks", language), checks(finding, language)]
    body += [heading("numbers", language), table(claim.tabulate(finding.numbers).cells(language))]
    if finding.shown is not None:
        body += [heading("shown", language), table(finding.shown.cells(language))]
    body += [heading("meaning", language), paragraphs(claim.words("meaning").of(language))]
    body += [heading("next", language), paragraphs(claim.words("next").of(language))]
    machine = korean_machine(finding.machine) if language == "ko" else finding.machine
    provenance = word(
        "made", language, seconds=finding.seconds, scale=finding.scale, date=finding.date, machine=machine
    )
    body += [f"<p class='soft'>{safe(line)}</p>" for line in tell_judging(finding, language)]
    body += [f"<p class='soft'>{safe(line)}</p>" for line in tell_version(finding, language)]
    body += [heading("command", language), f"<pre>{safe(finding.command)}</pre><p class='soft'>{provenance}</p>"]
    return document(claim.words("title").of(language), "".join(body), language=language, style=STYLE)


def contents(findings: Sequence[Finding], language: str = "en") -> str:
    """The index: a card for each finding."""
    body = [f"<h1>{word('title', language)}</h1>", f"<p>{word('told', language, **count_verdicts(findings))}</p>"]
    body.append(f"<ul class='cards'>{''.join(card(finding, language) for finding in findings)}</ul>")
    return document(WORDS("title").of(language), "".join(body), language=language, style=STYLE)


def count_verdicts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many claims there are, and how many have each verdict."""
    verdicts = [finding.verdict for finding in findings]
    return {"count": len(verdicts)} | {verdict.value: verdicts.count(verdict) for verdict in Verdict}


def card(finding: Finding, language: str) -> str:
    claim = finding.claim
    sentence = safe(claim.words("claim").of(language))
    words = f"<h3>{safe(claim.words('title').of(language))}</h3>{badge(finding, language)}<p>{sentence}</p>"
    return f"<li><a href='{claim.name}.html'>{words}</a></li>"


def badge(finding: Finding, language: str) -> str:
    """The verdict; if the parts of a claim differ, one for each."""
    if len({part.verdict for part in finding.parts}) < 2:
        return f"<span class='verdict {finding.verdict.value}'>{safe(VERDICTS[finding.verdict].of(language))}</span>"
    return "".join(
        f"<span class='verdict {part.verdict.value}'>{safe(tell_part(part, language))}</span>" for part in finding.parts
    )


def source(finding: Finding, language: str) -> str:
    return safe(f"{WORDS('source').of(language)} · {' · '.join(finding.claim.words.source(language))}")


def checks(finding: Finding, language: str) -> str:
    lines = [
        f"<li><b class='{verdict.value}'>{MARKS[verdict]}</b> {safe(text)}</li>"
        for verdict, text in tell_checks(finding, language)
    ]
    return f"<ul class='checks'>{''.join(lines)}</ul>"


def table(cells: Sequence[Sequence[str]]) -> str:
    titles, *cells = cells
    head = "".join(f"<th>{safe(title)}</th>" for title in titles)
    rows = "".join(f"<tr>{''.join(f'<td>{safe(cell)}</td>' for cell in row)}</tr>" for row in cells)
    return f"<div class='wide'><table><tr>{head}</tr>{rows}</table></div>"


def heading(name: str, language: str) -> str:
    return f"<h2>{word(name, language)}</h2>"


def paragraphs(text: str) -> str:
    """HTML of a text whose paragraphs are separated by blank lines."""
    return "".join(f"<p>{safe(part.strip())}</p>" for part in text.split("\n\n"))


def inline(svg: str) -> str:
    """An SVG file as an element of a page."""
    return svg[svg.index("<svg") :]
