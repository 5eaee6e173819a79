"""What is wrong with a value of a wrong type, in plain words."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import EllipsisType
from typing import Any, NamedTuple, TypeVar

import msgspec

from launchbay.model.findings import Hints

_PLACE = re.compile(r"(.*?) - at (?:`?key`? in )?`\$(.*)`", re.DOTALL)
_PATH_PART = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_TYPES = re.compile(r"`([a-z| ]+)`")
_PLAIN = {
    "array": "a list",
    "bool": "true or false",
    "bytes": "text in base64",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "a string",
}
_KINDS = ((bool, "bool"), (int, "int"), (float, "float"), (str, "str"), (Mapping, "object"), (list, "array"))
_FORM = {"Expected": "expected", "Invalid enum value": "invalid value", "Invalid": "invalid"}
_NAME_SHOWN = 60
_KEYS_SEARCHED = 10_000
T = TypeVar("T")


Key = str | int  # of an object, or the index in a list
Part = Key | EllipsisType  # `...` is a key that msgspec does not say


class WrongValue(NamedTuple):
    """Which field is wrong, and the problem.

    `path` is such as `events[2]`, or "" for the entire value. `keys` lead there, as far as they are known.
    """

    path: str
    problem: str
    keys: tuple[Key, ...] = ()

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


class WrongDocument(ValueError):
    """A document has a wrong value, to which `keys` lead."""

    def __init__(self, message: str, keys: Iterable[Key] = ()) -> None:
        super().__init__(message)
        self.keys = tuple(keys)

    def inside(self, key: Key) -> "WrongDocument":
        """Return the same error as seen from the object or list around the document."""
        return WrongDocument(str(self), (key, *self.keys))


def converted(value: Any, wanted: type[T]) -> T:
    """Return a value as a type. Raises WrongDocument, in plain words."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        found = wrong_value(error, value, wanted)
        raise WrongDocument(f"{found}.", found.keys) from None


def wrong_value(
    error: msgspec.ValidationError, value: Any, wanted: Any, *, shown: Callable[[str], str] = str
) -> WrongValue:
    """Return what is wrong with a value that isn't of the type `wanted`.

    `shown` changes the path, for a type whose fields have other names than the document.
    """
    message, path = str(error), ""
    located = _PLACE.fullmatch(message)
    if located is not None:
        message, path = located.group(1), located.group(2)
    parts = [name or (int(index) if index.isdecimal() else ...) for name, index in _PATH_PART.findall(path)]
    unknown, missing = _UNKNOWN_FIELD.fullmatch(message), _MISSING_FIELD.fullmatch(message)
    allowed: list[str] = []
    if unknown is not None:
        message = f"unknown field; {_instead(unknown.group(1), wanted, parts)}"
        parts = [*parts, unknown.group(1)]
    elif missing is not None:
        parts, message = [*parts, missing.group(1)], "this field is required"
    else:
        allowed = _allowed(wanted, parts) if message.startswith("Invalid enum value") else []
        message = _in_plain_words(message)
    if allowed:
        message += f"; expected {_listed(allowed)}"
    parts = _with_keys(str(error), parts, value, wanted)
    keys = tuple(each for each in parts[: parts.index(...) if ... in parts else None] if each is not ...)
    return WrongValue(shown("".join(map(_step, parts)).removeprefix(".")), message, keys)


def _instead(name: str, wanted: Any, parts: Sequence[Part]) -> str:
    """Return what to do about an unknown field at a place.

    `ifExists` may be `if_exists`.
    """
    structs = (each for each in _types_at(wanted, parts) if isinstance(each, msgspec.inspect.StructType))
    known = [field.encode_name for each in structs for field in each.fields]
    folded = _folded(name)
    near = [each for each in known if _folded(each) == folded]
    near = near or (get_close_matches(name, known, n=1) if len(name) <= _NAME_SHOWN else [])
    return f"use '{near[0]}', or remove it" if near else "remove it"


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _step(part: Part) -> str:
    if part is ...:
        return "[…]"
    return f".{part[:_NAME_SHOWN]}" if isinstance(part, str) else f"[{part}]"


def plain_kind(value: Any) -> str:
    """Return the kind of a JSON value, such as `a whole number`."""
    return next((_PLAIN[name] for kind, name in _KINDS if isinstance(value, kind)), "null")


