#!/usr/bin/env bash
# license-expression 30.4.4 (Python 3.11): validate, which returns problems, raises on some texts and refuses references of SPDX.
#
# Expected: validate("MIT/Apache-2.0"), as many manifests have it, returns an error; LicenseRef-Own is valid, as SPDX defines.
# Seen: a slash, a comma or an operator without a right side raise AttributeError inside of validate. LicenseRef-Own is an "Unknown
#   license key". "GPL-2.0", which is deprecated, becomes GPL-2.0-only without a word.
# What to do: catch AttributeError as "not an expression", and take names with LicenseRef- out before.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install license-expression==30.4.4
"$folder/venv/bin/python" - <<'END'
from license_expression import get_spdx_licensing

SPDX = get_spdx_licensing()


def problems(text):
    try:
        return SPDX.validate(text).errors
    except Exception as problem:
        return type(problem).__name__

right = True
for label, found, expected in [
    ("MIT/Apache-2.0", problems("MIT/Apache-2.0"), "AttributeError"),
    ("Apache-2.0 AND", problems("Apache-2.0 AND"), "AttributeError"),
    ("MIT AND OR Zlib", len(problems("MIT AND OR Zlib")), 1),
    ("LicenseRef-Own", problems("LicenseRef-Own"), ["Unknown license key(s): LicenseRef-Own"]),
    ("GPL-2.0", SPDX.validate("GPL-2.0").normalized_expression, "GPL-2.0-only"),
]:
    print(f"{label:18} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
