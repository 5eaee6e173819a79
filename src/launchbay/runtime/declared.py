"""Values as the types that the manifest declares for them, where that loses nothing (manifest-language §3, Types)."""

from collections.abc import Callable, Mapping
from typing import Any

from launchbay.model.types import Type
from launchbay.model.values import CoercionError, coerce

Tell = Callable[[str], None]


def as_declared(declared: Type | None, value: Any, tell: Tell | None = None) -> Any:
    """Return the value as the declared type; nothing stays nothing, and what does not fit stays as it is, and is told.

    Two ends of different types are warned of and never refused, so a value is not refused here either.
    """
    if value is None or declared is None:
        return value
    try:
        return coerce(declared, value)
    except CoercionError as error:
        if tell is not None:
            tell(str(error))
        return value


def all_as_declared(
    declared: Mapping[str, Type | None], values: Mapping[str, Any], tell: Tell | None = None
) -> dict[str, Any]:
    """Return values by name as the types that are declared for them by name."""

    def of(name: str) -> Tell | None:
        return None if tell is None else lambda problem: tell(f"{name!r}: {problem}")

    return {name: as_declared(declared.get(name), value, of(name)) for name, value in values.items()}
