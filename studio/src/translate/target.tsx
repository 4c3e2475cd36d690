// The translation, word by word: colour is confidence, a word lights up its sources, a click opens its alternatives.

import { signal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { link } from "../address";
import type { Card, Sentence } from "../engine/engine";
import { screens } from "../screens";
import type en from "../strings/en/translate";
import { differences, partners } from "./align";
import { begin, change, choices, findChoices, isDoubtful, keyOf, lit } from "./state";

type Words = typeof en;
const open = signal<{ sentence: number; word: number } | null>(null);
const PUNCTUATION = /[.,;:!?…"'”’»)\]}]+$/;

export function levelOf(probability: number): number {
  return probability < 0.25 ? 0 : probability < 0.5 ? 1 : probability < 0.8 ? 2 : 3;
}

export function percent(value: number): string {
  return value >= 0.995 ? "100 %" : value < 0.001 ? "< 0.1 %" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
}

interface Props {
  readonly model: string;
  readonly sentences: readonly Sentence[];
  readonly other: readonly Sentence[] | null; // of the model that this one is compared with
  readonly card: Card | null;
  readonly words: Words;
  readonly language: string | null;
  readonly editable: boolean;
}

export function Translation({ model, sentences, other, card, words, language, editable }: Props) {
  const rest = (other ?? []).flatMap((one) => one.text.split(/\s+/));
  const all = sentences.map((one) => one.text.split(/\s+/).filter(Boolean));
  const changed = other ? differences(all.flat(), rest) : [];
  let first = 0;
  return (
    <>
      {sentences.map((sentence, number) => {
        const marks = changed.slice(first, (first += all[number]!.length));
        return (
          <SentenceView key={number} {...{ model, sentence, number, marks, words, language, editable }}
            doubtful={isDoubtful(sentence, card)} />
        );
      })}
    </>
  );
}

interface SentenceProps {
  readonly model: string;
  readonly sentence: Sentence;
  readonly number: number;
  readonly marks: readonly boolean[];
  readonly words: Words;
  readonly language: string | null;
  readonly editable: boolean;
  readonly doubtful: boolean;
}

function SentenceView({ model, sentence, number, marks, words, language, editable, doubtful }: SentenceProps) {
  const list = sentence.words;
  const flags = (sentence.flags ?? []).map((flag) => words.flags[flag] ?? flag);
  if (!list) return <p class="sentence growing" lang={language ?? undefined}>{sentence.text}</p>;
  return (
    <div class={`sentence${doubtful ? " doubtful" : ""}`}>
      <p lang={language ?? undefined}>
        {list.map((word, row) => {
          const isOpen = editable && open.value?.sentence === number && open.value.word === row;
          const light = lit.value;
          const style = ["word", `level-${levelOf(word.probability)}`, marks[row] ? "differs" : "",
            editable && light?.sentence === number && light.target.has(row) ? "lit" : ""].filter(Boolean).join(" ");
          if (!editable) return <span key={row}><span class={style}>{word.text}</span>{" "}</span>;
          return (
            <span key={row} class="place">
              <button type="button" class={style} aria-expanded={isOpen} aria-haspopup="dialog" data-probability={word.probability}
                onMouseEnter={() => light3(sentence, number, row)} onFocus={() => light3(sentence, number, row)}
                onMouseLeave={() => (lit.value = null)} onBlur={() => (lit.value = null)}
                onClick={() => (open.value = isOpen ? null : { sentence: number, word: row })}>{word.text}</button>{" "}
              {isOpen && <Menu {...{ model, sentence, number, words, language }} word={row} />}
            </span>
          );
        })}
      </p>
      {(doubtful || flags.length > 0) && <p class="note">{[doubtful ? words.doubtful : "", ...flags].filter(Boolean).join(" ")}</p>}
    </div>
  );
}

function light3(sentence: Sentence, number: number, word: number): void {
  lit.value = { sentence: number, target: new Set([word]), source: partners(sentence, "target", word) };
}

interface MenuProps {
  readonly model: string;
  readonly sentence: Sentence;
  readonly number: number;
  readonly word: number;
  readonly words: Words;
  readonly language: string | null;
}

function Menu({ model, sentence, number, word, words, language }: MenuProps) {
  const box = useRef<HTMLDivElement>(null);
  const list = sentence.words ?? [], own = list[word]!.text, bare = own.replace(PUNCTUATION, "");
  const found = choices.value.get(keyOf(sentence))?.[word];
  useEffect(() => {
    box.current?.querySelector<HTMLElement>("button, input")?.focus();
    const away = (event: Event) => {
      if (event.target instanceof Node && !box.current?.parentElement?.contains(event.target)) open.value = null;
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, []);
  useSignalEffect(() => void findChoices(model, sentence).catch(() => undefined));

  function close(): void {
    const button = box.current?.parentElement?.querySelector<HTMLElement>("button");
    open.value = null;
    button?.focus();
  }

  function choose(chosen: string): void {
    const before = list.slice(0, word).map((one) => one.text), ends = PUNCTUATION.test(own);
    close();
    begin(number, [...before, chosen].join(" ") + (ends ? "" : " "));
  }

  return (
    <div class="menu" role="dialog" aria-label={words.wordMenu(bare)} ref={box}
      onKeyDown={(event) => { if (event.key === "Escape") { event.stopPropagation(); close(); } }}>
      <p class="menu-title">{words.likeliest}</p>
      {!found && <p class="quiet small">{words.choosing}</p>}
      <ul class="choices">
        {found?.map((choice) => (
          <li key={choice.text}>
            <button type="button" disabled={choice.text === ""} aria-current={choice.text === bare} onClick={() => choose(choice.text)}>
              <span class="choice" lang={choice.text ? language ?? undefined : undefined}>{choice.text || words.end}</span>
              <span class="bar-of" aria-hidden="true"><span style={{ width: `${Math.max(1, 100 * choice.probability)}%` }} /></span>
              <span class="share">{percent(choice.probability)}</span>
            </button>
          </li>
        ))}
      </ul>
      <form class="must" onSubmit={(event) => {
        event.preventDefault();
        const value = new FormData(event.currentTarget).get("must");
        close();
        if (typeof value === "string" && value.trim()) change("require", value.trim());
      }}>
        <label><span>{words.must}</span> <input name="must" lang={language ?? undefined} autocomplete="off" /></label>
        <button type="submit">{words.add}</button>
      </form>
      <div class="menu-foot">
        <button type="button" class="plain" onClick={() => { close(); change("forbid", bare); }}>{words.never(bare)}</button>
        {screens.some((one) => one.name === "inside") &&
          <a href={link("inside", { text: sentence.source, step: stepOf(sentence, word) })}>{words.inside}</a>}
        <button type="button" class="plain" onClick={close}>{words.close}</button>
      </div>
    </div>
  );
}

/** The number of the token that a word begins with. */
export function stepOf(sentence: Sentence, word: number): number {
  let seen = -1;
  for (const [row, token] of (sentence.tokens ?? []).entries()) {
    if (row === 0 || token.startsWith("▁")) seen += 1;
    if (seen === word) return row;
  }
  return 0;
}
