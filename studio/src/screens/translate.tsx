// Translate, the first screen: what the model is, a sentence and its translation, or a whole text in segments.

import { signal, useSignalEffect } from "@preact/signals";
import { read, set } from "../address";
import type { Card, Model, Sentence } from "../engine/engine";
import { useDrawing } from "../parts/drawings";
import { ink } from "../parts/pen";
import { alignmentSvg } from "../parts/pictures";
import { inBoth, language } from "../preferences";
import { engine, fail, model, models, other } from "../session";
import en from "../strings/en/translate";
import ko from "../strings/ko/translate";
import { correct } from "../translate/corrections";
import { Corrections, Glossary } from "../translate/folds";
import { RequestCode } from "../translate/request";
import { SourceBox } from "../translate/source";
import { beginnings, busy, card, change, forbid, require, rules, sentences, text, translateNow, type, unknown } from "../translate/state";
import { levelOf, percent, Translation } from "../translate/target";
import { TextView } from "../translate/text";
import "./translate.css";

const words = inBoth(en, ko);
const second = signal<readonly Sentence[]>([]); // of the other model
const editing = signal<string | null>(null);
const cards = new Map<string, Promise<Card>>();

function View() {
  const current = model.value!, w = words.value;
  useSignalEffect(() => {
    const id = model.value?.id;
    if (!id) return;
    const asked = cards.get(id) ?? engine.card(id);
    cards.set(id, asked);
    asked.then((found) => { if (model.value?.id === id) card.value = found; }, (error) => { cards.delete(id); fail(error); });
  });
  useSignalEffect(() => {
    const id = model.value?.id, whole = text.value, how = rules.value, begun = beginnings.value;
    if (!id || read("view") === "text") return;
    editing.value = null;
    const timer = setTimeout(() => void translateNow(id, whole, how, begun), 120);
    return () => clearTimeout(timer);
  });
  useSignalEffect(() => {
    const id = other.value?.id, whole = text.value;
    if (!id || !whole.trim()) { second.value = []; return; }
    const stop = new AbortController();
    const timer = setTimeout(() => void engine.translate({ model: id, text: whole, ...rules.value }, undefined, stop.signal)
      .then((made) => (second.value = made), fail), 150);
    return () => { clearTimeout(timer); stop.abort(); };
  });
  const asText = read("view") === "text";
  return (
    <div class="translate">
      <Introduction card={card.value} model={current} />
      <div class="row spread">
        <div class="switch" role="group" aria-label={w.view}>
          <button type="button" aria-pressed={!asText} onClick={() => set({ view: "" })}>{w.sentence}</button>
          <button type="button" aria-pressed={asText} onClick={() => set({ view: "text" })}>{w.whole}</button>
        </div>
        {!asText && <Compare />}
      </div>
      {asText ? <TextView model={current} words={w} /> : <Boxes current={current} />}
      <Glossary words={w} model={current} />
      <Corrections words={w} model={current} />
      {!asText && <RequestCode model={current.id} words={w} />}
    </div>
  );
}

function Introduction({ card, model }: { card: Card | null; model: Model }) {
  const w = words.value;
  if (!card) return <p class="lead">&nbsp;</p>;
  const names = card.names[language.value], number = new Intl.NumberFormat(language.value);
  const texts = card.texts.map((one) => (one === "phrasebook" ? w.phrasebook : one)).join(", ");
  const pairs = card.pairs === null ? w.unknownPairs : number.format(card.pairs) + (language.value === "ko" ? "개" : "");
  const bleu = card.scores.bleu;
  return (
    <p class="lead">
      {w.learnt(names[0] ?? model.id, names[1] ?? model.id, pairs, texts)}
      {card.minutes !== null ? w.minutes(number.format(Math.round(card.minutes))) : ""}.{" "}
      <strong>{typeof bleu === "number" ? w.quality(card.valid_pairs === null ? "?" : number.format(card.valid_pairs), bleu.toFixed(1)) : w.qualityUnknown}</strong>{" "}
      <span class="quiet">{unknown.value === null ? w.cannotUnderline : w.underlined}</span>
    </p>
  );
}

function Compare() {
  const w = words.value, all = models.value ?? [];
  const fitting = all.filter((one) => one.id !== model.value?.id && !one.generates && one.source === model.value?.source);
  if (fitting.length === 0) return null;
  return (
    <label class="compare">{w.compare}{" "}
      <select value={other.value?.id ?? ""} onChange={(event) => set({ other: event.currentTarget.value })}>
        <option value="">{w.nobody}</option>
        {fitting.map((one) => <option key={one.id} value={one.id}>{one.id}</option>)}
      </select>
    </label>
  );
}

