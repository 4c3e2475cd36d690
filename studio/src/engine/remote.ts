// The engine of a server: fetch and server-sent events, of this origin only.

import type { Ask, Card, Engine, Graph, Model, Segments, Sentence, Word } from "./engine";

/** What a server says when it does not do what was asked. */
export class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export async function request<T>(path: string, body?: unknown, signal?: AbortSignal, headers: Record<string, string> = {}): Promise<T> {
  const answer = await fetch(root() + path, {
    method: body === undefined ? "GET" : "POST",
    headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...authorization(), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  if (!answer.ok) throw await refusal(answer);
  return (await answer.json()) as T;
}

const PATIENCE = 12; // tries while an engine starts, which the first request that needs it has to wait for

/** Ask until the engine has started: 429 and 503 say "later". */
export async function patiently<T>(ask: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Refused) || (error.status !== 503 && error.status !== 429) || tries >= PATIENCE) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      signal?.throwIfAborted();
    }
  }
}

export function root(): string {
  return document.body.dataset.root ?? "";
}

let key = "";
/** The API key of a server that needs one: kept in memory only. */
export function useKey(value: string): void {
  key = value;
}
function authorization(): Record<string, string> {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function refusal(answer: Response): Promise<Refused> {
  let text = answer.statusText;
  try {
    const value = (await answer.json()) as { error?: string | { message?: string } };
    text = (typeof value.error === "string" ? value.error : value.error?.message) ?? text;
  } catch {
    // not JSON: the status has to do
  }
  return new Refused(answer.status, text);
}

/** Yield the events of a stream as [kind, data]; leaving the loop closes the connection. */
export async function* events(path: string, body: unknown, signal?: AbortSignal): AsyncGenerator<[string, unknown]> {
  const answer = await fetch(root() + path, {
    method: body === undefined ? "GET" : "POST",
    headers: { "Content-Type": "application/json", ...authorization() },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  if (!answer.ok || !answer.body) throw await refusal(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (held + value).split("\n\n");
      held = blocks.pop() ?? "";
      for (const block of blocks) {
        const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
        const data = fields.get("data");
        if (data !== undefined) yield [fields.get("event") ?? "message", JSON.parse(data)];
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

function toBody(ask: Ask): Record<string, unknown> {
  const { sentence, ...rest } = ask;
  return { ...rest, format: sentence ? "sentence" : "text", details: true, align: true };
}

/** Places counted in characters of Unicode as places in a string of JavaScript, where some characters are two. */
function toUnits(text: string, spans: readonly (readonly [number, number])[]): [number, number][] {
  if (!/[\ud800-\udbff]/.test(text)) return spans.map(([start, stop]) => [start, stop]);
  const places = [0];
  for (const character of text) places.push(places[places.length - 1]! + character.length);
  return spans.map(([start, stop]) => [places[start] ?? text.length, places[stop] ?? text.length]);
}

interface Translations {
  readonly translations: readonly { readonly sentences: readonly Sentence[] }[];
}

export const remote: Engine = {
  async models() {
    return (await request<{ data: Model[] }>("/v1/models")).data;
  },

  card(model) {
    return request<Card>(`/v1/models/${encodeURIComponent(model)}/card`);
  },

  async translate(ask, grow, signal) {
    if (!grow) return (await request<Translations>("/v1/translate", toBody(ask), signal)).translations[0]?.sentences ?? [];
    const sentences: Sentence[] = [];
    for await (const [kind, data] of events("/v1/translate/stream", toBody(ask), signal)) {
      if (kind === "error") throw new Refused(503, (data as { error?: { message?: string } }).error?.message ?? "");
      if (kind !== "partial" && kind !== "sentence") continue;
      const { sentence: number, ...one } = data as Sentence & { sentence: number };
      sentences[number] = kind === "partial" ? { ...one, source: "" } : one;
      grow([...sentences]);
    }
    return sentences;
  },

  async translateAll(model, texts, rules, signal) {
    const body = { model, texts, ...rules, format: "sentence", details: true };
    const answer = await request<Translations>("/v1/translate", body, signal);
    return answer.translations.map((one, row) => one.sentences[0] ?? { source: texts[row] ?? "", text: "" });
  },

  async choices(model, sentence, count, signal) {
    const body = { model, text: sentence.source, tokens: sentence.tokens ?? [], count };
    return (await request<{ choices: Word[][] }>("/v1/choices", body, signal)).choices;
  },

  async unknown(model, text, signal) {
    const answer = await request<{ unknown: [number, number][][] | null }>("/v1/unknown", { model, texts: [text] }, signal);
    return answer.unknown && toUnits(text, answer.unknown[0] ?? []);
  },

  async segments(model, text, signal) {
    const answer = await request<{ segments: Segments[] }>("/v1/segments", { model, texts: [text] }, signal);
    return answer.segments[0]!;
  },

  graph(ask, signal) {
    return patiently(() => request<Graph>("/v1/graph", ask, signal), signal);
  },
};
