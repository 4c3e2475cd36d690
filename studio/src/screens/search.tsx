// Search: the beam as a tree, with what became of every hypothesis and why.

import { computed, signal, useSignalEffect } from "@preact/signals";
import { read, set } from "../address";
import type { Graph, Node } from "../engine/engine";
import { inBoth } from "../preferences";
import { engine, fail, failure, model } from "../session";
import en from "../strings/en/search";
import ko from "../strings/ko/search";
import { card } from "../translate/state";
import { useDrawing } from "../parts/drawings";
import { explains, Term } from "../parts/terms";
import { curve, layOut, pathOf, treeSvg } from "../parts/tree";
import "./search.css";

const words = inBoth(en, ko);
const graph = signal<Graph | null>(null);
const waiting = signal(false);
const chosen = signal<number | null>(null);
const begun = computed<readonly string[]>(() => {
  try {
    const value: unknown = JSON.parse(read("tokens") || "[]");
    return Array.isArray(value) ? value.map(String) : [];
  } catch {
    return [];
  }
});

const beam = computed(() => Number(read("beam")) || card.value?.search.beam || 4);
const penalty = computed(() => (read("alpha") === "" ? card.value?.search.length_penalty ?? 0.6 : Number(read("alpha"))));

function View() {
  const w = words.value;
  useSignalEffect(() => {
    const id = model.value?.id, text = read("text"), tokens = begun.value, width = beam.value, alpha = penalty.value;
    chosen.value = null;
    if (!id || !text.trim()) { graph.value = null; return; }
    const stop = new AbortController();
    const timer = setTimeout(() => {
      waiting.value = true;
      engine.graph({ model: id, text, tokens, beam: width, length_penalty: alpha }, stop.signal)
        .then((found) => { graph.value = found; failure.value = null; }, fail)
        .finally(() => { if (!stop.signal.aborted) waiting.value = false; });
    }, 200);
    return () => { clearTimeout(timer); stop.abort(); };
  });
  useSignalEffect(() => {
    const id = model.value?.id;
    if (id && !card.value) void engine.card(id).then((found) => (card.value = found), fail);
  });
  const found = graph.value, best = found && bestOf(found.nodes);
  return (
    <div class="search">
      <p class="lead">{w.lead}</p>
      <div class="controls">
        <label class="wide">{w.text}<input value={read("text")} lang={model.value?.source ?? undefined}
          onInput={(event) => set({ text: event.currentTarget.value, tokens: "" })} /></label>
        <div class="sliders"><label data-term="beam-search">{w.beam} <output>{beam.value}</output>
          <input type="range" {...explains("beam-search")} min="1" max="12" step="1" value={beam.value} onInput={(event) => set({ beam: event.currentTarget.value })} /></label>
        <label data-term="length-penalty">{w.penalty} <output>{penalty.value.toFixed(1)}</output>
          <input type="range" {...explains("length-penalty")} min="0" max="2" step="0.1" value={penalty.value} onInput={(event) => set({ alpha: event.currentTarget.value })} /></label></div>
      </div>
      {begun.value.length > 0 && (
        <p class="begun">{w.begun(beginning(found))}{" "}
          <button type="button" class="plain" onClick={() => set({ tokens: "" })}>{w.release}</button></p>
      )}
      {waiting.value && !found && <p role="status" class="quiet">{w.loading}</p>}
      {found && best !== null && (
        <>
          <p class="answer"><span class="quiet small">{w.answer}</span> <span lang={model.value?.target ?? undefined}>{best === -1 ? "" : found.nodes[best]!.text}</span>
            <span class="quiet small"> {w.considered(found.nodes.length)}</span></p>
          <Tree nodes={found.nodes} best={best} />
          <Details nodes={found.nodes} best={best} />
          <Table nodes={found.nodes} best={best} />
        </>
      )}
    </div>
  );
}

/** The text of the tokens that every hypothesis begins with. */
function beginning(found: Graph | null): string {
  const last = found?.nodes[begun.value.length - 1];
  return last && last.step === begun.value.length - 1 ? last.text : begun.value.join("").replaceAll("▁", " ").trim();
}

export function bestOf(nodes: readonly Node[]): number {
  let best = -1;
  nodes.forEach((node, row) => {
    if (node.score !== null && (best < 0 || node.score > nodes[best]!.score!)) best = row;
  });
  return best;
}

function shown(node: Node): string {
  if (node.piece === "</s>") return "∎";
  return node.piece.replace("▁", "") || "␣";
}

