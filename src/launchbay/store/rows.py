"""Rows that several nouns answer."""

from typing import NamedTuple


class NamedRow(NamedTuple):
    """An id with its name, as lists show it."""

    id: str
    name: str
