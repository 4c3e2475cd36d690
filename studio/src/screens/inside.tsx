// Inside: the map of the model, three kinds of attention, and the numbers of one sentence behind every formula.

import { computed, signal, useSignalEffect } from "@preact/signals";
import { link, read, readNumber, set } from "../address";
import { Cell, Vectors } from "../inside/cell";
import { numbersOf, overviewOf, pick, shown, stepOf, warmUp, type AttentionMap, type Block, type BlockNumbers, type Kind, type Overview, type Side, type Step } from "../inside/data";
import { Explanation, Figure } from "../inside/figure";
import { Matrix, Thumbnail } from "../inside/matrix";
import { useDrawing } from "../parts/drawings";
import { manySvg } from "../parts/pictures";
import { explains, Term } from "../parts/terms";
import { inBoth, language } from "../preferences";
import { fail, failure, model } from "../session";
import en from "../strings/en/inside";
import ko from "../strings/ko/inside";
import { percent } from "../translate/target";
import "./inside.css";

const words = inBoth(en, ko);
const KINDS: readonly Kind[] = ["encoder", "decoder", "cross"];
const TYPES: Readonly<Record<Kind, readonly string[]>> = { encoder: ["attention"], decoder: ["masked", "attention"], cross: ["cross"] };
const TERMS: Readonly<Record<Kind, string>> = { encoder: "self-attention", decoder: "masked-self-attention", cross: "cross-attention" };
export const overview = signal<Overview | null>(null);
const numbers = signal<BlockNumbers | null>(null);
const step = signal<Step | null>(null);

const kinds = computed(() => KINDS.filter((kind) => overview.value?.maps[kind]));
const kind = computed<Kind | null>(() => kinds.value.find((one) => one === read("kind")) ?? kinds.value.at(-1) ?? null);
const map = computed<AttentionMap | null>(() => (kind.value && overview.value?.maps[kind.value]) || null);
const layer = computed(() => clamp(readNumber("layer", (map.value?.of ?? 1) - 1), map.value?.of ?? 1));
const head = computed(() => clamp(readNumber("head", 0), map.value?.heads ?? 1));

function names(side: Side | undefined): readonly string[] {
  return (side ? overview.value?.tokens[side] ?? [] : []).map(shown);
}

const rows = computed(() => names(map.value?.rows));
const columns = computed(() => names(map.value?.columns));
const row = computed(() => clamp(readNumber("row", kind.value === "encoder" ? 0 : at.value), rows.value.length));
const column = computed(() => clamp(readNumber("column", strongest()), columns.value.length));
const at = computed(() => clamp(readNumber("step", 0), overview.value?.output.length ?? 1));

/** The block that is open: the one in the address, else the attention that is shown. */
const block = computed<Block | null>(() => {
  const blocks = overview.value?.map.blocks ?? [];
  const named = blocks.find((one) => one.id === read("block"));
  if (named) return named;
  const wanted = kind.value, types = wanted ? TYPES[wanted] : [];
  return blocks.find((one) => one.layer === layer.value && types.includes(one.type) && (wanted !== "decoder" || one.stack !== "encoder")) ?? null;
});
const isAttention = computed(() => ["attention", "masked", "cross"].includes(block.value?.type ?? ""));

function clamp(value: number, count: number): number {
  return Math.max(0, Math.min(Math.max(0, count - 1), value));
}

function strongest(): number {
  if (!map.value) return 0;
  const grid = pick(map.value, layer.value, head.value), width = grid.shape[1]!;
  const own = Array.from(grid.at.subarray(row.value * width, (row.value + 1) * width));
  return own.indexOf(Math.max(...own));
}

function View() {
  const w = words.value;
  useSignalEffect(() => {
    const id = model.value?.id, text = read("text"), lang = language.value;
    const long = text.split(/\s+/).length > 25 ? readNumber("layer", 0) : null;
    if (id) warmUp(id);
    if (!id || !text.trim()) { overview.value = null; return; }
    const stop = new AbortController();
    const timer = setTimeout(() => void overviewOf(id, text, lang, long, {}, stop.signal)
      .then((found) => { overview.value = found; failure.value = null; }, fail), 150);
    return () => { clearTimeout(timer); stop.abort(); };
  });
  useSignalEffect(() => {
    const id = model.value?.id, of = overview.value, open = block.value, number = head.value;
    const place = isAttention.value ? row.value : Math.min(at.value, Math.max(0, (of?.output.length ?? 1) - 1));
    if (!id || !of || !open || open.absent) { numbers.value = null; return; }
    const stop = new AbortController();
    numbersOf(id, of, open.id, number, place, {}, stop.signal).then((found) => (numbers.value = found), fail);
    return () => stop.abort();
  });
  useSignalEffect(() => {
    const id = model.value?.id, of = overview.value, number = at.value;
    if (!id || !of || !of.tokens.target) { step.value = null; return; }
    const stop = new AbortController();
    stepOf(id, of, number, stop.signal).then((found) => (step.value = found), fail);
    return () => stop.abort();
  });
  const of = overview.value;
  return (
    <div class="inside">
      <p class="lead">{w.lead}</p>
      <label class="sentence-line">{w.text}<input value={read("text")} lang={model.value?.source ?? undefined}
        onInput={(event) => set({ text: event.currentTarget.value, row: "", column: "", step: "" })} /></label>
      {!of && read("text") && <p role="status" class="quiet">{w.loading}</p>}
      {of && (
        <>
          <p class="answer"><span class="quiet small">{w.translation}</span> <span lang={model.value?.target ?? undefined} data-said="translation">{of.translation}</span></p>
          {of.lacks && <p class="note">{of.lacks}</p>}
          {of.tokens.target && <Steps of={of} />}
          <div class="three-columns">
            <Figure of={of} chosen={block.value?.id ?? ""} words={w} language={language.value} choose={open} />
            <div class="middle">
              {kind.value && <Maps of={of} />}
            </div>
            <div class="right">
              {block.value && <Explanation of={of} block={block.value} words={w} />}
              {numbers.value && numbers.value.block === block.value?.id && (isAttention.value
                ? <Cell numbers={numbers.value} rows={rows.value} columns={columns.value} row={row.value} column={column.value} words={w} />
                : <section class="card" aria-label={w.numbers}><h3>{w.numbers} · {w.at(placeName(of))}</h3><Vectors numbers={numbers.value} words={w} /></section>)}
            </div>
          </div>
        </>
      )}
    </div>
  );
}

