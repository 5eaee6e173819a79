#!/usr/bin/env bash
# url-template 3.1.1, uri-templates 0.2.0, uritemplate 0.3.4 (npm, Node.js 20): three implementations of RFC 6570 break four rules of it.
#
# Expected: section 2.3: a list without members is undefined, so that `{?list}` is nothing, and an undefined member of a map is left out.
#   Section 3.2.3: `{+x}` keeps "%25" as it is. Section 3.2.7: `{;map*}` writes a member whose value is empty without "=".
# Seen: `{?list}` is "?list=" in two of three, `{?list*}` is nothing in all. One writes "b=null" for a member that is null. Another encodes
#   "%25" of `{+x}` once more; only that one writes `;c` without "=".
# What to do: leave empty lists and null members out of the variables, and encode nothing before.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit url-template@3.1.1 uri-templates@0.2.0 uritemplate@0.3.4 >/dev/null
cat >look.mjs <<'END'
import { createRequire } from "node:module";
import { parseTemplate } from "url-template";
const take = createRequire(import.meta.url);
const old = take("uri-templates");
const other = take("uritemplate");
const values = { list: [], map: { a: "1", b: null, c: "" }, x: "a%25b" };
for (const template of ["{?list}", "{?list*}", "{?map*}", "{;map*}", "{+x}", "{x}"]) {
  const found = [parseTemplate(template).expand(values), old(template).fill(values), other.parse(template).expand(values)];
  console.log(template, found.join(" | "));
}
END
node look.mjs | sed 's/ *$//' | tee seen
diff seen - <<'SEEN'
{?list} ?list= |  | ?list=
{?list*}  |  |
{?map*} ?a=1&c= | ?a=1&b=null&c= | ?a=1&c=
{;map*} ;a=1;c= | ;a=1;b=null;c= | ;a=1;c
{+x} a%25b | a%25b | a%2525b
{x} a%2525b | a%2525b | a%2525b
SEEN
