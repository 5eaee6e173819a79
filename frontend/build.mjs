// Bundles the console's scripts into a folder, with the licenses of their packages: node build.mjs OUTPUT.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const [output] = process.argv.slice(2);
if (!output) {
  console.error("Usage: node build.mjs OUTPUT");
  process.exit(2);
}
const { metafile } = await build({
  entryPoints: ["source/console.js", "source/editor.js", "source/graph.js"],
  outdir: output,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome109", "firefox115", "safari16"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
});

// The licenses require that copies include their texts.
const used = new Set();
for (const { inputs } of Object.values(metafile.outputs)) {
  for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
    const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (found && bytesInOutput > 0) used.add(found[1]);
  }
}
const parts = [...used].sort().map((name) => {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file && existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8").trim() : "(The package has no licence file.)";
  return `${name} ${version}\nLicence: ${license}\n\n${text.replaceAll("\r\n", "\n")}\n`;
});
writeFileSync(join(output, "LICENSES.txt"), `The console's scripts hold these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`);
