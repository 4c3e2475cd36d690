// Errors: the validation set with the worst sentences first; each opens in Inside.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { link, read, readNumber, set } from "../address";
import { role } from "../classroom";
import { request } from "../engine/remote";
import { inBoth } from "../preferences";
import { fail, failure } from "../session";
import en from "../strings/en/errors";
import ko from "../strings/ko/errors";
import { list, runs } from "../training/runs";
import "./errors.css";

const words = inBoth(en, ko);
const ORDERS = ["chrf", "long", "sure", "copied"] as const;
const PAGE = 25;
interface Row { row: number; source: string; reference: string; text: string; chrf: number; ratio: number; probability: number; copied: number }
const rows = signal<readonly Row[] | null>(null);
const pairs = signal(0);

function order(): (typeof ORDERS)[number] {
  return ORDERS.find((one) => one === read("order")) ?? "chrf";
}

async function find(run: string, by: string, begin: number, signal: AbortSignal): Promise<void> {
  rows.value = null;
  try {
    for (;;) {
      const answer = await request<{ ready: boolean; errors: Row[]; pairs: number }>(`/v1/runs/${run}/errors?order=${by}&begin=${begin}&most=${PAGE}`, undefined, signal);
      if (answer.ready) {
        [rows.value, pairs.value, failure.value] = [answer.errors, answer.pairs, null];
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  } catch (error) {
    if (!signal.aborted) {
      rows.value = [];
      fail(error);
    }
  }
}

function View() {
  const w = words.value;
  useEffect(() => { if (role.value !== "student") void list(); }, []);
  const finished = (runs.value ?? []).filter((one) => one.state === "finished");
  const run = finished.find((one) => one.id === read("run")) ?? finished.find((one) => one.served === read("model")) ?? finished[0];
  const begin = Math.max(0, readNumber("begin", 0)), by = order();
  useEffect(() => {
    if (!run) return;
    const stop = new AbortController();
    void find(run.id, by, begin, stop.signal);
    return () => stop.abort();
  }, [run?.id, by, begin]);
  if (role.value === "student") return <p>{w.teacherOnly}</p>;
  if (runs.value === null) return <p class="quiet">{w.loading}</p>;
  if (!run) return <p>{w.noRuns}</p>;
  return (
    <div class="errors-screen">
      <div class="row controls">
        <label>{w.run} <select value={run.id} onChange={(event) => set({ run: event.currentTarget.value, begin: 0 })}>
          {finished.map((one) => <option key={one.id} value={one.id}>{one.name}</option>)}</select></label>
        <div class="switch" role="group" aria-label={w.order}>{ORDERS.map((one) => (
          <button key={one} type="button" aria-pressed={one === by} onClick={() => set({ order: one, begin: 0 })}>{w.orders[one]}</button>))}
        </div>
      </div>
      <p class="quiet small">{w.explain[by]}</p>
      {rows.value === null ? <p role="status" class="quiet">{w.translating}</p> : (
        <>
          <ol class="errors" start={begin + 1}>{rows.value.map((one) => <Sentence key={one.row} row={one} served={run.served} />)}</ol>
          <div class="row">
            <button type="button" disabled={begin === 0} onClick={() => set({ begin: Math.max(0, begin - PAGE) })}>{w.back}</button>
            <span class="quiet small">{w.of(begin + 1, Math.min(pairs.value, begin + PAGE), pairs.value)}</span>
            <button type="button" disabled={begin + PAGE >= pairs.value} onClick={() => set({ begin: begin + PAGE })}>{w.next}</button>
          </div>
        </>
      )}
    </div>
  );
}

function Sentence({ row, served }: { row: Row; served: string | null }) {
  const w = words.value;
  return (
    <li class="card">
      <dl>
        <dt>{w.source}</dt><dd>{row.source}</dd>
        <dt>{w.translation}</dt><dd>{row.text || "–"}</dd>
        <dt>{w.reference}</dt><dd class="quiet">{row.reference}</dd>
      </dl>
      <p class="small measures">
        <span>chrF <b>{row.chrf.toFixed(1)}</b></span><span>{w.length} <b>{row.ratio.toFixed(2)}</b></span>
        <span>{w.probability} <b>{row.probability.toFixed(2)}</b></span>{row.copied > 0 && <span>{w.copied} <b>{Math.round(row.copied * 100)} %</b></span>}
        <a href={link("inside", { text: row.source, ...(served ? { model: served } : {}) })}>{w.inside}</a>
      </p>
    </li>
  );
}

export const errors = { name: "errors", title: { get value() { return words.value.title; } }, view: View };
