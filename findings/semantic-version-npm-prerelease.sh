#!/usr/bin/env bash
# semantic-version 2.10.0 (Python 3.11) and semver 7.8.6 (npm, Node.js 20): "below 2.0.0" holds for 2.0.0-rc.1 in one of them.
#
# Expected: NpmSpec matches as npm does, which takes a version before a release only where the range names one of the same release.
# Seen: NpmSpec("<2.0.0") takes 2.0.0-rc.1, as does "<=2.0.0". npm refuses it, and so does SimpleSpec for "<2.0.0". With a lower bound
#   before it (">=1.0.0 <2.0.0"), NpmSpec refuses it, too.
# What to do: give each upper bound a lower one, or refuse versions before a release yourself.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install semantic-version==2.10.0
npm install --silent --no-fund --no-audit semver@7.8.6 >/dev/null
venv/bin/python - <<'END' >python.txt
from semantic_version import NpmSpec, Version

for text in ("<2.0.0", "<=2.0.0", ">=1.0.0 <2.0.0", "^1.0.0", "<2.0.0-rc.2"):
    print(text, str(NpmSpec(text).match(Version("2.0.0-rc.1"))).lower())
END
node -e 'for (const text of ["<2.0.0", "<=2.0.0", ">=1.0.0 <2.0.0", "^1.0.0", "<2.0.0-rc.2"]) console.log(text, require("semver").satisfies("2.0.0-rc.1", text));' >npm.txt
paste -d'|' python.txt npm.txt
diff python.txt - <<'SEEN'
<2.0.0 true
<=2.0.0 true
>=1.0.0 <2.0.0 false
^1.0.0 false
<2.0.0-rc.2 true
SEEN
diff npm.txt - <<'SEEN'
<2.0.0 false
<=2.0.0 false
>=1.0.0 <2.0.0 false
^1.0.0 false
<2.0.0-rc.2 true
SEEN
