#!/usr/bin/env bash
# univers 32.0.1 (Python 3.11): a version that Maven only recommends becomes a range that holds nothing.
#
# Expected: "1.0" in a POM, which means "1.0 or what others ask for", is a range that holds 1.0, or is refused.
# Seen: the range is "vers:maven/None", and neither 1.0 nor 2.0 is in it, so that a check for affected versions finds none. `~=1.4` and
#   `==1.*` of Python are refused. Half of the version classes can't be in a set or a dict: Debian's can, Alpine's and OpenSSL's can't.
# What to do: turn a plain version into `[1.0]` before, and key by str(version).
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install univers==32.0.1
"$folder/venv/bin/python" - <<'END'
from univers.version_range import MavenVersionRange, PypiVersionRange
from univers.versions import AlpineLinuxVersion, DebianVersion, MavenVersion


def error(act):
    try:
        return act()
    except Exception as problem:
        return type(problem).__name__


SOFT = MavenVersionRange.from_native("1.0")

right = True
for label, found, expected in [
    ("1.0", str(SOFT), "vers:maven/None"),
    ("1.0 in it", MavenVersion("1.0") in SOFT, False),
    ("[1.0]", MavenVersion("1.0") in MavenVersionRange.from_native("[1.0]"), True),
    ("~=1.4", error(lambda: PypiVersionRange.from_native("~=1.4")), "InvalidVersionRange"),
    ("set of Debian's", error(lambda: len({DebianVersion("1.0")})), 1),
    ("set of Alpine's", error(lambda: len({AlpineLinuxVersion("1.0")})), "TypeError"),
]:
    print(f"{label:18} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
