// Starting a run: texts that the server lists, a recipe, minutes and a name.  Nothing is typed but the name.

import { signal } from "@preact/signals";
import { set } from "../address";
import { request } from "../engine/remote";
import { fail, failure } from "../session";
import type en from "../strings/en/training";
import { list, recipes } from "./runs";

const texts = signal<readonly { name: string; bytes: number }[] | null>(null);
const started = signal("");

async function open(): Promise<void> {
  try {
    texts.value = (await request<{ texts: { name: string; bytes: number }[] }>("/v1/texts")).texts;
  } catch (error) {
    fail(error);
  }
}

async function begin(form: HTMLFormElement): Promise<void> {
  const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== "")) as Record<string, string>;
  try {
    await request("/v1/runs", { ...given, minutes: Number(given.minutes) });
    started.value = given.name ?? "";
    failure.value = null;
    for (let tries = 0; tries < 30; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      await list();
      const run = (await request<{ runs: { id: string; name: string }[] }>("/v1/runs")).runs.find((one) => one.name === `runs/${given.name}`);
      if (run) return set({ run: run.id });
    }
  } catch (error) {
    fail(error);
  }
}

export function Start({ words }: { words: typeof en }) {
  return (
    <details class="card" onToggle={(event) => { if (event.currentTarget.open && texts.value === null) void open(); }}>
      <summary>{words.start}</summary>
      {texts.value === null ? <p class="quiet">{words.loading}</p> : texts.value.length === 0 ? <p>{words.noTexts}</p> : (
        <form class="fields" onSubmit={(event) => { event.preventDefault(); void begin(event.currentTarget); }}>
          <Choice name="source" label={words.source} />
          <Choice name="target" label={words.target} />
          <label>{words.recipe}<select name="recipe">{recipes.value.map((name) => <option key={name}>{name}</option>)}</select></label>
          <label>{words.minutes}<input name="minutes" type="number" min="0.1" max="10080" step="any" value="15" required /></label>
          <label>{words.name}<input name="name" required pattern="[A-Za-z0-9][A-Za-z0-9_\-]*" maxLength={40} /></label>
          <button type="submit" class="primary">{words.begin}</button>
          <p role="status" class="quiet small">{started.value && words.started(started.value)}</p>
        </form>
      )}
    </details>
  );
}

function Choice({ name, label }: { name: string; label: string }) {
  return (
    <label>{label}
      <select name={name} required>
        <option value="" />
        {(texts.value ?? []).map((text) => <option key={text.name} value={text.name}>{text.name} ({(text.bytes / 1e6).toFixed(1)} MB)</option>)}
      </select>
    </label>
  );
}
