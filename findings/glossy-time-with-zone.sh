#!/usr/bin/env bash
# glossy 0.1.7 (npm, Node.js 20): a syslog line with a precise time loses its message.
#
# Expected: rsyslog and others write the time as in RFC 3339 in lines of the old form; host, time and message are read, or an error says
#   that they aren't.
# Seen: the last word becomes the host, the message is empty, and there is no time. With the time of RFC 3164 or in the form of RFC 5424 it
#   is right.
# What to do: send RFC 5424, or turn the time into the old form first.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit glossy@0.1.7 >/dev/null
cat >look.cjs <<'END'
const { Parse } = require("glossy");
for (const line of [
  "<13>2026-12-01T02:00:00.123456+02:00 leaf app: link down",
  "<13>Dec  1 02:00:00 leaf app: link down",
  "<13>1 2026-12-01T02:00:00.123Z leaf app - - - link down",
]) {
  const { type, host, message, time } = Parse.parse(line);
  console.log(JSON.stringify({ type, host, message, time: time !== undefined }));
}
END
node look.cjs | tee seen
diff seen - <<'SEEN'
{"type":"RFC3164","host":"link","message":"down","time":false}
{"type":"RFC3164","host":"leaf","message":"app: link down","time":true}
{"type":"RFC5424","host":"leaf","message":"link down","time":true}
SEEN
