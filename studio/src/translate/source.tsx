// The box with the text: a textarea over a copy of it that shows unknown words and what lights up.

import { useRef } from "preact/hooks";
import { locate, partners, type Place } from "./align";
import { lit, sentences, text, type, unknown } from "./state";

interface Part {
  readonly text: string;
  readonly place: Place | null;
  readonly unknown: boolean;
}

/** The text in pieces, each of one kind. */
function divide(whole: string): Part[] {
  const places = locate(whole, sentences.value), spans = unknown.value ?? [];
  const edges = new Set([0, whole.length]);
  for (const { start, stop } of places) edges.add(start).add(stop);
  for (const [start, stop] of spans) edges.add(start).add(stop);
  const sorted = [...edges].filter((edge) => edge <= whole.length).sort((a, b) => a - b);
  return sorted.slice(0, -1).map((start, row) => ({
    text: whole.slice(start, sorted[row + 1]),
    place: places.find((one) => one.start <= start && start < one.stop) ?? null,
    unknown: spans.some(([first, last]) => first <= start && start < last),
  }));
}

export function SourceBox({ label, placeholder, language }: { label: string; placeholder: string; language: string | null }) {
  const copy = useRef<HTMLDivElement>(null);
  const whole = text.value, light = lit.value;

  function point(event: MouseEvent): void {
    const found = document.elementsFromPoint(event.clientX, event.clientY).find((one) => one instanceof HTMLElement && one.dataset.word);
    const { sentence = "-1", word = "-1" } = found instanceof HTMLElement ? found.dataset : {};
    light2(Number(sentence), Number(word));
  }

  function light2(number: number, word: number): void {
    const sentence = sentences.value[number];
    const now = lit.value;
    if (!sentence || word < 0) {
      if (now) lit.value = null;
    } else if (!now || now.sentence !== number || !now.source.has(word) || now.source.size > 1) {
      lit.value = { sentence: number, source: new Set([word]), target: partners(sentence, "source", word) };
    }
  }

  return (
    <div class="source box">
      <div class="copy" ref={copy} aria-hidden="true" lang={language ?? undefined}>
        {divide(whole).map((part, row) => (
          <span key={row} data-word={part.place && part.place.word >= 0 ? part.place.word : undefined}
            data-sentence={part.place?.sentence}
            class={[part.unknown ? "unknown" : "",
              light && part.place?.sentence === light.sentence && light.source.has(part.place.word) ? "lit" : ""].join(" ").trim() || undefined}
          >{part.text}</span>
        ))}{"\n"}
      </div>
      <textarea aria-label={label} placeholder={placeholder} value={whole} lang={language ?? undefined} spellcheck={false}
        onInput={(event) => type(event.currentTarget.value)} onMouseMove={point} onMouseLeave={() => (lit.value = null)}
        onScroll={(event) => { if (copy.current) copy.current.scrollTop = event.currentTarget.scrollTop; }} />
    </div>
  );
}
