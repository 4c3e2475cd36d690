// Translate: type, and the translation grows.

import { signal, useSignalEffect } from "@preact/signals";
import { read, set } from "../address";
import type { Sentence } from "../engine/engine";
import { inBoth } from "../preferences";
import { engine, fail, failure, model } from "../session";
import en from "../strings/en/translate";
import ko from "../strings/ko/translate";

const words = inBoth(en, ko);
const sentences = signal<readonly Sentence[]>([]);
let running: AbortController | null = null;

async function translateNow(id: string, text: string): Promise<void> {
  running?.abort();
  const current = (running = new AbortController());
  if (!text.trim()) {
    sentences.value = [];
    return;
  }
  try {
    sentences.value = await engine.translate({ model: id, text }, (some) => (sentences.value = some), current.signal);
    failure.value = null;
  } catch (error) {
    fail(error);
  }
}

function View() {
  const w = words.value;
  useSignalEffect(() => {
    const id = model.value?.id, text = read("text");
    const timer = setTimeout(() => id && void translateNow(id, text), 150);
    return () => clearTimeout(timer);
  });
  return (
    <div class="boxes">
      <textarea aria-label={w.text} placeholder={w.placeholder} value={read("text")}
        onInput={(event) => set({ text: event.currentTarget.value })} />
      <output aria-label={w.translation} aria-live="polite">{sentences.value.map((one) => one.text).join(" ")}</output>
    </div>
  );
}

export const translate = { name: "translate", title: { get value() { return words.value.title; } }, view: View };
