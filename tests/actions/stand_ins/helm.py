"""A stand-in for Helm, which keeps what it was called with; `test_helm_program.py` has the real ones.

It knows the flags that the real program knows of those that it is given, and refuses others as that does; it reads the
chart, the values and the kubeconfig from the files that are named, and answers as `--output json` does. What it
"installs" it writes into a file beside itself.
"""

import argparse
import json
import os
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).with_name("ledger.json")


def fail(text: str) -> int:
    print(f"Error: {text}", file=sys.stderr)
    return 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="helm", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    upgrade = commands.add_parser("upgrade", allow_abbrev=False)
    upgrade.add_argument("release")
    upgrade.add_argument("chart")
    for each in ("--install", "--create-namespace", "--reset-values"):
        upgrade.add_argument(each, action="store_true")
    for each in ("--values", "--history-max"):
        upgrade.add_argument(each)
    uninstall = commands.add_parser("uninstall", allow_abbrev=False)
    uninstall.add_argument("release")
    history = commands.add_parser("history", allow_abbrev=False)
    history.add_argument("release")
    history.add_argument("--max")
    history.add_argument("--output")
    get = commands.add_parser("get", allow_abbrev=False)
    get.add_argument("what")
    get.add_argument("release")
    for reading in (history, get):
        reading.add_argument("--namespace", default="default")
    for known in (upgrade, uninstall):
        known.add_argument("--namespace", default="default")
        known.add_argument("--timeout", default="5m0s")
        known.add_argument("--wait", action="store_true")
    return parser.parse_args()


def ledger() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(LEDGER.read_text()) if LEDGER.exists() else {}
    return found


def main() -> int:
    given = arguments()
    config = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
    releases = ledger()
    key = f"{given.namespace}/{given.release}"
    if given.command == "uninstall":
        if key not in releases:
            return fail(f"uninstall: Release not loaded: {given.release}: release: not found")
        del releases[key]
        LEDGER.write_text(json.dumps(releases))
        print(f'release "{given.release}" uninstalled')
        return 0
    if given.command == "history":
        if key not in releases:
            return fail("release: not found")
        print(json.dumps([{"revision": releases[key]["revision"], "status": "deployed"}]))
        return 0
    if given.command == "get":
        print("NOTES:\nThank you.")
        return 0
    values = json.loads(Path(given.values).read_text())
    try:
        with tarfile.open(given.chart) as archive:
            names = archive.getnames()
    except tarfile.TarError as error:
        return fail(f"file {given.chart!r} does not appear to be a gzipped archive; got {error}")
    if not any(name.endswith("/Chart.yaml") for name in names):
        return fail("Chart.yaml file is missing")
    if values.get("fail"):
        return fail(f"UPGRADE FAILED: {values['fail']}")
    print("W1120 warning of the client", file=sys.stderr)
    time.sleep(float(values.get("sleep", 0)))
    revision = releases.get(key, {}).get("revision", 0) + 1
    releases[key] = {
        "revision": revision,
        "values": values,
        "trace": os.environ.get("TRACEPARENT", ""),
        "chart": names[0],
        "config": config,
        "argv": sys.argv[1:],
        "environment": sorted(os.environ),
    }
    LEDGER.write_text(json.dumps(releases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
