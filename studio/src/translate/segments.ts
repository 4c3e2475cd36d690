// A whole text in segments: split by the engine, translated in parts, corrected one by one.

import { signal, type Signal } from "@preact/signals";
import type { Rules, Sentence } from "../engine/engine";
import { engine, fail, failure } from "../session";
import { correct, withdraw } from "./corrections";

export interface Segment {
  readonly before: string; // what is between this sentence and the one before
  readonly source: Signal<string>;
  readonly machine: Signal<Sentence | null>; // null while it is being translated
  readonly target: Signal<string>; // as the reader sees and edits it
  readonly confirmed: Signal<boolean>;
}

const PART = 12_000; // characters that are split in one request
const FIRST = 4; // segments of the first request, so that something can be read at once
const MANY = 48; // segments of the others
const AT_ONCE = 2; // requests at a time

export const segments = signal<readonly Segment[]>([]);
export const tail = signal("");
export const done = signal(0);
export const seconds = signal<number | null>(null); // until all were translated
const history: (() => void)[] = [];
export const undoable = signal(0);
let running = new AbortController();

function make(source: string, before: string): Segment {
  return { before, source: signal(source), machine: signal(null), target: signal(""), confirmed: signal(false) };
}

/** The text in parts that end with a line, where that is possible. */
export function divide(text: string): string[] {
  const parts: string[] = [];
  for (let start = 0; start < text.length;) {
    let stop = Math.min(text.length, start + PART);
    if (stop < text.length) {
      const edge = Math.max(text.lastIndexOf("\n", stop), text.lastIndexOf(". ", stop));
      if (edge > start) stop = edge + 1;
    }
    parts.push(text.slice(start, stop));
    start = stop;
  }
  return parts;
}

export async function open(model: string, text: string, rules: Rules): Promise<void> {
  running.abort();
  const { signal: stop } = (running = new AbortController());
  history.length = 0;
  undoable.value = done.value = 0;
  segments.value = [];
  seconds.value = null;
  const began = performance.now();
  let before = "";
  const lanes: Promise<void>[] = [];
  const queue: Segment[][] = [];
  const work = async () => {
    for (let some = queue.shift(); some; some = queue.shift()) await translate(model, some, rules, stop);
  };
  try {
    for (const part of divide(text)) {
      const split = await engine.segments(model, part, stop);
      const made = split.sentences.map((one, row) => make(one, row === 0 ? before + (split.between[0] ?? "") : split.between[row] ?? ""));
      before = (made.length ? "" : before) + (split.between.at(-1) ?? "");
      const fresh = segments.value.length === 0;
      segments.value = [...segments.value, ...made];
      if (fresh) queue.push(made.splice(0, FIRST));
      while (made.length) queue.push(made.splice(0, MANY));
      while (lanes.length < AT_ONCE) lanes.push(work());
    }
    tail.value = before;
    await Promise.all(lanes);
    await Promise.all([work(), work()]); // what came after the lanes had run out of work
    if (!stop.aborted) seconds.value = (performance.now() - began) / 1000;
    failure.value = null;
  } catch (error) {
    fail(error);
  }
}

async function translate(model: string, some: readonly Segment[], rules: Rules, stop?: AbortSignal): Promise<void> {
  const made = await engine.translateAll(model, some.map((one) => one.source.peek()), rules, stop);
  for (const [row, one] of some.entries()) put(one, made[row]!);
}

function put(segment: Segment, made: Sentence): void {
  if (!segment.machine.peek()) done.value += 1;
  segment.machine.value = made;
  if (!segment.confirmed.peek()) segment.target.value = made.text;
}

const timers = new WeakMap<Segment, number>();

/** Another source: only this segment is translated again. */
export function edit(model: string, segment: Segment, source: string, rules: Rules): void {
  const earlier = segment.source.peek();
  if (source === earlier) return;
  segment.source.value = source;
  segment.confirmed.value = false;
  clearTimeout(timers.get(segment));
  timers.set(segment, window.setTimeout(() => void translate(model, [segment], rules).catch(fail), 250));
}

export function confirm(segment: Segment, of: { model: string; from: string; to: string }): void {
  const machine = segment.machine.peek();
  if (!machine) return;
  const source = segment.source.peek(), target = segment.target.peek().trim();
  const was = segment.confirmed.peek();
  remember(() => { segment.confirmed.value = was; withdraw(source, of.model); });
  segment.confirmed.value = true;
  correct({ source, target, machine: machine.text, ...of });
}

/** The translation as it is typed; one undo takes back one visit to the field. */
export function retype(segment: Segment, earlier: string): void {
  if (segment.target.peek() !== earlier) remember(() => (segment.target.value = earlier));
}

function remember(back: () => void): void {
  history.push(back);
  undoable.value = history.length;
}

export function undo(): void {
  history.pop()?.();
  undoable.value = history.length;
}

export function render(): string {
  return segments.value.map((one) => one.before + one.target.value).join("") + tail.value;
}
