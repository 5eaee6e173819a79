#!/usr/bin/env bash
# rfc6902 5.4.0 (npm, Node.js 20): it can't replace a whole document.
#
# Expected: the path "" of RFC 6902 names the whole document: `add` and `replace` with it give the new one, as fast-json-patch 3.1.1 does.
# Seen: `applyPatch` answers MissingError for both and changes nothing, and it answers errors in a list instead of raising them, so that
#   the caller who doesn't look takes the old document for the new one. Its own `createPatch` of an object and a list writes such a patch.
# What to do: look at each item of the list, and replace the whole document yourself.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit rfc6902@5.4.0 fast-json-patch@3.1.1 >/dev/null
cat >look.cjs <<'END'
const { applyPatch, createPatch } = require("rfc6902");
const fast = require("fast-json-patch");
for (const op of ["add", "replace"]) {
  const document = { a: 1 };
  const answers = applyPatch(document, [{ op, path: "", value: [3] }]);
  console.log("rfc6902", op, answers.map((each) => (each === null ? null : each.name)), JSON.stringify(document));
  console.log("fast-json-patch", op, JSON.stringify(fast.applyPatch({ a: 1 }, [{ op, path: "", value: [3] }]).newDocument));
}
const own = createPatch({ a: 1 }, [3]);
console.log("rfc6902", JSON.stringify(own), applyPatch({ a: 1 }, own).map((each) => (each === null ? null : each.name)));
END
node look.cjs | tee seen
diff seen - <<'SEEN'
rfc6902 add [ 'MissingError' ] {"a":1}
fast-json-patch add [3]
rfc6902 replace [ 'MissingError' ] {"a":1}
fast-json-patch replace [3]
rfc6902 [{"op":"replace","path":"","value":[3]}] [ 'MissingError' ]
SEEN
