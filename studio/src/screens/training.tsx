// Training: the runs of the workspace, their curves as they grow, what they say, and how they learned one sentence.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { read, readNumber, set } from "../address";
import { role } from "../classroom";
import { request } from "../engine/remote";
import { download } from "../parts/files";
import { inBoth } from "../preferences";
import { fail, failure } from "../session";
import en from "../strings/en/training";
import ko from "../strings/ko/training";
import { Chart, colourOf, type Line, type Numbers } from "../training/chart";
import { Film } from "../training/film";
import { about, canStart, chosen, curves, draw, follow, list, overlaid, type Run, runs, samples, toCsv } from "../training/runs";
import { Start } from "../training/start";
import "./training.css";

const words = inBoth(en, ko);
const AXES = ["step", "time", "tokens"] as const;
const differences = signal<readonly { key: string; one: unknown; two: unknown }[] | null>(null);

function axis(): (typeof AXES)[number] {
  return AXES.find((one) => one === read("axis")) ?? "step";
}

async function command(run: Run, verb: "pause" | "continue" | "stop"): Promise<void> {
  try {
    await request(`/v1/runs/${run.id}/${verb}`, {});
    failure.value = null;
  } catch (error) {
    fail(error);
  }
}

async function compare(run: Run, other: string): Promise<void> {
  try {
    differences.value = (await request<{ differences: { key: string; one: unknown; two: unknown }[] }>(`/v1/runs/${run.id}/differences?other=${other}`)).differences;
  } catch (error) {
    fail(error);
  }
}

function View() {
  const w = words.value;
  useEffect(() => {
    if (role.value === "student") return;
    void list();
    const timer = setInterval(() => void list(), 5000);
    return () => clearInterval(timer);
  }, []);
  const run = chosen(), id = run?.id, by = axis(), over = overlaid().filter((one) => one !== id);
  useEffect(() => {
    if (!id) return;
    const stop = new AbortController();
    differences.value = null;
    void follow(id, by, stop.signal);
    return () => stop.abort();
  }, [id, by]);
  useEffect(() => {
    for (const one of over) void draw(one, by).catch(fail);
    differences.value = null;
    if (run && over.length > 0) void compare(run, over[0]!);
  }, [over.join(","), by, id]);
  if (role.value === "student") return <p>{w.teacherOnly}</p>;
  if (runs.value === null) return <p class="quiet">{w.loading}</p>;
  return (
    <div class="training">
      <aside>
        <RunList current={id} over={over} />
        {canStart.value && <Start words={w} />}
      </aside>
      {run ? <Details run={run} over={over} /> : <p>{w.noRuns}</p>}
    </div>
  );
}

function RunList({ current, over }: { current: string | undefined; over: readonly string[] }) {
  const w = words.value;
  const toggle = (id: string, on: boolean) => set({ over: (on ? [...over, id] : over.filter((one) => one !== id)).join(",") });
  return (
    <section class="card" aria-labelledby="runs">
      <h2 id="runs">{w.runs}</h2>
      <ul class="runs">{(runs.value ?? []).map((run) => (
        <li key={run.id}>
          <button type="button" class="plain run" aria-current={run.id === current} onClick={() => set({ run: run.id })}>
            <span class="run-name">{run.name}</span>
            <span class={`state ${run.state}`}>{w.states[run.state]}</span>
            <span class="quiet small">{run.step !== null && w.atStep(run.step.toLocaleString())}{run.scores.bleu !== undefined && ` · BLEU ${run.scores.bleu.toFixed(1)}`}</span>
          </button>
          {run.id !== current && (
            <label class="small quiet"><input type="checkbox" checked={over.includes(run.id)} onChange={(event) => toggle(run.id, event.currentTarget.checked)} /> {w.overlay}</label>
          )}
        </li>))}
      </ul>
    </section>
  );
}

function Details({ run, over }: { run: Run; over: readonly string[] }) {
  const w = words.value, drawn = curves.value[run.id];
  return (
    <div class="details">
      <header class="row">
        <h2 class="grow">{run.name} <span class={`state ${run.state}`} data-testid="state">{w.states[run.state]}</span></h2>
        {run.state === "running" && <button type="button" onClick={() => void command(run, "pause")}>{w.pause}</button>}
        {run.state === "running" && <button type="button" onClick={() => void command(run, "stop")}>{w.stop}</button>}
        {(run.state === "stopped" || run.state === "killed") && canStart.value && <button type="button" class="primary" onClick={() => void command(run, "continue")}>{w.continue}</button>}
      </header>
      <Controls />
      {drawn && drawn.read < 1 && <p role="status" class="quiet small">{w.reading(Math.round(drawn.read * 100))}</p>}
      <Charts run={run} over={over} />
      {drawn && <p><button type="button" onClick={() => download(`${run.name.replaceAll("/", "-")}.csv`, toCsv(drawn), "text/csv")}>{w.csv}</button></p>}
      <Differences run={run} over={over} />
      <Film key={run.id} run={run.id} snapshots={run.snapshots} words={w} />
      <Said />
    </div>
  );
}

