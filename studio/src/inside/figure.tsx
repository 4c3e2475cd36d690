// Figure 1 as a map of this very model: every block in the order in which it is computed, departures marked.

import type { Overview, Block } from "./data";
import type en from "../strings/en/inside";
import { useDrawing, type Table } from "../parts/drawings";
import { Formula } from "../parts/math";
import { explains } from "../parts/terms";
import { figureSvg } from "./picture";

type Words = typeof en;

const TERMS: Readonly<Record<string, string>> = {
  embedding: "embedding", positions: "positional-encoding", attention: "self-attention", masked: "masked-self-attention", cross: "cross-attention", add: "residual",
  norm: "layer-norm", feed_forward: "feed-forward", output: "logit", softmax: "softmax", states: "recurrence", hop: "memory",
};

interface Column {
  readonly stack: string;
  readonly layers: readonly { readonly layer: number | null; readonly blocks: readonly Block[] }[];
}

function arrange(blocks: readonly Block[]): Column[] {
  const columns: { stack: string; layers: { layer: number | null; blocks: Block[] }[] }[] = [];
  for (const block of blocks) {
    const stack = block.type === "output" || block.type === "softmax" ? "output" : block.stack;
    let column = columns.at(-1);
    if (column?.stack !== stack) columns.push((column = { stack, layers: [] }));
    let layer = column.layers.at(-1);
    if (!layer || layer.layer !== block.layer) column.layers.push((layer = { layer: block.layer, blocks: [] }));
    layer.blocks.push(block);
  }
  return columns;
}

/** Every block with its shape and its parameters. */
function listBlocks(of: Overview, words: Words): Table {
  const rows = of.map.blocks.map((one) => [
    of.map.types[one.type]?.name ?? one.type, words.stacks[one.stack] ?? one.stack, one.layer === null ? "" : String(one.layer + 1), one.shape, String(one.parameters)]);
  return { columns: words.blockTable, rows };
}

export function Figure({ of, chosen, choose, words, language }: { of: Overview; chosen: string; choose: (block: Block) => void; words: Words; language: string }) {
  const types = of.map.types, drawn = useDrawing<HTMLElement>({ title: words.map, svg: () => figureSvg(of, words.map, words), table: () => listBlocks(of, words) });
  return (
    <nav class="figure" aria-label={words.map} ref={drawn}>
      <h2>{words.map}</h2>
      <p class="quiet small">{words.mapShape(of.map.shape, new Intl.NumberFormat(language).format(of.map.parameters))}</p>
      {arrange(of.map.blocks).map((column, number) => (
        <section key={number}>
          <h3>{words.stacks[column.stack] ?? column.stack}</h3>
          {column.layers.map(({ layer, blocks }, row) => {
            const open = layer === null || blocks.some((one) => one.id === chosen);
            const list = (
              <ul>{blocks.map((block) => (
                <li key={block.id}>
                  <button type="button" class={`block type-${block.type}`} aria-pressed={block.id === chosen} disabled={block.absent}
                    title={block.absent ? words.absent : undefined} {...explains(TERMS[block.type])} onClick={() => choose(block)}>
                    {types[block.type]?.name ?? block.type}
                    {types[block.type]?.departs && <span class="departs" title={words.departs}>≠<span class="hidden"> {words.departs}</span></span>}
                  </button>
                </li>
              ))}</ul>
            );
            return layer === null ? <div key={row}>{list}</div>
              : <details key={row} open={open}><summary>{words.layer(layer + 1)}</summary>{list}</details>;
          })}
        </section>
      ))}
    </nav>
  );
}

export function Explanation({ of, block, words }: { of: Overview; block: Block; words: Words }) {
  const type = of.map.types[block.type];
  if (!type) return null;
  return (
    <section class="explanation">
      <h2>{type.name}{block.layer !== null && <span class="quiet"> · {words.layer(block.layer + 1)}</span>}{block.shape && <span class="quiet small"> · {block.shape}</span>}</h2>
      <p>{type.says}</p>
      <Formula mathml={type.formula} />
      {type.departs && (
        <div class="departure">
          <p><strong>{words.departs}.</strong> {type.departs}</p>
          {type.here && <><p class="small quiet">{words.here}</p><Formula mathml={type.here} /></>}
          {type.paper && <><p class="small quiet">{words.inPaper}</p><Formula mathml={type.paper} /></>}
        </div>
      )}
      {type.code && <p class="code"><span class="quiet small">{words.code} {type.code.file}:{type.code.line}</span><code tabIndex={0}>{type.code.text}</code></p>}
    </section>
  );
}
