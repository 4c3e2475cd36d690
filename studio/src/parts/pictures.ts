// Pictures that several screens save: a matrix of weights with its labels, heads side by side, words that belong together.

import { escape, ink, picture, tag, text, widthOf } from "./pen";

export interface Weights {
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly at: ArrayLike<number>; // row after row
}

const MOST = 3_600; // cells that are drawn one by one; more become an image inside the picture

function cells({ rows, columns, at }: Weights, size: number): string[] {
  const ground = tag("rect", { width: columns.length * size, height: rows.length * size, fill: ink("cell-0") });
  if (rows.length * columns.length > MOST) return [ground, image({ rows, columns, at }, size)];
  const gap = size > 12 ? 1 : 0, colour = ink("cell-1"), marks: string[] = [ground];
  rows.forEach((row, y) => columns.forEach((column, x) => {
    const weight = at[y * columns.length + x] ?? 0;
    marks.push(tag("rect", { x: x * size + gap, y: y * size + gap, width: size - gap, height: size - gap, fill: colour, "fill-opacity": Math.min(1, Math.max(0, weight)) },
      tag("title", {}, escape(`${row} → ${column}: ${weight.toFixed(3)}`))));
  }));
  return marks;
}

function image({ rows, columns, at }: Weights, size: number): string {
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d")!;
  [canvas.width, canvas.height] = [columns.length, rows.length];
  context.fillStyle = ink("cell-1");
  for (let number = 0; number < rows.length * columns.length; number++) {
    context.globalAlpha = Math.min(1, Math.max(0, at[number] ?? 0));
    context.fillRect(number % columns.length, Math.floor(number / columns.length), 1, 1);
  }
  return tag("image", { width: columns.length * size, height: rows.length * size, preserveAspectRatio: "none", "image-rendering": "pixelated", href: canvas.toDataURL() });
}

/** One matrix of attention: queries are rows, keys are columns, darker is more. */
export function matrixSvg(title: string, weights: Weights): string {
  const { rows, columns, at } = weights;
  const size = Math.max(2, Math.min(30, Math.floor(900 / Math.max(rows.length, columns.length, 1)))), labels = size >= 10, font = Math.min(13, size * 0.9);
  const left = 16 + (labels ? Math.max(...rows.map((one) => widthOf(one, font))) + 8 : 0);
  const top = 8 + (labels ? Math.max(...columns.map((one) => widthOf(one, font))) + 8 : 0);
  const body = [tag("g", { transform: `translate(${left} ${top})` }, ...cells(weights, size))];
  if (labels) {
    const look = { "font-size": font, fill: ink("ink") };
    rows.forEach((one, y) => body.push(text(one, left - 8, top + (y + 0.5) * size, { "text-anchor": "end", ...look })));
    columns.forEach((one, x) => body.push(text(one, 0, 0, { transform: `translate(${left + (x + 0.5) * size} ${top - 8}) rotate(-90)`, ...look })));
  }
  const bottom = top + rows.length * size + 26, most = Math.max(1e-9, ...Array.from(at));
  for (let step = 0; step < 20; step++) body.push(tag("rect", { x: left + step * 8, y: bottom, width: 8, height: 10, fill: ink("cell-1"), "fill-opacity": step / 19 }));
  body.push(text("0", left - 4, bottom + 5, { "text-anchor": "end", fill: ink("quiet") }), text("1", left + 166, bottom + 5, { fill: ink("quiet") }),
    text(`max ${most.toFixed(3)}`, left + 190, bottom + 5, { fill: ink("quiet") }));
  return picture({ width: Math.max(left + columns.length * size + 16, left + 290), height: bottom + 24 }, title, body);
}

/** Several matrices side by side, with their names below. */
export function manySvg(title: string, some: readonly { readonly name: string; readonly weights: Weights }[], across = Math.min(4, some.length)): string {
  const side = 132, body = some.flatMap(({ name, weights }, number) => {
    const size = side / Math.max(weights.rows.length, weights.columns.length, 1);
    const x = 16 + (number % across) * (side + 18), y = 8 + Math.floor(number / across) * (side + 34);
    return [tag("g", { transform: `translate(${x} ${y})` }, ...cells(weights, size)), text(name, x, y + side + 14, { fill: ink("quiet") })];
  });
  return picture({ width: 32 + across * (side + 18), height: 8 + Math.ceil(some.length / across) * (side + 34) }, title, body);
}

export interface Aligned {
  readonly source: readonly string[];
  readonly target: readonly { readonly text: string; readonly probability: number; readonly colour: string }[];
  readonly links: readonly (readonly [number, number])[];
}

/** Words of sentences and of their translations, with lines between those that belong together. */
export function alignmentSvg(title: string, sentences: readonly Aligned[]): string {
  let wide = 260;
  const body = sentences.flatMap(({ source, target, links }, row) => {
    const y = 18 + row * 150;
    const spread = (some: readonly string[]) => some.reduce<number[]>((ends, one) => [...ends, ends.at(-1)! + widthOf(one, 16) + 18], [16]);
    const above = spread(source), below = spread(target.map((one) => one.text));
    wide = Math.max(wide, above.at(-1)!, below.at(-1)!);
    const middle = (ends: readonly number[], number: number) => (ends[number]! + ends[number + 1]! - 18) / 2;
    return [
      ...links.filter(([s, t]) => s < source.length && t < target.length).map(([s, t]) => {
        const from = middle(above, s), to = middle(below, t);
        return tag("path", { d: `M${from.toFixed(1)} ${y + 14}C${from.toFixed(1)} ${y + 50} ${to.toFixed(1)} ${y + 44} ${to.toFixed(1)} ${y + 78}`, fill: "none", stroke: ink("accent"), "stroke-width": 1.6, "stroke-opacity": 0.7 });
      }),
      ...source.map((one, number) => text(one, middle(above, number), y, { "text-anchor": "middle", "font-size": 16, fill: ink("ink") })),
      ...target.flatMap((one, number) => [
        tag("rect", { x: below[number]!, y: y + 103, width: below[number + 1]! - below[number]! - 18, height: 3, fill: one.colour }),
        text(one.text, middle(below, number), y + 92, { "text-anchor": "middle", "font-size": 16, fill: ink("ink") }),
        text(`${Math.round(100 * one.probability)} %`, middle(below, number), y + 117, { "text-anchor": "middle", "font-size": 11, fill: ink("quiet") }),
      ]),
    ];
  });
  return picture({ width: wide + 16, height: 20 + 150 * sentences.length }, title, body);
}
