// Formulas: MathML of the engine as elements of this page; nothing but the tags of mathematics is let through.

import { h, type VNode } from "preact";
import { inBoth } from "../preferences";
import en from "../strings/en/terms";
import ko from "../strings/ko/terms";
import { nameOf, Term } from "./terms";

const TAGS = new Set(["math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mfrac", "msqrt", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mtable", "mtr", "mtd"]);
const words = inBoth(en, ko);
const ATTRIBUTES = new Set(["data-term", "display", "mathvariant", "width", "stretchy", "displaystyle"]);

function toNode(element: Element): VNode | null {
  if (!TAGS.has(element.localName)) return null;
  const attributes = Object.fromEntries([...element.attributes].filter((one) => ATTRIBUTES.has(one.name)).map((one) => [one.name, one.value]));
  const children = [...element.childNodes].map((one) => (one instanceof Element ? toNode(one) : one.textContent));
  return h(element.localName, attributes, ...children);
}

/** Formulas that are separated by a comma and a space, each by itself: a narrow column has room for one. */
function divide(math: Element): Element[][] {
  const outer = math.children.length === 1 && math.children[0]!.localName === "mrow" ? math.children[0]! : math;
  const parts: Element[][] = [[]];
  for (const child of outer.children) {
    if (child.localName !== "mspace") parts.at(-1)!.push(child);
    else if (parts.at(-1)!.at(-1)?.textContent === ",") { parts.at(-1)!.pop(); parts.push([]); }
  }
  return parts;
}

/** A formula, and below it the names of its symbols: both explain them, the names also to the keyboard. */
export function Formula({ mathml }: { mathml: string }) {
  const parsed = new DOMParser().parseFromString(mathml, "text/xml").documentElement;
  if (parsed.localName !== "math") return null;
  const keys = new Set([...parsed.querySelectorAll("[data-term]")].map((one) => one.getAttribute("data-term")!));
  return (
    <>
      <div class="formula" tabIndex={0} role="group">
        {divide(parsed).map((part, number) => <div key={number}>{h("math", { display: "block" }, h("mrow", null, ...part.map(toNode)))}</div>)}
      </div>
      <ul class="symbols" aria-label={words.value.symbols}>{[...keys].map((key) => <li key={key}><Term of={key}>{nameOf(key)}</Term></li>)}</ul>
    </>
  );
}
