"""Limits of how many jobs run at a time, and their groups of jobs.

A limit applies to the jobs of an application, of one of its workflows, or of an environment. Its key says which of them
count together. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from launchbay.limits import CONCURRENCY_LIMIT_MAX, CONCURRENCY_LIMITS, LABEL_NAME_CHARS

WhenFull = Literal["queue", "refuse", "cancel-older"]
_WHEN: tuple[WhenFull, ...] = ("queue", "cancel-older", "refuse")  # of two, the later one wins
_KEYS = ("key", "limit", "when")
_NAME = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9._/-]{{0,{LABEL_NAME_CHARS - 2}}}[A-Za-z0-9])?")


class ConcurrencyLimit(msgspec.Struct, frozen=True, kw_only=True):
    """At most `limit` jobs of a group at a time.

    `key` is `application`, `environment`, `label:NAME` (a group for each value) or `lock:NAME`, the one group of that
    name in the organization. `when` says what becomes of a job that finds no place.
    """

    key: str
    limit: int
    when: WhenFull = "queue"


def read_limit(value: Any, default_key: str) -> ConcurrencyLimit:
    """Return a limit from a number or a map. Raises ValueError."""
    found = {"limit": value} if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(found, Mapping):
        raise ValueError("write a number, or a map with 'limit', 'key' and 'when'")  # noqa: TRY004 - as for all that is read
    unknown = [str(key) for key in found if key not in _KEYS]
    if unknown:
        raise ValueError(f"unknown key {unknown[0][:80]!r}; valid keys: {', '.join(_KEYS)}")
    key, most, when = found.get("key", default_key), found.get("limit"), found.get("when", "queue")
    if not isinstance(key, str) or not _is_key(key):
        raise ValueError("'key' must be application, environment, label:NAME or lock:NAME")
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= CONCURRENCY_LIMIT_MAX:
        raise ValueError(f"'limit' must be a whole number from 1 to {CONCURRENCY_LIMIT_MAX}")
    if when not in _WHEN:
        raise ValueError("'when' must be queue, refuse or cancel-older")
    return ConcurrencyLimit(key=key, limit=most, when=when)


def read_limits(value: Any, default_key: str) -> tuple[ConcurrencyLimit, ...]:
    """Return limits from one or a list, with different keys. Raises ValueError."""
    found = tuple(read_limit(each, default_key) for each in (value if isinstance(value, list) else [value]))
    keys = [each.key for each in found]
    if len(found) > CONCURRENCY_LIMITS:
        raise ValueError(f"at most {CONCURRENCY_LIMITS} limits are allowed")
    if len(set(keys)) < len(keys):
        raise ValueError("two limits have the same key")
    return found


def _is_key(key: str) -> bool:
    kind, colon, name = key.partition(":")
    if not colon:
        return kind in {"application", "environment"}
    return kind in {"label", "lock"} and _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScope:
    """Where a job runs. The settings are JSON lists of limits, or None."""

    application_id: str
    application: str
    environment_id: str
    environment: str
    labels: Mapping[str, str]
    application_limits: str | None
    environment_limits: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """A group in which a job needs a place.

    `setting_of` is the ID of the application or environment whose settings say so.
    """

    bucket: str
    title: str
    most: int
    when: WhenFull
    setting_of: str | None
    key: str


def places(
    scope: JobScope,
    of_application: Sequence[ConcurrencyLimit],
    of_workflows: Mapping[str, Sequence[ConcurrencyLimit]],
) -> list[Place]:
    """Return the places that a job needs, one for each group.

    The limits given are those of the manifest: of the whole application, and of the workflows that the job runs.
    """
    found: dict[str, Place] = {}
    for place in _all_places(scope, of_application, of_workflows):
        other = found.get(place.bucket)
        found[place.bucket] = place if other is None else _stricter(other, place)
    return list(found.values())


def _all_places(
    scope: JobScope,
    of_application: Sequence[ConcurrencyLimit],
    of_workflows: Mapping[str, Sequence[ConcurrencyLimit]],
) -> Iterator[Place]:
    application, its = scope.application_id, f"application {scope.application!r}"
    for workflow, limits in of_workflows.items():
        about = f"workflow {workflow!r} of {its}"
        for limit in limits:
            yield _place(limit, scope, f"workflow/{application}/{workflow}", about, "application", None)
    for limit in of_application:
        yield _place(limit, scope, f"manifest/{application}", its, "application", None)
    for limit in _read_settings(scope.application_limits):
        yield _place(limit, scope, f"application/{application}", its, "application", application)
    where = f"environment {scope.environment!r}"
    for limit in _read_settings(scope.environment_limits):
        of = scope.environment_id
        yield _place(limit, scope, f"environment/{of}", where, "environment", of)


def _place(
    limit: ConcurrencyLimit, scope: JobScope, bucket: str, about: str, own_key: str, setting_of: str | None
) -> Place:
    """Return the group of a limit.

    `about` names the jobs that it applies to, which are those of `own_key`.
    """
    kind, _, name = limit.key.partition(":")
    title = about
    if kind == "lock":
        bucket, title = f"lock/{name}", f"lock {name!r}"
    elif kind == "label":
        value = scope.labels.get(name)
        bucket = f"{bucket}|{limit.key}={value}" if value is not None else f"{bucket}|{limit.key}"
        title = f"{about} with label {name}={value}" if value is not None else f"{about} without label {name}"
    elif kind == "application":
        bucket = f"{bucket}|application={scope.application_id}"
        if kind != own_key:
            title = f"application {scope.application!r} in {about}"
    else:
        bucket = f"{bucket}|environment={scope.environment_id}"
        if kind != own_key:
            title = f"{about} in environment {scope.environment!r}"
    return Place(bucket, title, limit.limit, limit.when, setting_of, limit.key)


def _stricter(first: Place, second: Place) -> Place:
    """Return the smaller limit of a lock, with the stricter consequence."""
    smaller = first if first.most <= second.most else second
    when = max(first.when, second.when, key=_WHEN.index)
    return Place(smaller.bucket, smaller.title, smaller.most, when, smaller.setting_of, smaller.key)


def _read_settings(text: str | None) -> Sequence[ConcurrencyLimit]:
    return () if text is None else _decoder.decode(text)


_decoder = msgspec.json.Decoder(list[ConcurrencyLimit])
