// Runs as the server tells of them, and the one that is being followed.

import { signal } from "@preact/signals";
import { read } from "../address";
import { events, request } from "../engine/remote";
import { fail, failure } from "../session";
import type { Numbers } from "./chart";

export type State = "running" | "stopped" | "finished" | "killed";
export interface Run {
  readonly id: string;
  readonly name: string;
  readonly served: string | null;
  readonly state: State;
  readonly step: number | null;
  readonly horizon: number | null;
  readonly scores: Readonly<Record<string, number>>;
  readonly process: { readonly pid: number; readonly host: string } | null;
  readonly snapshots: number;
}
interface Band { readonly mean: Numbers; readonly low: Numbers; readonly high: Numbers }
export interface Curves {
  readonly axis: string;
  readonly x: Numbers;
  readonly step: readonly number[];
  readonly last: number;
  readonly read: number; // share of the log that was read
  readonly series: Readonly<Record<"loss" | "rate" | "norm", Band>>;
  readonly speed: { readonly x: Numbers; readonly value: Numbers };
  readonly validations: { readonly x: Numbers; readonly step: readonly number[] } & Readonly<Record<string, Numbers>>;
  readonly attempts: readonly number[];
}
export interface About {
  readonly notes: readonly { event: string; text: string }[];
  readonly plan: { text?: string } | null;
  readonly begin: { recipe?: string; parameters?: number } | null;
  readonly corpus: { train?: number; valid?: number; name?: string } | null;
}
export interface Sample { readonly step: number; readonly sample: string; readonly bleu?: number }

export const runs = signal<readonly Run[] | null>(null);
export const recipes = signal<readonly string[]>([]);
export const canStart = signal(false);
export const curves = signal<Readonly<Record<string, Curves>>>({});
export const about = signal<About | null>(null);
export const samples = signal<readonly Sample[]>([]);

/** Ask for the list of runs. */
export async function list(): Promise<void> {
  try {
    const answer = await request<{ runs: Run[]; recipes: string[]; can_start: boolean }>("/v1/runs");
    [runs.value, recipes.value, canStart.value] = [answer.runs, answer.recipes, answer.can_start];
    failure.value = null;
  } catch (error) {
    runs.value ??= [];
    fail(error);
  }
}

/** The run on the screen: the one in the address, else one that is being trained, else the first. */
export function chosen(): Run | null {
  const all = runs.value ?? [];
  return all.find((one) => one.id === read("run")) ?? all.find((one) => one.state === "running") ?? all[0] ?? null;
}

/** The ids of the runs that are drawn over it. */
export function overlaid(): readonly string[] {
  return read("over").split(",").filter((id) => runs.value?.some((one) => one.id === id));
}

export async function draw(id: string, axis: string): Promise<void> {
  const drawn = await request<Curves>(`/v1/runs/${id}/curves?axis=${axis}&points=600`);
  curves.value = { ...curves.value, [id]: drawn };
}

async function describe(id: string): Promise<void> {
  about.value = await request<About>(`/v1/runs/${id}`);
  samples.value = (await request<{ samples: Sample[] }>(`/v1/runs/${id}/samples?most=12`)).samples;
}

const PAUSE = 1500; // milliseconds between two drawings of a run that goes on

/** Draw a run, and again whenever it has gone on, through kills and continuations, until aborted. */
export async function follow(id: string, axis: string, signal: AbortSignal): Promise<void> {
  let waiting: ReturnType<typeof setTimeout> | undefined;
  const again = async () => {
    waiting = undefined;
    try {
      await draw(id, axis);
      if (!signal.aborted && (curves.value[id]?.read ?? 1) < 1) waiting = setTimeout(() => void again(), 500);
    } catch (error) {
      if (!signal.aborted) fail(error);
    }
  };
  signal.addEventListener("abort", () => clearTimeout(waiting));
  await again();
  while (!signal.aborted) {
    try {
      await describe(id);
      for await (const [kind, data] of events(`/v1/runs/${id}/events`, undefined, signal)) {
        if (kind === "state") {
          const { state } = data as { state: State };
          runs.value = (runs.value ?? []).map((one) => (one.id === id ? { ...one, state } : one));
        } else {
          const some = (data as { events?: { event: string; step?: number }[] }).events ?? [];
          const step = some.findLast((one) => one.event === "step")?.step;
          if (step !== undefined) runs.value = (runs.value ?? []).map((one) => (one.id === id ? { ...one, step } : one));
          if (some.some((one) => one.event !== "step")) await describe(id);
        }
        waiting ??= setTimeout(() => void again(), PAUSE);
      }
    } catch (error) {
      if (signal.aborted) return;
      fail(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** The curves as a table of comma-separated values. */
export function toCsv(drawn: Curves): string {
  const rows = [["step", drawn.axis, "loss", "loss_low", "loss_high", "rate", "norm"].join(",")];
  const { loss, rate, norm } = drawn.series;
  drawn.step.forEach((step, n) => rows.push([step, drawn.x[n], loss.mean[n], loss.low[n], loss.high[n], rate.mean[n], norm.mean[n]].map((value) => value ?? "").join(",")));
  return rows.join("\n") + "\n";
}
