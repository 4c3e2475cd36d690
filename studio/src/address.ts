// What is on the screen, as the part of the address behind #: #/translate?model=en-de&text=Hello
//
// That part never reaches a server, so no sentence ends up in a log.  Every view can be sent as a link, and the
// browser's back button works.  `place` is the only copy of this state; screens read it and call `go` or `set`.

import { computed, signal } from "@preact/signals";

export type Values = Readonly<Record<string, string>>;
export interface Place {
  readonly screen: string;
  readonly values: Values;
}

export function parse(hash: string): Place {
  const whole = hash.replace(/^#\/?/, ""), mark = whole.indexOf("?");
  const [path, query] = mark < 0 ? [whole, ""] : [whole.slice(0, mark), whole.slice(mark + 1)];
  return { screen: path || "translate", values: Object.fromEntries(new URLSearchParams(query)) };
}

export function write(place: Place): string {
  const query = new URLSearchParams(Object.entries(place.values).filter(([, value]) => value !== "")).toString();
  return `#/${place.screen}${query ? `?${query}` : ""}`;
}

export const place = signal<Place>(parse(location.hash));
export const screen = computed(() => place.value.screen);

export function read(name: string): string {
  return place.value.values[name] ?? "";
}

/** Whole numbers, such as a layer or a head. */
export function readNumber(name: string, otherwise: number): number {
  const value = Number.parseInt(read(name), 10);
  return Number.isFinite(value) ? value : otherwise;
}

/** Change values on the way: the back button does not stop here. */
export function set(changes: Record<string, string | number>): void {
  move({ screen: place.value.screen, values: merge(changes) }, true);
}

/** Go to a screen, with values changed: a step that the back button takes back. */
export function go(to: string, changes: Record<string, string | number> = {}): void {
  move({ screen: to, values: merge(changes) }, false);
}

export function link(to: string, changes: Record<string, string | number> = {}): string {
  return write({ screen: to, values: merge(changes) });
}

function merge(changes: Record<string, string | number>): Values {
  const values: Record<string, string> = { ...place.value.values };
  for (const [name, value] of Object.entries(changes)) values[name] = String(value);
  return values;
}

function move(next: Place, replace: boolean): void {
  const hash = write(next);
  if (hash !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", hash);
  place.value = next;
}

addEventListener("hashchange", () => (place.value = parse(location.hash)));
addEventListener("popstate", () => (place.value = parse(location.hash)));