function Boxes({ current }: { current: Model }) {
  const w = words.value, rival = other.value, made = sentences.value;
  const differing = rival ? countDifferences() : 0;
  const drawn = useDrawing<HTMLDivElement>(made.some((one) => one.words) ? {
    title: w.alignment, svg: () => alignmentSvg(w.alignment, made.map(toAligned)),
    table: () => ({ columns: [w.wordsOfText, w.translation, w.confidence], rows: made.flatMap(toRows) }),
  } : null);
  return (
    <>
      <div class={`boxes${rival ? " three" : ""}`}>
        <SourceBox label={w.text} placeholder={w.placeholder} language={current.source} />
        <section class="target box" aria-label={`${w.translation}${rival ? ` · ${current.id}` : ""}`} aria-busy={busy.value}>
          {rival && <h2>{current.id}</h2>}
          <div aria-live="polite" class="said" ref={drawn}>
            {made.length === 0 ? <p class="quiet">{w.empty}</p> : (
              <Translation model={current.id} sentences={made} other={rival ? second.value : null} card={card.value} words={w}
                language={current.target} editable />
            )}
          </div>
          <Better current={current} />
        </section>
        {rival && (
          <section class="target box" aria-label={`${w.translation} · ${rival.id}`}>
            <h2>{rival.id}</h2>
            <div class="said">
              <Translation model={rival.id} sentences={second.value} other={made} card={null} words={w} language={rival.target} editable={false} />
            </div>
            {second.value.length > 0 && made.length > 0 && <p class="quiet small">{differing === 0 ? w.same : w.differs(differing)}</p>}
          </section>
        )}
      </div>
      <div class="row spread"><Chosen /><Legend /></div>
      <Examples />
    </>
  );
}

function toAligned(sentence: Sentence) {
  const colours = ["level-0", "level-1", "level-2", "line"];
  const target = (sentence.words ?? []).map((one) => ({ ...one, colour: ink(colours[levelOf(one.probability)]!) }));
  return { source: sentence.source.split(/\s+/), target, links: sentence.alignment ?? [] };
}

function toRows(sentence: Sentence): string[][] {
  const source = sentence.source.split(/\s+/);
  return (sentence.words ?? []).map((one, row) => [
    (sentence.alignment ?? []).filter(([, target]) => target === row).map(([from]) => source[from] ?? "").join(" "), one.text, percent(one.probability)]);
}

function countDifferences(): number {
  const mine = sentences.value.flatMap((one) => one.text.split(/\s+/)), theirs = new Set(second.value.flatMap((one) => one.text.split(/\s+/)));
  return mine.filter((word) => !theirs.has(word)).length;
}

function Better({ current }: { current: Model }) {
  const w = words.value, made = sentences.value, [only] = made;
  if (made.length !== 1 || !only?.words) return null;
  if (editing.value === null) {
    return <button type="button" class="plain better" onClick={() => (editing.value = only.text)}>{w.better}</button>;
  }
  return (
    <form class="better" onSubmit={(event) => {
      event.preventDefault();
      correct({ source: only.source, target: editing.value!.trim(), machine: only.text, model: current.id, from: current.source ?? "und", to: current.target ?? "und" });
      editing.value = null;
    }} onKeyDown={(event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); event.currentTarget.requestSubmit(); }
      if (event.key === "Escape") editing.value = null;
    }}>
      <textarea aria-label={w.better} rows={2} value={editing.value} lang={current.target ?? undefined} onInput={(event) => (editing.value = event.currentTarget.value)} />
      <div class="row"><button type="submit" class="primary">{w.save}</button>
        <button type="button" class="plain" onClick={() => (editing.value = null)}>{w.cancel}</button></div>
    </form>
  );
}

function Chosen() {
  const w = words.value;
  if (!require.value.length && !forbid.value.length && !beginnings.value.size) return <span />;
  const chips = (name: "require" | "forbid", some: readonly string[], title: string) => some.length > 0 && (
    <span class={`chips ${name}`}>{title}: {some.map((one) => (
      <button key={one} type="button" class="chip" aria-label={w.remove(one)} onClick={() => change(name, "", one)}>{one} ×</button>
    ))}</span>
  );
  return (
    <div class="chosen">
      {chips("require", require.value, w.requires)}
      {chips("forbid", forbid.value, w.forbids)}
      {beginnings.value.size > 0 && <button type="button" class="plain" onClick={() => set({ begin: "" })}>{w.reset}</button>}
    </div>
  );
}

function Examples() {
  const w = words.value, now = card.value;
  if (!now) return <div />;
  if (!now.examples?.length) return <p class="quiet small">{w.noExamples}</p>;
  return (
    <div class="examples">
      <h2>{w.examples}</h2>
      <ul>{now.examples.map((one) => (
        <li key={one}><button type="button" lang={model.value?.source ?? undefined} aria-pressed={text.value === one} onClick={() => type(one)}>{one}</button></li>
      ))}</ul>
    </div>
  );
}

function Legend() {
  const w = words.value;
  return (
    <p class="legend small quiet"><span>{w.confidence}</span>
      {w.levels.map((one, level) => <span key={one} class="swatch"><span class={`word level-${level}`} aria-hidden="true">&nbsp;&nbsp;</span> {one}</span>)}
    </p>
  );
}

export const translate = { name: "translate", title: { get value() { return words.value.title; } }, view: View };
