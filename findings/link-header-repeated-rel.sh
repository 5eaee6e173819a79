#!/usr/bin/env bash
# li 1.3.0, parse-link-header 2.0.0, http-link-header 1.1.4 (npm, Node.js 20): a valid Link header leads to two pages, or to none.
#
# Expected: RFC 8288, section 3: parameter names ignore case, a value in quotes may hold an escaped quote, and of two `rel` in one link the
#   second is ignored.
# Seen: two of three take the second `rel`, and don't see `REL`. li leaves out a link whose title has an escaped quote or is a `title*`.
#   parse-link-header cuts a title at its first escaped quote, and drops the rest after a ";" in quotes.
# What to do: use http-link-header, or write links with `rel` first and without a title.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit li@1.3.0 parse-link-header@2.0.0 http-link-header@1.1.4 >/dev/null
cat >headers <<'END'
</2>; rel="next"
</2>; rel="next"; rel="prev"
</2>; REL="next"
</2>; title="so \"called\""; rel="next"
</2>; title*=UTF-8'de'n%c3%a4chste; rel="next"
</2>; title="a; b"; rel="next"
END
cat >look.cjs <<'END'
const [li, parse, http] = ["li", "parse-link-header", "http-link-header"].map(require);
for (const line of require("fs").readFileSync("headers", "utf8").trim().split("\n")) {
  const links = parse(line) ?? {};
  const titles = Object.values(links).map((link) => link.title ?? "");
  console.log(line);
  console.log("  li:", Object.keys(li.parse(line)).join() || "none");
  console.log("  parse-link-header:", Object.keys(links).join() || "none", ...titles);
  console.log("  http-link-header:", http.parse(line).refs.map((link) => link.rel).join());
}
END
node look.cjs | sed 's/ *$//' | tee seen
diff seen - <<'SEEN'
</2>; rel="next"
  li: next
  parse-link-header: next
  http-link-header: next
</2>; rel="next"; rel="prev"
  li: prev
  parse-link-header: prev
  http-link-header: next
</2>; REL="next"
  li: none
  parse-link-header: none
  http-link-header: next
</2>; title="so \"called\""; rel="next"
  li: none
  parse-link-header: next so \
  http-link-header: next
</2>; title*=UTF-8'de'n%c3%a4chste; rel="next"
  li: none
  parse-link-header: next
  http-link-header: next
</2>; title="a; b"; rel="next"
  li: next
  parse-link-header: next a
  http-link-header: next
SEEN
