// Lab and race: the claims with their verdicts, the page about the study notes and those of findings inside the studio, and reports of races.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { read, set } from "../address";
import { role } from "../classroom";
import { events, request } from "../engine/remote";
import { Frame } from "../lab/frame";
import { StartRace, type Races } from "../lab/race";
import { inBoth, language } from "../preferences";
import { fail, failure } from "../session";
import en from "../strings/en/lab";
import ko from "../strings/ko/lab";
import "./lab.css";

const words = inBoth(en, ko);
interface Both { en: string; ko: string }
interface Finding { id: string; holds: boolean; verdict: "holds" | "fails" | "untestable"; scale: string; date: string; seconds: number; machine: string; checks: { text: string; holds: boolean | null }[] }
interface Claim { name: string; title: Both; claim: Both; findings: Finding[]; task: string | null }

const claims = signal<readonly Claim[] | null>(null);
const races = signal<Races>({ races: [], models: [], recipes: [], can_start: false, task: null });
const scales = signal<readonly string[]>([]);
const output = signal("");

async function list(): Promise<void> {
  try {
    const answer = await request<{ claims: Claim[]; scales: string[] }>("/v1/lab");
    races.value = await request<Races>("/v1/races");
    [claims.value, scales.value] = [answer.claims, answer.scales];
    failure.value = null;
  } catch (error) {
    claims.value ??= [];
    fail(error);
  }
}

async function start(name: string, scale: string): Promise<void> {
  try {
    const task = await request<{ id: string }>(`/v1/lab/${name}/start`, { scale, language: language.value });
    set({ task: task.id });
    await list();
  } catch (error) {
    fail(error);
  }
}

async function watch(task: string, signal: AbortSignal): Promise<void> {
  output.value = "";
  try {
    for await (const [kind, data] of events(`/v1/tasks/${task}/events`, undefined, signal)) {
      if (kind === "output") output.value = (output.value + (data as { text: string }).text).slice(-8000);
      else if (kind === "end") await list();
    }
  } catch (error) {
    if (!signal.aborted) fail(error);
  }
}

function View() {
  const w = words.value, task = claims.value?.find((one) => one.name === read("claim"))?.task ?? read("task");
  useEffect(() => { if (role.value !== "student") void list(); }, []);
  useEffect(() => {
    if (!task) return;
    const stop = new AbortController();
    void watch(task, stop.signal);
    return () => stop.abort();
  }, [task]);
  if (role.value === "student") return <p>{w.teacherOnly}</p>;
  if (claims.value === null) return <p class="quiet">{w.loading}</p>;
  const claim = claims.value.find((one) => one.name === read("claim"));
  const race = races.value.races.find((one) => one.id === read("race")), notes = read("page") === "notes";
  return (
    <div class="lab">
      <nav class="card claims" aria-label={w.claims}>
        <ul><li><button type="button" class="plain" aria-current={notes} onClick={() => set({ page: "notes", claim: "", race: "", task: "" })}>{w.notes}</button></li></ul>
        <h2>{w.claims}</h2>
        <ul>{claims.value.map((one) => (
          <li key={one.name}><button type="button" class="plain" aria-current={one === claim} onClick={() => set({ claim: one.name, race: "", page: "", task: one.task ?? "" })}>
            <span>{one.title[language.value]}</span><Verdict claim={one} /></button></li>))}
        </ul>
        <h2>{w.races}</h2>
        {races.value.races.length === 0 && <p class="quiet small">{w.noRaces}</p>}
        <ul>{races.value.races.map((one) => (
          <li key={one.id}><button type="button" class="plain" aria-current={one === race} onClick={() => set({ race: one.id, claim: "", page: "", task: "" })}>
            <span>{one.name}</span><span class="quiet small">{one.contenders.map((row) => `${row.name} ${row.bleu.toFixed(1)}`).join(" · ")}</span></button></li>))}
        </ul>
        {races.value.can_start && <StartRace of={races.value} words={w} started={list} />}
      </nav>
      <div class="paper">
        {claim ? <OneClaim key={claim.name} claim={claim} /> : race
          ? <Frame path={`/v1/races/${race.id}`} title={race.name} loading={w.loading} />
          : notes ? <Frame path="/v1/notes" title={w.notes} language={language.value} loading={w.loading} />
          : task ? <section class="card"><Output /></section> : <p class="quiet">{w.choose}</p>}
      </div>
    </div>
  );
}

function Verdict({ claim }: { claim: Claim }) {
  const w = words.value, newest = claim.findings[0];
  if (claim.task) return <span class="verdict going">{w.running}</span>;
  if (!newest) return <span class="verdict open">{w.untested}</span>;
  const [look, told] = { holds: ["yes", w.holds], fails: ["no", w.doesNot], untestable: ["open", w.notTestable] }[newest.verdict];
  return <span class={`verdict ${look}`}>{told}</span>;
}

/** What the process that tests or races has said. */
function Output() {
  return output.value ? <pre class="output" role="log" aria-label={words.value.output} tabIndex={0}>{output.value}</pre> : null;
}

function OneClaim({ claim }: { claim: Claim }) {
  const w = words.value, finding = claim.findings.find((one) => one.id === read("finding")) ?? claim.findings[0];
  return (
    <>
      <section class="card">
        <h2>{claim.title[language.value]}</h2>
        <p class="claim">{claim.claim[language.value]}</p>
        <form class="row" onSubmit={(event) => { event.preventDefault(); void start(claim.name, String(new FormData(event.currentTarget).get("scale"))); }}>
          <label>{w.scale} <select name="scale">{scales.value.map((one) => <option key={one} value={one}>{w.scales[one] ?? one}</option>)}</select></label>
          <button type="submit" class="primary" disabled={claim.task !== null}>{claim.task ? w.running : w.start}</button>
          {claim.findings.length > 1 && (
            <label>{w.finding} <select value={finding?.id} onChange={(event) => set({ finding: event.currentTarget.value })}>
              {claim.findings.map((one) => <option key={one.id} value={one.id}>{one.date} · {w.scales[one.scale] ?? one.scale}</option>)}</select></label>)}
        </form>
        <Output />
      </section>
      {finding ? <Frame path={`/v1/findings/${finding.id}`} title={claim.title[language.value]} language={language.value} loading={w.loading} />
        : <p class="quiet">{w.nothingYet}</p>}
    </>
  );
}

export const lab = { name: "lab", title: { get value() { return words.value.title; } }, view: View };
