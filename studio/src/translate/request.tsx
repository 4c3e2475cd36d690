// The request that is on the screen, as curl, Python and JavaScript.

import { signal } from "@preact/signals";
import { root } from "../engine/remote";
import type en from "../strings/en/translate";
import { rules, text } from "./state";

const LANGUAGES = ["curl", "Python", "JavaScript"] as const;
const chosen = signal<(typeof LANGUAGES)[number]>("curl");
const copied = signal(false);

export function write(language: string, address: string, body: object): string {
  const json = JSON.stringify(body);
  if (language === "curl") return `curl ${address} -H 'Content-Type: application/json' \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
  if (language === "Python") {
    return `import json, urllib.request\n\nasked = json.loads(${pythonString(json)})\nrequest = urllib.request.Request(\n    "${address}",\n`
      + `    json.dumps(asked).encode(),\n    {"Content-Type": "application/json"},\n)\n`
      + `print(json.load(urllib.request.urlopen(request))["translations"][0]["text"])`;
  }
  return `const answer = await fetch("${address}", {\n  method: "POST",\n  headers: { "Content-Type": "application/json" },\n`
    + `  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),\n});\nconsole.log((await answer.json()).translations[0].text);`;
}

function pythonString(value: string): string {
  return `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

export function RequestCode({ model, words }: { model: string; words: typeof en }) {
  const { require, forbid, glossary } = rules.value;
  const body = {
    model, text: text.value || "Hello!",
    ...(require?.length ? { require } : {}), ...(forbid?.length ? { forbid } : {}),
    ...(glossary && Object.keys(glossary).length ? { glossary } : {}),
  };
  const code = write(chosen.value, `${location.origin}${root()}/v1/translate`, body);
  return (
    <details class="fold">
      <summary>{words.request}</summary>
      <div class="row">
        <div class="switch" role="group" aria-label={words.request}>
          {LANGUAGES.map((one) => (
            <button key={one} type="button" aria-pressed={chosen.value === one} onClick={() => { chosen.value = one; copied.value = false; }}>{one}</button>
          ))}
        </div>
        <button type="button" class="plain" onClick={() => void navigator.clipboard.writeText(code).then(() => (copied.value = true))}>
          {copied.value ? words.copied : words.copy}
        </button>
      </div>
      <pre tabIndex={0} aria-label={words.request}><code>{code}</code></pre>
    </details>
  );
}
