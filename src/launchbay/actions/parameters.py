"""Read the parameters of a step: each function accepts one kind of value, or reports what it expected.

All raise `ActionFailed` with `retryable=False`, because a retry has the same parameters.

An absent parameter, null, an empty string and an empty list are four different things (language §9):

- Absent is the default.
- Null is the default too, mostly of an expression without a value, of which the step's log warns. It fails the step in
  a parameter that `needs_value`, if an expression lost it, and in one that `is_choice`.
- An empty string is the default of an optional text (`text_or_default`), no name of a role, and otherwise wrong.
- An empty list is a list of nothing: no host, no role, no address. It is never the default.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.errors import ActionFailed
from launchbay.model.document_name import DOCUMENT_NAMES, is_document_name
from launchbay.model.durations import parse_duration_s
from launchbay.model.scalars import settled, text_of, with_texts
from launchbay.model.types import STRING, ListType, MapType, Type, parse_type

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_FLAGS = {"true": True, "false": False}


def given_parameters(declared: Mapping[str, ActionParameter], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as the action gets them.

    Where it wants texts, it gets texts, such as `1.10` for `list<string>`. Numbers that remember their text
    (`model/scalars.py`) stay so only where the action asks for it.
    """
    return {name: _given(declared.get(name), value) for name, value in parameters.items()}


def _given(parameter: ActionParameter | None, value: Any) -> Any:
    if parameter is not None and parameter.numbers != "plain":
        return with_texts(value) if parameter.numbers == "text" else value
    return settled(value) if parameter is None or parameter.type is None else _of_type(_parsed(parameter.type), value)


_parsed = lru_cache(maxsize=256)(parse_type)


def _of_type(type_: Type, value: Any) -> Any:
    if isinstance(type_, ListType):
        return (
            [_of_type(type_.item, item) for item in value]
            if isinstance(value, list | tuple)
            else _of_type(type_.item, value)
        )
    if isinstance(type_, MapType) and isinstance(value, Mapping):
        return {key: _of_type(type_.value, item) for key, item in value.items()}
    return with_texts(value) if type_ == STRING and not isinstance(value, Mapping) else settled(value)


def wrong_parameter(name: str, expected: str) -> ActionFailed:
    """Return the error for an invalid parameter. It omits the value, which may be secret."""
    return ActionFailed(f"The parameter '{name}' is wrong: expected {expected}.", retryable=False)


def required(parameters: Mapping[str, Any], name: str, expected: str) -> Any:
    """Return a parameter that must not be missing or null."""
    value = parameters.get(name)
    if value is None:
        raise ActionFailed(f"The parameter '{name}' is missing: expected {expected}.", retryable=False)
    return value


def refuse_no_choice(call: ActionCall, known: Mapping[str, ActionParameter]) -> None:
    """Raise if a choice is written, but null or empty.

    Without it the step does more: a null from a mistyped variable must not create machines, or release all of them.
    """
    for name, parameter in known.items():
        if parameter.is_choice and name in call.parameters and call.parameters[name] in (None, ""):
            raise without_value(name, call.expressions.get(name, ""))


def refuse_lost(call: ActionCall, known: Mapping[str, ActionParameter]) -> None:
    """Raise if a parameter that needs a value is an expression without one.

    A null that the author wrote means the default.
    """
    for name, parameter in known.items():
        if parameter.needs_value and name in call.expressions and call.parameters.get(name) is None:
            raise without_value(name, call.expressions[name])


def without_value(name: str, expression: str) -> ActionFailed:
    """Return the error for a parameter that is written, but has no value."""
    written = f": {expression}" if expression else ""
    return ActionFailed(
        f"{name} is given, but has no value{written}. Give it a value, or remove the parameter.", retryable=False
    )


def require_one(parameters: Mapping[str, Any], name: str, other: str) -> None:
    """Raise unless exactly one of two parameters is set."""
    if (parameters.get(name) is None) == (parameters.get(other) is None):
        raise ActionFailed(f"Set either '{name}' or '{other}', but not both.", retryable=False)


def required_text(parameters: Mapping[str, Any], name: str, expected: str) -> str:
    """Return a non-empty string; numbers and booleans are converted."""
    value = text_of(required(parameters, name, expected))
    if not value:
        raise wrong_parameter(name, expected)
    return value


def optional_text(parameters: Mapping[str, Any], name: str, expected: str) -> str | None:
    """Return a non-empty string, or None if the parameter is missing or null."""
    if parameters.get(name) is None:
        return None
    return required_text(parameters, name, expected)


def text_or_default(parameters: Mapping[str, Any], name: str, expected: str, default: str = "") -> str:
    """Return a string. Missing, null or empty: the default."""
    return default if parameters.get(name) == "" else optional_text(parameters, name, expected) or default


