"""The queries of lists, such as `status:failed`, and the pages of lists by name."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Generic, NamedTuple, Protocol, TypeVar

from launchbay.errors import BadRequest
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.model.findings import Hints
from launchbay.model.instance import Health
from launchbay.model.labels import read_selector
from launchbay.usecases.fleet import InstanceFilter, JobFilter

_TERM = re.compile(r'(?:(-?[a-z][a-z-]*):)?("[^"]*"|\S+)')
FACET_ROWS = 20  # that a facet offers of objects, beside the chosen ones
_NAMED = 6  # in a message
_EXCLUDING = {"status", "app", "env"}  # fields of which a term such as `-status:destroyed` leaves out a value
_NOTHING = "nothing"  # no object has it as its ID or status
STANDARD = "-status:destroyed"  # what the list shows before anybody asks for something else
_HOURS = re.compile(r"<(\d{1,4})([hd])")
_WHEN = re.compile(r"<?(\d{1,4})([hd])|(\d{4}-\d{2}-\d{2})")
_LONGER = re.compile(r">(\d{1,6})(s|m|min|h)")
_HOURS_OF = {"h": 1, "d": 24}
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600}
# The words of people for statuses of the API.
INSTANCE_STATUSES = {
    "running": "Running",
    "failed": "Failed",
    "in-progress": "Executing",
    "queued": "Requested",
    "destroying": "Destroying",
    "destroyed": "Destroyed",
}
RUN_STATUSES = {"succeeded": "Succeeded", "failed": "Failed", "cancelled": "Cancelled", "in-progress": "Executing"}


class Term(NamedTuple):
    """A term of a query. `problem` says why nothing fits: the term isn't understood."""

    text: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was read: its terms, and the rest of it."""

    terms: Sequence[Term]
    words: str

    @property
    def text(self) -> str:
        """The whole query."""
        return " ".join(filter(None, (*(term.text for term in self.terms), self.words)))

    @property
    def problem(self) -> BadRequest | None:
        """What isn't understood.

        Such a query selects nothing: what it narrows would be wider than meant.
        """
        wrong = [f"{each.text}: {each.problem}" for each in self.terms if each.problem]
        return BadRequest(*wrong[:_NAMED], code="InvalidFilter") if wrong else None

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

    @property
    def search(self) -> str | None:
        """The words, without quotation marks."""
        return self.words.replace('"', "").strip() or None


@dataclass(frozen=True, slots=True)
class InstanceQuery(Query):
    """A query of instances, and the filter that it makes."""

    wanted: InstanceFilter


@dataclass(frozen=True, slots=True)
class RunQuery(Query):
    """A query of runs, and the filter that it makes."""

    wanted: JobFilter

    def of_instance(self, instance_id: str | None) -> JobFilter:
        """Return the filter for the runs of an instance; None is any."""
        return self.wanted if instance_id is None else replace(self.wanted, instance_ids=[instance_id])


@dataclass(frozen=True, slots=True)
class ActivityQuery(Query):
    """A query of the audit log.

    `by` and `on` are what was written: names, addresses, IDs or paths.
    """

    by: str | None
    on: str | None
    kinds: Sequence[str]
    since: datetime | None
    until: datetime | None

    def with_last(self, field: str, value: str) -> str:
        """Return the query with this value alone for a field.

        For `on`, it is also in place of the words.
        """
        kept = [each.text for each in self.terms if not each.text.startswith(f"{field}:")]
        return " ".join(filter(None, (*kept, term(field, value), "" if field == "on" else self.words)))


def term(field: str, value: str) -> str:
    """Return a term as people write it, without quotation marks in it."""
    value = value.replace('"', "")
    return f'{field}:"{value}"' if not value or re.search(r"\s", value) else f"{field}:{value}"


class Facet(NamedTuple):
    """What the page offers for a field: labels with their terms.

    `more` is the field if it has other values too.
    """

    label: str
    options: Sequence[tuple[str, str]]
    more: str = ""


def facet_of_names(label: str, field: str, names: Iterable[str], query: Query) -> Facet:
    """Return a facet with the first of the names, and those that the query has."""
    chosen = {each.text for each in query.terms if each.text.startswith(f"{field}:")}
    options: list[tuple[str, str]] = []
    more = ""
    for place, name in enumerate(names):
        if place < FACET_ROWS or (chosen and term(field, name) in chosen):
            options.append((name, term(field, name)))
        else:
            more = field
    return Facet(label, options, more)


class _Named(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_Named)


@dataclass(frozen=True, slots=True)
class NamePage(Generic[NamedT]):
    """A page of objects by name.

    `next_after` is the ID of its last row if another page follows.
    """

    rows: Sequence[NamedT]
    search: str
    is_first: bool
    next_after: str | None

    @property
    def is_all(self) -> bool:
        """Whether it shows every object there is."""
        return not self.search and self.is_first and self.next_after is None


def page_by_name(rows: Iterable[NamedT], search: str | None, after: str | None) -> NamePage[NamedT]:
    """Return a page of those whose names have a text, in any case.

    It is the page after the row with an ID, and the first one if somebody has deleted that row.
    """
    wanted = (search or "").lower()
    found = [row for row in rows if wanted in row.name.lower()]
    begin = 0 if after is None else next((place for place, row in enumerate(found, 1) if row.id == after), 0)
    shown = found[begin : begin + CONSOLE_PAGE_ROWS]
    is_last = begin + len(shown) == len(found)
    return NamePage(shown, search or "", begin == 0, None if is_last else shown[-1].id)


def read_instance_query(
    text: str,
    applications: Mapping[str, str],
    environments: Mapping[str, str],
    people: Mapping[str, str],
    user_id: str,
    now: datetime,
) -> InstanceQuery:
    """Read a query, with names by ID.

    `owner:me` is the user with this ID. Terms of one field are alternatives, except labels and owners: the last owner
    counts. A term with a minus leaves out what has the value.
    """
    given: dict[str, list[str]] = {}
    known: dict[str, Mapping[str, Sequence[str]]] = {
        "status": {key: [value] for key, value in INSTANCE_STATUSES.items()},
        "last-run": {key: [value] for key, value in RUN_STATUSES.items()},
        "health": {"degraded": [Health.DEGRADED]},
        "drift": {"new": ["new"]},
        "managed": {"observe": ["observe"]},
        "secret": {"changed": ["changed"]},
        "app": _ids(applications),
        "env": _ids(environments),
        "owner": {**_ids(people), "me": [user_id]},
    }
    query = _read(text, {"workflow", "label", "expires"}, known, given)
    expiry = given.get("expires")
    expires_before = now + timedelta(hours=min(map(int, expiry))) if expiry else None
    return InstanceQuery(
        query.terms,
        query.words,
        InstanceFilter(
            statuses=_statuses(query, given),
            job_outcomes=given.get("last-run") or None,
            is_degraded="health" in given,
            is_drifted="drift" in given,
            is_observed="managed" in given,
            has_changed_secrets="secret" in given,
            workflows=given.get("workflow") or None,
            application_ids=given.get("app") or None,
            environment_ids=given.get("env") or None,
            owner_id=given["owner"][-1] if given.get("owner") else None,
            expires_before=expires_before,
            search=query.search,
            labels=",".join(given["label"]) if given.get("label") else None,
        ),
    )


def read_run_query(
    text: str,
    applications: Mapping[str, str],
    environments: Mapping[str, str],
    people: Mapping[str, str],
    user_id: str,
    now: datetime,
) -> RunQuery:
    """Read a query, with names by ID.

    `by:me` is the user with this ID. Of several people, the last one counts.
    """
    given: dict[str, list[str]] = {}
    known: dict[str, Mapping[str, Sequence[str]]] = {
        "status": {key: [value] for key, value in RUN_STATUSES.items()},
        "app": _ids(applications),
        "env": _ids(environments),
        "by": {**_ids(people), "me": [user_id]},
    }
    query = _read(text, {"workflow", "duration", "started"}, known, given)
    longer = given.get("duration")
    since, until = _started(given.get("started", ()), now)
    return RunQuery(
        query.terms,
        query.words,
        JobFilter(
            outcomes=_statuses(query, given),
            workflows=given.get("workflow") or None,
            application_ids=given.get("app") or None,
            environment_ids=given.get("env") or None,
            owner_id=given["by"][-1] if given.get("by") else None,
            since=since,
            until=until,
            longer_than=timedelta(seconds=max(map(int, longer))) if longer else None,
            search=query.search,
        ),
    )


def read_activity_query(text: str, kinds: Sequence[str], now: datetime) -> ActivityQuery:
    """Read a query. `kinds` are those that `did` selects.

    Words are the name of an object, as `on` is. Of several terms with one field, the last one counts, except of `did`.
    """
    given: dict[str, list[str]] = {}
    query = _read(text, {"by", "on", "since", "until"}, {"did": {each: [each] for each in kinds}}, given)
    last = {field: values[-1] for field, values in given.items() if values}
    return ActivityQuery(
        query.terms,
        query.words,
        by=last.get("by"),
        on=last.get("on") or query.search,
        kinds=given.get("did", []),
        since=_time(last.get("since"), now),
        until=_time(last.get("until"), now),
    )


def _started(given: Sequence[str], now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the time in which runs began: since hours, or on a day."""
    if not given:
        return None, None
    begin = max(each for each in (_time(text, now) for text in given) if each is not None)
    days = [text for text in given if not text.isdigit()]
    return begin, None if not days else datetime.combine(date.fromisoformat(min(days)), time(), UTC) + timedelta(days=1)


