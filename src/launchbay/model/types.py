"""Types: `string int bool double object unit bytes list<T> map<T> map<K,V>` (manifest-language §3, "Types")."""

import re
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from launchbay.limits import TYPE_DEPTH


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts; use the constants of this module."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ListType:
    """`list<item>`."""

    item: "Type"

    def __str__(self) -> str:
        return f"list<{self.item}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """`map<key,value>`; `map<value>` has string keys."""

    key: Primitive
    value: "Type"

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


Type: TypeAlias = Primitive | ListType | MapType

STRING: Final = Primitive("string")
INT: Final = Primitive("int")
BOOL: Final = Primitive("bool")
DOUBLE: Final = Primitive("double")
OBJECT: Final = Primitive("object")  # any JSON value
UNIT: Final = Primitive("unit")  # the value that says nothing, null in JSON
BYTES: Final = Primitive("bytes")  # base64 text

_PRIMITIVES = {primitive.name: primitive for primitive in (STRING, INT, BOOL, DOUBLE, OBJECT, UNIT, BYTES)}
_KNOWN = "string, int, bool, double, object, unit, bytes, list<T>, map<T> and map<K,V>"
_TOKEN = re.compile(r"\s*(=>|[<>,()]|[^\s<>,()=]+|=|\Z)")
_PUNCTUATION = frozenset(("=>", "<", ">", ",", "(", ")", "=", ""))


class TypeSyntaxError(ValueError):
    """A text is no type; `offset` is the 0-based character in it where that shows."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class TypeScanner:
    """Reads types and what stands between them from one text, left to right; white space is free."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._token = ""
        self._start = 0
        self._end = 0
        self._advance()

    def sees(self, token: str) -> bool:
        """Tell whether this punctuation, or the end as `""`, comes next."""
        return self._token == token

    def skip(self, token: str) -> bool:
        """Pass over this punctuation and return True, if it comes next."""
        if self._token != token:
            return False
        self._advance()
        return True

    def expect(self, token: str) -> None:
        """Pass over this punctuation, or the end as `""`. Raises `TypeSyntaxError` where something else comes."""
        if self._token != token:
            self.fail(f"Expected {_shown(token)} but found {_shown(self._token)}")
        if token:
            self._advance()

    def name(self, what: str) -> str:
        """Return the name that comes next. Raises `TypeSyntaxError`, naming it as `what`, where none does."""
        name = self._token
        if name in _PUNCTUATION:
            self.fail(f"Expected {what} but found {_shown(name)}")
        self._advance()
        return name

    def type(self, depth: int = 0) -> Type:
        """Return the type that comes next. Raises `TypeSyntaxError`."""
        if depth > TYPE_DEPTH:
            self.fail(f"The type is nested more than {TYPE_DEPTH} deep")
        start = self._start
        name = self.name("a type")
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        if name not in ("list", "map"):
            self.fail(f"Unknown type {_shown(name)}, the types are {_KNOWN}", start)
        self.expect("<")
        if name == "list":
            item = self.type(depth + 1)
            self.expect(">")
            return ListType(item)
        return self._map(depth)

    def fail(self, problem: str, offset: int | None = None) -> NoReturn:
        """Raise `TypeSyntaxError` at this offset, by default at what comes next."""
        offset = self._start if offset is None else offset
        text = self._text if len(self._text) <= 200 else f"{self._text[:200]}…"
        raise TypeSyntaxError(f"{problem}, at character {offset + 1} of {text!r}.", offset)

    def _map(self, depth: int) -> MapType:
        start = self._start
        first = self.type(depth + 1)
        if self.skip(">"):
            return MapType(STRING, first)
        self.expect(",")
        if not isinstance(first, Primitive) or first == UNIT:
            self.fail(f"A map's keys cannot be of the type {first}; they are texts, such as string", start)
        value = self.type(depth + 1)
        self.expect(">")
        return MapType(first, value)

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        if match is None:  # cannot be: every character starts a token, and white space or nothing ends the text
            raise AssertionError(f"no token at {self._end}")
        self._token, self._start, self._end = match[1], match.start(1), match.end(1)


def parse_type(text: str) -> Type:
    """Return the type that the text names. Raises `TypeSyntaxError`, a `ValueError` with the offset in the text."""
    scanner = TypeScanner(text)
    parsed = scanner.type()
    scanner.expect("")
    return parsed


def _shown(token: str) -> str:
    if not token:
        return "the end"
    return repr(token if len(token) <= 40 else f"{token[:40]}…")
