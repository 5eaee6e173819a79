"""Rows that several nouns answer."""

from typing import NamedTuple


class AddressRow(NamedTuple):
    """An object with an address that is kept in the clear."""

    id: str
    url: str
