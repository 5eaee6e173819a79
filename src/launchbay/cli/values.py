"""What users type, as values: durations, moments, maps, files. UsageErrors tell the right form."""

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from launchbay.errors import InvalidManifest
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"([0-9]+)(ms|s|m|h|d|w)")
NEVER = -1


def duration_ms(text: str) -> int:
    """Return milliseconds: `90s`, `1h30m`, `2d`, `never` (-1), or plain milliseconds."""
    stripped = text.strip().lower()
    if stripped in {"never", "-1"}:
        return NEVER
    if stripped.isdecimal():
        return int(stripped)
    parts = _PART.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise click.UsageError(
            f"{text!r} is no duration. Write it as 90s, 1h30m, 2d or never; plain digits are milliseconds."
        )
    return sum(int(number) * _UNITS_MS[unit] for number, unit in parts)


def moment_ms(text: str) -> int:
    """Return milliseconds since the Unix epoch: `+2h` from now, `2026-12-24T18:00`, `never` (-1), or plain ones."""
    stripped = text.strip()
    if stripped.startswith("+"):
        return int(time.time() * 1000) + duration_ms(stripped[1:])
    if stripped.isdecimal() or stripped in {"never", "-1"}:
        return duration_ms(stripped)
    try:
        return int(datetime.fromisoformat(stripped).astimezone().timestamp() * 1000)
    except ValueError:
        message = f"{text!r} is no moment. Write it as +2h, 2026-12-24T18:00, 2026-12-24T18:00+01:00 or never."
        raise click.UsageError(message) from None


def text_or_file(text: str) -> str:
    """Return a text, or with `@FILE` what is in the file; `@-` is the standard input."""
    return file_text(text[1:]) if text.startswith("@") and len(text) > 1 else text


def file_text(name: str) -> str:
    """Return the text of a file; `-` is the standard input."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise click.UsageError(f"{name} cannot be read: {reason}.") from error


def json_file(name: str) -> Any:
    """Return the value of a file of JSON; `-` is the standard input."""
    try:
        return json.loads(file_text(name))
    except ValueError as error:
        raise click.UsageError(f"{name} is no JSON: {error}.") from error


def document(text: str, what: str) -> Any:
    """Return the value of a text of JSON or YAML."""
    try:
        return plain(read(text.encode()))
    except InvalidManifest as error:
        sentence = error.sentences[0].replace("The manifest", "It")
        raise click.UsageError(f"{what} is neither JSON nor YAML. {sentence}") from error


def mapping(items: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the map of items such as `NAME=TEXT`, `NAME:=JSON`, `@FILE` and `{"name": …}`; later ones win.

    None without any item.
    """
    if not items:
        return None
    found: dict[str, Any] = {}
    for item in items:
        name, sign, value = _parted(item)
        if sign == "=":
            found[name] = text_or_file(value)
        elif sign == ":=":
            found[name] = _json(value, item)
        else:
            whole = document(text_or_file(item), item)
            if not isinstance(whole, dict):
                raise click.UsageError(f"{item} holds no map. Write NAME=TEXT, NAME:=JSON, or @FILE with a map in it.")
            found.update(whole)
    return found


def _parted(item: str) -> tuple[str, str, str]:
    if item.startswith(("@", "{")):
        return "", "", ""
    before, equals, value = item.partition("=")
    if not equals or not before.rstrip(":"):
        raise click.UsageError(
            f"{item!r} is not of the form NAME=TEXT. Other forms: NAME:=JSON, @FILE, or a map in JSON."
        )
    return (before[:-1], ":=", value) if before.endswith(":") else (before, "=", value)


def _json(value: str, item: str) -> Any:
    try:
        return json.loads(text_or_file(value))
    except ValueError as error:
        message = f"{item!r}: what follows := is not JSON ({error}). With = in its place it is a text."
        raise click.UsageError(message) from error