function placeName(of: Overview): string {
  const side = block.value?.stack === "encoder" || block.value?.stack === "source" ? of.tokens.source : of.tokens.target ?? of.tokens.line;
  const token = side?.[numbers.value?.at ?? 0];
  return token ? shown(token) : "";
}

function open(chosen: Block): void {
  const found = KINDS.find((one) => TYPES[one].includes(chosen.type) && (one !== "encoder" || chosen.stack === "encoder"));
  if (found && chosen.layer !== null) set({ block: "", kind: found, layer: chosen.layer, row: "", column: "" });
  else set({ block: chosen.id });
}

function Maps({ of }: { of: Overview }) {
  const w = words.value, now = kind.value!, shownMap = map.value!;
  const grid = pick(shownMap, layer.value, head.value);
  const label = w.weights(w.kinds[now] ?? now, layer.value + 1, head.value + 1);
  const together = w.headsOf(w.kinds[now] ?? now, layer.value + 1), shownLayer = layer.value;
  const heads = useDrawing<HTMLDivElement>({
    title: together,
    svg: () => manySvg(together, Array.from({ length: shownMap.heads }, (_, number) => (
      { name: w.head(number + 1), weights: { rows: rows.value, columns: columns.value, at: pick(shownMap, shownLayer, number).at } }))),
  });
  return (
    <>
      <div class="tabs" role="tablist">
        {kinds.value.map((one) => (
          <button key={one} type="button" role="tab" id={`tab-${one}`} aria-selected={one === now} aria-controls="maps" {...explains(TERMS[one])}
            onClick={() => set({ kind: one, block: "", row: "", column: "" })}>{w.kinds[one]}</button>
        ))}
      </div>
      <div id="maps" role="tabpanel" aria-labelledby={`tab-${now}`}>
        <p class="quiet small">{w.kindSays[now]}</p>
        <div class="row"><span class="small quiet"><Term of="layer">{w.layers}</Term></span>
          <div class="switch" role="group" aria-label={w.layers}>
            {Array.from({ length: shownMap.of }, (_, number) => (
              <button key={number} type="button" aria-pressed={number === layer.value} onClick={() => set({ layer: number, block: "", column: "" })}>{w.layer(number + 1)}</button>
            ))}
          </div>
        </div>
        <p class="small quiet heads-title"><Term of="head">{w.heads}</Term> · <Term of="attention-weight">{w.alpha}</Term></p>
        <div class="heads" role="group" aria-label={w.heads} ref={heads}>
          {Array.from({ length: shownMap.heads }, (_, number) => (
            <Thumbnail key={number} grid={pick(shownMap, layer.value, number)} label={w.head(number + 1)} pressed={number === head.value}
              choose={() => set({ head: number, block: "", column: "" })} />
          ))}
        </div>
        <Matrix grid={grid} rows={rows.value} columns={columns.value} row={row.value} column={column.value} label={label}
          choose={(y, x) => set({ row: y, column: x, block: "" })} />
        <p class="small quiet">{w.notExplanation}{" "}
          <a href={link("break", { text: of.text, edits: JSON.stringify({ heads: [[now, layer.value, head.value]] }) })}>{w.breakIt}</a></p>
      </div>
    </>
  );
}

function Steps({ of }: { of: Overview }) {
  const w = words.value, all = of.output.length, now = step.value;
  const go = (to: number) => set({ step: to, ...(kind.value !== "encoder" ? { row: to, column: "" } : {}) });
  return (
    <section class="steps card" aria-label={w.step}>
      <div class="row">
        <button type="button" aria-label={w.previous} disabled={at.value === 0} onClick={() => go(at.value - 1)}>◀</button>
        <span role="status">{w.stepOf(at.value + 1, all)}</span>
        <button type="button" aria-label={w.next} disabled={at.value >= all - 1} onClick={() => go(at.value + 1)}>▶</button>
        <span class="tokens">{of.output.map((token, number) => (
          <button key={number} type="button" class={`token${number < at.value ? " before" : ""}`} aria-pressed={number === at.value} onClick={() => go(number)}
            lang={model.value?.target ?? undefined}>{shown(token)}</button>
        ))}</span>
      </div>
      {now && now.at === at.value && (
        <div class="row step-numbers">
          <span><span class="quiet small"><Term of="decoding-step">{w.went}</Term></span> <b>{shown(now.in)}</b></span>
          <span><span class="quiet small">{w.came}</span> <b>{shown(now.out)}</b> {percent(now.out.probability)}</span>
          <span class="five"><span class="quiet small"><Term of="probability">{w.five}</Term></span>{now.words.map((one) => (
            <span key={one.text} class="guess"><span lang={model.value?.target ?? undefined}>{one.text}</span> <span class="quiet">{percent(one.probability)}</span></span>
          ))}</span>
        </div>
      )}
    </section>
  );
}

export const inside = { name: "inside", title: { get value() { return words.value.title; } }, view: View };
