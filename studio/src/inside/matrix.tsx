// A matrix of weights on a canvas: a cell is chosen by mouse or arrow keys; a table with the same numbers is behind it.

import { useEffect, useRef } from "preact/hooks";
import { useDrawing, type Table } from "../parts/drawings";
import { matrixSvg } from "../parts/pictures";
import { theme } from "../preferences";
import type { Grid } from "./data";

const TABLE = 40; // rows and columns up to which the table is complete
const SAVED = 40_000; // cells up to which the table of a saved view is

const MANY = 4_000; // cells from which on a matrix is drawn as a picture instead of cell by cell

/** The colour of a weight: from the surface to the accent. */
function paint(canvas: HTMLCanvasElement, grid: Grid, size: number): void {
  const [rows = 0, columns = 0] = grid.shape, scale = Math.min(2, devicePixelRatio || 1);
  const context = canvas.getContext("2d");
  if (!context) return;
  const width = Math.max(1, Math.round(columns * size * scale)), height = Math.max(1, Math.round(rows * size * scale));
  canvas.width = width;
  canvas.height = height;
  const style = getComputedStyle(document.documentElement), colours = ["--cell-0", "--cell-1"].map((name) => style.getPropertyValue(name));
  context.fillStyle = colours[0]!;
  context.fillRect(0, 0, width, height);
  context.fillStyle = colours[1]!;
  if (rows * columns > MANY) {
    context.imageSmoothingEnabled = false;
    context.drawImage(pixels(grid, colours[1]!, Math.ceil(columns / width)), 0, 0, width, height);
    return;
  }
  const gap = size > 12 ? scale : 0;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      context.globalAlpha = Math.min(1, Math.max(0, grid.at[row * columns + column]!));
      context.fillRect(Math.round(column * size * scale) + gap, Math.round(row * size * scale) + gap, Math.ceil(size * scale) - gap, Math.ceil(size * scale) - gap);
    }
  }
  context.globalAlpha = 1;
}

/** A matrix as a picture of one pixel for each weight, or the largest of `by` × `by`: the colour, as opaque as the weight is large. */
function pixels(grid: Grid, colour: string, by: number): HTMLCanvasElement {
  const [rows = 0, columns = 0] = grid.shape, picture = document.createElement("canvas");
  const width = (picture.width = Math.ceil(columns / by)), height = (picture.height = Math.ceil(rows / by));
  const context = picture.getContext("2d")!;
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const one = context.getImageData(0, 0, 1, 1).data, image = context.createImageData(width, height), bytes = image.data;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const at = 4 * (Math.floor(row / by) * width + Math.floor(column / by)), weight = 255 * grid.at[row * columns + column]!;
      for (let part = 0; part < 3; part++) bytes[at + part] = one[part]!;
      if (weight > bytes[at + 3]!) bytes[at + 3] = weight;
    }
  }
  context.putImageData(image, 0, 0);
  return picture;
}

export function Thumbnail({ grid, label, pressed, off, choose }: { grid: Grid; label: string; pressed: boolean; off?: boolean; choose: () => void }) {
  const canvas = useRef<HTMLCanvasElement>(null), [rows = 1, columns = 1] = grid.shape;
  useEffect(() => { if (canvas.current) paint(canvas.current, grid, 76 / Math.max(rows, columns)); }, [grid, theme.value]);
  return (
    <button type="button" class={`thumbnail${off ? " off" : ""}`} aria-pressed={pressed} onClick={choose}>
      <canvas ref={canvas} aria-hidden="true" /><span>{label}</span>
    </button>
  );
}

interface Props {
  readonly grid: Grid;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly row: number;
  readonly column: number;
  readonly label: string;
  readonly choose: (row: number, column: number) => void;
}

