// Figure 1 as a picture: the stacks side by side, from the tokens at the bottom to the probabilities at the top.

import { escape, ink, picture, tag, text, wrap } from "../parts/pen";
import type en from "../strings/en/inside";
import type { Block, Overview } from "./data";

const WIDE = 214, TALL = 27, STEP = 37, GAP = 92, EDGE = 20;

interface Placed {
  readonly block: Block;
  readonly x: number;
  readonly y: number; // from the bottom
}

function stand(blocks: readonly Block[], x: number): Placed[] {
  let y = 0, before: Block | null = null;
  return blocks.map((block) => {
    if (before && before.layer !== block.layer) y += 16;
    before = block;
    const placed = { block, x, y };
    y += STEP;
    return placed;
  });
}

/** Frames around the blocks of one layer, with its number. */
function frames(placed: readonly Placed[], bottom: number, words: typeof en): string[] {
  const layers = new Map<string, Placed[]>();
  for (const one of placed) if (one.block.layer !== null) layers.set(`${one.block.stack} ${one.block.layer}`, [...(layers.get(`${one.block.stack} ${one.block.layer}`) ?? []), one]);
  return [...layers.values()].flatMap((some) => {
    const top = bottom - some.at(-1)!.y - TALL - 7, height = some.at(-1)!.y - some[0]!.y + TALL + 14, x = some[0]!.x - 9;
    return [
      tag("rect", { x, y: top, width: WIDE + 18, height, rx: 8, fill: ink("ground"), stroke: ink("line") }),
      text(`${words.stacks[some[0]!.block.stack] ?? ""} · ${words.layer(some[0]!.block.layer! + 1)}`, x + WIDE / 2 + 9, top - 4.5, { "text-anchor": "middle", "font-size": 9.5, fill: ink("quiet") }),
    ];
  });
}

export function figureSvg(of: Overview, title: string, words: typeof en): string {
  const isRight = (one: Block) => ["target", "decoder"].includes(one.stack) || one.type === "output" || one.type === "softmax";
  const left = stand(of.map.blocks.filter((one) => !isRight(one)), EDGE + 9);
  const right = stand(of.map.blocks.filter(isRight), left.length ? EDGE + 9 + WIDE + GAP : EDGE + 9);
  const placed = [...left, ...right], bottom = 24 + Math.max(...placed.map((one) => one.y)) + TALL, types = of.map.types;
  const body = [...frames(left, bottom, words), ...frames(right, bottom, words)];
  for (const column of [left, right]) {
    for (let row = 1; row < column.length; row++) {
      const from = column[row - 1]!, to = column[row]!, x = from.x + WIDE / 2;
      body.push(tag("path", { d: `M${x} ${bottom - from.y - TALL}V${bottom - to.y}`, stroke: ink("quiet"), "stroke-width": 1.4 }));
    }
  }
  const memory = left.at(-1);
  for (const one of right) {
    if (one.block.type !== "cross" || !memory) continue;
    const x = memory.x + WIDE, top = bottom - memory.y - TALL / 2, y = bottom - one.y - TALL / 2, middle = x + GAP / 2;
    body.push(tag("path", { d: `M${x} ${top}H${middle}V${y}H${one.x}`, fill: "none", stroke: ink("accent"), "stroke-width": 1.6 }, tag("title", {}, escape(words.kindSays.cross ?? ""))));
  }
  for (const { block, x, y } of placed) {
    const name = types[block.type]?.name ?? block.type, departs = types[block.type]?.departs;
    const isAttention = ["attention", "masked", "cross"].includes(block.type);
    body.push(tag("g", { transform: `translate(${x} ${bottom - y - TALL})` },
      tag("title", {}, escape([name, block.shape, block.absent ? words.absent : departs ?? ""].filter(Boolean).join(" · "))),
      tag("rect", { width: WIDE, height: TALL, rx: 6, fill: isAttention ? ink("accent-soft") : ink("sunk"), stroke: isAttention ? ink("accent") : ink("line"), ...(block.absent ? { "stroke-dasharray": "4 3" } : {}) }),
      text(name, WIDE / 2, TALL / 2, { "text-anchor": "middle", "font-size": 12.5, fill: block.absent ? ink("quiet") : ink("ink") }),
      ...(departs ? [text("≠", WIDE - 12, TALL / 2, { "text-anchor": "middle", "font-weight": 700, fill: ink("warn") })] : [])));
  }
  const width = Math.max(...placed.map((one) => one.x)) + WIDE + EDGE + 9;
  let y = bottom + 26;
  for (const type of Object.values(types)) {
    if (!type.departs) continue;
    for (const line of wrap(`≠ ${type.name}: ${type.departs}`, width - 2 * EDGE, 11.5)) {
      body.push(text(line, EDGE, y, { "font-size": 11.5, fill: ink("quiet") }));
      y += 17;
    }
  }
  return picture({ width, height: y + 4 }, title, body);
}
