// Break it: switch parts of the model off, or edit a row of attention, and see words, scores and BLEU change.

import { computed, signal, useSignalEffect } from "@preact/signals";
import { link, read, readNumber, set } from "../address";
import { patiently, Refused, request } from "../engine/remote";
import { overviewOf, pick, row as rowOf, shown, warmUp, type Edits, type Kind, type Overview, type Switch } from "../inside/data";
import { explains, Term } from "../parts/terms";
import { inBoth, language } from "../preferences";
import { screens } from "../screens";
import { fail, failure, model } from "../session";
import en from "../strings/en/break";
import ko from "../strings/ko/break";
import { percent } from "../translate/target";
import "./break.css";

interface Said {
  readonly text: string;
  readonly score: number;
  readonly words: readonly { readonly text: string; readonly probability: number }[];
}
interface Broken {
  readonly before: Said;
  readonly after: Said;
  readonly changed: readonly number[];
  readonly source: string | null;
  readonly forced: readonly { readonly text: string; readonly before: number; readonly after: number }[];
}
interface Bleu {
  readonly bleu: number;
  readonly interval: readonly [number, number];
}
interface Cost {
  readonly pairs: number;
  readonly of: number;
  readonly before: Bleu;
  readonly after: Bleu;
  readonly difference: number;
  readonly interval: readonly [number, number];
  readonly verdict: string;
  readonly changed: number;
  readonly seconds: number;
}

const words = inBoth(en, ko);
const overview = signal<Overview | null>(null);
const broken = signal<Broken | null>(null);
const cost = signal<Cost | "counting" | "absent" | null>(null);
const TERMS: Readonly<Record<string, string>> = {
  heads: "head", layers: "layer", mask: "mask", positions: "positional-encoding", scale: "scale", residual: "residual", norm: "layer-norm", rows: "attention-weight", shuffle: "bag-of-words",
};
const PLAIN = ["mask", "positions", "scale", "residual", "norm"];

export const edits = computed<Edits>(() => {
  try {
    const value: unknown = JSON.parse(read("edits") || "{}");
    return typeof value === "object" && value !== null ? (value as Edits) : {};
  } catch {
    return {};
  }
});
const isWhole = computed(() => Object.values(edits.value).every((value) => value === undefined || (Array.isArray(value) && value.length === 0)));

function change(next: Edits): void {
  const kept = Object.fromEntries(Object.entries({ ...edits.value, ...next }).filter(([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0)));
  set({ edits: Object.keys(kept).length ? JSON.stringify(kept) : "" });
}

function toggled<T>(list: readonly T[] | undefined, one: T): T[] {
  const key = JSON.stringify(one), rest = (list ?? []).filter((other) => JSON.stringify(other) !== key);
  return rest.length === (list ?? []).length ? [...rest, one] : rest;
}

function has<T>(list: readonly T[] | undefined, one: T): boolean {
  const key = JSON.stringify(one);
  return (list ?? []).some((other) => JSON.stringify(other) === key);
}

function View() {
  const w = words.value;
  useSignalEffect(() => {
    const id = model.value?.id, text = read("text"), lang = language.value;
    if (id) warmUp(id);
    if (!id || !text.trim()) { overview.value = null; return; }
    const stop = new AbortController();
    const timer = setTimeout(() => void overviewOf(id, text, lang, null, {}, stop.signal)
      .then((found) => { overview.value = found; failure.value = null; }, fail), 150);
    return () => { clearTimeout(timer); stop.abort(); };
  });
  useSignalEffect(() => {
    const id = model.value?.id, text = read("text"), now = edits.value;
    if (!id || !text.trim()) { broken.value = null; return; }
    const stop = new AbortController();
    const timer = setTimeout(() => void patiently(() => request<Broken>("/v1/break", { model: id, text, edits: now }, stop.signal), stop.signal)
      .then((found) => { broken.value = found; failure.value = null; }, fail), 150);
    return () => { clearTimeout(timer); stop.abort(); };
  });
  useSignalEffect(() => {
    const id = model.value?.id, now = edits.value;
    cost.value = null;
    if (!id || isWhole.value || now.rows?.length) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      cost.value = "counting";
      patiently(() => request<Cost>("/v1/break/score", { model: id, edits: now, pairs: 500 }, stop.signal), stop.signal).then(
        (found) => (cost.value = found),
        (error) => {
          if (error instanceof Refused && error.status === 400) cost.value = "absent";
          else fail(error);
        });
    }, 700);
    return () => { clearTimeout(timer); stop.abort(); };
  });
  const of = overview.value;
  return (
    <div class="break">
      <p class="lead">{w.lead}</p>
      <label class="sentence-line">{w.text}<input value={read("text")} lang={model.value?.source ?? undefined}
        onInput={(event) => set({ text: event.currentTarget.value, edits: withoutRows() })} /></label>
      {!of && read("text") && <p role="status" class="quiet">{w.loading}</p>}
      {of && (
        <div class="two-columns">
          <div class="switches">
            {[...of.switches].sort((one, other) => orderOf(one) - orderOf(other)).map((one) => <SwitchView key={one.id} one={one} of={of} />)}
          </div>
          <div class="outcome">
            <div class="row spread"><span class="quiet small">{isWhole.value ? w.nothing : ""}</span>
              {!isWhole.value && <button type="button" onClick={() => set({ edits: "" })}>{w.reset}</button>}</div>
            <Outcome />
            <Bleus />
          </div>
        </div>
      )}
    </div>
  );
}

