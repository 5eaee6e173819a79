"""Markers, properties and policies of an environment, as at an instance's launch (manifest-language §8).

The instance stores this copy: changed policies, markers and properties reach it with its next reconfiguration.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from launchbay.errors import BadRequest
from launchbay.limits import ENVIRONMENT_ENTRIES, NAME_CHARS
from launchbay.model.types import BYTES, DOUBLE, STRING, UNIT, ListType, MapType, Type, TypeSyntaxError, parse_type
from launchbay.model.values import CoercionError, coerce

_NAME = re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?")
# Types of the manifest language that the reference doesn't allow here.
_FORBIDDEN = (DOUBLE, UNIT, BYTES)
_ALLOWED = "object, string, int, bool, list<T> and map<K,V>"
_PROBLEMS_SHOWN = 20


class Marker(msgspec.Struct, frozen=True):
    """A name that an environment has or not."""

    name: str


class Property(msgspec.Struct, frozen=True):
    """A value of the environment; `type` is the type as written, such as `list<string>`."""

    name: str
    value: Any
    type: str


def validate_markers(markers: Sequence[Marker]) -> list[Marker]:
    """Return the markers. Raises BadRequest for invalid or duplicate names, or too many."""
    problems = _name_problems("marker", [marker.name for marker in markers])
    _refuse(problems, "InvalidMarkers")
    return list(markers)


def validate_properties(properties: Sequence[Property]) -> list[Property]:
    """Return the properties with their values coerced to their types.

    Raises BadRequest with a message for each invalid or duplicate name, invalid type, and value of another type.
    """
    problems = _name_problems("property", [entry.name for entry in properties])
    checked: list[Property] = []
    for entry in properties:
        try:
            value = _coerced(_allowed_type(entry.type), entry.value)
        except CoercionError as error:
            problems.append(f"The value of property {entry.name[:80]!r} doesn't match its type. {error}")
        except TypeSyntaxError as error:
            problems.append(f"The type of property {entry.name[:80]!r} is invalid. {error}")
        else:
            checked.append(Property(entry.name, value, entry.type.strip()))
    _refuse(problems, "InvalidProperties")
    return checked


def _coerced(type_: Type, value: Any) -> Any:
    if type_ is STRING and not isinstance(value, str):
        raise CoercionError(type_, "a value of another type; put it in quotes")
    return coerce(type_, value)


def _allowed_type(text: str) -> Type:
    parsed = parse_type(text)
    # The reference has neither the short form `map<V>` nor blanks around a type.
    if text != text.strip() or "".join(text.split()) != "".join(str(parsed).split()):
        raise TypeSyntaxError(f"Write '{parsed}'.", 0)
    open_types: list[Type] = [parsed]
    while open_types:
        match open_types.pop():
            case ListType(item):
                open_types.append(item)
            case MapType(key, value):
                open_types += (key, value)
            case part if part in _FORBIDDEN:
                raise TypeSyntaxError(f"A property can't have the type {part}. Types: {_ALLOWED}.", 0)
    return parsed


def _name_problems(noun: str, names: Sequence[str]) -> list[str]:
    if len(names) > ENVIRONMENT_ENTRIES:
        return [f"The request has {len(names)} entries. An environment has at most {ENVIRONMENT_ENTRIES} of one kind."]
    problems = [
        f"Invalid {noun} name {name[:80]!r}. Use 1 to {NAME_CHARS} characters without control characters and outer"
        " spaces."
        for name in names
        if len(name) > NAME_CHARS or not _NAME.fullmatch(name)
    ]
    return problems + [
        f"Duplicate {noun} {name[:80]!r}. Keep one." for name, count in Counter(names).items() if count > 1
    ]


def _refuse(problems: list[str], code: str) -> None:
    if problems:
        more = len(problems) - _PROBLEMS_SHOWN
        rest = [f"{more} more errors aren't shown."] if more > 0 else []
        raise BadRequest(*problems[:_PROBLEMS_SHOWN], *rest, code=code)


class EnvironmentView(msgspec.Struct, frozen=True):
    """Policies by dotted name, markers by name, property values by name."""

    policies: dict[str, Any] = {}
    markers: list[str] = []
    properties: dict[str, Any] = {}

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()

    def step_policies(self, action: str) -> dict[str, Any]:
        """Return the parameters that policies `action.parameter` set for every step with this action."""
        prefix = f"{action}."
        return {name[len(prefix) :]: value for name, value in self.policies.items() if name.startswith(prefix)}


read_environment_view = msgspec.json.Decoder(EnvironmentView).decode
