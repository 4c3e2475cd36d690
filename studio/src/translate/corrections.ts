// Better translations that the reader has confirmed: kept in this browser, and out as TMX and TSV.

import { signal } from "@preact/signals";

export interface Correction {
  readonly source: string;
  readonly target: string;
  readonly machine: string;
  readonly model: string;
  readonly from: string; // BCP 47
  readonly to: string;
  readonly date: string;
}

const KEY = "jumok.corrections";

function recall(): readonly Correction[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? (kept as Correction[]) : [];
  } catch {
    return [];
  }
}

export const corrections = signal<readonly Correction[]>(recall());

function keep(next: readonly Correction[]): void {
  corrections.value = next;
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // they stay until the page is closed
  }
}

/** Keep a correction; a later one of the same sentence takes its place, and one that changes nothing is none. */
export function correct(one: Omit<Correction, "date">): void {
  const others = corrections.value.filter((other) => other.source !== one.source || other.model !== one.model);
  keep(one.target === one.machine ? others : [...others, { ...one, date: new Date().toISOString() }]);
}

export function withdraw(source: string, model: string): void {
  keep(corrections.value.filter((other) => other.source !== source || other.model !== model));
}

export function forgetAll(): void {
  keep([]);
}

function flat(value: string): string {
  return value.replace(/\s+/g, " ").trim();
}

/** Source, correction, machine output, date: the first two columns are what `jumok train --table` reads. */
export function toTsv(some: readonly Correction[]): string {
  return some.map((one) => [one.source, one.target, one.machine, one.date].map(flat).join("\t") + "\n").join("");
}

function escape(value: string): string {
  return value.replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]!)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
}

/** Translation Memory eXchange 1.4, which translators' programs read. */
export function toTmx(some: readonly Correction[]): string {
  const from = escape(some[0]?.from ?? "und");
  const units = some.map((one) => {
    const date = one.date.replace(/[-:]|\.\d+/g, "");
    return `    <tu creationdate="${date}" creationtool="jumok">\n`
      + `      <prop type="x-machine">${escape(one.machine)}</prop>\n`
      + `      <tuv xml:lang="${escape(one.from)}"><seg>${escape(one.source)}</seg></tuv>\n`
      + `      <tuv xml:lang="${escape(one.to)}"><seg>${escape(one.target)}</seg></tuv>\n    </tu>\n`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n`
    + `  <header creationtool="jumok" creationtoolversion="1" segtype="sentence" o-tmf="jumok" adminlang="en" srclang="${from}" datatype="plaintext"/>\n`
    + `  <body>\n${units.join("")}  </body>\n</tmx>\n`;
}
