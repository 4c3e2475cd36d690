// The state of the screen Translate: what is translated, how, and what came out.

import { batch, computed, signal } from "@preact/signals";
import { read, set } from "../address";
import type { Card, Rules, Sentence, Word } from "../engine/engine";
import { engine, fail, failure } from "../session";

export const text = computed(() => read("text"));
export const sentences = signal<readonly Sentence[]>([]);
export const busy = signal(false);
export const card = signal<Card | null>(null);
export const unknown = signal<readonly (readonly [number, number])[] | null>([]); // null where the model cannot say
export const choices = signal<ReadonlyMap<string, readonly (readonly Word[])[]>>(new Map()); // by keyOf

/** The words that light up: those of one sentence, by their numbers. */
export interface Lit {
  readonly sentence: number;
  readonly source: ReadonlySet<number>;
  readonly target: ReadonlySet<number>;
}
export const lit = signal<Lit | null>(null);

function list(name: string): readonly string[] {
  try {
    const value: unknown = JSON.parse(read(name) || "[]");
    return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return [];
  }
}

/** What the translation must and must not contain, and the terms of this text; all in the address. */
export const require = computed(() => list("require"));
export const forbid = computed(() => list("forbid"));
export const glossary = computed<Readonly<Record<string, string>>>(() => {
  const flat = list("glossary");
  return Object.fromEntries(flat.flatMap((term, row) => (row % 2 === 0 ? [[term, flat[row + 1] ?? ""]] : [])));
});
export const rules = computed<Rules>(() => ({ require: require.value, forbid: forbid.value, glossary: glossary.value }));

/** How the translations of single sentences begin, where the reader has chosen words: [number, beginning]. */
export const beginnings = computed(() => {
  const flat = list("begin");
  return new Map(flat.flatMap((value, row) => (row % 2 === 0 ? [[Number(value), flat[row + 1] ?? ""] as const] : [])));
});

export function change(name: "require" | "forbid", add: string, remove = ""): void {
  const now = (name === "require" ? require : forbid).value.filter((one) => one !== remove && one !== add);
  set({ [name]: pack(add ? [...now, add] : now) });
}

export function setTerm(term: string, translation: string | null): void {
  const { [term]: _, ...rest } = glossary.value;
  const next = translation === null ? rest : { ...rest, [term]: translation };
  set({ glossary: pack(Object.entries(next).flat()) });
}

export function begin(number: number, beginning: string): void {
  const next = new Map(beginnings.value).set(number, beginning);
  set({ begin: pack([...next].flatMap(([row, value]) => [String(row), value])) });
}

function pack(values: readonly string[]): string {
  return values.length ? JSON.stringify(values) : "";
}

export function keyOf(sentence: Sentence): string {
  return `${sentence.source}\n${(sentence.tokens ?? []).join(" ")}`;
}

/** A new text: choices made for the old one are gone, what the reader required stays. */
export function type(value: string): void {
  set({ text: value, begin: "" });
}

let running = new AbortController();

/** Translate what is in the address, then ask for the words to choose from; a newer call ends an older one. */
export async function translateNow(model: string, whole: string, how: Rules, begun: ReadonlyMap<number, string>): Promise<void> {
  running.abort();
  const { signal: stop } = (running = new AbortController());
  lit.value = null;
  if (!whole.trim()) {
    batch(() => { sentences.value = []; unknown.value = []; busy.value = false; });
    return;
  }
  busy.value = true;
  try {
    void engine.unknown(model, whole, stop).then((found) => { if (!stop.aborted) unknown.value = found; }, () => undefined);
    let made = [...await engine.translate({ model, text: whole, ...how }, begun.size ? undefined : (some) => {
      if (!stop.aborted) sentences.value = some;
    }, stop)];
    for (const [row, prefix] of begun) {
      const sentence = made[row];
      if (sentence) made = made.with(row, (await continueFrom(model, sentence.source, prefix, how, stop)) ?? sentence);
    }
    batch(() => { sentences.value = made; busy.value = false; failure.value = null; });
    for (const sentence of made.slice(0, 8)) await findChoices(model, sentence, stop);
  } catch (error) {
    if (!stop.aborted) busy.value = false;
    fail(error);
  }
}

async function continueFrom(model: string, source: string, prefix: string, how: Rules, stop: AbortSignal): Promise<Sentence | undefined> {
  const asked = { model, text: source, sentence: true, ...how };
  const [open] = await engine.translate({ ...asked, prefix }, undefined, stop);
  if (prefix.endsWith(" ") || !open || beginsWith(open.text, prefix)) return open;
  return (await engine.translate({ ...asked, prefix: `${prefix} ` }, undefined, stop))[0]; // the last word went on
}

function beginsWith(whole: string, prefix: string): boolean {
  return whole.startsWith(prefix) && !/^[\p{L}\p{N}]/u.test(whole.slice(prefix.length));
}

export async function findChoices(model: string, sentence: Sentence, stop?: AbortSignal): Promise<void> {
  const key = keyOf(sentence);
  if (choices.value.has(key) || !sentence.tokens?.length) return;
  const found = await engine.choices(model, sentence, 5, stop);
  choices.value = new Map([...choices.value].slice(-40)).set(key, found);
}

/** Whether a translation is among the least sure 5 % that the model makes of its validation set. */
export function isDoubtful(sentence: Sentence, of: Card | null): boolean {
  const least = of?.scores.doubt;
  if (least === undefined || least === null || sentence.log_probability === undefined || !sentence.tokens) return false;
  return sentence.log_probability / sentence.tokens.length < least;
}
