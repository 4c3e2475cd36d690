// Where the nodes of a search go: steps from left to right, hypotheses from top to bottom, the best first.

import { escape, ink, picture, tag, text, type Size } from "./pen";

export interface Drawn {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly parent: Drawn | null;
}

interface Linked {
  readonly parent: number;
  readonly step: number;
  readonly piece: string;
  readonly log_probability: number;
}

const ROW = 34, GAP = 30, EDGE = 16;

/** The nodes from the first to this one. */
export function pathOf(nodes: readonly Linked[], last: number): number[] {
  const path: number[] = [];
  for (let at = last; at >= 0; at = nodes[at]!.parent) path.unshift(at);
  return path;
}

/** The width of a piece as text of about 14 pixels. */
function widthOf(piece: string): number {
  let width = 0;
  for (const character of piece === "</s>" ? "∎" : piece.replace("▁", "")) width += character > "ᄀ" ? 15 : 8.4;
  return Math.max(28, width + 16);
}

/** Places of all nodes: each subtree takes the rows of its leaves, the one with the best hypothesis at the top. */
export function layOut(nodes: readonly Linked[], best: number): { places: Drawn[]; width: number; height: number } {
  const children = new Map<number, number[]>();
  nodes.forEach((node, row) => children.set(node.parent, [...(children.get(node.parent) ?? []), row]));
  const first = new Set(best >= 0 ? pathOf(nodes, best) : []);
  const columns: number[] = [];
  for (const node of nodes) columns[node.step] = Math.max(columns[node.step] ?? 0, widthOf(node.piece));
  const starts: number[] = [];
  let x = EDGE;
  columns.forEach((width, step) => { starts[step] = x; x += width + GAP; });
  const places = new Array<Drawn>(nodes.length);
  let next = 0;
  const place = (row: number, parent: Drawn | null, line: number): void => {
    const node = nodes[row]!;
    const here: Drawn = { x: starts[node.step]!, y: EDGE + 13 + line * ROW, w: widthOf(node.piece), parent };
    places[row] = here;
    visit(row, here, line);
  };
  const visit = (row: number, here: Drawn | null, line: number): void => {
    const sorted = [...(children.get(row) ?? [])].sort((one, other) =>
      Number(first.has(other)) - Number(first.has(one)) || nodes[other]!.log_probability - nodes[one]!.log_probability);
    sorted.forEach((child, number) => {
      if (number > 0) next += 1;
      place(child, here, number === 0 ? line : next);
    });
  };
  visit(-1, null, 0);
  return { places, width: x, height: EDGE * 2 + (next + 1) * ROW };
}

/** The curve from a node's parent to the node. */
export function curve(place: Drawn): string {
  const from = place.parent!, x = from.x + from.w, middle = (x + place.x) / 2;
  return `M${x} ${from.y}C${middle} ${from.y} ${middle} ${place.y} ${place.x} ${place.y}`;
}

export interface Leaf {
  readonly label: string;
  readonly says: string; // what became of it
  readonly look: "best" | "dead" | "ended" | "living";
}

/** The tree as a picture: the translation in the accent, dead hypotheses dashed. */
export function treeSvg(title: string, places: readonly Drawn[], leaves: readonly Leaf[], size: Size): string {
  const edges = places.map((place, row) => place.parent && tag("path", {
    d: curve(place), fill: "none", stroke: leaves[row]!.look === "best" ? ink("accent") : ink("line"), "stroke-width": leaves[row]!.look === "best" ? 2.4 : 1.4,
  }));
  const nodes = places.map((place, row) => {
    const { label, says, look } = leaves[row]!;
    const fill = { best: "accent-soft", dead: "sunk", ended: "surface", living: "surface" }[look];
    const stroke = { best: "accent", dead: "line", ended: "good", living: "quiet" }[look];
    return tag("g", { transform: `translate(${place.x} ${place.y})` },
      tag("title", {}, escape(says)),
      tag("rect", { y: -13, width: place.w, height: 26, rx: 6, fill: ink(fill), stroke: ink(stroke), ...(look === "dead" ? { "stroke-dasharray": "3 2" } : {}) }),
      text(label, place.w / 2, 1, { "text-anchor": "middle", "font-size": 14, fill: look === "dead" ? ink("quiet") : ink("ink") }));
  });
  return picture(size, title, [...edges.filter((edge) => edge !== null), ...nodes]);
}