/** Switches of one click first. */
function orderOf(one: Switch): number {
  return PLAIN.includes(one.id) ? 0 : one.id === "shuffle" ? 1 : 2;
}

function withoutRows(): string {
  const { rows: _, ...rest } = edits.value;
  return Object.keys(rest).length ? JSON.stringify(rest) : "";
}

function SwitchView({ one, of }: { one: Switch; of: Overview }) {
  const w = words.value;
  return (
    <section class="switch-of card" aria-label={one.title}>
      {PLAIN.includes(one.id) ? (
        <label class="toggle" data-term={TERMS[one.id]}><input type="checkbox" role="switch" {...explains(TERMS[one.id])} disabled={!one.available} checked={!has(edits.value.off, one.id)}
          onChange={() => change({ off: toggled(edits.value.off, one.id) })} /> <span>{one.title}</span></label>
      ) : one.id === "shuffle" ? (
        <div class="row">
          <label class="toggle" data-term={TERMS[one.id]}><input type="checkbox" role="switch" {...explains(TERMS[one.id])} disabled={!one.available} checked={edits.value.shuffle === undefined}
            onChange={(event) => change({ shuffle: event.currentTarget.checked ? undefined : 1 })} /> <span>{one.title}</span></label>
          {edits.value.shuffle !== undefined && <button type="button" onClick={() => change({ shuffle: (edits.value.shuffle ?? 0) + 1 })}>{w.another}</button>}
        </div>
      ) : <h2><Term of={TERMS[one.id]}>{one.title}</Term></h2>}
      {!one.available && <p class="quiet small">{one.why}</p>}
      {one.available && one.id === "heads" && <Heads of={of} />}
      {one.available && one.id === "layers" && <Layers of={of} />}
      {one.available && one.id === "rows" && <RowEditor of={of} />}
      <details class="claim"><summary>{w.claims}</summary>
        <p><strong>{one.claim}</strong></p>
        {one.meaning.split("\n\n").map((paragraph, number) => <p key={number}>{paragraph}</p>)}
        <p class="quiet small">{one.paper && `${w.paper}: ${one.paper}`}{one.notes && ` · ${w.notes}: ${one.notes}`}
          {screens.some((screen) => screen.name === "lab") && <> · <a href={link("lab", { claim: one.lab })}>{w.lab}</a></>}</p>
      </details>
    </section>
  );
}

function Heads({ of }: { of: Overview }) {
  const w = words.value;
  return (
    <div class="head-grid">
      {(Object.keys(of.maps) as Kind[]).map((kind) => (
        <div key={kind}>
          <p class="small quiet">{w.kinds[kind]}</p>
          {Array.from({ length: of.maps[kind]!.of }, (_, layer) => (
            <div key={layer} class="heads-of">
              <span class="small quiet">{w.layerShort(layer + 1)}</span>
              {Array.from({ length: of.maps[kind]!.heads }, (_, head) => {
                const key = [kind, layer, head] as const, off = has(edits.value.heads, key);
                return (
                  <button key={head} type="button" class="head" role="switch" aria-checked={!off} aria-label={w.head(w.kinds[kind] ?? kind, layer + 1, head + 1)}
                    onClick={() => change({ heads: toggled(edits.value.heads, key) })}>{head + 1}</button>
                );
              })}
            </div>
          ))}
        </div>
      ))}
    </div>
  );
}

function Layers({ of }: { of: Overview }) {
  const w = words.value, stacks = { encoder: of.maps.encoder?.of ?? 0, decoder: of.maps.decoder?.of ?? 0 };
  return (
    <div class="head-grid">
      {(["encoder", "decoder"] as const).filter((stack) => stacks[stack] > 0).map((stack) => (
        <div key={stack} class="heads-of"><span class="small quiet">{w.stacks[stack]}</span>
          {Array.from({ length: stacks[stack] }, (_, layer) => {
            const key = [stack, layer] as const;
            return (
              <button key={layer} type="button" class="head" role="switch" aria-checked={!has(edits.value.layers, key)} aria-label={w.layer(w.stacks[stack]!, layer + 1)}
                onClick={() => change({ layers: toggled(edits.value.layers, key) })}>{layer + 1}</button>
            );
          })}
        </div>
      ))}
    </div>
  );
}

