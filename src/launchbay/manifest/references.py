"""The two small texts that point at pins: `bind(a.b#iface.pin, …)` and the ends of a binding, `a.b#iface` (§3)."""

import re

import msgspec

WILDCARD = "*"

_BIND = re.compile(r"\s*bind\s*\((.*)\)\s*", re.DOTALL)
_SPACE_AROUND = re.compile(r"\s*([.#])\s*")


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
    match = _BIND.fullmatch(text)
    if match is None:
        raise ValueError(f"{_shown(text)} is no bind; write bind(component#interface.pin).")
    targets = tuple(_parse_target(part) for part in match[1].split(","))
    return tuple(dict.fromkeys(targets))


def parse_endpoint(text: str, line: int, column: int) -> Endpoint:
    """Return one end of a binding. Raises `ValueError` with a sentence."""
    component, hash_sign, interface = _tidy(text).partition("#")
    if not _is_path(component) or (hash_sign and not _is_name(interface)):
        raise ValueError(f"{_shown(text)} is no end of a binding; write component or component#interface.")
    return Endpoint(component, interface or None, line, column)


def _parse_target(text: str) -> BindTarget:
    component, _, pin = _tidy(text).partition("#")
    interface, dot, name = pin.partition(".")
    if not _is_path(component) or not (dot and _is_name(interface) and _is_name(name)):
        raise ValueError(f"{_shown(text.strip())} is no target of a bind; write component#interface.pin.")
    return BindTarget(component, pin)


def _tidy(text: str) -> str:
    return _SPACE_AROUND.sub(r"\1", text.strip())


def _is_path(text: str) -> bool:
    return bool(text) and all(_is_name(part) for part in text.split("."))


def _is_name(text: str) -> bool:
    return bool(text) and text == text.strip() and not any(mark in text for mark in "#,()")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
