#!/usr/bin/env bash
# mqtt-pattern 2.1.1, mqtt-wildcard 3.0.9 and mqtt-match 3.0.0 (npm, Node.js 20): filters of topics match what a broker doesn't send.
#
# Expected: as in section 4.7 of MQTT 3.1.1: a wildcard at the beginning doesn't match a topic that begins with `$`, and `+` matches an
#   empty level.
# Seen: all three match `#` with `$SYS/uptime`. To mqtt-pattern, `a/+` doesn't match `a/`, nor `+/+` the topic `/a`. The other two do.
# What to do: leave out topics that begin with `$` before, and publish no topic with an empty level. paho-mqtt 2.2.0 follows the section.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit mqtt-pattern@2.1.1 mqtt-wildcard@3.0.9 mqtt-match@3.0.0 >/dev/null
cat >look.mjs <<'END'
import { createRequire } from "node:module";
const take = createRequire(import.meta.url);
const pattern = take("mqtt-pattern");
const [wildcard, match] = ["mqtt-wildcard", "mqtt-match"].map(take).map((each) => each.default ?? each);
for (const [filter, topic] of [["#", "$SYS/uptime"], ["+/uptime", "$SYS/uptime"], ["a/+", "a/"], ["+/+", "/a"], ["a/#", "a"]]) {
  const found = [pattern.matches(filter, topic), wildcard(topic, filter) !== null, match(filter, topic)];
  console.log(filter, topic, found.join(" "));
}
END
node look.mjs | tee seen
diff seen - <<'SEEN'
# $SYS/uptime true true true
+/uptime $SYS/uptime true true true
a/+ a/ false true true
+/+ /a false true true
a/# a true true true
SEEN
