#!/usr/bin/env bash
# opentelemetry-api 1.45.2 (Python 3.11): a plus sign in baggage becomes a space on its way into a Python program.
#
# Expected: the header `baggage` is percent-encoded as W3C Baggage says, where `+` is a character like others: `version=1.2+b7`, as
#   programs in other languages send it, is read as `1.2+b7`.
# Seen: it is read as `1.2 b7`. Python's library decodes as HTML forms do, and encodes so as well: it sends a space as `+`, which a reader
#   by the standard takes for a plus sign. Between two Python programs nothing shows. `%2B` and `%20` are read right.
# What to do: write build numbers and other values with `+` percent-encoded before they are put into baggage, or send them otherwise.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install opentelemetry-api==1.45.2
"$folder/venv/bin/python" - <<'END'
from importlib.metadata import version

from opentelemetry import baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator

print("opentelemetry-api", version("opentelemetry-api"))
propagator = W3CBaggagePropagator()
right = True
for sent, expected in [("1.2+b7", "1.2 b7"), ("1.2%2Bb7", "1.2+b7"), ("1.2%20b7", "1.2 b7")]:
    read = baggage.get_all(propagator.extract({"baggage": f"version={sent}"}))["version"]
    print(f"{sent:10} is read as {read!r}")
    right = right and read == expected
carrier: dict[str, str] = {}
propagator.inject(carrier, baggage.set_baggage("version", "1.2 b7"))
print(f"'1.2 b7' is sent as {carrier['baggage']!r}")
right = right and carrier["baggage"] == "version=1.2+b7"
raise SystemExit(0 if right else "The behaviour has changed.")
END
