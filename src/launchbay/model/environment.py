"""What an environment offered when an instance was launched or last reconfigured (manifest-language §8).

The instance keeps this copy: changed policies, markers and properties reach it with its next reconfiguration.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from launchbay.errors import BadRequest
from launchbay.limits import ENVIRONMENT_ENTRIES, NAME_CHARS
from launchbay.model.types import BYTES, DOUBLE, UNIT, ListType, MapType, Type, TypeSyntaxError, parse_type
from launchbay.model.values import CoercionError, coerce

_NAME = re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?")
# The manifest language knows three more types; the reference does not allow them here.
_NOT_HERE = (DOUBLE, UNIT, BYTES)
_ALLOWED = "object, string, int, bool, list<T> and map<K,V>"
_PROBLEMS_SHOWN = 20


class Marker(msgspec.Struct, frozen=True):
    """A marker; an environment has it or not."""

    name: str


class Property(msgspec.Struct, frozen=True):
    """A value of the environment; `type` is the text that was given, such as `list<string>`."""

    name: str
    value: Any
    type: str


def validate_markers(markers: Sequence[Marker]) -> list[Marker]:
    """Return the markers. Raises BadRequest for a bad name, one that stands twice, or too many."""
    problems = _name_problems("marker", [marker.name for marker in markers])
    _refuse(problems, "InvalidMarkers")
    return list(markers)


def validate_properties(properties: Sequence[Property]) -> list[Property]:
    """Return the properties with their values as their types, coerced where nothing is lost (`model/values.py`).

    Raises BadRequest with a sentence for each bad name or type, each value that does not fit, and names that stand
    twice.
    """
    problems = _name_problems("property", [entry.name for entry in properties])
    checked: list[Property] = []
    for entry in properties:
        try:
            value = coerce(_allowed_type(entry.type), entry.value)
        except CoercionError as error:
            problems.append(f"The value of the property {entry.name[:80]!r} does not fit its type: {error}")
        except TypeSyntaxError as error:
            problems.append(f"The type of the property {entry.name[:80]!r} cannot be read: {error}")
        else:
            checked.append(Property(entry.name, value, entry.type.strip()))
    _refuse(problems, "InvalidProperties")
    return checked


def _allowed_type(text: str) -> Type:
    parsed = parse_type(text)
    open_types: list[Type] = [parsed]
    while open_types:
        match open_types.pop():
            case ListType(item):
                open_types.append(item)
            case MapType(key, value):
                open_types += (key, value)
            case part if part in _NOT_HERE:
                raise TypeSyntaxError(f"A property's type is made of {_ALLOWED}; {part} is not one of them.", 0)
    return parsed


def _name_problems(noun: str, names: Sequence[str]) -> list[str]:
    if len(names) > ENVIRONMENT_ENTRIES:
        return [f"There are {len(names)} entries; an environment has at most {ENVIRONMENT_ENTRIES} of one kind."]
    problems = [
        f"The {noun} {name[:80]!r} cannot be called so: a name has 1 to {NAME_CHARS} characters, "
        "none of them a control character, and no space at its ends."
        for name in names
        if len(name) > NAME_CHARS or not _NAME.fullmatch(name)
    ]
    return problems + [f"The {noun} {name[:80]!r} stands twice; keep one of them." for name in _repeated(names)]


def _repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    repeated: dict[str, None] = {}
    for name in names:
        if name in seen:
            repeated[name] = None
        seen.add(name)
    return list(repeated)


def _refuse(problems: list[str], code: str) -> None:
    if problems:
        more = len(problems) - _PROBLEMS_SHOWN
        rest = [f"There are {more} more errors like these."] if more > 0 else []
        raise BadRequest(*problems[:_PROBLEMS_SHOWN], *rest, code=code)


class EnvironmentView(msgspec.Struct, frozen=True):
    """Policies by dotted name, markers by name, properties by name with their values."""

    policies: dict[str, Any] = {}
    markers: list[str] = []
    properties: dict[str, Any] = {}

    def to_text(self) -> str:
        """Return the stored form."""
        return msgspec.json.encode(self).decode()

    def step_policies(self, action: str) -> dict[str, Any]:
        """Return the parameters that policies set for every step with this action: `action.parameter: value`."""
        prefix = f"{action}."
        return {name[len(prefix) :]: value for name, value in self.policies.items() if name.startswith(prefix)}


def read_environment_view(text: str) -> EnvironmentView:
    """Return the view from its stored form."""
    return _decoder.decode(text)


_decoder = msgspec.json.Decoder(EnvironmentView)
