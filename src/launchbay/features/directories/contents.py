"""Services, accounts, Git sources and schedules as files of a directory describe them.

They name other objects instead of giving their IDs, and contain no secrets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args

import msgspec

from launchbay.model.scalars import as_texts, for_json, name_of, settled
from launchbay.model.types import INT
from launchbay.model.values import CoercionError, coerce
from launchbay.model.wrong_values import WrongDocument, converted


class Service(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A service. A secret parameter is `{fromVault: SECRET, vault: SERVICE}`, or is left out."""

    type: str
    parameters: dict[str, Any] = {}


class ServiceAccount(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A service account without its access tokens. The roles are names."""

    description: str = ""
    enabled: bool = True
    roles: list[str] = []


class Member(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A person, by email address. `name` counts for a new account alone."""

    name: str
    roles: list[str] = []


class Previews(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """Previews of pull requests, without parameters that are secret."""

    environment: str
    lifetime_ms: int
    parameters: dict[str, Any] = {}


ForgeName = Literal["github", "gitlab", "gitea"]
GitApplies = Literal["at-once", "after-approval", "change-set"]
GitInstances = Literal["keep", "change-set", "at-once"]
ActName = Literal["run", "resume", "reconfigure", "extend", "destroy", "label"]


class GitSource(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A source in Git as in the API, with names instead of IDs."""

    account: str
    url: str
    application: str | None = None
    branch: str = "main"
    path: str = ""
    user: str = ""
    vault: str | None = None
    credential: str | None = None
    host_keys: list[str] = []
    interval_ms: int | None = None
    applies: GitApplies = "at-once"
    instances: GitInstances = "keep"
    prune: bool = False
    forge: ForgeName | None = None
    api: str | None = None
    webhook_secret: str | None = None
    status_token: str | None = None
    previews: Previews | None = None
    paused: bool = False


class Select(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """Which instances; lists are alternatives.

    Applications and environments are names, the owner is an email address.
    """

    statuses: list[str] | None = None
    job_statuses: list[str] | None = None
    degraded: bool = False
    drifted: bool = False
    observed: bool = False
    secrets_changed: bool = False
    workflows: list[str] | None = None
    applications: list[str] | None = None
    environments: list[str] | None = None
    owner: str | None = None
    expires_before: int | None = None
    name: str | None = None
    name_part: str | None = None
    search: str | None = None
    labels: str | None = None
    all: bool = False  # instead of a filter


class Bulk(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A bulk run, whose instances a filter chooses."""

    act: ActName
    workflow: str | None = None
    parameters: dict[str, Any] = {}
    expires_in: int | None = None
    labels: dict[str, str | None] = {}
    select: Select = msgspec.field(default_factory=Select)
    max_parallel: int = 10
    stop_after_failures: int | None = None


class Schedule(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A recurring schedule: a launch of `application`, or a bulk run.

    `launch` has names where the API has IDs.
    """

    cron: str
    zone: str = "UTC"
    starts_at: int | None = None
    ends_at: int | None = None
    paused: bool = False
    when_busy: Literal["skip", "queue"] = "skip"
    jitter_ms: int = 0
    application: str | None = None
    launch: dict[str, Any] = {}
    bulk: Bulk | None = None


Content = Service | ServiceAccount | Member | GitSource | Schedule
Noun = Literal["service", "service-account", "user", "git-source", "schedule"]


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of objects: its noun, its folder, and what a file contains."""

    noun: Noun
    folder: str
    content: type[Content]


# In the order in which they are made: each after those that it names.
KINDS: Mapping[Noun, ObjectKind] = {
    each.noun: each
    for each in (
        ObjectKind("service", "services", Service),
        ObjectKind("service-account", "service-accounts", ServiceAccount),
        ObjectKind("user", "users", Member),
        ObjectKind("git-source", "git-sources", GitSource),
        ObjectKind("schedule", "schedules", Schedule),
    )
}
EARLY: tuple[Noun, ...] = ("service", "service-account", "user")  # before applications; the others name those
LATE: tuple[Noun, ...] = ("git-source", "schedule")
assert {*EARLY, *LATE} == set(get_args(Noun)), "each kind has its turn"


def read_object(kind: ObjectKind, document: Any) -> dict[str, Any]:
    """Return the content of an object in its one form, as values.

    Numbers of parameters remember their text. Raises WrongDocument for another form.
    """
    found = converted(_in_types_of(kind.content, document), kind.content)
    if isinstance(found, Schedule) and (found.application is None) == (found.bulk is None):
        raise WrongDocument("Give either application or bulk. A schedule of one instance can't be in a directory.")
    return as_values(found)


def as_values(content: msgspec.Struct) -> dict[str, Any]:
    """Return the content of an object as values, without what has its default."""
    return {name: _plain(value) for name, value in _given(content)}


def _given(content: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Yield the fields that don't have their defaults, by the name in files."""
    for each in msgspec.structs.fields(content):
        value = getattr(content, each.name)
        default = each.default if each.default is not msgspec.NODEFAULT else None
        if each.default_factory is not msgspec.NODEFAULT:
            default = each.default_factory()
        if each.required or value != default:
            yield each.encode_name, value


def _plain(value: Any) -> Any:
    """Return a value of a field as values."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(inner) for name, inner in _given(value)}
    return value


_INNER: Mapping[str, type[msgspec.Struct]] = {"previews": Previews, "bulk": Bulk, "select": Select}
_TEXTS = (str, str | None, list[str], list[str] | None, dict[str, str | None])


def _in_types_of(kind: type[msgspec.Struct], document: Any) -> Any:
    """Return a document with each number in the form that its field has."""
    if not isinstance(document, Mapping):
        return settled(document)
    types = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
    found = {}
    for name, value in document.items():
        try:
            found[name] = _in_type_of(types.get(name), name, value)
        except WrongDocument as error:
            raise error.inside(name) from None
        except ValueError as error:
            raise WrongDocument(str(error), (name,)) from None
    return found


def _in_type_of(wanted: Any, name: str, value: Any) -> Any:
    """Return a field with its numbers in their form there. Raises ValueError."""
    if name in _INNER:
        return _in_types_of(_INNER[name], value)
    if name == "launch" and isinstance(value, Mapping):
        return _launch(value)
    if name == "parameters":
        return _parameters(value)
    if wanted in _TEXTS:
        return _texts(name, value)
    return _whole(name, value) if wanted in _WHOLE else settled(value)


_WHOLE = (int, int | None)


def _texts(name: str, value: Any) -> Any:
    """Return a field of texts, with numbers as written. Raises WrongDocument for a boolean."""
    if isinstance(value, bool):
        raise WrongDocument(f"{name} must be a string. Put it in quotes.")
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        if isinstance(each, bool):
            raise WrongDocument(f"{name} must consist of strings. Put it in quotes.", (key,))
    return as_texts(value)


def _whole(name: str, value: Any) -> Any:
    """Return a field with a whole number, however it is written.

    Raises `ValueError` for a fraction.
    """
    if value is None:
        return None
    try:
        return value if isinstance(value, str) else coerce(INT, value)
    except CoercionError:
        raise ValueError(f"{name} must be a whole number.") from None


def _parameters(value: Any) -> Any:
    """Return parameters with their numbers as written; references to secrets consist of texts."""
    if not isinstance(value, Mapping):
        return for_json(value)
    found = {}
    for name, each in value.items():
        try:
            found[name] = _reference(name, each) if _refers(each) else for_json(each)
        except ValueError as error:
            raise WrongDocument(str(error), (name,)) from None
    return found


def _refers(value: Any) -> bool:
    return isinstance(value, Mapping) and "fromVault" in value


def _reference(name: str, value: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {field: name_of(field, each) for field, each in value.items() if field != "vault" or each is not None}
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


_TYPED_LATER = ("parameters", "submodules")
_LAUNCH_TEXTS = ("environment", "revision", "instanceName", "labels")
LAUNCH_BY_ID = ("version", "environmentId", "revisionId")
LAUNCH_FIELDS = (*_TYPED_LATER, *_LAUNCH_TEXTS, "destroyInterval")


def _launch(launch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a launch gets: its parameters have types that the manifest knows.

    Raises WrongDocument for another field, which the API would take for a parameter.
    """
    found = {}
    for name, value in launch.items():
        if name in LAUNCH_BY_ID:
            message = f"launch: {name} can't be in a directory. Use environment and revision, with names."
            raise WrongDocument(message, (name,))
        if name not in LAUNCH_FIELDS:
            near = get_close_matches(name, LAUNCH_FIELDS, 1)
            hint = f"Did you mean {near[0]}?" if near else f"Valid fields: {', '.join(LAUNCH_FIELDS)}."
            raise WrongDocument(f"launch: unknown field {name[:80]!r}. {hint}", (name,))
        try:
            found[name] = _in_launch(name, value)
        except WrongDocument as error:
            raise error.inside(name) from None
        except ValueError as error:
            raise WrongDocument(f"launch: {error}", (name,)) from None
    return found


def _in_launch(name: str, value: Any) -> Any:
    if name in _TYPED_LATER:
        return for_json(value)
    return _texts(name, value) if name in _LAUNCH_TEXTS else settled(value)