def _statuses(query: Query, given: Mapping[str, list[str]]) -> list[str] | None:
    return [_NOTHING] if query.problem else given.get("status") or None


def _time(text: str | None, now: datetime) -> datetime | None:
    """Return the time so many hours ago, or the beginning of a day."""
    if text is None or text.isdigit():
        return None if text is None else now - timedelta(hours=int(text))
    return datetime.combine(date.fromisoformat(text), time(), UTC)


def _read(
    text: str, fields: Set[str], known: Mapping[str, Mapping[str, Sequence[str]]], given: dict[str, list[str]]
) -> Query:
    """Split a query into terms and words.

    Adds what the terms select to `given`, by field.
    """
    terms: list[Term] = []
    words: list[str] = []
    unwanted: dict[str, set[str]] = {}
    for match in _TERM.finditer(text):
        field, value = match[1], match[2].strip('"')
        if field is None:
            words.append(match[0])
            continue
        try:
            positive = field.removeprefix("-")
            if field != positive and positive in _EXCLUDING:
                unwanted.setdefault(positive, set()).update(_values(positive, value, known, fields))
            else:
                given.setdefault(field, []).extend(_values(field, value, known, fields))
            terms.append(Term(match[0]))
        except BadRequest as error:
            terms.append(Term(match[0], str(error)))
    for field, excluded in unwanted.items():
        every = given.get(field) or [each for values in known[field].values() for each in values]
        given[field] = [each for each in every if each not in excluded] or [_NOTHING]
    return Query(terms, " ".join(words))


