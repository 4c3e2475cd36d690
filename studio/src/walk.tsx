// The guided walk: twelve steps over the page itself.  Which step is on the screen is in the address (walk=5), so that
// a link resumes it; next and back go to the screen of the step, and what the step is about is outlined.

import { useEffect } from "preact/hooks";
import { go, read, readNumber, screen, set } from "./address";
import { inBoth } from "./preferences";
import en from "./strings/en/walk";
import ko from "./strings/ko/walk";
import "./walk.css";

const words = inBoth(en, ko);
const SENTENCE = "My friend drank two cups of coffee yesterday.";

interface Step {
  readonly screen: string;
  readonly values?: Readonly<Record<string, string>>; // of the address, where they are not set
  readonly forced?: Readonly<Record<string, string>>; // also where they are
  readonly about: string; // selector of what is outlined
}

export const STEPS: readonly Step[] = [
  { screen: "translate", forced: { view: "" }, about: ".examples" },
  { screen: "translate", values: { text: SENTENCE }, about: ".target" },
  { screen: "translate", values: { text: SENTENCE }, about: ".target .word" },
  { screen: "inside", values: { text: SENTENCE }, about: ".three-columns" },
  { screen: "inside", values: { text: SENTENCE }, forced: { kind: "cross" }, about: ".heads" },
  { screen: "inside", values: { text: SENTENCE }, forced: { kind: "cross" }, about: ".right" },
  { screen: "inside", values: { text: SENTENCE }, about: ".steps" },
  { screen: "break", values: { text: SENTENCE }, forced: { edits: '{"off":["positions"]}' }, about: ".outcome" },
  { screen: "break", values: { text: SENTENCE }, forced: { edits: "" }, about: ".switches" },
  { screen: "search", values: { text: SENTENCE }, about: ".tree" },
  { screen: "training", values: { film: SENTENCE }, about: "#film" },
  { screen: "translate", forced: { text: "", view: "" }, about: "textarea" },
];

function at(): number {
  return Math.min(STEPS.length, Math.max(0, readNumber("walk", 0)));
}

function show(number: number): void {
  const step = STEPS[number - 1]!;
  const unset = Object.entries(step.values ?? {}).filter(([name]) => read(name) === "");
  go(step.screen, { ...Object.fromEntries(unset), ...step.forced, walk: number });
}

/** The button that begins, or the step that is on. */
export function Walk() {
  const number = at(), w = words.value, step = STEPS[number - 1];
  useEffect(() => {
    if (!step) return;
    let pointed: Element | null = null;
    const look = () => {
      const found = document.querySelector(`main ${step.about}`);
      if (found === pointed) return;
      pointed?.classList.remove("pointed");
      found?.classList.add("pointed");
      if (found && !pointed) found.scrollIntoView({ block: "center" });
      pointed = found;
    };
    look();
    const timer = setInterval(look, 300); // screens draw what they show when the server has answered
    return () => {
      clearInterval(timer);
      pointed?.classList.remove("pointed");
    };
  }, [number, screen.value]);
  if (!step) return <button type="button" class="walk-begin" onClick={() => show(1)}>{w.begin}</button>;
  const text = w.steps[number - 1]!;
  return (
    <aside class="walk" aria-label={w.title}>
      <p class="walk-count small">{w.count(number, STEPS.length)}</p>
      <h2>{text.title}</h2>
      <p aria-live="polite">{text.text}</p>
      {screen.value !== step.screen && <p><button type="button" class="plain" onClick={() => show(number)}>{w.return}</button></p>}
      <div class="walk-row">
        <button type="button" onClick={() => show(number - 1)} disabled={number === 1}>{w.back}</button>
        {number < STEPS.length ? <button type="button" class="primary" onClick={() => show(number + 1)}>{w.next}</button>
          : <button type="button" class="primary" onClick={() => set({ walk: "" })}>{w.done}</button>}
        <button type="button" class="plain" onClick={() => set({ walk: "" })}>{w.end}</button>
      </div>
    </aside>
  );
}
