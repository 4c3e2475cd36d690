// A chart on canvas: lines with a band from the smallest to the largest value, dots, a cursor that is read aloud.
//
// The picture is for the eyes; the numbers at the cursor are text, and the arrow keys move it.

import { useEffect, useState } from "preact/hooks";
import { useDrawing, type Table } from "../parts/drawings";
import { ink, penOf, picture, tag, text, widthOf, writer, type Pen } from "../parts/pen";
import { theme } from "../preferences";

export type Numbers = readonly (number | null)[];
export interface Line {
  readonly name: string;
  readonly colour: number; // which of the palette
  readonly x: Numbers;
  readonly y: Numbers;
  readonly low?: Numbers;
  readonly high?: Numbers;
  readonly dots?: boolean;
}

export const PALETTE = ["#4059d6", "#c2571a", "#1f8a5b", "#a13fb0", "#b38600", "#2b8fb5"];
const DARK = ["#9fb0ff", "#ffab7a", "#7fdcae", "#e0a0ea", "#ecc95c", "#86d3f0"];
const LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 24, HEIGHT = 190;

export function colourOf(number: number): string {
  return (theme.value === "dark" ? DARK : PALETTE)[number % PALETTE.length]!;
}

/** An exponential mean that begins with the first value instead of 0. */
export function smooth(values: Numbers, share: number): Numbers {
  if (share <= 0) return values;
  let total = 0, weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    total = total * share + value * (1 - share);
    weight = weight * share + (1 - share);
    return total / weight;
  });
}

