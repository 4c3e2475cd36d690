// The page of `jumok look --html`: attention of several sentences in one file, made of the parts of the studio.

import { place, read, set } from "../address";
import type { Kind } from "../inside/data";
import { Matrix, Thumbnail } from "../inside/matrix";
import { useDrawing } from "../parts/drawings";
import { manySvg } from "../parts/pictures";
import { SaveMenu } from "../parts/save";
import { explains, Term, Terms } from "../parts/terms";
import { chooseLanguage, chooseTheme, inBoth, language, theme } from "../preferences";
import en from "../strings/en/attention";
import ko from "../strings/ko/attention";
import { column, columns, data, gridOf, head, kind, kinds, layer, maps, number, row, rows, view } from "./data";
import { Lines } from "./lines";

const words = inBoth(en, ko);
const TERMS: Readonly<Record<Kind, string>> = { encoder: "self-attention", decoder: "masked-self-attention", cross: "cross-attention" };

if (!location.hash) place.value = { screen: "attention", values: { lang: data.language } };

export function App() {
  const w = words.value, now = kind.value;
  return (
    <>
      <header class="bar">
        <h1 class="brand">{data.title}</h1>
        {data.views.length > 1 && <Chooser />}
        <div class="tools">
          <div class="switch" role="group" aria-label={w.language}>
            <button type="button" lang="ko" aria-pressed={language.value === "ko"} onClick={() => chooseLanguage("ko")}>한국어</button>
            <button type="button" lang="en" aria-pressed={language.value === "en"} onClick={() => chooseLanguage("en")}>EN</button>
          </div>
          <button type="button" class="plain theme" onClick={() => chooseTheme(theme.value === "dark" ? "light" : "dark")}>{theme.value === "dark" ? w.light : w.dark}</button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <SaveMenu name="jumok-attention" describe={() => ({ title: data.title, facts: [[w.sentence, `${view.value.text} → ${view.value.translation}`]], address: "" })} />
        <p class="pair"><span>{view.value.text}</span> <span class="quiet" aria-hidden="true">→</span> <strong>{view.value.translation}</strong></p>
        <div class="tabs" role="tablist">
          {kinds.value.map((one) => (
            <button key={one} type="button" role="tab" id={`tab-${one}`} aria-selected={one === now} aria-controls="maps" {...explains(TERMS[one])}
              onClick={() => set({ kind: one, row: "", column: "" })}>{w.kinds[one]}</button>
          ))}
        </div>
        <div id="maps" role="tabpanel" aria-labelledby={`tab-${now}`}>
          <p class="quiet small">{w.about[now]}</p>
          <div class="attention-columns"><Heads /><Chosen /></div>
        </div>
      </main>
      <Terms />
    </>
  );
}

function Chooser() {
  const w = words.value, all = data.views.length;
  const go = (to: number) => set({ view: (to + all) % all, row: "", column: "" });
  return (
    <nav class="chooser" aria-label={w.sentence}>
      <button type="button" aria-label={w.previous} onClick={() => go(number.value - 1)}>◀</button>
      <select aria-label={w.sentence} value={number.value} onChange={(event) => go(Number(event.currentTarget.value))}>
        {data.views.map((one, row) => <option key={row} value={row}>{row + 1}. {one.text} → {one.translation}</option>)}
      </select>
      <button type="button" aria-label={w.next} onClick={() => go(number.value + 1)}>▶</button>
    </nav>
  );
}

/** What is chosen, in words: a layer and a head, or means. */
function label(of: number | null, heads: number | null): string {
  const w = words.value;
  if (of === null && heads === null) return w.all;
  return `${of === null ? w.meanLayers : w.layer(of + 1)}, ${heads === null ? w.meanHeads : w.head(heads + 1)}`;
}

function Heads() {
  const w = words.value, { layers, heads } = maps.value;
  const side = (count: number): (number | null)[] => [...Array.from({ length: count }, (_, one) => one), ...(count > 1 ? [null] : [])];
  const drawn = useDrawing<HTMLDivElement>({
    title: `${w.kinds[kind.value]}: ${w.grid}`,
    svg: () => manySvg(`${w.kinds[kind.value]}: ${w.grid}`, side(layers).flatMap((one) => side(heads).map((other) => (
      { name: label(one, other), weights: { rows: rows.value, columns: columns.value, at: gridOf(maps.value, one, other).at } }))), side(heads).length),
  });
  return (
    <section class="card heads-card" aria-label={w.grid}>
      <h2><Term of="head">{w.grid}</Term></h2>
      <div class="head-map" ref={drawn} style={{ gridTemplateColumns: `repeat(${side(heads).length}, minmax(0, 1fr))` }}>
        {side(layers).flatMap((one) => side(heads).map((other) => (
          <Thumbnail key={`${one} ${other}`} grid={gridOf(maps.value, one, other)} label={label(one, other)} pressed={one === layer.value && other === head.value}
            choose={() => set({ layer: one ?? "mean", head: other ?? "mean" })} />
        )))}
      </div>
    </section>
  );
}

function Chosen() {
  const w = words.value, now = kind.value, grid = gridOf(maps.value, layer.value, head.value), name = label(layer.value, head.value);
  const title = `${w.kinds[now]}, ${name}`;
  const own = Array.from({ length: columns.value.length }, (_, c) => ({ c, weight: grid.at[row.value * columns.value.length + c]! }));
  const at = read("column") === "" ? own.reduce((best, one) => (one.weight > best.weight ? one : best)).c : column.value;
  return (
    <div class="chosen-map">
      <section class="card"><h2>{name}</h2>
        <Lines title={`${title}: ${w.lines}`} above={w.above[now]!} below={w.below[now]!} grid={grid} rows={rows.value} columns={columns.value} row={row.value}
          choose={(one) => set({ row: one, column: "" })} />
      </section>
      <div class="map-and-row">
        <section class="card"><Matrix grid={grid} rows={rows.value} columns={columns.value} row={row.value} column={at} label={title}
          choose={(y, x) => set({ row: y, column: x })} /></section>
        <section class="card" aria-live="polite">
          <p data-number="cell">{w.cell[now]!(rows.value[row.value]!, columns.value[at]!, own[at]!.weight.toFixed(3))}</p>
          <h2><Term of="attention-weight">{w.row(rows.value[row.value]!)}</Term></h2>
          <ol class="best">{own.sort((one, other) => other.weight - one.weight).slice(0, 5).map(({ c, weight }) => (
            <li key={c}><span>{columns.value[c]}</span><span class="mono">{weight.toFixed(3)}</span><i style={{ width: `${100 * weight}%` }} /></li>
          ))}</ol>
        </section>
      </div>
    </div>
  );
}
