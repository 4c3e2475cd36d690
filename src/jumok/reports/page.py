"""Self-contained HTML pages, light and dark, for screens, print and projectors.

The content of a page comes from its callers (race/report.py, lab/pages.py).
"""

import html

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#5b626b;--line:#d8dce1;--paper:#fff;--best:#e8f4ee;
--yes:#0a6b3d;--no:#a8321a;--panel:#f5f7f9}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa2ac;--line:#343a42;--paper:#0d1117;--best:#12301f;
--yes:#58c48f;--no:#f2876b;--panel:#161b22}}
body{margin:0 auto;max-width:1080px;padding:2rem 1.2rem 4rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,'Noto Sans','Noto Sans KR','Noto Sans CJK KR','Apple SD Gothic Neo','Malgun Gothic',sans-serif}
h1{font-size:1.7rem;margin:0}h2{margin:2.6rem 0 .6rem;font-size:1.2rem}p{max-width:46rem}.soft{color:var(--soft)}
a{color:inherit}code,pre{font:.92em/1.5 ui-monospace,'DejaVu Sans Mono',monospace}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}
th,td{padding:.35rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{font-weight:600;color:var(--soft);white-space:normal;vertical-align:bottom}th:first-child,td:first-child{text-align:left}td.best{background:var(--best)}
.said td{white-space:normal;text-align:left;vertical-align:top}.said td:first-child{white-space:nowrap;font-weight:600}
.pair{display:flex;flex-wrap:wrap;gap:1rem}.pair>*{flex:1 1 30rem;min-width:0}svg{max-width:100%;height:auto}
"""


def document(title: str, body: str, *, language: str = "en", style: str = "") -> str:
    """A whole page; `body` is HTML, `title` is text."""
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{safe(title)}</title>"
    content = f"<head>{head}<style>{STYLE}{style}</style></head><body>{body}</body>"
    return f"<!doctype html><html lang='{language}'>{content}</html>\n"


def safe(text: object) -> str:
    """Text with markup escaped."""
    return html.escape(str(text), quote=True)
