#!/usr/bin/env bash
# composerize 1.7.6 (npm, Node.js 20): a mount that may only be read may be written afterwards.
#
# Expected: what `docker run --mount type=bind,src=/a,dst=/b,readonly` says is in the Compose file.
# Seen: `readonly` (and `ro`) is dropped without a comment, and the keys stay `src` and `dst`, which the Compose specification doesn't
#   have. A value `$HOME` in single quotes isn't written as `$$HOME`, so Compose replaces it. `--stop-timeout 30` becomes "30", a duration
#   without a unit. `--volume /a:/b:ro` is kept as it is.
# What to do: write mounts as `--volume`, and read the result against the command.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit composerize@1.7.6 >/dev/null
cat >look.cjs <<'END'
const composerize = require("composerize");
for (const words of ["--mount type=bind,src=/a,dst=/b,readonly", "--volume /a:/b:ro", "-e 'A=$HOME'", "--stop-timeout 30"])
  console.log((composerize.default ?? composerize)(`docker run ${words} nginx`).split("nginx:\n")[1].replaceAll(/\s+/g, " "));
END
node look.cjs | tee seen
diff seen - <<'SEEN'
 volumes: - type: bind src: /a dst: /b image: nginx
 volumes: - /a:/b:ro image: nginx
 environment: - A=$HOME image: nginx
 stop_grace_period: "30" image: nginx
SEEN
