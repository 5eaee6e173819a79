"""What the parts of a manifest mean, apart from how they are written.

Comments, places, quotes and the order of keys mean nothing. The order of steps and of list items does.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import msgspec

from launchbay.manifest.expressions import Template, plain_data

DIGEST_FORM = 2
"""Of what is digested. Another one makes the digests that are stored be computed again."""

_DIGEST_CHARS = 32
# Fields that say where and how something is written. Which of the possible launch orders it is depends on the keys'.
_WRITTEN = frozenset({"line", "warnings", "order"})
_EMPTY: tuple[Any, ...] = ({}, (), [], frozenset())
_GIVEN = frozenset({"default"})  # data of authors, of which nothing, `{}` and `[]` differ


class Meant:
    """What is equal if it means the same."""

    __slots__ = ()

    def meant(self) -> dict[str, Any]:
        """Return all that counts, by name. By default, these are the fields."""
        return _fields(self)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and meaning(self) == meaning(other))

    def __ne__(self, other: object) -> bool:
        return not self == other  # structures have one of their own, which compares identities

    def __hash__(self) -> int:
        return hash(meaning(self))


def meaning(value: Any) -> str:
    """Return what a part of a compiled manifest means, as JSON with sorted keys.

    Fields with nothing in them are left out, so that a new field of the compiler changes no meaning.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """Return the digest of what a part of a compiled manifest means.

    It has 32 hexadecimal digits.
    """
    return hashlib.sha256(f"{DIGEST_FORM}:{meaning(value)}".encode()).hexdigest()[:_DIGEST_CHARS]


def _plain(value: Any) -> Any:
    if isinstance(value, Template):
        plain: Any = value.meaning
    elif isinstance(value, Enum):
        plain = value.value
    elif isinstance(value, frozenset | set):
        plain = sorted(map(meaning, value))
    elif isinstance(value, Meant):
        plain = _filled(value.meant())
    elif isinstance(value, msgspec.Struct) or is_dataclass(value):
        plain = _filled(_fields(value))
    elif isinstance(value, Mapping):
        plain = {str(key): _plain(child) for key, child in value.items()}
    elif isinstance(value, list | tuple):
        plain = [_plain(child) for child in value]
    else:
        plain = plain_data(value)
    return plain


def _fields(value: Any) -> dict[str, Any]:
    names = value.__struct_fields__ if isinstance(value, msgspec.Struct) else [each.name for each in fields(value)]
    return {name: getattr(value, name) for name in names if name not in _WRITTEN}


def _filled(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _plain(each)
        for name, each in found.items()
        if name in _GIVEN or (each is not None and each not in _EMPTY)
    }
