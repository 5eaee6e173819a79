#!/usr/bin/env bash
# kubernetes-resource-parser 0.1.0 (npm, Node.js 20): half a gibibyte of memory is nothing.
#
# Expected: quantities of Kubernetes may have fractions, exponents and the suffix m, as the API accepts them.
# Seen: "0.5Gi" is 0, "1.5Gi" is 1 GiB, "1e3" is 1, and "128974848000m", which Kubernetes documents, is no number. Without a suffix it is
#   right.
# What to do: let the API server normalize quantities first (it answers 512Mi for 0.5Gi), or use whole numbers with a suffix of two
#   letters.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit kubernetes-resource-parser@0.1.0 >/dev/null
cat >look.cjs <<'END'
const { memoryParser } = require("kubernetes-resource-parser");
for (const text of ["0.5Gi", "1.5Gi", "512Mi", "1e3", "128974848000m", "128974848"]) console.log(text, memoryParser(text));
END
node look.cjs | tee seen
diff seen - <<'SEEN'
0.5Gi 0
1.5Gi 1
512Mi 536870912
1e3 1
128974848000m NaN
128974848 128974848
SEEN
