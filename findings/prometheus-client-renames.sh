#!/usr/bin/env bash
# prometheus-client 0.26.0 (Python 3.11): its parser of the text format gives a counter another name than it has.
#
# Expected: in the text format, version 0.0.4, a name needs no suffix: the type is that of the samples with this very name, so that
#   `requests 5` of the type counter is a sample "requests", as a server stores it.
# Seen: the sample is named "requests_total", and no name of the family or its sample is that of the line. A gauge keeps its name. The lines
#   that are written from the families again have the new name, so that queries and alerts on "requests" find nothing.
# What to do: read the names from the lines, or scrape with the server.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install prometheus-client==0.26.0
"$folder/venv/bin/python" - <<'END'
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families as read


class Again:
    def __init__(self, text):
        self.text = text

    def collect(self):
        return read(self.text)


right = True
for text, expected in [
    ("# TYPE requests counter\nrequests 5\n", "requests_total 5.0"),
    ("# TYPE requests_total counter\nrequests_total 5\n", "requests_total 5.0"),
    ("# TYPE requests gauge\nrequests 5\n", "requests 5.0"),
    ("requests 5\n", "requests 5.0"),
]:
    registry = CollectorRegistry()
    registry.register(Again(text))
    found = generate_latest(registry).decode().splitlines()[-1]
    print(f"{' / '.join(text.splitlines()):60} becomes {found}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
