"""Reading single values that a manifest gives for machines: each takes the kind it names, or says what was expected."""

from collections.abc import Mapping
from typing import Any

from launchbay.errors import ActionFailed

_FLAGS = {"true": True, "false": False}


def refusal(name: str, expected: str) -> ActionFailed:
    """Return the error for a parameter that is wrong or missing. It does not repeat the value, which may be secret."""
    return ActionFailed(f"The parameter '{name}' is wrong or missing: expected {expected}.", retryable=False)


def text(settings: Mapping[str, Any], name: str) -> str:
    """Return a text, empty where it is left out; a number is written as text."""
    value = settings.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise refusal(name, "a text")
    return str(value)


def texts(settings: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts; a single text is separated at its commas."""
    value = settings.get(name)
    if value is None:
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
        raise refusal(name, "a list of texts")
    return list(value)


def truth(settings: Mapping[str, Any], name: str) -> bool:
    """Return true or false; false where it is left out."""
    value = settings.get(name, False)
    if isinstance(value, str):
        value = _FLAGS.get(value.strip().lower())
    if not isinstance(value, bool):
        raise refusal(name, "true or false")
    return value
