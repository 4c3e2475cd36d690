// A whole text: source and translation side by side, segment by segment.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { set } from "../address";
import type { Model } from "../engine/engine";
import type en from "../strings/en/translate";
import { download } from "../parts/files";
import { rules, text, type } from "./state";
import { confirm, done, edit, open, render, retype, seconds, segments, undo, undoable, type Segment } from "./segments";

type Words = typeof en;
const draft = signal("");
const opened = signal(false);

export function TextView({ model, words }: { model: Model; words: Words }) {
  useEffect(() => {
    if (!draft.value) draft.value = text.value;
  }, []);
  if (!opened.value) {
    return (
      <form class="paste" onSubmit={(event) => { event.preventDefault(); start(model); }}>
        <textarea class="box" aria-label={words.paste} placeholder={words.paste} maxLength={100_000} value={draft.value} rows={14}
          lang={model.source ?? undefined} spellcheck={false} onInput={(event) => (draft.value = event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={!draft.value.trim()}>{words.split}</button>
      </form>
    );
  }
  const all = segments.value;
  const confirmed = all.filter((one) => one.confirmed.value).length;
  return (
    <section class="segments" aria-label={words.whole} onKeyDown={(event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "z" && !(event.target instanceof HTMLTextAreaElement)) { event.preventDefault(); undo(); }
    }}>
      <div class="row tools-of-text">
        <span role="status">{words.progress(done.value, all.length)}{seconds.value !== null && ` · ${words.seconds(seconds.value.toFixed(1))}`}{confirmed > 0 && ` · ${words.confirmed(confirmed)}`}</span>
        <progress max={Math.max(1, all.length)} value={done.value} aria-label={words.progress(done.value, all.length)} />
        <button type="button" disabled={undoable.value === 0} onClick={undo}>{words.undo}</button>
        <button type="button" onClick={() => download(`translation-${model.id}.txt`, render(), "text/plain")}>{words.downloadText}</button>
        <button type="button" class="plain" onClick={() => (opened.value = false)}>{words.another}</button>
      </div>
      <p class="quiet small">{words.hint}</p>
      <ol>
        {all.map((one, row) => <Row key={row} segment={one} number={row} model={model} words={words} />)}
      </ol>
    </section>
  );
}

/** Take a text that is too long for the boxes. */
export function takeOver(whole: string): void {
  draft.value = whole;
  opened.value = false;
  set({ view: "text", text: "", begin: "" });
}

function start(model: Model): void {
  opened.value = true;
  type(draft.value.length <= 2_000 ? draft.value : ""); // an address is no place for a book
  void open(model.id, draft.value, rules.value);
}

interface RowProps {
  readonly segment: Segment;
  readonly number: number;
  readonly model: Model;
  readonly words: Words;
}

function Row({ segment, number, model, words }: RowProps) {
  const before = useRef("");
  const machine = segment.machine.value, target = segment.target.value;
  const of = { model: model.id, from: model.source ?? "und", to: model.target ?? "und" };

  function finish(element: HTMLElement): void {
    retype(segment, before.current);
    before.current = segment.target.peek();
    confirm(segment, of);
    element.closest("li")?.nextElementSibling?.querySelector<HTMLElement>("textarea.target-cell")?.focus();
  }

  return (
    <li class={segment.confirmed.value ? "confirmed" : machine && target !== machine.text ? "edited" : undefined}>
      <span class="number" aria-hidden="true">{number + 1}</span>
      <textarea class="source-cell" rows={lines(segment.source.value)} aria-label={words.sourceOf(number + 1)} value={segment.source.value}
        lang={model.source ?? undefined} spellcheck={false} onInput={(event) => edit(model.id, segment, event.currentTarget.value, rules.peek())} />
      <textarea class="target-cell" rows={Math.max(lines(segment.source.value), lines(target))} aria-label={words.targetOf(number + 1)}
        value={target} readOnly={!machine} aria-busy={!machine} lang={model.target ?? undefined} spellcheck={false}
        onFocus={() => (before.current = segment.target.peek())} onBlur={() => retype(segment, before.current)}
        onInput={(event) => { segment.confirmed.value = false; segment.target.value = event.currentTarget.value; }}
        onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); finish(event.currentTarget); } }} />
      <button type="button" class="tick" aria-label={words.confirm} title={words.confirm} aria-pressed={segment.confirmed.value}
        disabled={!machine} onClick={(event) => finish(event.currentTarget)}>✓</button>
    </li>
  );
}

/** Lines that a text takes in a cell, about. */
function lines(value: string): number {
  let width = 0;
  for (const character of value) width += character > "ᄀ" ? 2 : 1;
  return Math.max(1, Math.ceil(width / 58));
}