export function spell(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(4)}M`;
  if (size >= 1e4) return Math.round(value).toLocaleString("en");
  if (size !== 0 && size < 1e-3) return value.toExponential(2);
  return String(+value.toPrecision(4));
}

/** About five round numbers between two. */
export function ticks(low: number, high: number, log: boolean): number[] {
  if (log && low > 0 && high / low > 4) {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (const digit of high / low > 1000 ? [1] : [1, 2, 5]) {
        const value = digit * 10 ** power;
        if (value >= low && value <= high) found.push(value);
      }
    if (found.length > 1) return found;
  }
  const rough = (high - low) / 4 || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * unit).find((one) => one >= rough) ?? rough;
  const found: number[] = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(+value.toPrecision(12));
  return found;
}

interface Scale { readonly low: number; readonly high: number; readonly log: boolean }

function place(value: number, scale: Scale, size: number): number {
  const { low, high, log } = scale;
  const share = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return share * size;
}

function range(lines: readonly Line[], pick: (line: Line) => readonly (Numbers | undefined)[], log: boolean): Scale | null {
  let low = Infinity, high = -Infinity;
  for (const line of lines)
    for (const values of pick(line))
      for (const value of values ?? [])
        if (value !== null && (!log || value > 0)) {
          if (value < low) low = value;
          if (value > high) high = value;
        }
  if (low === Infinity) return null;
  if (low === high) return { low: log ? low / 1.1 : low - 1, high: log ? high * 1.1 : high + 1, log };
  return { low, high, log };
}

interface Props {
  readonly title: string;
  readonly unit: string; // of the horizontal axis
  readonly lines: readonly Line[];
  readonly log: boolean;
  readonly smoothing: number;
  readonly empty: string;
}

export function Chart({ title, unit, lines, log, smoothing, empty }: Props) {
  const [width, setWidth] = useState(0);
  const [cursor, setCursor] = useState<number | null>(null); // a share of the width
  const shown = lines.map((line) => (line.dots ? line : { ...line, y: smooth(line.y, smoothing) }));
  const xs = range(shown, (line) => [line.x], false);
  const ys = range(shown, (line) => (smoothing > 0 ? [line.y] : [line.y, line.low, line.high]), log);
  const look = theme.value;
  const canvas = useDrawing<HTMLCanvasElement>(xs && ys && { title, svg: () => toSvg(title, unit, shown, xs, ys, smoothing > 0), table: () => toTable(unit, shown) });

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(Math.floor(element.clientWidth)));
    watch.observe(element);
    return () => watch.disconnect();
  }, [xs === null]);

  useEffect(() => {
    if (canvas.current && xs && ys && width > LEFT + RIGHT) draw(canvas.current, width, shown, xs, ys, smoothing > 0, cursor);
  }, [lines, width, log, smoothing, look, cursor]);

  if (!xs || !ys) return <figure class="chart"><figcaption class="chart-title">{title}</figcaption><p class="quiet small">{empty}</p></figure>;
  const at = xs.low + (cursor ?? 1) * (xs.high - xs.low);
  const move = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    setCursor(Math.min(1, Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT))));
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -0.01, ArrowRight: 0.01, PageDown: 0.1, PageUp: -0.1, Home: -2, End: 2 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    setCursor(Math.min(1, Math.max(0, (cursor ?? 1) + by)));
  };
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <output class="quiet small">
          {unit} {spell(at)}{shown.map((line) => {
            const value = nearest(line, at);
            return value === null ? null : (
              <span key={line.name} class="reading"><i aria-hidden="true" style={{ background: colourOf(line.colour) }} />{line.name} <b>{spell(value)}</b></span>
            );
          })}
        </output>
      </figcaption>
      <canvas ref={canvas} role="slider" tabIndex={0} aria-label={title} aria-valuemin={xs.low} aria-valuemax={xs.high}
        aria-valuenow={at} aria-valuetext={`${unit} ${spell(at)}: ${shown.map((line) => `${line.name} ${spell(nearest(line, at) ?? NaN)}`).join(", ")}`}
        onPointerMove={move} onPointerLeave={() => setCursor(null)} onKeyDown={keys} />
    </figure>
  );
}

/** The value of a line at the point that is nearest to a place; its last value for infinity. */
export function nearest(line: Line, at: number): number | null {
  if (at === Infinity) return line.y.findLast((value) => value !== null) ?? null;
  let best: number | null = null, distance = Infinity;
  line.x.forEach((x, number) => {
    const y = line.y[number];
    if (x !== null && y !== null && y !== undefined && Math.abs(x - at) < distance) [best, distance] = [y, Math.abs(x - at)];
  });
  return best;
}

function draw(canvas: HTMLCanvasElement, width: number, lines: readonly Line[], xs: Scale, ys: Scale, smoothed: boolean, cursor: number | null): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = HEIGHT * ratio;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  context.font = `12px ${getComputedStyle(canvas).fontFamily}`;
  const pen = penOf(context);
  plot(pen, width, lines, xs, ys, smoothed);
  if (cursor === null) return;
  const x = LEFT + cursor * (width - LEFT - RIGHT);
  pen.line([[x, TOP], [x, HEIGHT - BOTTOM]], ink("quiet"), 1);
}

/** The axes, then every line: on the screen and in a file. */
function plot(pen: Pen, width: number, lines: readonly Line[], xs: Scale, ys: Scale, smoothed: boolean): void {
  const wide = width - LEFT - RIGHT, tall = HEIGHT - TOP - BOTTOM;
  const across = (value: number) => LEFT + place(value, xs, wide), up = (value: number) => TOP + tall - place(value, ys, tall);
  for (const value of ticks(ys.low, ys.high, ys.log)) {
    pen.text(spell(value), LEFT - 6, up(value), "end", ink("quiet"));
    pen.line([[LEFT, up(value)], [width - RIGHT, up(value)]], ink("line"), 1);
  }
  for (const value of ticks(xs.low, xs.high, false)) pen.text(spell(value), Math.min(width - 22, across(value)), HEIGHT - BOTTOM + 13, "middle", ink("quiet"));
  const usable = (value: number | null | undefined): value is number => typeof value === "number" && (!ys.log || value > 0);
  for (const line of lines) {
    const colour = colourOf(line.colour);
    if (line.low && line.high && !smoothed) {
      line.x.forEach((x, number) => {
        const low = line.low![number], high = line.high![number];
        if (x !== null && usable(low) && usable(high)) pen.box(across(x) - 0.75, up(high), 1.5, Math.max(1, up(low) - up(high)), colour, 0.22);
      });
    }
    let points: [number, number][] = [];
    const end = () => { if (points.length > 1) pen.line(points, colour, 1.6); points = []; };
    line.x.forEach((x, number) => {
      const y = line.y[number];
      if (x === null || !usable(y)) return end();
      if (line.dots) pen.box(across(x) - 2.5, up(y) - 2.5, 5, 5, colour);
      points.push([across(x), up(y)]);
    });
    end();
  }
}

const SAVED = 720; // pixels that a saved chart is wide

function toSvg(title: string, unit: string, lines: readonly Line[], xs: Scale, ys: Scale, smoothed: boolean): string {
  const pen = writer();
  plot(pen, SAVED, lines, xs, ys, smoothed);
  let x = LEFT;
  const legend = lines.flatMap((line) => {
    const last = nearest(line, Infinity), name = last === null ? line.name : `${line.name} ${spell(last)}`, begin = x;
    x += widthOf(name, 12) + 34;
    return [tag("rect", { x: begin, y: HEIGHT + 8, width: 9, height: 9, fill: colourOf(line.colour) }), text(name, begin + 14, HEIGHT + 13, { "font-size": 12, fill: ink("ink") })];
  });
  return picture({ width: Math.max(SAVED, x), height: HEIGHT + 30 }, `${title} · ${unit}`, [tag("g", { "font-size": 12 }, ...pen.marks), ...legend]);
}

/** One row for each place of the horizontal axis, one column for each line. */
function toTable(unit: string, lines: readonly Line[]): Table {
  const places = [...new Set(lines.flatMap((line) => line.x.filter((x) => x !== null)))].sort((one, other) => one - other);
  const values = lines.map((line) => new Map(line.x.map((x, number) => [x, line.y[number]])));
  const say = (value: number | null | undefined) => (typeof value === "number" ? String(+value.toPrecision(6)) : "");
  return { columns: [unit, ...lines.map((line) => line.name)], rows: places.map((x) => [say(x), ...values.map((of) => say(of.get(x)))]) };
}