function Tree({ nodes, best }: { nodes: readonly Node[]; best: number }) {
  const w = words.value, drawn = layOut(nodes, best);
  const path = new Set(best >= 0 ? pathOf(nodes, best) : []), picked = new Set(chosen.value === null ? [] : pathOf(nodes, chosen.value));
  const title = w.treeOf(read("text"), beam.value, penalty.value.toFixed(1));
  const says = (node: Node, row: number) => `${shown(node)}, ${w.rankOf(node.rank, node.step + 1)}, ${describe(node, row === best)}`;
  const svg = () => treeSvg(title, drawn.places, nodes.map((node, row) => (
    { label: shown(node), says: `${says(node, row)}, ${w.total} ${node.log_probability.toFixed(3)}`, look: path.has(row) ? "best" : node.reason ? "dead" : node.fate === "ended" ? "ended" : "living" })), drawn);
  const tree = useDrawing<HTMLDivElement>({ title, svg, table: () => ({ columns: headings(), rows: nodes.map((node, row) => columnsOf(node, row === best)) }) });
  return (
    <div class="tree" tabIndex={0} role="region" aria-label={w.tree} ref={tree}>
      <svg width={drawn.width} height={drawn.height} role="group" aria-label={w.tree}>
        <g aria-hidden="true">
          {drawn.places.map((place, row) => place.parent && (
            <path key={row} d={curve(place)} class={`edge ${classOf(nodes[row]!, row, path, picked)}`} />
          ))}
        </g>
        {drawn.places.map((place, row) => {
          const node = nodes[row]!;
          return (
            <g key={row} transform={`translate(${place.x} ${place.y})`} class={`node ${classOf(node, row, path, picked)}`} role="button" tabIndex={-1}
              aria-label={says(node, row)}
              onClick={() => (chosen.value = row)}>
              <rect x="0" y="-13" width={place.w} height="26" rx="6" />
              <text x={place.w / 2} y="1" text-anchor="middle" dominant-baseline="middle">{shown(node)}</text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function classOf(node: Node, row: number, path: ReadonlySet<number>, picked: ReadonlySet<number>): string {
  return `${node.reason ? "dead" : node.fate} ${path.has(row) ? "best" : ""} ${picked.has(row) ? "picked" : ""}`;
}

function describe(node: Node, best: boolean): string {
  const w = words.value;
  return best ? w.best : node.reason ? w.reasons[node.reason] ?? node.reason : node.fate === "ended" ? w.ended : w.living;
}

function Details({ nodes, best }: { nodes: readonly Node[]; best: number }) {
  const w = words.value, row = chosen.value;
  const node = row === null ? null : nodes[row];
  if (!node || row === null) return <p class="quiet small">{w.choose}</p>;
  return (
    <section class="card details" aria-label={w.details}>
      <p class="said" lang={model.value?.target ?? undefined}>{node.text || "…"}</p>
      <p><Term of="rank">{w.rankOf(node.rank, node.step + 1)}</Term> · <Term of="probability">{w.probability}</Term> {(100 * Math.exp(node.gain)).toFixed(1)} % · <Term of="log-probability">{w.total}</Term> {node.log_probability.toFixed(3)}
        {node.score !== null && <> · <Term of="score">{w.score}</Term> {node.score.toFixed(3)}</>}</p>
      <p>{describe(node, row === best)}{node.margin !== null && node.margin !== 0 && <> · <Term of="margin">{w.marginOf(Math.abs(node.margin).toFixed(3), node.margin > 0)}</Term></>}</p>
      {node.piece !== "</s>" && (
        <button type="button" class="primary" onClick={() => set({ tokens: JSON.stringify(pathOf(nodes, row).map((one) => nodes[one]!.piece)) })}>{w.goOn}</button>
      )}
    </section>
  );
}

const TERMS = ["decoding-step", "rank", "hypothesis", "probability", "log-probability", "margin", "hypothesis"]; // of the columns

function headings(): string[] {
  const w = words.value;
  return [w.step, w.rank, w.says, w.probability, w.total, w.margin, w.fate];
}

/** What the table says of a node. */
function columnsOf(node: Node, best: boolean): string[] {
  const says = (node.text || shown(node)) + (node.piece === "</s>" ? " ∎" : "");
  return [String(node.step + 1), String(node.rank), says, `${(100 * Math.exp(node.gain)).toFixed(1)} %`, node.log_probability.toFixed(3),
    node.margin === null ? "–" : node.margin.toFixed(3), describe(node, best)];
}

function Table({ nodes, best }: { nodes: readonly Node[]; best: number }) {
  const w = words.value;
  return (
    <details class="fold" data-unsaved="">
      <summary>{w.table}</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label={w.table}>
        <table>
          <thead><tr>{headings().map((one, number) => <th key={one} scope="col"><Term of={TERMS[number]}>{one}</Term></th>)}</tr></thead>
          <tbody>
            {nodes.map((node, row) => {
              const [step, rank, says, ...rest] = columnsOf(node, row === best);
              return (
                <tr key={row} class={row === best ? "best" : undefined}>
                  <td>{step}</td><td>{rank}</td>
                  <td><button type="button" class="plain said" onClick={() => (chosen.value = row)} lang={model.value?.target ?? undefined}>{says}</button></td>
                  {rest.map((one, number) => <td key={number}>{one}</td>)}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </details>
  );
}

export const search = { name: "search", title: { get value() { return words.value.title; } }, view: View };
