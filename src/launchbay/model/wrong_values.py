"""What is wrong with a value of a wrong type, in plain words."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

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


class WrongValue(NamedTuple):
    """Which field is wrong, and the problem.

    `path` is such as `events[2]`, or "" for the entire value.
    """

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


def converted(value: Any, wanted: type[T]) -> T:
    """Return a value as a type. Raises ValueError that says in plain words what is wrong."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise ValueError(f"{wrong_value(error, value, wanted)}.") from None


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
    unknown, missing = _UNKNOWN_FIELD.fullmatch(message), _MISSING_FIELD.fullmatch(message)
    allowed: list[str] = []
    if unknown is not None:
        path, message = f"{path}.{unknown.group(1)}", "unknown field; remove it"
    elif missing is not None:
        path, message = f"{path}.{missing.group(1)}", "this field is required"
    else:
        allowed = _allowed(wanted, path) if message.startswith("Invalid enum value") else []
        message = _in_plain_words(message)
    if allowed:
        message += f"; expected {_listed(allowed)}"
    return WrongValue(shown(_with_keys(str(error), path, value, wanted).removeprefix(".")), message)


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


def _allowed(wanted: Any, path: str) -> list[str]:
    """Return the values that the field at a path such as `.events[2]` may have."""
    found = [msgspec.inspect.type_info(wanted)]
    for name, index in _PATH_PART.findall(path):
        found = [inner for each in alternatives(found) for inner in types_inside(each, name or None, index)]
    values = [each.values for each in alternatives(found) if isinstance(each, msgspec.inspect.LiteralType)]
    return [str(value) for each in values for value in each]


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


def _with_keys(error: str, path: str, document: Any, wanted: Any) -> str:
    """Return the path with the keys of maps, for which msgspec writes `[...]`."""
    while "[...]" in path:
        before, _, after = path.partition("[...]")
        key = _wrong_key(error, before, document, wanted)
        if key is None:
            return path.replace("[...]", "[…]")
        document = _replaced(document, before, {key: _at(document, before)[key]})
        path = f"{before}.{key[:_NAME_SHOWN]}{after}"
        if "[...]" in after:
            return path.replace("[...]", "[…]")  # a map in a map: the outer key is enough to find it
    return path


def _wrong_key(error: str, path: str, document: Any, wanted: Any) -> str | None:
    """Return the first key of the map at the path whose value is wrong."""
    entries = _at(document, path)
    if not isinstance(entries, Mapping) or not 0 < len(entries) <= _KEYS_SEARCHED:
        return None
    keys = list(entries)
    low, high = 0, len(keys) - 1  # halved: one conversion for each entry would hold up others
    while low < high:
        middle = (low + high) // 2
        part = {key: entries[key] for key in keys[: middle + 1]}
        if _fails(error, _replaced(document, path, part), wanted):
            high = middle
        else:
            low = middle + 1
    return str(keys[low])


def _fails(error: str, document: Any, wanted: Any) -> bool:
    try:
        msgspec.convert(document, wanted)
    except msgspec.ValidationError as found:
        return str(found) == error
    return False


def _at(document: Any, path: str) -> Any:
    for name, index in _PATH_PART.findall(path):
        try:
            document = document[name or int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return document


def _replaced(document: Any, path: str, value: Any) -> Any:
    """Return a copy of the document with another value at the path."""
    part = _PATH_PART.match(path)
    if part is None:
        return value
    rest = path[part.end() :]
    if part[1]:
        return {**document, part[1]: _replaced(document[part[1]], rest, value)}
    index = int(part[2])
    return [*document[:index], _replaced(document[index], rest, value), *document[index + 1 :]]