export function Matrix({ grid, rows, columns, row, column, label, choose }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = Math.max(5, Math.min(40, Math.floor(Math.min(640, innerWidth - 120) / Math.max(rows.length, columns.length, 1))));
  useEffect(() => { if (canvas.current) paint(canvas.current, grid, size); }, [grid, size, theme.value]);
  const labels = size >= 12;
  const drawn = useDrawing<HTMLDivElement>({
    title: label, svg: () => matrixSvg(label, { rows, columns, at: grid.at }), table: () => tableOf(grid, rows, columns, row),
  });

  function point(event: MouseEvent): void {
    const box = canvas.current!.getBoundingClientRect();
    choose(clamp(Math.floor((event.clientY - box.top) / size), rows.length), clamp(Math.floor((event.clientX - box.left) / size), columns.length));
  }

  function move(event: KeyboardEvent): void {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    choose(clamp(row + by[0]!, rows.length), clamp(column + by[1]!, columns.length));
  }

  const weight = grid.at[row * columns.length + column] ?? 0;
  return (
    <div class="matrix">
      <div class="matrix-scroll" ref={drawn}>
        {labels && <div class="column-names" aria-hidden="true" style={{ gridTemplateColumns: `repeat(${columns.length}, ${size}px)` }}>
          {columns.map((one, number) => <span key={number} class={number === column ? "on" : undefined}>{one}</span>)}
        </div>}
        <div class="matrix-body">
          {labels && <div class="row-names" aria-hidden="true">{rows.map((one, number) => (
            <span key={number} class={number === row ? "on" : undefined} style={{ height: `${size}px` }}>{one}</span>
          ))}</div>}
          <div class="canvas-box" role="slider" tabIndex={0} aria-label={label} aria-valuemin={0} aria-valuemax={100}
            aria-valuenow={Math.round(100 * weight)} aria-valuetext={`${rows[row] ?? ""} → ${columns[column] ?? ""}: ${weight.toFixed(3)}`}
            onClick={point} onKeyDown={move} style={{ width: `${columns.length * size}px`, height: `${rows.length * size}px` }}>
            <canvas ref={canvas} style={{ width: `${columns.length * size}px`, height: `${rows.length * size}px` }} />
            <span class="row-mark" style={{ top: `${row * size}px`, height: `${size}px` }} />
            <span class="cell-mark" style={{ top: `${row * size}px`, left: `${column * size}px`, width: `${size}px`, height: `${size}px` }} />
          </div>
        </div>
      </div>
      <NumberTable {...{ grid, rows, columns, row, label }} />
    </div>
  );
}

function NumberTable({ grid, rows, columns, row, label }: { grid: Grid; rows: readonly string[]; columns: readonly string[]; row: number; label: string }) {
  const numbers = rows.length <= TABLE && columns.length <= TABLE ? rows.map((_, number) => number) : [row];
  return (
    <div class="hidden" data-unsaved=""><table class="numbers">
      <caption>{label}</caption>
      <thead><tr><td />{columns.map((one, number) => <th key={number} scope="col">{one}</th>)}</tr></thead>
      <tbody>
        {numbers.map((number) => (
          <tr key={number}><th scope="row">{rows[number]}</th>
            {columns.map((_, at) => <td key={at}>{(grid.at[number * columns.length + at] ?? 0).toFixed(3)}</td>)}</tr>
        ))}
      </tbody>
    </table></div>
  );
}

/** All weights in words; of a very large matrix those of the chosen row. */
export function tableOf(grid: Grid, rows: readonly string[], columns: readonly string[], row: number): Table {
  const wanted = rows.length * columns.length <= SAVED ? rows.map((_, number) => number) : [row];
  const weights = (number: number) => columns.map((_, at) => (grid.at[number * columns.length + at] ?? 0).toFixed(3));
  return { columns: ["", ...columns], rows: wanted.map((number) => [rows[number] ?? "", ...weights(number)]) };
}

function clamp(value: number, count: number): number {
  return Math.max(0, Math.min(count - 1, value));
}

/** A vector as a strip of colours, blue for positive and orange for negative numbers. */
export function Strip({ values, label }: { values: ArrayLike<number>; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || !canvas.current) return;
    const style = getComputedStyle(document.documentElement), most = Math.max(1e-9, ...Array.from(values, Math.abs));
    canvas.current.width = values.length;
    canvas.current.height = 1;
    for (let i = 0; i < values.length; i++) {
      context.globalAlpha = Math.min(1, Math.abs(values[i]!) / most);
      context.fillStyle = style.getPropertyValue(values[i]! < 0 ? "--level-1" : "--cell-1");
      context.fillRect(i, 0, 1, 1);
    }
  }, [values, theme.value]);
  return <canvas ref={canvas} class="strip" role="img" aria-label={label} />;
}
