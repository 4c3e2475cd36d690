// Starting a race: which models, on which texts that the server lists, for how long.

import { signal } from "@preact/signals";
import { set } from "../address";
import { request } from "../engine/remote";
import { fail, failure } from "../session";
import type en from "../strings/en/lab";

export interface Races {
  readonly races: readonly Race[];
  readonly models: readonly string[];
  readonly recipes: readonly string[];
  readonly can_start: boolean;
  readonly task: string | null;
}
export interface Race {
  readonly id: string;
  readonly name: string;
  readonly budget: string;
  readonly contenders: readonly { readonly name: string; readonly bleu: number; readonly parameters: number }[];
}

const texts = signal<readonly string[] | null>(null);

async function open(): Promise<void> {
  try {
    texts.value = (await request<{ texts: { name: string }[] }>("/v1/texts")).texts.map((one) => one.name);
  } catch (error) {
    fail(error);
  }
}

async function begin(form: HTMLFormElement, started: () => Promise<void>): Promise<void> {
  const given = new FormData(form), { models: _, ...rest } = Object.fromEntries(given) as Record<string, string>;
  try {
    const task = await request<{ id: string }>("/v1/races", { ...rest, models: given.getAll("models"), minutes: Number(rest.minutes) });
    failure.value = null;
    set({ claim: "", race: "", task: task.id });
    await started();
  } catch (error) {
    fail(error);
  }
}

export function StartRace({ of, words, started }: { of: Races; words: typeof en; started: () => Promise<void> }) {
  const choice = (name: string, label: string) => (
    <label>{label} <select name={name} required><option value="" />{(texts.value ?? []).map((one) => <option key={one}>{one}</option>)}</select></label>
  );
  return (
    <details class="start-race" onToggle={(event) => { if (event.currentTarget.open && texts.value === null) void open(); }} data-unsaved="">
      <summary>{words.startRace}</summary>
      {of.task !== null ? <p class="quiet small">{words.racing} <button type="button" class="plain" onClick={() => set({ claim: "", race: "", task: of.task! })}>{words.output}</button></p>
        : texts.value === null ? <p class="quiet">{words.loading}</p> : texts.value.length === 0 ? <p class="quiet small">{words.noTexts}</p> : (
          <form onSubmit={(event) => { event.preventDefault(); void begin(event.currentTarget, started); }}>
            <fieldset><legend>{words.models}</legend>
              {of.models.map((one) => <label key={one} class="check"><input type="checkbox" name="models" value={one} defaultChecked={one === "transformer" || one === "rnn"} /> {one}</label>)}</fieldset>
            {choice("source", words.source)}
            {choice("target", words.target)}
            <label>{words.recipe} <select name="recipe">{of.recipes.map((one) => <option key={one}>{one}</option>)}</select></label>
            <label>{words.minutes} <input name="minutes" type="number" min="0.1" max="1440" step="any" value="5" required /></label>
            <label>{words.name} <input name="name" required pattern="[A-Za-z0-9][A-Za-z0-9_\-]*" maxLength={40} value="race" /></label>
            <button type="submit" class="primary">{words.begin}</button>
          </form>
        )}
    </details>
  );
}
