// The pictures on the screen: each part that draws one says its title, how it looks as SVG, and its numbers.

import { useEffect, useRef } from "preact/hooks";
import type { RefObject } from "preact";

export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface Drawing {
  readonly title: string;
  readonly svg: () => string;
  readonly table?: () => Table;
}

const known = new WeakMap<Element, Drawing>();

/** The element that shows a drawing; in a saved page the picture and its numbers take its place. */
export function useDrawing<T extends HTMLElement>(drawing: Drawing | null): RefObject<T | null> {
  const element = useRef<T>(null);
  useEffect(() => {
    if (!element.current) return;
    element.current.toggleAttribute("data-drawing", drawing !== null);
    if (drawing) known.set(element.current, drawing);
  });
  return element;
}

export function drawingOf(element: Element): Drawing | null {
  return known.get(element) ?? null;
}

/** The drawings below an element, from top to bottom. */
export function listDrawings(within: ParentNode): Drawing[] {
  return [...within.querySelectorAll("[data-drawing]")].flatMap((one) => drawingOf(one) ?? []);
}
