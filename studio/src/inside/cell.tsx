// One cell of attention, opened: the dot product, the scale, the mask, the softmax of its row, and the weighted sum.

import type en from "../strings/en/inside";
import { cached, digits, row as rowOf, type BlockNumbers, type Grid } from "./data";
import { Term } from "../parts/terms";
import { Strip } from "./matrix";

type Words = typeof en;
const TERMS: Readonly<Record<string, string>> = {
  input: "vector", row: "embedding", scaled: "d-model", position: "positional-encoding", output: "vector", sublayer: "sub-layer", mean: "mean", deviation: "deviation",
  inner: "weight-matrix", active: "activation", q: "query", k: "key", v: "value", joined: "concat", mixed: "weighted-sum",
};

interface Props {
  readonly numbers: BlockNumbers;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly row: number;
  readonly column: number;
  readonly words: Words;
}

function grid(numbers: BlockNumbers, ...names: readonly string[]): Grid | null {
  const name = names.find((one) => numbers.values[one]);
  return name ? cached(numbers.values[name]!) : null;
}

export function Cell({ numbers, rows, columns, row, column, words }: Props) {
  const q = grid(numbers, "q_turned", "q"), k = grid(numbers, "k_turned", "k"), v = grid(numbers, "v");
  const scores = grid(numbers, "scores"), weights = grid(numbers, "weights"), mask = grid(numbers, "mask"), mixed = grid(numbers, "mixed");
  if (!q || !k || !scores || !weights) return null;
  const width = columns.length, at = row * width + column;
  const query = rowOf(q, row), key = rowOf(k, column);
  const products = Array.from(query, (value, i) => value * key[i]!);
  const product = products.reduce((sum, value) => sum + value, 0);
  const hidden = mask ? !mask.at[at] : false;
  const own = Array.from(rowOf(weights, row)), total = own.reduce((sum, value) => sum + value, 0);
  return (
    <section class="cell card" aria-label={words.cell(rows[row]!, columns[column]!)}>
      <h3>{words.cell(rows[row]!, columns[column]!)}</h3>
      <ol class="chain">
        <li><span><Term of="dot-product">{words.product}</Term></span><strong data-number="product">{digits(product)}</strong></li>
        <li><span><Term of="scale">{words.scaled}</Term> ({Math.sqrt(query.length).toFixed(2)})</span><strong data-number="score">{digits(product / Math.sqrt(query.length))}</strong></li>
        {hidden && <li><span><Term of="mask">{words.masked}</Term></span><strong>−∞</strong></li>}
        <li><span><Term of="softmax">{words.softmax}</Term></span><strong data-number="weight">{own[column]!.toFixed(3)}</strong></li>
      </ol>
      <details>
        <summary>{words.dot}</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label={words.dot}>
          <table class="dot">
            <thead><tr><th scope="col">{words.component}</th><th scope="col"><Term of="query">q</Term></th><th scope="col"><Term of="key">k</Term></th><th scope="col"><Term of="dot-product">q·k</Term></th></tr></thead>
            <tbody>{products.map((value, i) => (
              <tr key={i}><td>{i + 1}</td><td>{digits(query[i]!)}</td><td>{digits(key[i]!)}</td><td>{digits(value)}</td></tr>
            ))}</tbody>
            <tfoot><tr><th scope="row" colSpan={3}>{words.sum}</th><td>{digits(product)}</td></tr></tfoot>
          </table>
        </div>
      </details>
      <h4><Term of="attention-weight"><span data-number="sum">{words.row(rows[row]!, total.toFixed(3))}</span></Term></h4>
      <h4><Term of="weighted-sum">{words.mixed}</Term></h4>
      <div class="sum">
        {v && own.map((weight, number) => ({ weight, number })).sort((one, other) => other.weight - one.weight).slice(0, 6).map(({ weight, number }) => (
          <div key={number} class={number === column ? "on" : undefined}>
            <span class="weight">{weight.toFixed(3)} ×</span><span class="name">{columns[number]}</span>
            <Strip values={rowOf(v, number)} label={`${words.value} ${columns[number]}`} />
          </div>
        ))}
        {mixed && <div class="total"><span class="weight">=</span><span class="name">Σ αv</span><Strip values={rowOf(mixed, row)} label="Σ αv" /></div>}
        {numbers.values.joined && numbers.at === row && <div><span class="weight" /><span class="name"><Term of="concat">{words.joined}</Term></span><Strip values={cached(numbers.values.joined).at} label={words.joined} /></div>}
        {numbers.values.output && numbers.at === row && <div><span class="weight" /><span class="name"><Term of="w-o">{words.output}</Term></span><Strip values={cached(numbers.values.output).at} label={words.output} /></div>}
      </div>
    </section>
  );
}

/** The numbers of a block that is no attention: its vectors, or the likeliest tokens. */
export function Vectors({ numbers, words }: { numbers: BlockNumbers; words: Words }) {
  const vectors = Object.entries(numbers.values).filter(([, value]) => value.shape.length === 1 && value.type !== "u1");
  return (
    <div class="vectors">
      {vectors.map(([name, value]) => {
        const list = Array.from(cached(value).at), title = words.names[name] ?? name;
        return (
          <div key={name}>
            <p><span><Term of={TERMS[name]}>{title}</Term></span> <span class="quiet small mono">{list.slice(0, 6).map((one) => digits(one, 2)).join("  ")}{list.length > 6 ? " …" : ""}</span></p>
            {list.length > 1 && <Strip values={list} label={title} />}
          </div>
        );
      })}
      {numbers.top && (
        <table class="top">
          <thead><tr><th scope="col"><Term of="token">{words.token}</Term></th><th scope="col"><Term of="logit">{words.logit}</Term></th><th scope="col"><Term of="probability">{words.probability}</Term></th></tr></thead>
          <tbody>{numbers.top.slice(0, 10).map((one) => (
            <tr key={one.id}><td>{one.text || one.piece}</td><td>{digits(one.logit)}</td><td>{(100 * one.probability).toFixed(1)} %</td></tr>
          ))}</tbody>
        </table>
      )}
    </div>
  );
}
