"""Rows that several nouns answer."""

from typing import NamedTuple


class NamedRow(NamedTuple):
    """An id with its name, as lists show it."""

    id: str
    name: str


class AddressRow(NamedTuple):
    """An object with an address that is kept in the clear."""

    id: str
    url: str
