// What a file of attention maps holds: sentences, their pieces, and weights in thousandths.

import { computed } from "@preact/signals";
import { read, readNumber } from "../address";
import type { Grid, Kind } from "../inside/data";

export interface Maps {
  readonly layers: number;
  readonly heads: number;
  readonly weights: readonly number[]; // thousandths, flat: layers, heads, rows, columns
}

export interface View {
  readonly text: string;
  readonly translation: string;
  readonly source: readonly string[];
  readonly target: readonly string[];
  readonly fed: readonly string[];
  readonly maps: Readonly<Partial<Record<Kind, Maps>>>;
}

export interface Data {
  readonly title: string;
  readonly language: "en" | "ko";
  readonly views: readonly View[];
}

export const data = JSON.parse(document.getElementById("data")!.textContent!) as Data;
const KINDS: readonly Kind[] = ["encoder", "decoder", "cross"];

function clamp(value: number, count: number): number {
  return Math.max(0, Math.min(count - 1, value));
}

export const number = computed(() => clamp(readNumber("view", 0), data.views.length));
export const view = computed(() => data.views[number.value]!);
export const kinds = computed(() => KINDS.filter((kind) => view.value.maps[kind]));
export const kind = computed<Kind>(() => kinds.value.find((one) => one === read("kind")) ?? kinds.value.at(-1)!);
export const maps = computed(() => view.value.maps[kind.value]!);

/** The chosen layer and head; null is the mean of all, which is what a page opens with. */
export const layer = computed(() => choose("layer", maps.value.layers));
export const head = computed(() => choose("head", maps.value.heads));

function choose(name: string, count: number): number | null {
  if (count === 1) return 0;
  return read(name) === "" || read(name) === "mean" ? null : clamp(readNumber(name, 0), count);
}

export const rows = computed(() => (kind.value === "encoder" ? view.value.source : view.value.target).map(tidy));
export const columns = computed(() => (kind.value === "decoder" ? view.value.fed : view.value.source).map(tidy));
export const row = computed(() => clamp(readNumber("row", 0), rows.value.length));
export const column = computed(() => clamp(readNumber("column", 0), columns.value.length));

function tidy(piece: string): string {
  return piece.trim() || "␣";
}

const made = new WeakMap<Maps, Map<string, Grid>>();

/** One map, or the mean over layers, heads or both. */
export function gridOf(of: Maps, layer: number | null, head: number | null): Grid {
  const known = made.get(of) ?? new Map<string, Grid>(), key = `${layer} ${head}`;
  made.set(of, known);
  const found = known.get(key) ?? average(of, layer, head);
  known.set(key, found);
  return found;
}

function average(of: Maps, layer: number | null, head: number | null): Grid {
  const size = rows.value.length * columns.value.length, sum = new Float32Array(size);
  const all = (count: number) => Array.from({ length: count }, (_, one) => one);
  const layers = layer === null ? all(of.layers) : [layer], heads = head === null ? all(of.heads) : [head];
  for (const one of layers) {
    for (const other of heads) {
      const first = (one * of.heads + other) * size;
      for (let i = 0; i < size; i++) sum[i]! += of.weights[first + i]! / (1000 * layers.length * heads.length);
    }
  }
  return { shape: [rows.value.length, columns.value.length], at: sum };
}
