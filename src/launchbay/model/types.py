"""Types: `string int bool double object unit bytes list<T> map<T> map<K,V>` (manifest-language §3, "Types")."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NoReturn, TypeAlias

from launchbay.errors import LaunchbayError
from launchbay.limits import TYPE_DEPTH


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts; use this module's constants."""

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
UNIT: Final = Primitive("unit")  # without information, null in JSON
BYTES: Final = Primitive("bytes")  # a base64 string
PRIMITIVES = {primitive.name: primitive for primitive in (STRING, INT, BOOL, DOUBLE, OBJECT, UNIT, BYTES)}
_KNOWN = "string, int, bool, double, object, unit, bytes, list<T>, map<T> and map<K,V>"
_TOKEN = re.compile(r"\s*(=>|[<>,()]|[^\s<>,()=]+|=|\Z)")
_PUNCTUATION = frozenset(("=>", "<", ">", ",", "(", ")", "=", ""))


class TypeSyntaxError(LaunchbayError):
    """A string isn't a type; `offset` is the 0-based index of the error."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class TypeScanner:
    """Reads types and the tokens between them from one string, left to right, ignoring white space."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._token = ""
        self._start = 0
        self._end = 0
        self._advance()

    def sees(self, token: str) -> bool:
        """Return whether this punctuation, or the end as `""`, comes next."""
        return self._token == token

    def skip(self, token: str) -> bool:
        """Skip this punctuation and return True if it comes next."""
        if self._token != token:
            return False
        self._advance()
        return True

    def expect(self, token: str) -> None:
        """Skip this punctuation, or the end as `""`. Raises `TypeSyntaxError` if something else comes next."""
        if self._token != token:
            self.fail(f"Expected {_shown(token)} but found {_shown(self._token)}")
        if token:
            self._advance()

    def name(self, what: str) -> str:
        """Return the name that comes next. Raises `TypeSyntaxError`, which calls it `what`, if none does."""
        name = self._token
        if name in _PUNCTUATION:
            self.fail(f"Expected {what} but found {_shown(name)}")
        self._advance()
        return name

    def type(self, depth: int = 0) -> Type:
        """Return the type that comes next. Raises `TypeSyntaxError`."""
        if depth > TYPE_DEPTH:
            self.fail(f"The type has more than {TYPE_DEPTH} levels")
        start = self._start
        name = self.name("a type")
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        if name not in ("list", "map"):
            self.fail(f"Unknown type {_shown(name)}", start, f" Types: {_KNOWN}.")
        if not self.sees("<"):
            self.fail(f"Type {name} lacks the type of its values", fix=f" Example: {name}<string>.")
        self.expect("<")
        if name == "list":
            item = self.type(depth + 1)
            self.expect(">")
            return ListType(item)
        return self._map(depth)

    def fail(self, problem: str, offset: int | None = None, fix: str = "") -> NoReturn:
        """Raise `TypeSyntaxError` at this offset, by default at the next token."""
        offset = self._start if offset is None else offset
        text = self._text if len(self._text) <= 200 else f"{self._text[:200]}…"
        raise TypeSyntaxError(f"{problem}, at character {offset + 1} of {text!r}.{fix}", offset)

    def _map(self, depth: int) -> MapType:
        start = self._start
        first = self.type(depth + 1)
        if self.skip(">"):
            return MapType(STRING, first)
        self.expect(",")
        if not isinstance(first, Primitive) or first == UNIT:
            self.fail(f"Keys of a map can't have the type {first}", start, " Use a type such as string.")
        value = self.type(depth + 1)
        self.expect(">")
        return MapType(first, value)

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        if match is None:  # impossible: every character starts a token, and white space or nothing ends the string
            raise AssertionError(f"no token at {self._end}")
        self._token, self._start, self._end = match[1], match.start(1), match.end(1)


def parse_type(text: str) -> Type:
    """Return the type that the string names. Raises `TypeSyntaxError`."""
    scanner = TypeScanner(text)
    parsed = scanner.type()
    scanner.expect("")
    return parsed


def _shown(token: str) -> str:
    if not token:
        return "the end"
    return repr(token if len(token) <= 40 else f"{token[:40]}…")


