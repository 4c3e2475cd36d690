// Language and theme: from the address, else as chosen before on this machine, else as the browser says.

import { computed, effect } from "@preact/signals";
import { read, set } from "./address";

export type Language = "en" | "ko";

function recall(name: string): string {
  try {
    return localStorage.getItem(`jumok.${name}`) ?? "";
  } catch {
    return ""; // storage may be forbidden
  }
}

function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`jumok.${name}`, value);
  } catch {
    // the address still says it
  }
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)").matches;

export const language = computed<Language>(() => {
  const chosen = read("lang") || recall("lang") || navigator.language;
  return chosen.startsWith("ko") ? "ko" : "en";
});

export const theme = computed<"light" | "dark">(() => {
  const chosen = read("theme") || recall("theme");
  return chosen === "dark" || (chosen !== "light" && prefersDark) ? "dark" : "light";
});

export function chooseLanguage(value: Language): void {
  remember("lang", value);
  set({ lang: value });
}

export function chooseTheme(value: "light" | "dark"): void {
  remember("theme", value);
  set({ theme: value });
}

/** Words of a screen in the language of the reader; the type of the Korean ones is that of the English ones. */
export function inBoth<T>(en: T, ko: T): { readonly value: T } {
  return computed(() => (language.value === "ko" ? ko : en));
}

effect(() => {
  document.documentElement.lang = language.value;
  document.documentElement.dataset.theme = theme.value;
});
