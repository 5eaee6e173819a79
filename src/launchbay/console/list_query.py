"""The query of the list of instances: terms such as `status:failed`, and words of names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from launchbay.errors import BadRequest
from launchbay.model.labels import read_selector
from launchbay.usecases.fleet import InstanceFilter

_TERM = re.compile(r'(?:([a-z-]+):)?("[^"]*"|\S+)')
_NAMED = 6  # in a message
_HOURS = re.compile(r"<(\d{1,4})([hd])")
# The words of people for statuses of the API.
INSTANCE_STATUSES = {
    "running": "Running",
    "failed": "Failed",
    "in-progress": "Executing",
    "queued": "Requested",
    "destroying": "Destroying",
    "destroyed": "Destroyed",
}
RUN_STATUSES = {"succeeded": "Succeeded", "failed": "Failed", "in-progress": "Executing"}


class Term(NamedTuple):
    """A term of a query. `problem` says why it narrows nothing."""

    text: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class InstanceQuery:
    """A query that was read: its terms, the rest of it, and the filter that both make."""

    terms: Sequence[Term]
    words: str
    wanted: InstanceFilter

    @property
    def text(self) -> str:
        """The whole query."""
        return " ".join(filter(None, (*(term.text for term in self.terms), self.words)))

    def has(self, text: str) -> bool:
        return any(term.text == text for term in self.terms)

    def without(self, text: str) -> str:
        """Return the query without a term."""
        return " ".join(filter(None, (*(term.text for term in self.terms if term.text != text), self.words)))

    def toggled(self, text: str) -> str:
        """Return the query with a term, or without it if it has it."""
        if self.has(text):
            return self.without(text)
        return " ".join(filter(None, (*(term.text for term in self.terms), text, self.words)))


def term(field: str, value: str) -> str:
    """Return a term as people write it; quotation marks can't be part of a value."""
    value = value.replace('"', "")
    return f'{field}:"{value}"' if not value or re.search(r"\s", value) else f"{field}:{value}"


def read_instance_query(
    text: str, applications: Mapping[str, str], environments: Mapping[str, str], now: datetime
) -> InstanceQuery:
    """Read a query, with the names of applications and environments by ID.

    Terms of one field are alternatives, except labels.
    """
    terms: list[Term] = []
    words: list[str] = []
    given: dict[str, list[str]] = {}
    known: dict[str, Mapping[str, Sequence[str]]] = {
        "status": {key: [value] for key, value in INSTANCE_STATUSES.items()},
        "last-run": {key: [value] for key, value in RUN_STATUSES.items()},
        "app": _ids(applications),
        "env": _ids(environments),
    }
    for match in _TERM.finditer(text):
        field, value = match[1], match[2].strip('"')
        if field is None:
            words.append(match[0])
            continue
        try:
            given.setdefault(field, []).extend(_values(field, value, known))
            terms.append(Term(match[0]))
        except BadRequest as error:
            terms.append(Term(match[0], str(error)))
    expiry = given.get("expires")
    expires_before = now + timedelta(hours=min(map(int, expiry))) if expiry else None
    return InstanceQuery(
        terms,
        " ".join(words),
        InstanceFilter(
            statuses=given.get("status") or None,
            job_statuses=given.get("last-run") or None,
            workflows=given.get("workflow") or None,
            application_ids=given.get("app") or None,
            environment_ids=given.get("env") or None,
            expires_before=expires_before,
            search=" ".join(word.strip('"') for word in words) or None,
            labels=",".join(given["label"]) if given.get("label") else None,
        ),
    )


def _values(field: str, value: str, known: Mapping[str, Mapping[str, Sequence[str]]]) -> Sequence[str]:
    """Return what a term selects. Raises BadRequest for one that is not understood."""
    if field in known:
        if value.lower() not in known[field]:
            few = ", ".join(list(known[field])[:_NAMED])
            raise BadRequest(f"Use one of these: {few}." if few else "You can see no object of this name.")
        return known[field][value.lower()]
    if field == "workflow":
        return [value]
    if field == "label":
        read_selector(value)
        return [value]
    if field == "expires":
        hours = _HOURS.fullmatch(value)
        if hours is None:
            raise BadRequest("Use a time such as <24h or <7d.")
        return [str(int(hours[1]) * (24 if hours[2] == "d" else 1))]
    raise BadRequest(f"There is no field {field}.")


def _ids(names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the IDs by name; several objects may have the same one."""
    found: dict[str, list[str]] = {}
    for each, name in names.items():
        found.setdefault(name.replace('"', "").lower(), []).append(each)
    return found
