// Below the boxes: the glossary of this text and the corrections.

import { useRef } from "preact/hooks";
import type { Model } from "../engine/engine";
import { download } from "../parts/files";
import type en from "../strings/en/translate";
import { corrections, forgetAll, toTmx, toTsv } from "./corrections";
import { glossary, setTerm } from "./state";

type Words = typeof en;

export function Glossary({ words, model }: { words: Words; model: Model }) {
  const form = useRef<HTMLFormElement>(null);
  const terms = Object.entries(glossary.value);
  return (
    <details class="fold" open={terms.length > 0}>
      <summary>{words.glossary}{terms.length > 0 && <span class="count">{terms.length}</span>}</summary>
      <p class="quiet small">{words.glossaryHelp}</p>
      {terms.length > 0 && (
        <ul class="terms">
          {terms.map(([term, translation]) => (
            <li key={term}><span lang={model.source ?? undefined}>{term}</span> → <span lang={model.target ?? undefined}>{translation}</span>
              <button type="button" class="plain" aria-label={words.remove(term)} onClick={() => setTerm(term, null)}>×</button></li>
          ))}
        </ul>
      )}
      <form class="row" ref={form} onSubmit={(event) => {
        event.preventDefault();
        const values = new FormData(event.currentTarget);
        const term = String(values.get("term")).trim(), translation = String(values.get("translation")).trim();
        if (!term || !translation) return;
        setTerm(term, translation);
        form.current?.reset();
      }}>
        <label>{words.term} <input name="term" autocomplete="off" lang={model.source ?? undefined} /></label>
        <label>{words.counterpart} <input name="translation" autocomplete="off" lang={model.target ?? undefined} /></label>
        <button type="submit">{words.add}</button>
      </form>
    </details>
  );
}

export function Corrections({ words, model }: { words: Words; model: Model }) {
  const some = corrections.value.filter((one) => one.model === model.id);
  const name = `corrections-${model.id}`;
  return (
    <details class="fold">
      <summary>{words.corrections}{some.length > 0 && <span class="count">{some.length}</span>}</summary>
      {some.length === 0 ? <p class="quiet small">{words.correctionsNone}</p> : (
        <>
          <p class="quiet small">{words.correctionsKept(some.length)}</p>
          <div class="row">
            <button type="button" onClick={() => download(`${name}.tmx`, toTmx(some), "application/xml")}>{words.download("TMX")}</button>
            <button type="button" onClick={() => download(`${name}.tsv`, toTsv(some), "text/tab-separated-values")}>{words.download("TSV")}</button>
            <button type="button" class="plain" onClick={forgetAll}>{words.forget}</button>
          </div>
          <p class="quiet small">{words.correctionsTrain}</p>
          <pre tabIndex={0} aria-label={words.correctionsTrain}><code>{`jumok train --from RUN --table ${name}.tsv --out RUN-corrected`}</code></pre>
          <ul class="kept">
            {some.slice(-5).reverse().map((one) => (
              <li key={one.source}><span lang={one.from}>{one.source}</span><span lang={one.to}>{one.target}</span><s lang={one.to}>{one.machine}</s></li>
            ))}
          </ul>
        </>
      )}
    </details>
  );
}
