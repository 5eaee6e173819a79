#!/usr/bin/env bash
# croner 11.0.1 (npm, Node.js 20 or newer)
# Expected: SUN-SUN is Sunday, as MON-MON is Monday.
# Seen: the second SUN is 7 and the first is 0, so SUN-SUN is the whole week, and SUN-SUN/2 is four days of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit croner@11.0.1 >/dev/null
seen=$(node --input-type=module - <<'NODE'
import { createRequire } from "node:module";
const { Cron } = createRequire(process.cwd() + "/")("croner");
const since = new Date("2026-01-01T10:00:00Z");
for (const text of ["0 9 * * MON-MON", "0 9 * * SUN-SUN", "0 9 * * SUN-SUN/2"]) {
  console.log(text, "|", ...new Cron(text, { timezone: "UTC" }).nextRuns(4, since).map((at) => at.toUTCString().slice(0, 7)));
}
NODE
)
echo "$seen"
diff <(echo "$seen") - <<'SEEN'
0 9 * * MON-MON | Mon, 05 Mon, 12 Mon, 19 Mon, 26
0 9 * * SUN-SUN | Fri, 02 Sat, 03 Sun, 04 Mon, 05
0 9 * * SUN-SUN/2 | Sat, 03 Sun, 04 Tue, 06 Thu, 08
SEEN
