"""An organization as values by name: the format of directories and archives."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from launchbay.errors import BadRequest, InvalidManifest
from launchbay.features.change_rules.rules import parse, problems_of
from launchbay.features.directories.contents import Noun
from launchbay.features.lifetimes.rules import LifetimeRules
from launchbay.features.sleep_windows.rules import SleepRules, SleepWindow
from launchbay.model.freezes import FreezeWindow, check_windows
from launchbay.model.identity import check_audiences
from launchbay.model.places import ConcurrencyLimit, read_limits
from launchbay.model.promotion import Stage, StageProblem, stage_problems
from launchbay.model.wrong_values import Key, wrong_value

ARCHIVE_VERSION = 2  # of an archive in one document; 1 had no `objects`
LINES_VERSION = 3  # of one in lines
T = TypeVar("T", bound=msgspec.Struct)
RuleOwner = Literal["application", "environment"]


class WrongRules(BadRequest):
    """Rules can't be. `keys` lead to the wrong part of their document."""

    def __init__(self, error: BadRequest, *keys: Key) -> None:
        super().__init__(*error.messages, code=error.code)
        self.keys = keys


class Rules(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Rules of an application or environment, in the form of the API.

    None: there are no such rules. An application with `sleep` that has no windows doesn't sleep with its environment.
    `changes` are those about changes, as text. Without it they stay as they are: who maintains a directory need not be
    who guards it. Neither does `audiences`, for which steps in an environment may get tokens.
    """

    lifetime: dict[str, Any] | None = None
    sleep: dict[str, Any] | None = None
    concurrency: list[Any] | None = None
    freeze: list[Any] | None = None  # its windows
    changes: str | None = None
    audiences: list[str] | None = None

    @classmethod
    def of(
        cls,
        lifetime: LifetimeRules,
        sleep: SleepRules | None,
        limits: Sequence[ConcurrencyLimit],
        freeze: Sequence[FreezeWindow],
        changes: str | None = None,
        audiences: Sequence[str] | None = None,
    ) -> "Rules":
        """Return what is set."""
        return cls(
            lifetime=_with_names(_camel, msgspec.to_builtins(lifetime)) or None,
            sleep=None if sleep is None else _with_names(_camel, msgspec.to_builtins(sleep)),
            concurrency=[msgspec.to_builtins(each) for each in limits] or None,
            freeze=[_with_names(_camel, msgspec.to_builtins(each)) for each in freeze] or None,
            changes=changes,
            audiences=None if audiences is None else list(audiences),
        )

    def read(
        self, kind: RuleOwner
    ) -> tuple[LifetimeRules, SleepRules | None, list[ConcurrencyLimit], tuple[FreezeWindow, ...]]:
        """Return the rules. Raises WrongRules for one that can't be."""
        lifetime = _read("lifetime", self.lifetime or {}, LifetimeRules)
        with _at("lifetime", document=self.lifetime):
            lifetime.check()
        sleep = None
        if self.sleep is not None:
            for index, each in enumerate(_windows(self.sleep)):
                _read("sleep: windows", each, SleepWindow, "sleep", "windows", index)
            sleep = _read("sleep", self.sleep, SleepRules)
            with _at("sleep", document=self.sleep):
                sleep.check_count()
            for index, window in enumerate(sleep.windows):
                with _at("sleep", "windows", index, document=_windows(self.sleep)[index]):
                    window.check(datetime.now(UTC))
            with _at("sleep", document=self.sleep):
                sleep.check(datetime.now(UTC))
        with _at("changes", document=None):
            _check_changes(self.changes or "")
        with _at("audiences", document=None):
            _check_audiences(self.audiences, kind)
        for index, limit in enumerate(self.concurrency or ()):
            _limits([limit], kind, index)
        return lifetime, sleep, _limits(self.concurrency or [], kind), self._freeze_windows()

    def _freeze_windows(self) -> tuple[FreezeWindow, ...]:
        found = []
        for index, each in enumerate(self.freeze or ()):
            window = _read("freeze", each, FreezeWindow, "freeze", index)
            with _at("freeze", index, document=each):
                window.check(datetime.now(UTC))
            found.append(msgspec.structs.replace(window, reason=window.reason.strip()))
        with _at("freeze", document=None):
            check_windows(found, datetime.now(UTC))
        return tuple(found)

    def canonical(self, kind: RuleOwner) -> "Rules":
        """Return equal rules in the form that `of` gives. Raises WrongRules."""
        return Rules.of(*self.read(kind), self.changes, self.audiences)

    def completed(self, present: "Rules") -> "Rules":
        """Return the rules, with present ones about changes and audiences if they say none."""
        found = self
        if self.changes is None or self.changes == (present.changes or ""):
            found = msgspec.structs.replace(found, changes=present.changes)
        if self.audiences is None or self.audiences == (present.audiences or []):
            found = msgspec.structs.replace(found, audiences=present.audiences)
        return found


def _check_audiences(audiences: list[str] | None, kind: RuleOwner) -> None:
    if audiences is not None and kind == "application":
        raise BadRequest("audiences: only environments have them.", code="InvalidAudience")
    check_audiences(audiences or ())


def _check_changes(text: str) -> None:
    try:
        parse(text)
    except InvalidManifest as error:
        # Not in the words of a reader's place: this one is in the text, not in the file.
        found = (each.replace(", column", " and column", 1) for each in problems_of(error))
        found = (f"changes: {each}" for each in found)
        raise BadRequest(*found, code="InvalidRules") from None


def _read(what: str, document: Any, kind: type[T], *keys: Key) -> T:
    """Return rules of a document, which is at `keys`. Raises WrongRules."""
    keys = keys or (what,)
    fields = _with_names(_snake, document)
    unknown = sorted(set(fields) - set(kind.__struct_fields__)) if isinstance(fields, dict) else []
    if unknown:
        name = _camel(unknown[0])
        raise WrongRules(_invalid(f"{what}: unknown field {name[:80]!r}."), *keys, name)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        found = wrong_value(error, fields, kind, shown=_camel)
        inside = [_camel(each) if isinstance(each, str) else each for each in found.keys]
        raise WrongRules(_invalid(f"{what}: {found}."), *keys, *inside) from None


def _invalid(message: str) -> BadRequest:
    return BadRequest(message, code="InvalidDirectory")


def _windows(sleep: Mapping[str, Any]) -> Sequence[Any]:
    """Return the windows. What isn't a list is refused later."""
    found = sleep.get("windows")
    return found if isinstance(found, list) else ()


@contextmanager
def _at(*keys: Key, document: Mapping[str, Any] | None) -> Iterator[None]:
    """Say where a refused rule is: the message may begin with its field."""
    try:
        yield
    except BadRequest as error:
        field = re.split(r"[ :]", error.messages[0], maxsplit=1)[0]
        raise WrongRules(error, *keys, *([field] if field in (document or ()) else [])) from None


def _limits(documents: list[Any], kind: RuleOwner, *keys: Key) -> list[ConcurrencyLimit]:
    try:
        return list(read_limits(documents, kind))
    except ValueError as error:
        refused = BadRequest(f"concurrency: {error}.", code="InvalidConcurrency")
        raise WrongRules(refused, "concurrency", *keys) from None


def _with_names(change: Callable[[str], str], value: Any) -> Any:
    """Return a document with other names of fields."""
    if isinstance(value, Mapping):
        return {change(str(name)): _with_names(change, each) for name, each in value.items()}
    return [_with_names(change, each) for each in value] if isinstance(value, list | tuple) else value


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


class Revision(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A revision without its version. Revisions of submodules are named as APPLICATION/REVISION."""

    parameters: dict[str, Any] = {}
    environment: str | None = None
    submodules: dict[str, Any] = {}


class PropertyEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A property of an environment."""

    name: str
    type: str
    value: Any


class Environment(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An environment. Omitted parts stay unchanged; services are named."""

    default: bool = False
    policies: dict[str, Any] | None = None
    markers: list[str] | None = None
    properties: list[PropertyEntry] | None = None
    services: list[str] | None = None
    labels: dict[str, str] | None = None
    rules: Rules | None = None


class StageEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An environment of a promotion order, by name. `soak` is in milliseconds."""

    environment: str
    soak: Annotated[int, msgspec.Meta(ge=0)] = 0
    workflows: list[str] = []
    approvals: int = 0
    automatic: bool = False

    @classmethod
    def of(cls, stage: Stage, environment: str) -> "StageEntry":
        """Return a stage with the name of its environment."""
        return cls(environment, stage.soak_s * 1_000, list(stage.workflows), stage.approvals, stage.automatic)

    def stage(self, environment_id: str) -> Stage:
        """Return the stage of an environment. Its time is in whole seconds."""
        return Stage(
            environment_id=environment_id,
            soak_s=-(-self.soak // 1_000),
            workflows=tuple(self.workflows),
            approvals=self.approvals,
            automatic=self.automatic,
        )


class PromotionOrder(msgspec.Struct, forbid_unknown_fields=True):
    """The order of environments that an organization or application has itself.

    None: it has none, and an application that of its organization. Without stages, an application has no order at all.
    """

    stages: list[StageEntry] | None

    def problems(self) -> Iterator[StageProblem]:
        """Yield what is wrong with it, but for names that nothing has."""
        for each in stage_problems([entry.stage(entry.environment) for entry in self.stages or ()]):
            yield each._replace(field="environment") if each.field == "environmentId" else each

    def canonical(self, *, of_application: bool) -> "PromotionOrder":
        """Return an equal order in its one form.

        An organization whose order has no stages has none.
        """
        if not self.stages and not of_application:
            return PromotionOrder(None)
        if self.stages is None:
            return self
        return PromotionOrder([StageEntry.of(each.stage(""), each.environment) for each in self.stages])


class ArchivedRevision(Revision, forbid_unknown_fields=True, kw_only=True):
    """A revision with its version."""

    version: int


class ArchivedApplication(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An application with all versions of its manifest, oldest first.

    In an archive in lines there are `versions` of them, in lines of their own.
    """

    manifests: list[str] = []
    versions: int = 0
    source: str | None = None
    labels: dict[str, str] = {}
    rules: Rules | None = None
    revisions: dict[str, ArchivedRevision] = {}
    promotion: list[StageEntry] | None = None  # its own order


class ArchivedService(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A service without its secrets."""

    type_id: str
    parameters: dict[str, Any] = {}


class ArchivedRole(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A role's text."""

    permissions: str
    is_guest: bool = False


class ArchivedUser(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A member of the organization, and the roles that they hold."""

    name: str
    roles: list[str] = []


class Archive(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An organization in one document; `holes` lists the missing secrets.

    `mentions` are the IDs in manifests and roles, each with the kind and name of its object: imported objects have
    other IDs. `objects` are texts of files, by kind and name: service accounts, Git sources, schedules, and services
    whose parameters refer to vaults.
    """

    format: Literal["launchbay organization"] = "launchbay organization"
    version: int = ARCHIVE_VERSION
    name: str
    services: dict[str, ArchivedService]
    environments: dict[str, Environment]
    applications: dict[str, ArchivedApplication]
    roles: dict[str, ArchivedRole]
    users: dict[str, ArchivedUser]
    mentions: dict[str, tuple[str, str]]
    holes: list[str]
    objects: dict[Noun, dict[str, str]] = {}
    promotion: list[StageEntry] | None = None  # the order of the organization


class ManifestLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line of an archive after its first one: a version of a manifest."""

    application: str
    version: int
    manifest: str


def with_revision_names(submodules: Mapping[str, Any], name_of: Callable[[str], str]) -> dict[str, Any]:
    """Return the submodules of a revision with names instead of IDs of revisions."""
    return _with(submodules, "revisionId", "revision", name_of)


def with_revision_ids(submodules: Mapping[str, Any], id_of: Callable[[str], str]) -> dict[str, Any]:
    """Return the submodules of a revision in the form of the API."""
    return _with(submodules, "revision", "revisionId", id_of)


def revision_names(submodules: Mapping[str, Any]) -> Iterator[str]:
    """Yield the revisions that submodules name, at every depth."""
    for content in submodules.values():
        if isinstance(content, Mapping):
            if isinstance(content.get("revision"), str):
                yield content["revision"]
            if isinstance(content.get("submodules"), Mapping):
                yield from revision_names(content["submodules"])


def _with(submodules: Mapping[str, Any], field: str, other: str, of: Callable[[str], str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, content in submodules.items():
        if not isinstance(content, Mapping):
            found[name] = content  # rejected by the reader of submodules
            continue
        entry = dict(content)
        if entry.get(field):
            entry[other] = of(str(entry.pop(field)))
        if isinstance(entry.get("submodules"), Mapping):
            entry["submodules"] = _with(entry["submodules"], field, other, of)
        found[name] = entry
    return found