class PinKind(Enum):
    """What a pin does, as seen from its component."""

    CONFIGURATION = "configuration"
    PUBLISH_SIGNAL = "publish-signal"
    CONSUME_SIGNAL = "consume-signal"
    RECEIVE_COMMAND = "receive-command"
    SEND_COMMAND = "send-command"

    @property
    def is_command(self) -> bool:
        """Return whether pins of this kind have a signature rather than a value."""
        return self in _COMMANDS

    @property
    def is_need(self) -> bool:
        """Return whether pins of this kind need a peer (§3, "Bindings")."""
        return self in _NEEDS

    @property
    def complement(self) -> "PinKind | None":
        """Return the kind at the other end of a link; configuration pins have none."""
        return _COMPLEMENTS.get(self)


_COMMANDS: Final = frozenset((PinKind.RECEIVE_COMMAND, PinKind.SEND_COMMAND))
_NEEDS: Final = frozenset((PinKind.CONSUME_SIGNAL, PinKind.SEND_COMMAND))
_COMPLEMENTS: Final = {
    PinKind.PUBLISH_SIGNAL: PinKind.CONSUME_SIGNAL,
    PinKind.CONSUME_SIGNAL: PinKind.PUBLISH_SIGNAL,
    PinKind.RECEIVE_COMMAND: PinKind.SEND_COMMAND,
    PinKind.SEND_COMMAND: PinKind.RECEIVE_COMMAND,
}
_KINDS: Final = {kind.value: kind for kind in PinKind}


@dataclass(frozen=True, slots=True)
class Signature:
    """Arguments and results of a command by name; comparing two signatures ignores their order."""

    arguments: Mapping[str, Type] = field(default_factory=dict, hash=False)
    intermediate: Mapping[str, Type] = field(default_factory=dict, hash=False)
    results: Mapping[str, Type] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        parts = [self.arguments, self.intermediate, self.results] if self.intermediate else [self.arguments]
        if self.results and not self.intermediate:
            parts.append(self.results)
        return " => ".join(", ".join(f"{type_} {name}" for name, type_ in part.items()) for part in parts)


@dataclass(frozen=True, slots=True)
class PinType:
    """A pin's kind with the type of its value, `unit` for commands, or its signature, None for other kinds."""

    kind: PinKind
    value_type: Type = UNIT
    signature: Signature | None = None

    def __str__(self) -> str:
        return f"{self.kind.value}({self.value_type if self.signature is None else self.signature})"


# In place of a pin whose declaration is an error. Nothing that names it is a second error; no declared pin equals it.
UNREADABLE_PIN: Final = PinType(PinKind.CONFIGURATION, OBJECT, Signature())


def parse_pin_type(text: str) -> PinType:
    """Return the pin type of a string such as `publish-signal(list<string>)`. Raises `TypeSyntaxError`."""
    scanner = TypeScanner(text)
    name = scanner.name("a kind of pin")
    if name not in _KINDS:
        start = len(text) - len(text.lstrip())
        scanner.fail(f"Unknown kind of pin {_shown(name)}", start, f" Kinds: {', '.join(_KINDS)}.")
    kind = _KINDS[name]
    scanner.expect("(")
    pin_type = PinType(kind, signature=_signature(scanner)) if kind.is_command else PinType(kind, scanner.type())
    scanner.expect(")")
    scanner.expect("")
    return pin_type


def _signature(scanner: TypeScanner) -> Signature:
    # `args => results` or `args => intermediate => results`; each part may be empty.
    enclosed = scanner.skip("(")
    parts = [_named_types(scanner)]
    while len(parts) < 3 and scanner.skip("=>"):
        parts.append(_named_types(scanner))
    if enclosed:
        scanner.expect(")")
    intermediate = parts[1] if len(parts) == 3 else {}
    return Signature(parts[0], intermediate, parts[-1] if len(parts) > 1 else {})


def _named_types(scanner: TypeScanner) -> dict[str, Type]:
    named: dict[str, Type] = {}
    if scanner.sees("=>") or scanner.sees(")") or scanner.sees(""):
        return named
    while True:
        type_ = scanner.type()
        name = scanner.name("the name of an argument or result")
        if name in named:
            scanner.fail(f"Duplicate name {name[:40]!r}")
        named[name] = type_
        if not scanner.skip(","):
            return named
