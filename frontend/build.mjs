// Bundles the console's scripts, style sheet and font into a folder, with the licenses of their packages: node build.mjs OUTPUT.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { interFont } from "./source/font.mjs";

const [output] = process.argv.slice(2);
if (!output) {
  console.error("Usage: node build.mjs OUTPUT");
  process.exit(2);
}
const { metafile } = await build({
  entryPoints: ["source/console.js", "source/console.css", "source/bare.css", "source/docs.css", "source/editor.js"],
  outdir: output,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome123", "firefox120", "safari17.5"], // the oldest ones that know light-dark()
  external: ["inter.woff2"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
});

// Browsers keep files for ever; the address of the font changes with its content, as rendering.py does it for the others.
const font = await interFont();
writeFileSync(join(output, "inter.woff2"), font);
const sheet = join(output, "console.css");
const address = `inter.woff2?${createHash("sha256").update(font).digest("hex").slice(0, 12)}`;
writeFileSync(sheet, readFileSync(sheet, "utf8").replace("url(inter.woff2)", `url(${address})`));

// The licenses require that copies include their texts.
const used = new Set(["@fontsource-variable/inter"]);
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
writeFileSync(join(output, "LICENSES.txt"), `The console's scripts and font hold these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`);
