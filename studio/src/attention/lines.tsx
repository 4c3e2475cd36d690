// The pieces of both sides in two rows, and lines as strong as the weights between them.

import { useState } from "preact/hooks";
import type { Grid } from "../inside/data";
import { useDrawing } from "../parts/drawings";
import { ink, picture, tag, text, widthOf } from "../parts/pen";

const SIZE = 16, GAP = 12, TALL = 170, FAINT = 0.02; // weights below are not drawn unless their row is chosen

interface Props {
  readonly title: string;
  readonly above: string;
  readonly below: string;
  readonly grid: Grid;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly row: number;
  readonly choose: (row: number) => void;
}

/** The middles of pieces side by side, and the width of all. */
function spread(pieces: readonly string[]): { readonly middles: readonly number[]; readonly width: number } {
  let x = 8;
  const middles = pieces.map((one) => {
    const wide = Math.max(20, widthOf(one, SIZE)), middle = x + wide / 2;
    x += wide + GAP;
    return middle;
  });
  return { middles, width: x };
}

export function Lines({ title, above, below, grid, rows, columns, row, choose }: Props) {
  const [pointed, point] = useState<number | null>(null);
  const top = spread(columns), bottom = spread(rows), width = Math.max(top.width, bottom.width), now = pointed ?? row;
  const weight = (r: number, c: number) => grid.at[r * columns.length + c] ?? 0;
  const lines = rows.flatMap((_, r) => columns.map((_, c) => ({ r, c, w: weight(r, c) }))).filter(({ r, w }) => w >= (r === now ? 0.002 : FAINT));
  const curve = (r: number, c: number) => `M${bottom.middles[r]!.toFixed(1)} ${TALL - 42}C${bottom.middles[r]!.toFixed(1)} ${TALL / 2} ${top.middles[c]!.toFixed(1)} ${TALL / 2} ${top.middles[c]!.toFixed(1)} 42`;
  const svg = () => picture({ width: width + 8, height: TALL + 10 }, title, [
    ...lines.map(({ r, c, w }) => tag("path", { d: curve(r, c), fill: "none", stroke: ink("accent"), "stroke-width": 1 + 4 * w, "stroke-opacity": r === now ? w : w * 0.15 })),
    ...columns.map((one, c) => text(one, top.middles[c]!, 28, { "text-anchor": "middle", "font-size": SIZE, fill: ink("ink") })),
    ...rows.map((one, r) => text(one, bottom.middles[r]!, TALL - 28, { "text-anchor": "middle", "font-size": SIZE, fill: ink(r === now ? "accent" : "ink") })),
  ]);
  const drawn = useDrawing<HTMLDivElement>({ title, svg });
  return (
    <div class="lines" ref={drawn} tabIndex={0} role="region" aria-label={title}>
      <svg width={width} height={TALL} role="group" aria-label={title}>
        <g aria-hidden="true">
          <text x="8" y="10" class="side">{above}</text><text x="8" y={TALL - 6} class="side">{below}</text>
          {lines.map(({ r, c, w }) => <path key={`${r} ${c}`} d={curve(r, c)} stroke-width={1 + 4 * w} stroke-opacity={r === now ? w : w * 0.15} />)}
          {columns.map((one, c) => <text key={c} x={top.middles[c]} y="28" text-anchor="middle" style={{ fillOpacity: String(0.45 + 0.55 * Math.min(1, 2 * weight(now, c))) }}>{one}</text>)}
        </g>
        {rows.map((one, r) => (
          <g key={r} class={r === now ? "on" : undefined} role="button" tabIndex={-1} aria-label={one} aria-pressed={r === row}
            onClick={() => choose(r)} onPointerEnter={() => point(r)} onPointerLeave={() => point(null)}>
            <rect x={bottom.middles[r]! - Math.max(12, widthOf(one, SIZE) / 2 + 5)} y={TALL - 42} width={Math.max(24, widthOf(one, SIZE) + 10)} height="26" rx="6" />
            <text x={bottom.middles[r]} y={TALL - 28} text-anchor="middle">{one}</text>
          </g>
        ))}
      </svg>
    </div>
  );
}