function Controls() {
  const w = words.value;
  return (
    <div class="row controls" role="group" aria-label={w.view}>
      <label>{w.axis} <select value={axis()} onChange={(event) => set({ axis: event.currentTarget.value })}>
        {AXES.map((one) => <option key={one} value={one}>{w.axes[one]}</option>)}</select></label>
      <label>{w.smoothing} <input type="range" min={0} max={99} value={readNumber("smooth", 0)} onInput={(event) => set({ smooth: event.currentTarget.value })} /></label>
      <label><input type="checkbox" checked={read("log") === "1"} onChange={(event) => set({ log: event.currentTarget.checked ? "1" : "" })} /> {w.log}</label>
    </div>
  );
}

function Charts({ run, over }: { run: Run; over: readonly string[] }) {
  const w = words.value, log = read("log") === "1", smoothing = readNumber("smooth", 0) / 100, unit = w.axes[axis()];
  const some = [run.id, ...over].flatMap((id, colour) => {
    const drawn = curves.value[id];
    return drawn && drawn.axis === axis() ? [{ drawn, colour, name: runs.value?.find((one) => one.id === id)?.name ?? id }] : [];
  });
  const band = (key: "loss" | "norm" | "rate"): Line[] => some.map(({ drawn, colour, name }) => (
    { name, colour, x: drawn.x, y: drawn.series[key].mean, low: drawn.series[key].low, high: drawn.series[key].high }));
  const scored = (key: string, scale = 1): Line[] => some.flatMap(({ drawn, colour, name }) => {
    const y = drawn.validations[key] as Numbers | undefined;
    return y ? [{ name, colour, x: drawn.validations.x, y: y.map((value) => (value === null ? null : value * scale)), dots: true }] : [];
  });
  const speed: Line[] = some.map(({ drawn, colour, name }) => ({ name, colour, x: drawn.speed.x, y: drawn.speed.value }));
  const common = { unit, log, smoothing, empty: w.nothing };
  return (
    <>
      {some.length > 1 && <p class="legend small">{some.map(({ name, colour }) => <span key={name}><i aria-hidden="true" style={{ background: colourOf(colour) }} />{name}</span>)}</p>}
      <div class="charts">
        <Chart title={w.loss} lines={band("loss")} {...common} />
        <Chart title={w.validLoss} lines={scored("loss")} {...common} />
        <Chart title={w.bleu} lines={scored("bleu").length ? scored("bleu") : scored("accuracy")} {...common} />
        <Chart title={w.rate} lines={band("rate")} {...common} />
        <Chart title={w.norm} lines={band("norm")} {...common} />
        <Chart title={w.speed} lines={speed} {...common} />
        <Chart title={w.memory} lines={scored("memory", 1e-6)} {...common} />
      </div>
    </>
  );
}

function Differences({ run, over }: { run: Run; over: readonly string[] }) {
  const w = words.value, found = differences.value;
  if (over.length === 0 || found === null) return null;
  const other = runs.value?.find((one) => one.id === over[0])?.name ?? "";
  return (
    <section class="card" aria-labelledby="differences">
      <h2 id="differences">{w.differences}</h2>
      {found.length === 0 ? <p>{w.same}</p> : (
        <div class="wide" tabIndex={0} role="region" aria-labelledby="differences"><table>
          <thead><tr><th scope="col">{w.setting}</th><th scope="col">{run.name}</th><th scope="col">{other}</th></tr></thead>
          <tbody>{found.map((row) => <tr key={row.key}><th scope="row"><code>{row.key}</code></th><td>{String(row.one)}</td><td>{String(row.two)}</td></tr>)}</tbody>
        </table></div>
      )}
    </section>
  );
}

function Said() {
  const w = words.value, known = about.value;
  return (
    <div class="said">
      <section class="card" aria-labelledby="samples">
        <h2 id="samples">{w.samples}</h2>
        {samples.value.length === 0 ? <p class="quiet">{w.nothing}</p> : (
          <dl>{samples.value.map((one) => <div key={one.step}><dt class="quiet small">{w.atStep(one.step.toLocaleString())}{one.bleu !== undefined && ` · BLEU ${one.bleu.toFixed(1)}`}</dt><dd>{one.sample}</dd></div>)}</dl>
        )}
      </section>
      <section class="card" aria-labelledby="plan">
        <h2 id="plan">{w.plan}</h2>
        {known?.begin && <p>{w.recipeOf(known.begin.recipe ?? "?", ((known.begin.parameters ?? 0) / 1e6).toFixed(1))}</p>}
        {known?.corpus && <p>{w.corpus(known.corpus.name ?? "", (known.corpus.train ?? 0).toLocaleString(), (known.corpus.valid ?? 0).toLocaleString())}</p>}
        <ul class="notes small" lang="en">{(known?.notes ?? []).slice(-15).map((note, n) => <li key={n} class={note.event}>{note.text}</li>)}</ul>
      </section>
    </div>
  );
}

export const training = { name: "training", title: { get value() { return words.value.title; } }, view: View };
