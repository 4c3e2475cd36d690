// The page of a server: two boxes over POST /translate.  No framework, no build, no requests to other hosts.
"use strict";

const body = document.body;
const root = body.dataset.root;
const at = (id) => document.getElementById(id);
const [source, target, text, result, status, curl, key] =
  ["source", "target", "text", "result", "status", "curl", "key"].map(at);
let timer = 0;
let running = null;
let languages = [];

function request() {
  const asked = { q: text.value, source: source.value, target: target.value, format: "text" };
  return key.value ? { ...asked, api_key: key.value } : asked;
}

function showCall() {
  const shown = { ...request(), q: text.value || "Hello!" };
  if (shown.api_key) shown.api_key = "KEY";
  const quoted = JSON.stringify(shown).replaceAll("'", "'\\''");
  curl.textContent = `curl ${location.origin}${root}/translate -H 'Content-Type: application/json' -d '${quoted}'`;
}

function fill(list, codes, chosen) {
  list.replaceChildren(...[...list.options].filter((one) => one.value === "auto"));
  for (const code of codes) {
    const one = languages.find((each) => each.code === code);
    list.add(new Option(one ? one.name : code, code, false, code === chosen));
  }
}

function fillTargets() {
  const pairs = source.value === "auto" ? languages : languages.filter((one) => one.code === source.value);
  const codes = [...new Set(pairs.flatMap((one) => one.targets.filter((code) => code !== one.code)))];
  fill(target, codes, target.value);
}

async function translate() {
  showCall();
  running?.abort();
  if (!text.value.trim() || !target.value) {
    result.textContent = status.textContent = "";
    return;
  }
  running = new AbortController();
  try {
    const answer = await fetch(`${root}/translate`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(request()),
      signal: running.signal,
    });
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
    result.textContent = value.translatedText;
    const found = value.detectedLanguage;
    const name = found && languages.find((one) => one.code === found.language)?.name;
    status.textContent = found ? `${body.dataset.detected}: ${name ?? found.language}` : "";
  } catch (error) {
    if (error.name !== "AbortError") status.textContent = `${body.dataset.failed}: ${error.message}`;
  }
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(translate, 250);
}

async function start() {
  const [listed, settings] = await Promise.all(
    ["languages", "frontend/settings"].map(async (path) => (await fetch(`${root}/${path}`)).json()));
  languages = listed;
  at("keyline").hidden = !settings.keyRequired;
  text.maxLength = settings.charLimit;
  const asked = new URLSearchParams(location.search);
  fill(source, languages.filter((one) => one.targets.length > 1).map((one) => one.code),
    asked.get("source") ?? settings.language.source.code);
  fillTargets();
  target.value = asked.get("target") ?? settings.language.target.code;
  if (asked.has("q")) text.value = asked.get("q");
  translate();
}

text.addEventListener("input", later);
key.addEventListener("input", later);
source.addEventListener("change", () => { fillTargets(); translate(); });
target.addEventListener("change", translate);
at("form").addEventListener("submit", (event) => event.preventDefault());
at("swap").addEventListener("click", () => {
  const [from, to, said] = [source.value, target.value, result.textContent];
  if (from === "auto" || !languages.find((one) => one.code === to)?.targets.includes(from)) return;
  source.value = to;
  fillTargets();
  target.value = from;
  text.value = said;
  translate();
});
at("copy").addEventListener("click", async () => {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(result.textContent);
  } else {  // browsers give it to pages of this machine and to pages with TLS only
    getSelection().selectAllChildren(result);
    document.execCommand("copy");
  }
  status.textContent = body.dataset.copied;
});
start().catch((error) => { status.textContent = `${body.dataset.failed}: ${error.message}`; });
