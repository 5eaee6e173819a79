#!/usr/bin/env bash
# packageurl-python 0.17.6 (PyPI, Python 3.11) and packageurl-js 2.0.1 (npm, Node.js 20): one package URL names two packages.
#
# Expected: both follow the specification of package URLs, whose canonical text is a key of SBOMs and of databases of vulnerabilities, so
#   that reading and writing one again gives the same text in both. "%2F" in a name is part of the name; "+" stands for itself.
# Seen: Python writes the name "a%2Fb" as "a/b", which is read back as a name "b" in the namespace "a". JavaScript reads "+" in a qualifier
#   as a space. The colons of a checksum, and the case of an npm scope, are written in two ways.
# What to do: compare the parts, not the text, and write "+" as "%2B".
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install packageurl-python==0.17.6
npm install --silent --no-fund --no-audit packageurl-js@2.0.1 >/dev/null
cat >urls <<'END'
pkg:generic/a%2Fb@1
pkg:generic/a@1?k=b+c
pkg:generic/a@1?checksum=sha1:ad
pkg:npm/%40Scope/name@1.0.0
pkg:deb/debian/curl@7.50.3-1
END
cat >look.py <<'END'
from packageurl import PackageURL

for line in open("urls"):
    url = PackageURL.from_string(line.strip())
    again = PackageURL.from_string(url.to_string())
    print("python", line.strip(), url.to_string(), "" if again == url else f"is then {again.namespace!r}, {again.name!r}")
END
cat >look.cjs <<'END'
const { PackageURL } = require("packageurl-js");
for (const line of require("fs").readFileSync("urls", "utf8").trim().split("\n"))
  console.log("node", line, PackageURL.fromString(line).toString());
END
{ venv/bin/python look.py; node look.cjs; } | sed 's/ *$//' >seen
cat seen
diff seen - <<'SEEN'
python pkg:generic/a%2Fb@1 pkg:generic/a/b@1 is then 'a', 'b'
python pkg:generic/a@1?k=b+c pkg:generic/a@1?k=b%2Bc
python pkg:generic/a@1?checksum=sha1:ad pkg:generic/a@1?checksum=sha1:ad
python pkg:npm/%40Scope/name@1.0.0 pkg:npm/%40Scope/name@1.0.0
python pkg:deb/debian/curl@7.50.3-1 pkg:deb/debian/curl@7.50.3-1
node pkg:generic/a%2Fb@1 pkg:generic/a%2Fb@1
node pkg:generic/a@1?k=b+c pkg:generic/a@1?k=b%20c
node pkg:generic/a@1?checksum=sha1:ad pkg:generic/a@1?checksum=sha1%3Aad
node pkg:npm/%40Scope/name@1.0.0 pkg:npm/%40scope/name@1.0.0
node pkg:deb/debian/curl@7.50.3-1 pkg:deb/debian/curl@7.50.3-1
SEEN
