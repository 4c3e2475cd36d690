// The engine of a server: fetch and server-sent events, of this origin only.

import type { Ask, Engine, Model, Sentence } from "./engine";

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

export const remote: Engine = {
  async models() {
    return (await request<{ data: Model[] }>("/v1/models")).data;
  },

  async translate(ask, grow, signal) {
    if (!grow) {
      const answer = await request<{ translations: { sentences: Sentence[] }[] }>("/v1/translate", toBody(ask), signal);
      return answer.translations[0]?.sentences ?? [];
    }
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
};