/** The row of attention that is chosen in Inside, with a slider for every weight. */
function RowEditor({ of }: { of: Overview }) {
  const w = words.value;
  const kinds = Object.keys(of.maps) as Kind[], kind = kinds.find((one) => one === read("kind")) ?? kinds.at(-1)!;
  const map = of.maps[kind]!, layer = Math.min(readNumber("layer", map.of - 1), map.of - 1), head = Math.min(readNumber("head", 0), map.heads - 1);
  const tokens = of.tokens[map.rows] ?? [], keys = of.tokens[map.columns] ?? [], query = Math.min(readNumber("row", 1), tokens.length - 1);
  const mine = edits.value.rows?.find((one) => one.kind === kind && one.layer === layer && one.head === head && one.query === query);
  const now = mine?.weights ?? Array.from(rowOf(pick(map, layer, head), query));
  if (!tokens[query]) return null;
  return (
    <div class="row-editor">
      <p class="small">{w.row(w.kinds[kind] ?? kind, layer + 1, head + 1, shown(tokens[query]))}</p>
      <p class="small quiet">{w.rowHelp}</p>
      {keys.slice(0, 40).map((token, number) => (
        <label key={number}><span>{shown(token)}</span>
          <input type="range" min="0" max="1" step="0.01" value={now[number] ?? 0} aria-label={w.weightOf(shown(token))}
            onChange={(event) => change({ rows: [{ kind, layer, head, query, weights: keys.map((_, key) => (key === number ? Number(event.currentTarget.value) : round(now[key] ?? 0))) }] })} />
          <span class="mono">{(now[number] ?? 0).toFixed(2)}</span></label>
      ))}
      {mine && <button type="button" onClick={() => change({ rows: [] })}>{w.forget}</button>}
    </div>
  );
}

function round(value: number): number {
  return Math.round(1000 * value) / 1000;
}

function Outcome() {
  const w = words.value, now = broken.value;
  if (!now) return null;
  const language = model.value?.target ?? undefined;
  return (
    <>
      <div class="sides" aria-live="polite">
        <section class="box" aria-label={w.before}><h2>{w.before}</h2>
          <p lang={language} data-said="before">{now.before.text}</p><p class="quiet small"><Term of="score">{w.score}</Term> {now.before.score.toFixed(3)}</p></section>
        <section class="box" aria-label={w.after}><h2>{w.after}</h2>
          {now.source && <p class="small quiet">{w.shuffled}: {now.source}</p>}
          <p lang={language} data-said="after">{now.after.words.map((word, number) => (
            <span key={number}><span class={now.changed.includes(number) ? "differs" : undefined}>{word.text}</span> </span>
          ))}</p>
          <p class="quiet small"><Term of="score">{w.score}</Term> {now.after.score.toFixed(3)}{now.before.text === now.after.text && !isWhole.value ? ` · ${w.same}` : ""}</p></section>
      </div>
      {!isWhole.value && (
        <section class="card" aria-label={w.words}>
          <h3><Term of="probability">{w.words}</Term></h3>
          <div class="scroll" tabIndex={0}>
            <table class="forced">
              <thead><tr><td />{now.forced.map((one, number) => <th key={number} scope="col" lang={language}>{one.text}</th>)}</tr></thead>
              <tbody>
                <tr><th scope="row">{w.before}</th>{now.forced.map((one, number) => <td key={number}>{percent(one.before)}</td>)}</tr>
                <tr><th scope="row">{w.after}</th>{now.forced.map((one, number) => <td key={number} class={one.after < one.before / 2 ? "fell" : undefined}>{percent(one.after)}</td>)}</tr>
              </tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}

function Bleus() {
  const w = words.value, now = cost.value;
  if (isWhole.value) return null;
  if (edits.value.rows?.length) return <p class="quiet small">{w.noRows}</p>;
  if (now === "absent") return <p class="quiet small">{w.noValidation}</p>;
  return (
    <section class="card bleus" aria-live="polite" aria-busy={now === "counting"}>
      {now === "counting" || now === null ? <p class="quiet">{w.counting}</p> : (
        <>
          <h3><Term of="bleu">{w.bleu(now.pairs, now.of)}</Term></h3>
          <div class="row">
            <p class="figure-of"><span class="small quiet">{w.before}</span><strong data-number="bleu-before">{now.before.bleu.toFixed(2)}</strong><span class="small quiet">{range(now.before.interval)}</span></p>
            <p class="figure-of"><span class="small quiet">{w.after}</span><strong data-number="bleu-after">{now.after.bleu.toFixed(2)}</strong><span class="small quiet">{range(now.after.interval)}</span></p>
            <p class="figure-of"><span class="small quiet">{w.difference}</span><strong data-number="difference">{now.difference > 0 ? "+" : "−"}{Math.abs(now.difference).toFixed(2)}</strong><span class="small quiet"><Term of="confidence-interval">{w.interval}</Term> {range(now.interval)}</span></p>
          </div>
          <p><strong>{w.verdict[now.verdict] ?? now.verdict}</strong> <span class="quiet small">{w.changed(now.changed, now.pairs)} · {w.seconds(now.seconds.toFixed(1))}</span></p>
        </>
      )}
    </section>
  );
}

function range([low, high]: readonly [number, number]): string {
  return `${low.toFixed(1)} … ${high.toFixed(1)}`.replaceAll("-", "−");
}

export const breakIt = { name: "break", title: { get value() { return words.value.title; } }, view: View };
