"""Finds the names that an author probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_HINTS_MAX = 20  # comparing texts is slow: a manifest with more mistakes than this gets the rest without hints
_CANDIDATES_MAX = 200
_NAME_CHARS = 80
_NAMES_SHOWN = 10


def few(names: Iterable[str]) -> str:
    """Return the first names for a sentence, or "none"."""
    return ", ".join(islice(names, _NAMES_SHOWN)) or "none"


class Hints:
    """Gives the first few mistakes of one manifest a hint each."""

    def __init__(self) -> None:
        self._left = _HINTS_MAX

    def nearest(self, name: str, candidates: Iterable[str]) -> str:
        """Return a sentence, with a space before it, that names the most similar candidate, if one is similar."""
        if self._left == 0 or len(name) > _NAME_CHARS:
            return ""
        self._left -= 1
        known = [candidate for candidate in islice(candidates, _CANDIDATES_MAX) if len(candidate) <= _NAME_CHARS]
        close = get_close_matches(name, known, n=1)
        return f" Did you mean '{close[0]}'?" if close else ""
