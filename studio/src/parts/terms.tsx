// Terms: every symbol and label that the list of terms explains says so on hover and on focus.
//
// An element with data-term shows its explanation; aria-describedby names the same text for screen readers.  The list is
// part of the bundle (the module "terms"), so nothing is asked of a server.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import terms from "terms";
import { inBoth, language } from "../preferences";
import en from "../strings/en/terms";
import ko from "../strings/ko/terms";
import "./terms.css";

const words = inBoth(en, ko);
const shown = signal<{ readonly key: string; readonly at: DOMRect } | null>(null);
const PAUSE = 140; // milliseconds that a pointer rests before something appears or goes

export function nameOf(key: string): string {
  return terms[key]?.[language.value === "ko" ? 0 : 1] ?? key;
}

function saysOf(key: string): string {
  return terms[key]?.[language.value === "ko" ? 3 : 4] ?? "";
}

/** Attributes of an element that can be focused: a button, a field. */
export function explains(key: string | undefined): { "data-term"?: string; "aria-describedby"?: string } {
  return key && terms[key] ? { "data-term": key, "aria-describedby": `says-${key}` } : {};
}

/** A word that is explained where it stands. */
export function Term({ of, children }: { of: string | undefined; children: ComponentChildren }) {
  if (!of || !terms[of]) return <>{children}</>;
  return <dfn class="term" tabIndex={0} {...explains(of)}>{children}</dfn>;
}

/** The texts that descriptions refer to, and the one that is shown: once in a page. */
export function Terms() {
  useEffect(() => {
    let timer = 0, explained: Element | null = null;
    const later = (work: () => void) => { clearTimeout(timer); timer = window.setTimeout(work, PAUSE); };
    const show = (element: Element) => {
      explained = element;
      shown.value = { key: element.getAttribute("data-term")!, at: element.getBoundingClientRect() };
    };
    const follow = () => { if (shown.value && explained) show(explained); };
    const over = (event: Event) => {
      const target = event.target instanceof Element ? event.target : null, found = target?.closest("[data-term]");
      if (found) later(() => show(found));
      else if (target?.closest(".tip")) clearTimeout(timer);
      else if (shown.value) later(() => (shown.value = null));
    };
    const focus = (event: Event) => {
      const target = event.target as Element;
      if (target.matches("[data-term]") && (target.matches(".term") || target.matches(":focus-visible"))) { clearTimeout(timer); show(target); }
    };
    const hide = () => { clearTimeout(timer); shown.value = null; };
    const key = (event: KeyboardEvent) => { if (event.key === "Escape" && shown.value) hide(); };
    const listeners = [["pointerover", over], ["focusin", focus], ["focusout", hide], ["keydown", key as EventListener], ["pointerdown", hide]] as const;
    for (const [name, listener] of listeners) document.addEventListener(name, listener);
    addEventListener("scroll", follow, true);
    return () => {
      for (const [name, listener] of listeners) document.removeEventListener(name, listener);
      removeEventListener("scroll", follow, true);
    };
  }, []);
  return (
    <>
      <div hidden>{Object.keys(terms).map((key) => <span key={key} id={`says-${key}`}>{nameOf(key)}: {saysOf(key)}</span>)}</div>
      <Tip />
    </>
  );
}

function Tip() {
  const box = useRef<HTMLDivElement>(null), now = shown.value;
  useEffect(() => {
    const element = box.current;
    if (!element || !now) return;
    const { width, height } = element.getBoundingClientRect(), below = now.at.bottom + 6;
    const left = Math.max(8, Math.min(now.at.left, innerWidth - width - 8));
    const top = below + height < innerHeight - 8 ? below : Math.max(8, now.at.top - height - 6);
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
    element.classList.add("placed");
  }, [now]);
  if (!now) return null;
  const section = terms[now.key]?.[2];
  return (
    <div key={now.key} class="tip" ref={box} role="tooltip" data-unsaved="">
      <strong>{nameOf(now.key)}</strong><span>{saysOf(now.key)}</span>
      {section && <span class="quiet small">{words.value.section(section)}</span>}
    </div>
  );
}