def choice(parameters: Mapping[str, Any], name: str, choices: Sequence[str]) -> str:
    """Return one of the choices. Default: the first."""
    expected = f"one of {', '.join(choices)}"
    value = optional_text(parameters, name, expected) or choices[0]
    if value not in choices:
        raise wrong_parameter(name, expected)
    return value


def one_of(*choices: str, any_case: bool = False) -> Callable[[Any], object]:
    """Return a check that raises ValueError for any value but the choices."""

    def check(value: Any) -> None:
        text = text_of(value)
        if not text or (text.strip().upper() if any_case else text) in choices:
            return
        near = get_close_matches(text.strip().upper() if any_case else text, choices, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"expected one of {', '.join(choices)}.{hint}")

    return check


def document_name(parameters: Mapping[str, Any]) -> str:
    """Return the parameter `name` of a stored document. Default: `default`."""
    name = optional_text(parameters, "name", "a name") or "default"
    if not is_document_name(name):
        raise wrong_parameter("name", DOCUMENT_NAMES)
    return name


def flag(parameters: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return a boolean; accepts the strings "true" and "false"."""
    value = parameters.get(name)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _FLAGS:
        return _FLAGS[value.strip().lower()]
    raise wrong_parameter(name, "true or false")


def whole_number(value: Any, name: str, *, minimum: int, maximum: int) -> int:
    """Return an integer within the limits; accepts "3" and 3.0."""
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif (isinstance(value, float) and value.is_integer()) or (
        isinstance(value, str) and _INTEGER.fullmatch(value.strip())
    ):
        number = int(value)
    if number is None or not minimum <= number <= maximum:
        raise wrong_parameter(name, f"a whole number from {minimum} to {maximum}")
    return number


def optional_texts(parameters: Mapping[str, Any], name: str, expected: str) -> list[str] | None:
    """Return a list of strings, or None if it is missing or null. A single string is a list of one."""
    value = parameters.get(name)
    if value is None:
        return None
    found: list[str] = []
    for number, item in enumerate(value if isinstance(value, list | tuple) else [value], 1):
        if item is None:
            raise ActionFailed(f"Item {number} of {name} has no value. Give it one, or remove it.", retryable=False)
        text = text_of(item)
        if not text:
            raise wrong_parameter(name, expected)
        found.append(text)
    return found


def filled_texts(parameters: Mapping[str, Any], name: str, expected: str) -> list[str] | None:
    """Return a list of strings. An empty one is wrong."""
    found = optional_texts(parameters, name, expected)
    if found == []:
        raise wrong_parameter(name, f"{expected}, which isn't empty")
    return found


def optional_roles(call: ActionCall) -> list[str] | None:
    """Return the parameter `roles`; None, if it is null, means all.

    An item without a value names no role; it is logged and skipped, as a role without machines is.
    """
    roles = call.parameters.get("roles")
    if roles is None:
        return None
    items = roles if isinstance(roles, list | tuple) else [roles]
    named = [item for item in items if item not in (None, "")]
    if len(named) < len(items):
        call.context.log("warning", "A role in 'roles' has no name; nothing to do there.")
    return optional_texts({"roles": named}, "roles", "a list of roles")


def optional_mapping(parameters: Mapping[str, Any], name: str, expected: str) -> Mapping[str, Any]:
    """Return a map with string keys. Default: empty."""
    value = parameters.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise wrong_parameter(name, expected)
    return value


def optional_text_mapping(parameters: Mapping[str, Any], name: str, expected: str) -> dict[str, str]:
    """Return a map of strings; numbers and booleans are converted. Default: empty."""
    found: dict[str, str] = {}
    for key, value in optional_mapping(parameters, name, expected).items():
        text = text_of(value)
        if text is None:
            raise wrong_parameter(f"{name}.{key}", "a string")
        found[key] = text
    return found


def json_text(value: Any, name: str) -> str:
    """Return a parameter as JSON. Raises for values that JSON doesn't have."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong_parameter(name, f"data that JSON supports ({error})") from error


def optional_duration_s(
    parameters: Mapping[str, Any], name: str, *, longest_s: float = limits.WAIT_LONGEST_S
) -> float | None:
    value = parameters.get(name)
    if value is None:
        return None
    try:
        return parse_duration_s(value, longest_s=longest_s)
    except ValueError as error:
        raise ActionFailed(f"The parameter '{name}' is wrong: {error}", retryable=False) from error


def duration_s(
    parameters: Mapping[str, Any], name: str, default_s: float, *, longest_s: float = limits.WAIT_LONGEST_S
) -> float:
    seconds = optional_duration_s(parameters, name, longest_s=longest_s)
    return default_s if seconds is None else seconds


def required_duration_s(parameters: Mapping[str, Any], name: str, *, longest_s: float = limits.WAIT_LONGEST_S) -> float:
    required(parameters, name, 'a duration, such as 90 or "2 minutes"')
    return optional_duration_s(parameters, name, longest_s=longest_s) or 0.0
