"""Labels of instances, applications and environments, and selectors of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.errors import BadRequest
from launchbay.limits import LABEL_NAME_CHARS, LABEL_SELECTOR_CHARS, LABEL_VALUE_CHARS, LABELS
from launchbay.model.wrong_values import plain_kind

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._/:@+-]*[A-Za-z0-9])?)?")
_TERM = re.compile(
    r"\s*(?:(?P<lacks>!)\s*(?P<lacked>[^\s,=!()]+)"
    r"|(?P<name>[^\s,=!()]+)\s*(?:(?P<operator>!=|==?)\s*(?P<value>[^\s,=!()]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?P<end>,|$)"
)
_GRAMMAR = "Write terms such as team=web, tier!=db, region in (eu,us), stage notin (dev), team or !team, with commas."


def read_labels(given: Mapping[str, Any]) -> dict[str, str]:
    """Return checked labels, sorted by name. Raises BadRequest."""
    if len(given) > LABELS:
        raise BadRequest(
            f"There are {len(given)} labels; at most {LABELS} are allowed.", code="InvalidLabel", field="labels"
        )
    for name, value in given.items():
        _check_name(name)
        if not isinstance(value, str):
            hint = [] if name != "labels" else ['Send the labels themselves, such as {"team": "web"}.']
            raise BadRequest(
                f"The value of the label {name} must be a string, not {plain_kind(value)}.",
                *hint,
                code="InvalidLabel",
                field="labels",
            )
        _check_value(name, value)
    return dict(sorted(given.items()))


@dataclass(frozen=True)
class LabelSelector:
    """What the labels of an object must be.

    `allowed` has the values that a label may have, and `unlike` pairs that an object must not have; one without the
    label fits. `has` and `lacks` are names alone.
    """

    allowed: dict[str, list[str]] = field(default_factory=dict)
    unlike: list[tuple[str, str]] = field(default_factory=list)
    has: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is meant."""
        return (
            all(labels.get(name) in values for name, values in self.allowed.items())
            and not any(labels.get(name) == value for name, value in self.unlike)
            and all(name in labels for name in self.has)
            and not any(name in labels for name in self.lacks)
        )


def read_selector(text: str) -> LabelSelector:
    """Return a selector such as `team=web,tier!=db`. Raises BadRequest with the term that is wrong."""
    if len(text) > LABEL_SELECTOR_CHARS:
        raise BadRequest(
            f"The label selector has {len(text)} characters; at most {LABEL_SELECTOR_CHARS} are allowed.",
            code="InvalidSelector",
        )
    selector = LabelSelector()
    place = 0
    while place < len(text) or (place and text[place - 1] == ","):
        term = _TERM.match(text, place)
        if term is None:
            rest = text[place : place + 40]
            raise BadRequest(f"The label selector can't be read from {rest!r} on.", _GRAMMAR, code="InvalidSelector")
        _add(selector, term)
        place = term.end()
    return selector


def _add(selector: LabelSelector, term: re.Match[str]) -> None:
    name = term["lacked"] or term["name"]
    _check_name(name)
    if term["lacks"]:
        selector.lacks.append(name)
    elif term["operator"] is None and term["set"] is None:
        selector.has.append(name)
    else:
        values = [term["value"]] if term["set"] is None else [value.strip() for value in term["values"].split(",")]
        for value in values:
            _check_value(name, value)
        if term["operator"] == "!=" or term["set"] == "notin":
            selector.unlike.extend((name, value) for value in values)
        else:
            before = selector.allowed.get(name, values)
            selector.allowed[name] = [value for value in values if value in before]


def _check_name(name: str) -> None:
    if len(name) > LABEL_NAME_CHARS or _NAME.fullmatch(name) is None:
        raise BadRequest(
            f"{name[:80]!r} can't be the name of a label. Use 1 to {LABEL_NAME_CHARS} characters of A-Z, a-z, 0-9 and "
            "'._/-', with one of A-Z, a-z, 0-9 at both ends.",
            code="InvalidLabel",
            field="labels",
        )


def _check_value(name: str, value: str) -> None:
    if len(value) > LABEL_VALUE_CHARS or _VALUE.fullmatch(value) is None:
        raise BadRequest(
            f"The label {name} can't have the value {value[:80]!r}. Use at most {LABEL_VALUE_CHARS} characters of A-Z, "
            "a-z, 0-9 and '._/:@+-', with one of A-Z, a-z, 0-9 at both ends.",
            code="InvalidLabel",
            field="labels",
        )
