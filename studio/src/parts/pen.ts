// A pen that draws on a canvas or writes SVG: pictures are described once, and the saved file is the one on the screen.

export type Align = "start" | "middle" | "end";
export type Points = readonly (readonly [number, number])[];

export interface Pen {
  text(value: string, x: number, y: number, align: Align, colour: string): void;
  line(points: Points, colour: string, width: number): void;
  box(x: number, y: number, width: number, height: number, colour: string, opacity?: number): void;
}

export function penOf(context: CanvasRenderingContext2D): Pen {
  return {
    text(value, x, y, align, colour) {
      context.fillStyle = colour;
      context.textAlign = align === "middle" ? "center" : align;
      context.textBaseline = "middle";
      context.fillText(value, x, y);
    },
    line(points, colour, width) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      points.forEach(([x, y], number) => context[number ? "lineTo" : "moveTo"](x, y));
      context.stroke();
    },
    box(x, y, width, height, colour, opacity = 1) {
      context.globalAlpha = opacity;
      context.fillStyle = colour;
      context.fillRect(x, y, width, height);
      context.globalAlpha = 1;
    },
  };
}

/** A pen whose marks are elements of SVG, in a list. */
export function writer(): Pen & { readonly marks: readonly string[] } {
  const marks: string[] = [];
  return {
    marks,
    text: (value, x, y, align, colour) => void marks.push(text(value, x, y, { "text-anchor": align, fill: colour })),
    line: (points, colour, width) => void marks.push(tag("path", {
      d: points.map(([x, y], number) => `${number ? "L" : "M"}${round(x)} ${round(y)}`).join(""), stroke: colour, "stroke-width": width, fill: "none",
    })),
    box: (x, y, width, height, colour, opacity = 1) => void marks.push(tag("rect", {
      x, y, width, height, fill: colour, ...(opacity < 1 ? { "fill-opacity": opacity } : {}),
    })),
  };
}

type Attributes = Readonly<Record<string, string | number>>;

export function escape(value: string): string {
  return value.replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]!)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}

function round(value: number): number {
  return Math.round(100 * value) / 100;
}

/** An element; children are markup. */
export function tag(name: string, attributes: Attributes, ...children: readonly string[]): string {
  const given = Object.entries(attributes).map(([key, value]) => ` ${key}="${typeof value === "number" ? round(value) : escape(value)}"`).join("");
  return children.length ? `<${name}${given}>${children.join("")}</${name}>` : `<${name}${given}/>`;
}

export function text(value: string, x: number, y: number, attributes: Attributes = {}): string {
  return tag("text", { x, y, "dominant-baseline": "central", ...attributes }, escape(value));
}

/** The width of a text, about, where nothing can measure it. */
export function widthOf(value: string, size = 14): number {
  let width = 0;
  for (const character of value) width += character > "\u1100" ? 1.02 : 0.57;
  return width * size;
}

/** A text in lines of at most so many pixels. */
export function wrap(value: string, width: number, size: number): string[] {
  const lines = [""];
  for (const word of value.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (widthOf(longer, size) <= width || !lines.at(-1)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** The colour that a variable of the style sheet has now. */
export function ink(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888888";
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** A picture that stands alone, with its title above it. */
export function picture({ width, height }: Size, title: string, body: readonly string[]): string {
  const lines = wrap(title, Math.max(220, width - 32), 15), top = 14 + 20 * lines.length;
  const wide = Math.ceil(Math.max(width, 32 + Math.max(...lines.map((line) => widthOf(line, 15))))), tall = Math.ceil(height + top);
  const family = getComputedStyle(document.body).fontFamily;
  return tag("svg", { xmlns: "http://www.w3.org/2000/svg", width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`, "font-family": family, "font-size": 13, role: "img", "aria-label": title },
    tag("title", {}, escape(title)),
    tag("rect", { width: wide, height: tall, fill: ink("surface") }),
    ...lines.map((line, number) => text(line, 16, 20 + 20 * number, { "font-size": 15, "font-weight": 600, fill: ink("ink") })),
    tag("g", { transform: `translate(0 ${top})` }, ...body));
}
