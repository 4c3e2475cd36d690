// What every screen shares besides the address: the engine, its models, and the last failure.

import { computed, effect, signal } from "@preact/signals";
import { read } from "./address";
import type { Engine, Model } from "./engine/engine";
import { Refused, remote } from "./engine/remote";

export const engine: Engine = remote;
export const models = signal<readonly Model[] | null>(null); // null until they are known
export const failure = signal<string | null>(null); // "" where the server does not answer
export const keyNeeded = signal(false);

/** The model of the screens: the one in the address, else the first that translates. */
export const model = computed<Model | null>(() => {
  const all = models.value ?? [];
  return all.find((one) => one.id === read("model")) ?? all.find((one) => !one.generates) ?? all[0] ?? null;
});

/** The second model where two are compared; null where not. */
export const other = computed<Model | null>(() => {
  const found = models.value?.find((one) => one.id === read("other"));
  return found && found.id !== model.value?.id ? found : null;
});

/** Show why something failed; an aborted request is no failure. */
export function fail(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  if (error instanceof Refused && error.status === 401) keyNeeded.value = true;
  failure.value = error instanceof Refused ? error.message : error instanceof TypeError ? "" : String(error);
}

/** Whether the server lets the page start the engine that looks inside before anybody asks for it. */
export const eager = document.body.dataset.warm === "1";

export async function load(): Promise<void> {
  try {
    models.value = await engine.models();
    failure.value = null;
    keyNeeded.value = false;
  } catch (error) {
    fail(error);
  }
}

effect(() => {
  if (model.value) document.title = `${model.value.id} · Jumok`;
});
