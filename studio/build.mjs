// Bundles the page: src/main.tsx and its sheets become studio.js and studio.css, each also compressed; attention.js and
// attention.css are the same parts for the one-file page of `jumok look`.  The module "terms" is the list of terms that lab and help use, src/jumok/reports/terms.toml.
//   node build.mjs FOLDER [--watch]
import { context, build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const folder = process.argv[2] ?? "../src/jumok/built";
const TERMS = "../src/jumok/reports/terms.toml";

/** The list as {key: [korean, english, section, explanation in Korean, in English]}; every line is KEY = "TEXT", but for lists of words to avoid. */
function readTerms(text) {
  const terms = {};
  let own;
  for (const [number, line] of text.split("\n").entries()) {
    const table = /^\[([\w-]+)\]$/.exec(line), pair = /^(\w+) = (".*")$/.exec(line);
    if (table) terms[table[1]] = own = {};
    else if (pair && own) own[pair[1]] = JSON.parse(pair[2]);
    else if (line.trim() && !line.startsWith("#") && !line.startsWith("avoid = ")) throw new Error(`${TERMS}:${number + 1}: ${line}`);
  }
  return Object.fromEntries(Object.entries(terms).map(([key, one]) => [key, [one.ko, one.en, one.section, one.says_ko, one.says_en]]));
}

const terms = {
  name: "terms",
  setup(build) {
    build.onResolve({ filter: /^terms$/ }, () => ({ path: "terms", namespace: "terms" }));
    build.onLoad({ filter: /.*/, namespace: "terms" }, async () => ({
      contents: JSON.stringify(readTerms(await readFile(TERMS, "utf8"))), loader: "json", watchFiles: [TERMS],
    }));
  },
};

const options = {
  entryPoints: { studio: "src/main.tsx", attention: "src/attention/main.tsx" },
  outdir: folder,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox114", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "linked",
  charset: "utf8",
  logLevel: "warning",
  plugins: [terms],
};

if (process.argv.includes("--watch")) {
  await (await context({ ...options, sourcemap: "inline" })).watch();
} else {
  await build(options);
  const licences = ["preact", "@preact/signals", "@preact/signals-core"].map(
    async (name) => `${name}\n\n${await readFile(`node_modules/${name}/LICENSE`, "utf8")}`);
  await writeFile(`${folder}/licences.txt`, (await Promise.all(licences)).join("\n\n"));
  for (const name of ["studio.js", "studio.css"]) {
    await writeFile(`${folder}/${name}.gz`, gzipSync(await readFile(`${folder}/${name}`), { level: 9 }));
  }
}
