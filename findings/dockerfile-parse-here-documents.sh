#!/usr/bin/env bash
# dockerfile-parse 2.0.1 (Python 3.11): lines of a here-document are instructions, and one of them can become the base image.
#
# Expected: the lines after `RUN <<EOF` belong to RUN, as in BuildKit since 2021; `FROM x:${V:-2}` is x:2 when V isn't set, and x:1 when
#   it is 1.
# Seen: a line `from z` of a shell script is an instruction FROM, and baseimage is "z". `${V:-2}` with V=1 gives the image "x:1:-2}".
# What to do: ask the builder (`docker buildx build --call=outline`) for images, not this list.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install dockerfile-parse==2.0.1
"$folder/venv/bin/python" - <<'END'
from io import BytesIO

from dockerfile_parse import DockerfileParser


def read(text):
    parser = DockerfileParser(fileobj=BytesIO())
    parser.content = text
    return parser


SCRIPT = read("FROM x\nRUN <<EOF\npython - a\nfrom z\nEOF\n")
DEFAULT = read("ARG V=1\nFROM x:${V:-2}\n")

right = True
for label, found, expected in [
    ("instructions", [part["instruction"] for part in SCRIPT.structure], ["FROM", "RUN", "PYTHON", "FROM", "EOF"]),
    ("baseimage", SCRIPT.baseimage, "z"),
    ("parent_images", DEFAULT.parent_images, ["x:1:-2}"]),
]:
    print(f"{label:16} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
