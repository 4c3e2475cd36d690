// The film of a sentence: what a run made of it at every snapshot.

import { signal, useSignalEffect } from "@preact/signals";
import { read, readNumber, set } from "../address";
import { events } from "../engine/remote";
import { useDrawing, type Drawing } from "../parts/drawings";
import { matrixSvg } from "../parts/pictures";
import { fail } from "../session";
import type en from "../strings/en/training";

export interface Frame {
  readonly step: number | null;
  readonly text: string;
  readonly probability: number;
  readonly source: readonly string[];
  readonly target: readonly string[];
  readonly attention: readonly (readonly number[])[];
}

const frames = signal<readonly Frame[]>([]);
const playing = signal(false);
let running: AbortController | null = null;

async function make(run: string, text: string): Promise<void> {
  running?.abort();
  const current = (running = new AbortController());
  frames.value = [];
  playing.value = true;
  try {
    for await (const [kind, data] of events(`/v1/runs/${run}/film`, { text }, current.signal)) {
      if (kind === "error") throw new Error((data as { error: { message: string } }).error.message);
      if (kind !== "frame") continue;
      frames.value = [...frames.value, data as Frame];
      set({ frame: frames.value.length - 1 });
    }
  } catch (error) {
    if (!current.signal.aborted) fail(error);
  } finally {
    if (running === current) playing.value = false;
  }
}

function show(piece: string): string {
  return piece === "</s>" ? "⏎" : piece.replaceAll("▁", " ").trim() || "·";
}

/** The attention of a frame, with its step and its translation as the title. */
function picture(frame: Frame, words: typeof en): Drawing {
  const rows = frame.attention.map((_, t) => show(frame.target[t] ?? "")), columns = frame.source.map(show);
  const title = `${words.film} · ${frame.step === null ? words.finishedModel : words.atStep(frame.step.toLocaleString())}: ${frame.text}`;
  return {
    title,
    svg: () => matrixSvg(title, { rows, columns, at: frame.attention.flat() }),
    table: () => ({ columns: ["", ...columns], rows: frame.attention.map((row, t) => [rows[t]!, ...row.map((weight) => weight.toFixed(3))]) }),
  };
}

export function Film({ run, snapshots, words }: { run: string; snapshots: number; words: typeof en }) {
  useSignalEffect(() => () => running?.abort());
  const at = Math.min(frames.value.length - 1, readNumber("frame", 0)), frame = frames.value[at];
  const heat = useDrawing<HTMLDivElement>(frame && frame.attention.length > 0 ? picture(frame, words) : null);
  return (
    <section class="card" aria-labelledby="film">
      <h2 id="film">{words.film}</h2>
      <p class="quiet small">{words.filmWhat}</p>
      {snapshots === 0 ? <p>{words.noSnapshots}</p> : <form class="row" onSubmit={(event) => { event.preventDefault(); void make(run, read("film")); }}>
        <label class="grow"><span class="hidden">{words.sentence}</span>
          <input type="text" placeholder={words.sentence} value={read("film")} maxLength={500}
            onInput={(event) => set({ film: event.currentTarget.value })} />
        </label>
        <button type="submit" class="primary" disabled={!read("film").trim()}>{playing.value ? words.making : words.play}</button>
      </form>}
      {frame && (
        <>
          <label class="film-slider">{frame.step === null ? words.finishedModel : words.atStep(frame.step.toLocaleString())}
            <input type="range" min={0} max={frames.value.length - 1} value={at} aria-valuetext={frame.text}
              onInput={(event) => set({ frame: event.currentTarget.value })} />
          </label>
          <p class="film-text" aria-live="polite">{frame.text || "…"} <span class="quiet small">{words.mean(frame.probability.toFixed(2))}</span></p>
          {frame.attention.length > 0 && (
            <div class="wide" tabIndex={0} role="region" aria-label={words.attention} ref={heat}>
              <table class="heat">
                <thead><tr><td />{frame.source.map((piece, n) => <th key={n} scope="col">{show(piece)}</th>)}</tr></thead>
                <tbody>{frame.attention.map((row, t) => (
                  <tr key={t}><th scope="row">{show(frame.target[t] ?? "")}</th>
                    {row.map((weight, s) => <td key={s} title={weight.toFixed(3)} style={{ "--share": `${Math.round(weight * 100)}%` }}><span class="hidden">{weight.toFixed(2)}</span></td>)}
                  </tr>))}
                </tbody>
              </table>
            </div>
          )}
          <ol class="frames small">{frames.value.map((one, n) => (
            <li key={n}><button type="button" class="plain" aria-current={n === at} onClick={() => set({ frame: n })}>
              <b>{one.step === null ? words.finishedModel : one.step.toLocaleString()}</b> {one.text}</button></li>))}
          </ol>
        </>
      )}
    </section>
  );
}
