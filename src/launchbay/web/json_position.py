"""Where in a JSON text an error is. Works only on texts already known to be wrong, and only on their beginning."""

import json
import re
from typing import NamedTuple

from launchbay.limits import KIB

# Looking for a place is a loop in Python; beyond this the sentence names the key alone.
_SEARCHED_CHARS = 64 * KIB
_TOKEN = re.compile(r'("(?:[^"\\]++|\\.)*+")(\s*+:)?|[{}\[\]]', re.DOTALL)


class Place(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def place_of_offset(text: str, offset: int) -> Place:
    """Return line and column of a character offset."""
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def place_of_duplicate(text: str) -> Place | None:
    """Return where the first key stands that its object has already, or None when that is far down a long text."""
    objects: list[set[str]] = []
    for token in _TOKEN.finditer(text, 0, _SEARCHED_CHARS):
        string, colon = token.groups()
        if string is None:
            _move(token.group(), objects)
        elif colon is not None and objects:
            key = json.loads(string)
            if key in objects[-1]:
                return place_of_offset(text, token.start())
            objects[-1].add(key)
    return None


def _move(bracket: str, objects: list[set[str]]) -> None:
    if bracket in "{[":
        objects.append(set())
    elif objects:
        objects.pop()
