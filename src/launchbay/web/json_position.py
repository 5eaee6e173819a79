"""Where in a JSON text an error is. Works only on texts already known to be wrong, and only on their beginning."""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from launchbay.limits import KIB

# Looking for a place is a loop in Python; beyond this the sentence does without it.
_SEARCHED_CHARS = 64 * KIB
_TOKEN = re.compile(r'("(?:[^"\\]++|\\.)*+")(\s*+:)?|[{}\[\]]|[-+.\w]++', re.DOTALL)


class Place(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def place_of_offset(text: str, offset: int) -> Place:
    """Return line and column of a character offset."""
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def place_of_number(text: str, digits: str) -> Place | None:
    """Return where a number of this spelling stands first, or None when that is far down a long text."""
    return next((place_of_offset(text, token.start()) for token in _tokens(text) if token.group() == digits), None)


def place_of_string(text: str, is_wanted: Callable[[str], bool]) -> Place | None:
    """Return where the first key or string stands that is wanted, or None when that is far down a long text."""
    for token in _tokens(text):
        string = token.group(1)
        if string is not None and is_wanted(json.loads(string)):
            return place_of_offset(text, token.start())
    return None


def place_of_duplicate(text: str) -> Place | None:
    """Return where the first key stands that its object has already, or None when that is far down a long text."""
    objects: list[set[str]] = []
    for token in _tokens(text):
        string, colon = token.groups()
        if string is None:
            _move(token.group(), objects)
        elif colon is not None and objects:
            key = json.loads(string)
            if key in objects[-1]:
                return place_of_offset(text, token.start())
            objects[-1].add(key)
    return None


def _tokens(text: str) -> Iterator[re.Match[str]]:
    return _TOKEN.finditer(text, 0, _SEARCHED_CHARS)


def _move(token: str, objects: list[set[str]]) -> None:
    if token in {"{", "["}:
        objects.append(set())
    elif token in {"}", "]"} and objects:
        objects.pop()
