"""Object ids: 24 lower-case hex digits, time-ordered and unguessable (conformance.md, "Wire" 10)."""

import re
import secrets
import time
from typing import NamedTuple

_ID = re.compile(r"[0-9a-f]{24}")


def new_id() -> str:
    """Return a new ID: 32 bits of seconds since the epoch, then 64 random bits."""
    return f"{int(time.time()) & 0xFFFFFFFF:08x}{secrets.token_hex(8)}"


def is_id(text: str) -> bool:
    """Return whether the text has the form of an ID; anything else addresses no object (404)."""
    return _ID.fullmatch(text) is not None


class NamedRow(NamedTuple):
    """An ID with its name, as lists show it."""

    id: str
    name: str
