"""Numbers of agents that keep their text through the protocol's package.

The package reads JSON into doubles: `1.10` would be 1.1, before anyone could ask for the type. So such a number goes
through it as a string with a mark that nobody can guess.
"""

import json
import secrets
from typing import Any

import msgspec

_MARK = f"number {secrets.token_hex(16)} "


class _Double(float):
    """A number with the text that the sender wrote."""

    text: str


def _double(text: str) -> float:
    found = _Double(text)
    found.text = text
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"JSON has no {text}.")


def marked(data: bytes) -> bytes:
    """Return a message with marks in the place of doubles that would lose digits.

    Those are the ones in arguments of a tool that are objects or lists. What isn't JSON comes back as it is.
    """
    try:
        message = json.loads(data, parse_float=_double, parse_constant=_no_number)
        arguments = message["params"]["arguments"] if message["method"] == "tools/call" else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return data
    if not isinstance(arguments, dict):
        return data
    for name, value in arguments.items():
        if isinstance(value, dict | list):
            arguments[name] = _with_marks(value)
    return json.dumps(message, separators=(",", ":")).encode()


def _with_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_marks(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_with_marks(child) for child in value]
    if isinstance(value, _Double) and float.__repr__(value) != value.text:
        return f"{_MARK}{value.text}"
    return value


def restored(value: Any) -> Any:
    """Return arguments with numbers in the place of marks, as JSON."""
    if isinstance(value, dict):
        return {key: restored(child) for key, child in value.items()}
    if isinstance(value, list):
        return [restored(child) for child in value]
    if isinstance(value, str) and value.startswith(_MARK):
        return msgspec.Raw(value.removeprefix(_MARK).encode())
    return value
