// The frame of all screens: the bar, and the screen that the address names.

import { effect } from "@preact/signals";
import { go, link, place, screen, set, write } from "./address";
import { ClassMenu, Join } from "./class-dialog";
import { role } from "./classroom";
import { root, useKey } from "./engine/remote";
import { SaveMenu } from "./parts/save";
import { Terms } from "./parts/terms";
import { chooseLanguage, chooseTheme, inBoth, language, theme } from "./preferences";
import { screens } from "./screens";
import { warmUp } from "./inside/data";
import { eager, failure, keyNeeded, load, model, models } from "./session";
import { Walk } from "./walk";
import en from "./strings/en/bar";
import ko from "./strings/ko/bar";

const words = inBoth(en, ko);

if (eager) {
  effect(() => {
    const id = model.value?.id;
    if (id) setTimeout(warmUp, 1_500, id); // after what the first screen asks for
  });
}

export function App() {
  const current = screens.find((one) => one.name === screen.value) ?? screens[0]!;
  const w = words.value;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>{w.skip}</a>
      <Bar current={current.name} />
      <main id="main" tabIndex={-1}>
        <h1 class="hidden">{current.title.value}</h1>
        {role.value !== "guest" && model.value && <SaveMenu name={nameOf(current.name)} describe={() => describe(current.title.value)} />}
        <Failure />
        {role.value === "guest" ? <Join /> : models.value === null ? <p class="quiet">{failure.value === null ? w.loading : ""}</p>
          : model.value === null ? <p>{w.noModels}</p> : <current.view />}
      </main>
      {role.value !== "guest" && models.value !== null && <Walk />}
      <Terms />
    </>
  );
}

function nameOf(current: string): string {
  return `jumok-${current}-${(model.value?.id ?? "").replace(/[^\w.-]+/g, "-")}`;
}

/** Whose view this is, for a file that is kept. */
function describe(title: string) {
  const pair = model.value?.source && model.value.target ? `${model.value.source} → ${model.value.target}` : "";
  const facts = [[words.value.model, [model.value?.id, pair, model.value?.digest.slice(0, 12)].filter(Boolean).join(" · ")]] as const;
  return { title: `Jumok · ${title}`, facts, address: `${location.origin}${root()}/${write(place.value)}` };
}

function skip(event: Event): void {
  event.preventDefault(); // the address holds the state
  document.getElementById("main")?.focus();
}

function Bar({ current }: { current: string }) {
  const w = words.value;
  return (
    <header class="bar">
      <a class="brand" href={link("translate")} onClick={(event) => follow(event, "translate")}>
        <span class="mark" aria-hidden="true" />Jumok <span class="brand-word">{w.studio}</span>
      </a>
      <nav aria-label={w.screens}>
        {screens.map((one) => (
          <a key={one.name} href={link(one.name)} aria-current={one.name === current ? "page" : undefined}
            onClick={(event) => follow(event, one.name)}>{one.title.value}</a>
        ))}
      </nav>
      <div class="tools">
        <ModelMenu />
        <ClassMenu />
        <div class="switch" role="group" aria-label={w.language}>
          <button type="button" lang="ko" aria-pressed={language.value === "ko"} onClick={() => chooseLanguage("ko")}>한국어</button>
          <button type="button" lang="en" aria-pressed={language.value === "en"} onClick={() => chooseLanguage("en")}>EN</button>
        </div>
        <button type="button" class="plain theme" title={theme.value === "dark" ? w.light : w.dark} aria-label={theme.value === "dark" ? w.light : w.dark}
          onClick={() => chooseTheme(theme.value === "dark" ? "light" : "dark")}><Sun /></button>
      </div>
    </header>
  );
}

function Sun() {
  return (
    <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
      <circle cx="10" cy="10" r="7.2" fill="none" stroke="currentColor" stroke-width="1.6" />
      <path d="M10 2.8a7.2 7.2 0 0 1 0 14.4z" fill="currentColor" />
    </svg>
  );
}

function follow(event: MouseEvent, to: string): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab
  event.preventDefault();
  go(to);
}

function ModelMenu() {
  const all = models.value ?? [];
  return (
    <label class="model">
      <span class="hidden">{words.value.model}</span>
      <select value={model.value?.id ?? ""} onChange={(event) => set({ model: event.currentTarget.value })}>
        {all.map((one) => (
          <option key={one.id} value={one.id}>{one.source && one.target ? `${one.id} · ${one.source} → ${one.target}` : one.id}</option>
        ))}
      </select>
    </label>
  );
}

function Failure() {
  const w = words.value;
  return (
    <div role="alert">
      {failure.value !== null && (
        <p class="failure">
          {keyNeeded.value ? w.keyNeeded : failure.value === "" ? w.unreachable : w.failed(failure.value)}
        </p>
      )}
      {keyNeeded.value && (
        <form class="key" onSubmit={(event) => { event.preventDefault(); void load(); }}>
          <label>{w.key} <input type="password" autocomplete="off" onInput={(event) => useKey(event.currentTarget.value)} /></label>
        </form>
      )}
    </div>
  );
}
