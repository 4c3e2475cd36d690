// Runs one client against a server: node run.mjs CLIENT ADDRESS; prints what it got as JSON.
import { writeFileSync, mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [name, address] = process.argv.slice(2);
const need = createRequire(pathToFileURL(join(process.cwd(), "package.json")));
const load = async (module) => import(pathToFileURL(need.resolve(module)).href);

const clients = {
  async libretranslate() {
    const { translate } = need("libretranslate");
    return translate({ query: "a b c", source: "en", target: "de", apiurl: address, apiKey: "k" });
  },
  async "libretranslate-ts"() {
    const { libreTranslate } = need("libretranslate-ts");
    libreTranslate.setApiEndpoint(address);
    const answer = await libreTranslate.translate("a b c", "en", "de", 2);
    const languages = await libreTranslate.listLanguages();
    const detected = await libreTranslate.detect("This is a sentence.");
    return { text: answer.translatedText, others: answer.alternatives, languages: languages.length, detected };
  },
  async translate() {
    const { Translate } = await load("translate");
    const translate = Translate({ engine: "libre", url: `${address}/translate`, key: "k" });
    return translate("a b c", { from: "en", to: "de" });
  },
  async "deepl-node"() {
    const deepl = need("deepl-node");
    const client = new deepl.DeepLClient("k", { serverUrl: address });
    const result = await client.translateText(["a b c", "d e"], "en", "de");
    const glossary = await client.createGlossary("g", "en", "de", new deepl.GlossaryEntries({ entries: { a: "b" } }));
    const bound = await client.translateText("a e", "en", "de", { glossary });
    await client.deleteGlossary(glossary);
    const folder = mkdtempSync(join(tmpdir(), "jumok-deepl-"));
    writeFileSync(join(folder, "in.txt"), "a b c.");
    await client.translateDocument(join(folder, "in.txt"), join(folder, "out.txt"), "en", "de");
    const targets = await client.getTargetLanguages();
    const usage = await client.getUsage();
    return {
      texts: result.map((one) => one.text), billed: result[0].billedCharacters, bound: bound.text,
      document: readFileSync(join(folder, "out.txt"), "utf8"), targets: targets.map((one) => one.code),
      limited: usage.anyLimitReached(),
    };
  },
  async openai() {
    const { default: OpenAI } = await load("openai");
    const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "k" });
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    const one = await client.completions.create({ model: "poet", prompt: "a b", max_tokens: 5, temperature: 0 });
    let streamed = "";
    const stream = await client.completions.create({ model: "poet", prompt: "a b", max_tokens: 5, temperature: 0, stream: true });
    for await (const part of stream) streamed += part.choices[0].text;
    return { models, text: one.choices[0].text, streamed };
  },
};
console.log(JSON.stringify(await clients[name]()));
