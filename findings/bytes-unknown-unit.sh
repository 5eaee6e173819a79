#!/usr/bin/env bash
# bytes 3.1.2, xbytes 1.9.1 (npm, Node.js 20): a size with a unit that isn't known is its number alone, and "kb" is kilobits.
#
# Expected: "1KiB" and "512Mi", the units of Kubernetes and IEC, are read or refused; "1kb" is the same in both.
# Seen: bytes reads "512Mi" as 512 bytes and "1KiB" as 1, as if the unit weren't there. xbytes reads "1kb" as 125 bytes, a thousand bits.
# What to do: refuse what doesn't match `^[0-9.]+ *(b|kb|mb|gb|tb|pb)$` before bytes sees it.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit bytes@3.1.2 xbytes@1.9.1 >/dev/null
TZ=UTC node --input-type=commonjs - <<'END'
const bytes = require("bytes");
const xbytes = require("xbytes");
let right = true;
for (const [label, look, expected] of [
  ["bytes 512mb", () => bytes("512mb"), 536870912],
  ["bytes 512Mi", () => bytes("512Mi"), 512],
  ["bytes 1KiB", () => bytes("1KiB"), 1],
  ["bytes 1kb", () => bytes("1kb"), 1024],
  ["xbytes 1kb", () => xbytes.parseSize("1kb"), 125],
  ["xbytes 1KB", () => xbytes.parseSize("1KB"), 1000],
]) {
  const found = JSON.stringify(look()) ?? "undefined";
  console.log(label.padEnd(14), found);
  right = right && found === JSON.stringify(expected);
}
if (!right) {
  console.error("The behaviour has changed.");
  process.exit(1);
}
END
