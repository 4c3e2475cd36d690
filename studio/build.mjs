// Bundles the page: src/main.tsx and src/style.css become studio.js and studio.css, each also compressed.
//   node build.mjs FOLDER [--watch]
import { context, build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const folder = process.argv[2] ?? "../src/jumok/built";
const options = {
  entryPoints: { studio: "src/main.tsx" },
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
