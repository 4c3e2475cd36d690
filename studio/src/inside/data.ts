// What a model made of a sentence: tokens, maps of attention, blocks and their numbers, as the engine tells them.

import { signal } from "@preact/signals";
import { patiently, request } from "../engine/remote";

export interface Packed {
  readonly shape: readonly number[];
  readonly data: string; // base64 of little-endian float32, or of bytes
  readonly type?: "u1";
}

export interface Grid {
  readonly shape: readonly number[];
  readonly at: Float32Array | Uint8Array;
}

export interface Token {
  readonly id: number;
  readonly piece: string;
  readonly text: string;
  readonly word: number;
}

export type Kind = "encoder" | "decoder" | "cross";
export type Side = "source" | "target" | "line";

export interface AttentionMap {
  readonly rows: Side;
  readonly columns: Side;
  readonly of: number; // layers of the model
  readonly layers: readonly number[]; // those that were given
  readonly heads: number;
  readonly weights: Packed;
}

export interface Block {
  readonly id: string;
  readonly type: string;
  readonly stack: string;
  readonly layer: number | null;
  readonly parameters: number;
  readonly shape: string;
  readonly absent?: boolean;
}

export interface BlockType {
  readonly name: string;
  readonly says: string;
  readonly formula: string;
  readonly code: { readonly file: string; readonly line: number; readonly text: string } | null;
  readonly departs: string | null;
  readonly here?: string | null;
  readonly paper: string | null;
}

export interface Switch {
  readonly id: string;
  readonly title: string;
  readonly available: boolean;
  readonly why: string | null;
  readonly claim: string;
  readonly meaning: string;
  readonly paper: string;
  readonly notes: string;
  readonly lab: string;
}

export interface Overview {
  readonly text: string;
  readonly translation: string;
  readonly kind: string;
  readonly lacks: string | null;
  readonly tokens: Readonly<Partial<Record<Side, readonly Token[]>>>;
  readonly output: readonly (Token & { readonly probability: number })[];
  readonly maps: Readonly<Partial<Record<Kind, AttentionMap>>>;
  readonly map: { readonly shape: string; readonly parameters: number; readonly blocks: readonly Block[]; readonly types: Readonly<Record<string, BlockType>> };
  readonly switches: readonly Switch[];
}

export interface Top extends Token {
  readonly logit: number;
  readonly probability: number;
}

export interface BlockNumbers {
  readonly block: string;
  readonly type: string;
  readonly head?: number;
  readonly at: number;
  readonly rows?: Side;
  readonly columns?: Side;
  readonly values: Readonly<Record<string, Packed>>;
  readonly top?: readonly Top[];
  readonly rest?: number;
}

export interface Step {
  readonly at: number;
  readonly in: Token;
  readonly out: Token & { readonly probability: number };
  readonly words: readonly { readonly text: string; readonly probability: number }[];
}

/** What is switched off or changed; {} is the model as it is. */
export interface Edits {
  readonly heads?: readonly (readonly [Kind, number, number])[];
  readonly layers?: readonly (readonly ["encoder" | "decoder", number])[];
  readonly off?: readonly string[];
  readonly rows?: readonly { kind: Kind; layer: number; head: number; query: number; weights: readonly number[] }[];
  readonly shuffle?: number;
}

export function unpack(packed: Packed): Grid {
  const raw = atob(packed.data), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return { shape: packed.shape, at: packed.type === "u1" ? bytes : new Float32Array(bytes.buffer) };
}

const picked = new WeakMap<AttentionMap, Map<number, Grid>>();

/** One layer and head of a map, row after row; the same object each time, so that it is drawn once. */
export function pick(map: AttentionMap, layer: number, head: number): Grid {
  const whole = cached(map.weights), [, heads = 1, rows = 0, columns = 0] = whole.shape;
  const number = Math.max(0, map.layers.indexOf(layer)) * heads + head, first = number * rows * columns;
  const known = picked.get(map) ?? new Map<number, Grid>();
  const grid = known.get(number) ?? { shape: [rows, columns], at: whole.at.subarray(first, first + rows * columns) };
  picked.set(map, known.set(number, grid));
  return grid;
}

const unpacked = new WeakMap<Packed, Grid>();
export function cached(packed: Packed): Grid {
  const known = unpacked.get(packed) ?? unpack(packed);
  unpacked.set(packed, known);
  return known;
}

export function row(grid: Grid, number: number): Float32Array | Uint8Array {
  const width = grid.shape[1] ?? grid.shape[0]!;
  return grid.at.subarray(number * width, (number + 1) * width);
}

export function overviewOf(model: string, text: string, lang: string, layer: number | null, edits: Edits, stop?: AbortSignal): Promise<Overview> {
  const body = { model, text, lang, edits, map: true, ...(layer === null ? {} : { layer }) };
  return patiently(() => request<Overview>("/v1/inside", body, stop), stop);
}

export function numbersOf(model: string, of: Overview, block: string, head: number, at: number, edits: Edits, stop?: AbortSignal): Promise<BlockNumbers> {
  const body = { model, text: of.text, translation: of.translation, edits, block, head, at };
  return patiently(() => request<BlockNumbers>("/v1/inside/block", body, stop), stop);
}

export async function stepOf(model: string, of: Overview, at: number, stop?: AbortSignal): Promise<Step | null> {
  const body = { model, text: of.text, translation: of.translation, at, count: 5 };
  return (await patiently(() => request<{ steps: Step[] }>("/v1/inside/step", body, stop), stop)).steps[0] ?? null;
}

export const warm = signal<ReadonlySet<string>>(new Set());
const asked = new Set<string>();

/** Start the engine that looks inside, in the background, so that no click waits for it. */
export function warmUp(model: string): void {
  if (asked.has(model)) return;
  asked.add(model);
  patiently(() => request("/v1/inside/warm", { model })).then(
    () => (warm.value = new Set([...warm.value, model])),
    () => asked.delete(model),
  );
}

export function shown(token: Token): string {
  return token.text || "·";
}

export function digits(value: number, count = 3): string {
  return (value < 0 ? "−" : "") + Math.abs(value).toFixed(count);
}
