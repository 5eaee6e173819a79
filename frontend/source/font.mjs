// Cuts Inter to the letters of Western Europe, punctuation and arrows, and to the weights that the style sheet uses.
// Without alternate forms of letters, which are a quarter of the file; so digits are proportional.
import { readFileSync } from "node:fs";
import subsetFont from "subset-font";

const FILE = "node_modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2";
const RANGES = [[0x20, 0x7e], [0xa0, 0xff]];
const MORE = "–—‘’“”„…•‹›€−×←↑→↓";

export async function interFont() {
  const letters = RANGES.map(([first, last]) => String.fromCodePoint(...Array.from({ length: last - first + 1 }, (_, at) => first + at)));
  const variationAxes = { wght: { min: 400, max: 680 } };
  return subsetFont(readFileSync(FILE), letters.join("") + MORE, { targetFormat: "woff2", noLayoutClosure: true, variationAxes });
}
