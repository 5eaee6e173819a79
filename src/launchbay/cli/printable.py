"""Texts of others on one's own terminal: a name or a log line must not move the cursor or colour what follows."""

import re

# Control characters but for line feed and tab, and what changes the direction of writing.
_MOVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return a text with what a terminal would obey written out, such as `\\x1b`."""
    return _MOVING.sub(_written, text)


def _written(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