def _in_plain_words(message: str) -> str:
    for begin, plain in _FORM.items():
        if message.startswith(begin):
            message = plain + message.removeprefix(begin)
            break
    message = message.replace("Object", "object").replace("of length", "with a length")
    return _TYPES.sub(lambda found: _listed([_PLAIN.get(each, each) for each in found[1].split(" | ")]), message)


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _allowed(wanted: Any, parts: Sequence[Part]) -> list[str]:
    """Return the values that the field at a place may have."""
    values = [each.values for each in _types_at(wanted, parts) if isinstance(each, msgspec.inspect.LiteralType)]
    return [str(value) for each in values for value in each]


def _types_at(wanted: Any, parts: Sequence[Part]) -> list[msgspec.inspect.Type]:
    """Return the types that the value at a place can have."""
    found = [msgspec.inspect.type_info(wanted)]
    for part in parts:
        name, index = (part, "") if isinstance(part, str) else (None, "0")
        found = [inner for each in alternatives(found) for inner in types_inside(each, name, index)]
    return list(alternatives(found))


def alternatives(types: Iterable[msgspec.inspect.Type]) -> Iterator[msgspec.inspect.Type]:
    """Yield the types that a value of one of the types can have."""
    for each in types:
        if isinstance(each, msgspec.inspect.Metadata):
            yield from alternatives([each.type])
        elif isinstance(each, msgspec.inspect.UnionType):
            yield from alternatives(each.types)
        else:
            yield each


def types_inside(outer: msgspec.inspect.Type, name: str | None, index: str) -> list[msgspec.inspect.Type]:
    """Return the types of a field, or of the items."""
    if isinstance(outer, msgspec.inspect.StructType):
        return [each.type for each in outer.fields if each.encode_name == name]
    if isinstance(outer, msgspec.inspect.ListType | msgspec.inspect.SetType):
        return [outer.item_type] if index else []
    return [outer.value_type] if isinstance(outer, msgspec.inspect.DictType) else []


def _with_keys(error: str, parts: list[Part], document: Any, wanted: Any) -> list[Part]:
    """Return the parts with the key of the outermost map, for msgspec's `[...]`.

    In a map in a map, the outer key is enough to find the value.
    """
    if ... not in parts:
        return parts
    place = parts.index(...)
    outside = [each for each in parts[:place] if each is not ...]
    key = _wrong_key(error, outside, document, wanted)
    return parts if key is None else [*outside, key, *parts[place + 1 :]]


def _wrong_key(error: str, keys: Sequence[Key], document: Any, wanted: Any) -> str | None:
    """Return the first key of the map at a place whose value is wrong."""
    entries = _at(document, keys)
    if not isinstance(entries, Mapping) or not 0 < len(entries) <= _KEYS_SEARCHED:
        return None
    names = list(entries)
    low, high = 0, len(names) - 1  # halved: one conversion for each entry would hold up others
    while low < high:
        middle = (low + high) // 2
        part = {name: entries[name] for name in names[: middle + 1]}
        if _fails(error, _replaced(document, keys, part), wanted):
            high = middle
        else:
            low = middle + 1
    return str(names[low])


def _fails(error: str, document: Any, wanted: Any) -> bool:
    try:
        msgspec.convert(document, wanted)
    except msgspec.ValidationError as found:
        return str(found) == error
    return False


def _at(document: Any, keys: Iterable[Key]) -> Any:
    for key in keys:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _replaced(document: Any, keys: Sequence[Key], value: Any) -> Any:
    """Return a copy of the document with another value at a place."""
    if not keys:
        return value
    inner = _replaced(document[keys[0]], keys[1:], value)
    if isinstance(keys[0], str):
        return {**document, keys[0]: inner}
    return [*document[: keys[0]], inner, *document[keys[0] + 1 :]]


def strange_parameters(fields: Mapping[str, Sequence[str]], known: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each unknown or repeated parameter of a query.

    `fields` are the values by name; `known` are the names that the endpoint or the page declares.
    """
    hints = Hints()
    for name, texts in fields.items():
        shown = name[:_NAME_SHOWN]
        if name not in known:
            names = f" Known: {', '.join(sorted(known))}." if known else " None are known here."
            yield f"The query parameter {shown!r} is unknown.{hints.nearest(name, known) or names}"
        elif len(texts) > 1:
            yield f"The query parameter {shown!r} is given {len(texts)} times: only its first value counts."
