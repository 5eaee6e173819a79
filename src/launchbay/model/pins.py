"""Pin kinds, pin types and the signatures of commands (manifest-language §3, "Pin kinds")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from launchbay.model.types import UNIT, Type, TypeScanner


class PinKind(Enum):
    """What a pin does, as seen from its component."""

    CONFIGURATION = "configuration"
    PUBLISH_SIGNAL = "publish-signal"
    CONSUME_SIGNAL = "consume-signal"
    RECEIVE_COMMAND = "receive-command"
    SEND_COMMAND = "send-command"

    @property
    def is_command(self) -> bool:
        """Tell whether pins of this kind have a signature rather than a value."""
        return self in _COMMANDS

    @property
    def is_need(self) -> bool:
        """Tell whether pins of this kind need a peer (§3, "Bindings")."""
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
    """Arguments and results of a command by name; their order means nothing when two signatures are compared."""

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
    """A pin's kind with its value's type, which is `unit` for commands, or its signature, which is None for others."""

    kind: PinKind
    value_type: Type = UNIT
    signature: Signature | None = None

    def __str__(self) -> str:
        return f"{self.kind.value}({self.value_type if self.signature is None else self.signature})"


def parse_signature(text: str) -> Signature:
    """Return the signature that `args => results` or `args => intermediate => results` names; each may be empty.

    Raises `TypeSyntaxError`, a `ValueError` with the offset in the text.
    """
    scanner = TypeScanner(text)
    signature = _signature(scanner)
    scanner.expect("")
    return signature


def parse_pin_type(text: str) -> PinType:
    """Return the pin type that a text such as `publish-signal(list<string>)` names; white space is free.

    Raises `TypeSyntaxError`, a `ValueError` with the offset in the text.
    """
    scanner = TypeScanner(text)
    name = scanner.name("a kind of pin")
    if name not in _KINDS:
        shown = name if len(name) <= 40 else f"{name[:40]}…"
        start = len(text) - len(text.lstrip())
        scanner.fail(f"Unknown kind of pin {shown!r}, the kinds are {', '.join(_KINDS)}", start)
    kind = _KINDS[name]
    scanner.expect("(")
    pin_type = PinType(kind, signature=_signature(scanner)) if kind.is_command else PinType(kind, scanner.type())
    scanner.expect(")")
    scanner.expect("")
    return pin_type


def _signature(scanner: TypeScanner) -> Signature:
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
            scanner.fail(f"The name {name[:40]!r} stands twice in one list")
        named[name] = type_
        if not scanner.skip(","):
            return named