def _values(
    field: str, value: str, known: Mapping[str, Mapping[str, Sequence[str]]], fields: Set[str]
) -> Sequence[str]:
    """Return what a term selects. Raises BadRequest for one that is not understood."""
    if field not in known and field not in fields:
        names = sorted({*known, *fields})
        hint = Hints().nearest(field.removeprefix("-"), names) or f" Use one of these: {', '.join(names)}."
        raise BadRequest(f"There is no field {field}.{hint} A text with a colon needs quotation marks.")
    if field in known:
        if value.lower() not in known[field]:
            few = ", ".join(list(known[field])[:_NAMED])
            raise BadRequest(f"Use one of these: {few}." if few else "You can see no object of this name.")
        return known[field][value.lower()]
    if field == "duration":
        longer = _LONGER.fullmatch(value)
        if longer is None:
            raise BadRequest("Use a duration such as >30s, >5min or >1h.")
        return [str(int(longer[1]) * _SECONDS[longer[2]])]
    if field == "started" and not value.startswith("<"):
        return [_read_when(value)]
    if field in {"expires", "started"}:
        hours = _HOURS.fullmatch(value)
        if hours is None:
            raise BadRequest("Use a time such as <24h or <7d.")
        return [str(int(hours[1]) * _HOURS_OF[hours[2]])]
    if field in {"since", "until"}:
        return [_read_when(value)]
    if field == "label":
        read_selector(value)
    return [value]


def _read_when(value: str) -> str:
    """Return a day, or hours."""
    found = _WHEN.fullmatch(value)
    try:
        if found is not None:
            return date.fromisoformat(found[3]).isoformat() if found[3] else str(int(found[1]) * _HOURS_OF[found[2]])
    except ValueError:  # no day of the calendar
        pass
    raise BadRequest("Use a time such as 24h or 7d, or a day such as 2026-01-31.")


def _ids(names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the IDs by name; several objects may have the same one."""
    found: dict[str, list[str]] = {}
    for each, name in names.items():
        found.setdefault(name.replace('"', "").lower(), []).append(each)
    return found
