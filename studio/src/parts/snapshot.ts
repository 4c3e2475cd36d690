// What is on the screen as one HTML file: no script, no request, pictures as SVG with their numbers, and where it is from.

import { drawingOf, type Drawing, type Table } from "./drawings";
import { escape } from "./pen";

export interface View {
  readonly title: string;
  readonly facts: readonly (readonly [string, string])[]; // such as ["Model", "en-de"]
  readonly date: Date;
  readonly address: string; // of the view in the studio; "" where it has none
}

export interface SnapshotWords {
  readonly numbers: string;
  readonly saved: string;
  readonly link: string;
}

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
const STYLE = `.saved-head{border-bottom:1px solid var(--line);padding:1rem clamp(.9rem,3vw,2.4rem);background:var(--surface)}
.saved-head h1{font-size:1.3rem;margin:0 0 .4rem}.saved-head dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.1rem 1rem;margin:0}
.saved-head dt{color:var(--quiet)}.saved-head dd{margin:0;overflow-wrap:anywhere}.drawing{margin:0 0 1rem;overflow-x:auto;max-width:100%}
.drawing svg{max-width:none}.drawing details{margin:.4rem 0}.drawing td,.drawing th{padding:.1rem .6rem .1rem 0}.typed{white-space:pre-wrap}
.pressed{border-color:var(--accent);color:var(--accent)}.was{display:inline-flex;align-items:center;gap:.4em}`;
const STATES = ["aria-pressed", "aria-current", "aria-selected", "aria-checked"];
const DROPPED = ["aria-live", "aria-controls", "aria-describedby", "aria-expanded", "aria-haspopup", "aria-busy", "data-term", ...STATES];

/** The screen as a whole document; written as text, because a document made here would be under our own policy. */
export function snapshot(screen: Element, view: View, words: SnapshotWords): string {
  const root = document.documentElement;
  return `<!doctype html>
<html lang="${escape(root.lang)}" data-theme="${escape(root.dataset.theme ?? "light")}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Jumok studio">
<title>${escape(view.title)}</title>
<style>${rules()}${STYLE}</style>
</head>
<body>
${head(view, words).outerHTML}
${freeze(screen, words).outerHTML}
</body>
</html>
`;
}

function add(to: Element, name: string, attributes: Readonly<Record<string, string>>, content = ""): HTMLElement {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = content;
  to.append(made);
  return made;
}

function rules(): string {
  return [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join("\n") + "\n";
}

function head(view: View, words: SnapshotWords): Element {
  const header = document.createElement("header");
  header.className = "saved-head";
  add(header, "h1", {}, view.title);
  const list = add(header, "dl", {});
  for (const [name, value] of view.facts) {
    add(list, "dt", {}, name);
    add(list, "dd", {}, value);
  }
  add(list, "dt", {}, words.saved);
  add(add(list, "dd", {}), "time", { datetime: view.date.toISOString() }, view.date.toLocaleString(document.documentElement.lang));
  if (view.address) {
    add(list, "dt", {}, words.link);
    add(add(list, "dd", {}), "a", { href: view.address }, view.address);
  }
  return header;
}

/** A copy that does nothing: fields become what they hold, buttons what they say, canvases pictures. */
function freeze(screen: Element, words: SnapshotWords): Element {
  const copy = screen.cloneNode(true) as Element;
  const pairs = [...screen.querySelectorAll("*")].map((one, number) => [one, number] as const);
  const copies = [...copy.querySelectorAll("*")];
  for (const [one, number] of pairs) {
    const other = copies[number]!, drawing = drawingOf(one);
    if (!copy.contains(other)) continue; // inside something that was replaced
    if (one.hasAttribute("data-unsaved") || one.localName === "iframe") other.remove();
    else if (drawing && one.hasAttribute("data-drawing")) other.replaceWith(figure(drawing, words));
    else if (one instanceof HTMLCanvasElement) other.replaceWith(photograph(one));
    else if (one instanceof HTMLInputElement || one instanceof HTMLTextAreaElement || one instanceof HTMLSelectElement) other.replaceWith(write(one));
    else if (one instanceof HTMLButtonElement) other.replaceWith(...say(one, other));
    else if (one instanceof HTMLAnchorElement) (other as HTMLAnchorElement).setAttribute("href", one.href);
  }
  for (const one of copy.querySelectorAll("[aria-describedby]")) one.setAttribute("title", document.getElementById(one.getAttribute("aria-describedby")!)?.textContent ?? "");
  for (const one of [copy, ...copy.querySelectorAll("*")]) for (const name of DROPPED) one.removeAttribute(name);
  for (const one of copy.querySelectorAll("[role=button], [role=slider], [role=tablist], [role=tabpanel], [role=switch], [tabindex='-1']")) {
    one.removeAttribute("role");
    one.removeAttribute("tabindex"); // what scrolls keeps it
  }
  return copy;
}

function figure(drawing: Drawing, words: SnapshotWords): Element {
  const made = document.createElement("figure");
  made.className = "drawing";
  made.tabIndex = 0; // it may be wider than the window
  made.append(document.importNode(new DOMParser().parseFromString(drawing.svg(), "image/svg+xml").documentElement, true));
  if (drawing.table) made.append(tableOf(drawing.table(), `${words.numbers}: ${drawing.title}`));
  return made;
}

function tableOf({ columns, rows }: Table, title: string): Element {
  const made = document.createElement("details");
  add(made, "summary", {}, title);
  const table = add(made, "table", {}), line = add(add(table, "thead", {}), "tr", {}), body = add(table, "tbody", {});
  columns.forEach((one, number) => add(line, number || one ? "th" : "td", one ? { scope: "col" } : {}, one));
  for (const row of rows) {
    const line = add(body, "tr", {});
    row.forEach((one, number) => add(line, number ? "td" : "th", number ? {} : { scope: "row" }, one));
  }
  return made;
}

function photograph(canvas: HTMLCanvasElement): Element {
  const made = document.createElement("img");
  made.src = canvas.toDataURL();
  made.alt = canvas.getAttribute("aria-label") ?? "";
  made.className = canvas.className;
  made.style.width = `${canvas.clientWidth}px`;
  made.style.height = `${canvas.clientHeight}px`;
  return made;
}

function write(field: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement): Element {
  const made = document.createElement("span");
  made.className = "typed";
  made.lang = field.lang;
  if (field instanceof HTMLSelectElement) made.textContent = field.selectedOptions[0]?.textContent ?? "";
  else if (field.type === "checkbox") made.textContent = (field as HTMLInputElement).checked ? "☑" : "☐";
  else made.textContent = field.value;
  return made;
}

/** What a button says, if it is part of the view: a word, a tab, a switch. */
function say(button: HTMLButtonElement, copy: Element): Element[] {
  const isPart = STATES.some((name) => button.hasAttribute(name)) || button.matches(".word, .token, .block, .said");
  if (!isPart) return [];
  const made = document.createElement("span");
  const isOn = STATES.slice(0, 3).some((name) => button.getAttribute(name) === "true" || button.getAttribute(name) === "page");
  made.className = `was ${button.className}${isOn ? " pressed" : ""}`;
  made.append(...copy.childNodes);
  return [made];
}
