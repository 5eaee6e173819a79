"""Secrets inside of stored texts and documents stand as tokens: sealed, and covered wherever they are shown. Pure.

What a job learns from a vault travels on: into outputs, signals, return values, arguments. In the database a token
stands in its place. Who goes on with the work opens it (`access/text_seal.py`); who shows the text needs no key to see
that something is to be covered there.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

MARK = "launchbay:sealed:"
_TOKEN = re.compile(re.escape(MARK) + r"[A-Za-z0-9_-]+;")

TEXT = "s"
NUMBER = "n"  # a whole value, which is a number again when it is opened


def token(sealed: str) -> str:
    """Return the token that holds something sealed, in base64 for URLs."""
    return f"{MARK}{sealed};"


def held(token_: str) -> str:
    """Return what a token holds."""
    return token_[len(MARK) : -1]


def is_token(text: str) -> bool:
    """Tell whether the text is one token and nothing else."""
    return _TOKEN.fullmatch(text) is not None


def replaced(text: str, stand_in: Callable[[str], str]) -> str:
    """Return the text with every token in it as `stand_in` makes of it; a JSON text has them unescaped, too."""
    return _TOKEN.sub(lambda found: stand_in(found[0]), text) if MARK in text else text


def each_text(value: Any, change: Callable[[str], Any], number: Callable[[Any], Any] = lambda number: number) -> Any:
    """Return a JSON value with every text in it, names included, and every number changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [each_text(item, change, number) for item in value]
    if isinstance(value, Mapping):
        return {str(change(name)): each_text(item, change, number) for name, item in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return value
