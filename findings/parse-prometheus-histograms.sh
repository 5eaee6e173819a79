#!/usr/bin/env bash
# parse-prometheus-text-format 1.1.1 (npm, Node.js 20): histograms of several methods become one.
#
# Expected: the buckets of each set of labels are one histogram, as counters with labels are one value for each set.
# Seen: all sets are one histogram without labels, of the last line for each bucket; sums and counts with labels are gone. Summaries behave
#   alike. Counters keep their labels.
# What to do: read such pages with a library of Prometheus, or ask Prometheus itself.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit parse-prometheus-text-format@1.1.1 >/dev/null
cat >page <<'END'
# TYPE seconds histogram
seconds_bucket{method="get",le="1"} 1
seconds_bucket{method="get",le="+Inf"} 2
seconds_sum{method="get"} 1.5
seconds_count{method="get"} 2
seconds_bucket{method="put",le="1"} 40
seconds_bucket{method="put",le="+Inf"} 50
# TYPE size summary
size{method="get",quantile="0.5"} 1
size{method="put",quantile="0.5"} 2
size_count{method="get"} 3
# TYPE requests counter
requests{method="get"} 2
requests{method="put"} 50
END
cat >look.mjs <<'END'
import { readFileSync } from "node:fs";
import parse from "parse-prometheus-text-format";
for (const { name, metrics } of (parse.default ?? parse)(readFileSync("page", "utf8"))) console.log(name, JSON.stringify(metrics));
END
node look.mjs | tee seen
diff seen - <<'SEEN'
seconds [{"buckets":{"1":"40","+Inf":"50"}}]
size [{"quantiles":{"0.5":"2"}}]
requests [{"value":"2","labels":{"method":"get"}},{"value":"50","labels":{"method":"put"}}]
SEEN
