"""The two small texts that point at pins: `bind(a.b#iface.pin, …)` and the ends of a binding, `a.b#iface` (§3)."""

import re

import msgspec

from launchbay.limits import MANIFEST_DEPTH, NAME_CHARS

WILDCARD = "*"
_NAME = re.compile(r"[^#,()]+")


class BindTarget(msgspec.Struct, frozen=True):
    """One target: the way to a component, and `interface.pin` or `interface.*` there."""

    component: str
    pin: str

    def __str__(self) -> str:
        return f"{self.component}#{self.pin}"

    @property
    def wildcard_interface(self) -> str | None:
        """The interface whose pins are all meant, or None where one pin is."""
        return self.pin[:-2] if self.pin.endswith(".*") else None


class Endpoint(msgspec.Struct, frozen=True):
    """One end of a binding: the way to a component, and perhaps one of its interfaces."""

    component: str
    interface: str | None
    line: int
    column: int

    def __str__(self) -> str:
        return self.component if self.interface is None else f"{self.component}#{self.interface}"


def parse_bind(text: str) -> tuple[BindTarget, ...]:
    """Return the targets of a `bind(…)`. White space is free. Raises `ValueError` with a sentence."""
    inner = text.strip().removeprefix("bind").lstrip()
    if not (text.lstrip().startswith("bind") and inner.startswith("(") and inner.endswith(")")):
        raise ValueError(f"{_shown(text)} is no bind; write bind(component#interface.pin).")
    return tuple(dict.fromkeys(_parse_target(part) for part in inner[1:-1].split(",")))


def parse_endpoint(text: str, line: int, column: int) -> Endpoint:
    """Return one end of a binding. Raises `ValueError` with a sentence."""
    component, hash_sign, interface = text.partition("#")
    path, interface = _parts(component), interface.strip()
    if not all(map(_is_name, path)) or (hash_sign and not _is_name(interface)):
        raise ValueError(f"{_shown(text)} is no end of a binding; write component or component#interface.")
    return Endpoint(".".join(path), interface or None, line, column)


def _parse_target(text: str) -> BindTarget:
    component, _, pin = text.partition("#")
    path, pin_parts = _parts(component), _parts(pin)
    if not all(map(_is_name, path)) or len(pin_parts) < 2 or not all(map(_is_name, pin_parts)):
        raise ValueError(f"{_shown(text.strip())} is no target of a bind; write component#interface.pin.")
    return BindTarget(".".join(path), ".".join(pin_parts))


def _parts(dotted: str) -> list[str]:
    """Return the names between the dots; one that is empty, and so no name, where there are more than can be nested."""
    parts = dotted.split(".", MANIFEST_DEPTH)
    return [part.strip() for part in parts] if len(parts) <= MANIFEST_DEPTH else [""]


def _is_name(text: str) -> bool:
    return len(text) <= NAME_CHARS and _NAME.fullmatch(text) is not None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
