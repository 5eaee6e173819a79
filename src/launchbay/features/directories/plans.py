"""What applying a directory does, as change sets keep, compare and make it.

A plan is found by making all its changes in a transaction and taking them back. So it names the versions that result,
and what would be refused is refused at once.
"""

import asyncio
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission, Resource
from launchbay.errors import BadRequest, Conflict, InvalidManifest
from launchbay.features.directories.comparison import CHANGE, CREATE, DELETE, Comparison, ObjectChange, State
from launchbay.features.directories.contents import KINDS
from launchbay.features.directories.files import Contents, FileTree, read_directory
from launchbay.features.directories.organization import StoredOrganization, in_thread
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from launchbay.model.changes import Allowed, Refusal
from launchbay.model.redaction import Redactor, is_secret_name
from launchbay.model.yaml_text import yaml_text
from launchbay.store import environments, fleet
from launchbay.usecases.context import Context

KEEP = "="
_SHOWN = 20  # sentences of one refusal
_COMPARED_CHARS = 200_000
_CREATES = {
    "application": Permission.CREATE_APPLICATION,
    "environment": Permission.CREATE_ENVIRONMENT,
    "service": Permission.CREATE_SERVICE,
}
_DELETES = {"application": Permission.DELETE_APPLICATION, "environment": Permission.DELETE_ENVIRONMENT}
_CHANGES = {
    "application": Permission.EDIT_APPLICATION,
    "revision": Permission.EDIT_APPLICATION,
    "environment": Permission.EDIT_ENVIRONMENT,
    "organization": Permission.EDIT_ENVIRONMENT,  # its order of promotion
    "role": Permission.MANAGE_ROLES,
    "service": Permission.EDIT_SERVICE,
    "service-account": Permission.MANAGE_USERS,
    "user": Permission.MANAGE_USERS,
    "git-source": Permission.MANAGE_ROLES,
    "schedule": Permission.CREATE_INSTANCE,
}
_ALL_APPLICATIONS = ("application", "")
_ALL_ENVIRONMENTS = ("environment", "")
_RESOURCES: Mapping[str, Callable[..., Resource]] = {
    "role": permissions.role,
    "environment": permissions.environment,
    "application": permissions.application,
    "instance": permissions.instance,
    "service": permissions.service,
    "user": permissions.user,
}


class PlannedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What happens to an object or a part of it.

    `id` is null until it exists.
    """

    sign: Annotated[str, msgspec.Meta(description="+ creates, ~ changes, - deletes, = keeps.")]
    what: str
    kind: Annotated[
        str,
        msgspec.Meta(
            description="role, environment, application, revision, service, service-account, user, git-source, "
            "schedule, instance or organization."
        ),
    ]
    id: str | None = None
    detail: str = ""
    from_version: int | None = None
    to_version: int | None = None
    difference: Annotated[
        str, msgspec.Meta(description="The changed lines, as `diff -u` writes them. Secrets are masked.")
    ] = ""

    def is_change(self) -> bool:
        """Return whether it changes something itself. Instances follow from the others."""
        return self.sign != KEEP and self.kind != "instance"


class PlanEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a plan.

    `at` is where roles allow it: ("environment", ID). New objects have the ID of the trial.
    """

    shown: PlannedObject
    at: tuple[str, ...]

    def resource(self) -> Resource:
        return _RESOURCES[self.at[0]](*self.at[1:])

    def needed(self) -> Permission:
        """Return the permission that the change needs."""
        kind = self.shown.kind
        if kind == "schedule" and self.at == _ALL_APPLICATIONS:
            return Permission.EDIT_INSTANCE  # of a bulk run
        if self.shown.what.startswith(f"{kind} "):  # itself, no part of it
            return {CREATE: _CREATES, DELETE: _DELETES}.get(self.shown.sign, {}).get(kind, _CHANGES[kind])
        return _CHANGES[kind]


class RuleAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a rule would say to a change of a directory."""

    what: str
    outcome: Annotated[
        str, msgspec.Meta(description="`deny`, `needs` (a change set, perhaps with approvals) or `warn`.")
    ]
    messages: list[str]
    approvals: Annotated[int, msgspec.Meta(description="How many a change set needs.")] = 0


class DirectoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a change set shows of a directory.

    `facts` are fingerprints of what it changes, by what that is. It touches existing environments and applications.
    `answers` are what rules would say to it now.
    """

    entries: list[PlanEntry]
    warnings: list[str]
    facts: dict[str, str]
    effect: str
    environment_ids: list[str]
    application_ids: list[str]
    answers: list[RuleAnswer] = []

    def count(self) -> int:
        """Return the number of changes."""
        return sum(each.shown.is_change() for each in self.entries)

    def used(self) -> list[tuple[Permission, Resource]]:
        """Return each permission that the changes need, and for what."""
        return list(dict.fromkeys((each.needed(), each.resource()) for each in self.entries if each.shown.is_change()))


def check_files(files: Mapping[str, bytes]) -> None:
    """Raise BadRequest for more files than a change set takes."""
    if len(files) > limits.DIRECTORY_FILES:
        raise BadRequest(f"The directory has more than {limits.DIRECTORY_FILES} files.", code="InvalidDirectory")
    if sum(map(len, files.values())) > limits.DIRECTORY_BYTES:
        raise BadRequest(f"The files have more than {limits.DIRECTORY_BYTES} bytes.", code="InvalidDirectory")
    for path in files:
        if len(path) > limits.DIRECTORY_PATH_CHARS or path.count("/") > limits.GIT_DEPTH:
            raise BadRequest(f"{path[:80]}: the path is too long or too deep.", code="InvalidDirectory")


async def directory_contents(files: Mapping[str, bytes]) -> Contents:
    """Return what the files of a directory want. Raises BadRequest with all problems."""
    return await asyncio.to_thread(lambda: read_directory(FileTree.of(files)))


@dataclass(slots=True)
class _Found:
    """What applying would change now, and the present state of it."""

    changes: list[ObjectChange] = field(default_factory=list)
    before: list[str] = field(default_factory=list)  # of each change
    ids: dict[tuple[str, str], str] = field(default_factory=dict)  # by kind and name
    versions: dict[str, int] = field(default_factory=dict)  # of the applications' manifests
    environment_ids: set[str] = field(default_factory=set)  # of the revisions and orders that change
    kept: list[tuple[str, str, str]] = field(default_factory=list)  # kind, name, detail
    services: dict[str, list[str]] = field(default_factory=dict)  # fingerprints of what an environment is to offer
    at: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)  # where roles allow objects

    def subjects(self) -> set[tuple[str, str]]:
        return {each.subject() for each in self.changes}

    def application_of(self, revision: str) -> str:
        """Return the name of the application of `APPLICATION/REVISION`; both may contain slashes."""
        ends = (place for place, char in enumerate(revision) if char == "/")
        return next((revision[:end] for end in ends if ("application", revision[:end]) in self.ids), "")

    def touched(self, kind: str) -> list[str]:
        """Return the IDs of the existing applications or environments that change."""
        found = {self.ids[each] for each in self.subjects() if each[0] == kind and each in self.ids}
        if kind == "application":
            owners = {self.application_of(name) for of, name in self.subjects() if of == "revision"} - {""}
            found |= {self.ids[kind, name] for name in owners}
        return sorted(found)


def _look(organization: StoredOrganization, wanted: Contents, prune: bool) -> _Found:  # noqa: FBT001 - by position in a thread
    """Return what would change. Raises BadRequest."""
    state = State(organization)
    plan = Comparison(state, wanted)
    superfluous = plan.superfluous()
    found = _Found(
        [*plan.changes(), *(superfluous if prune else ())], ids=_ids(state, wanted), at=_places(state, wanted)
    )
    for change in found.changes:
        kind, name = change.subject()
        source = (wanted.applications or {})[name].source if change.what == f"manifest of application {name}" else None
        if source is not None:
            raise BadRequest(
                f"The manifest of '{name}' would be loaded from {source.url} when the change set is applied, so it "
                "can't be shown. Set the address without a change set, or write manifest.yaml.",
                code="InvalidChangeSet",
            )
        is_order = change.what.startswith("promotion order of ")
        found.before.append(_deleted(state, change) if change.sign == DELETE and not is_order else change.before)
        if is_order:
            found.environment_ids |= _environments_in_order(state, wanted, None if kind == "organization" else name)
        if kind == "application" and name in state.applications:
            found.versions[name] = state.application(name).version
        elif kind == "environment" and change.what.startswith("services of "):
            names = (wanted.environments or {})[name].services or []
            known = [state.services[each] for each in names if each in state.services]
            found.services[name] = organization.service_fingerprints(known)
        elif kind == "revision":
            found.environment_ids |= _environments_of(state, wanted, found.application_of(name), name)
    found.kept = _kept(state, wanted, found.subjects(), [] if prune else superfluous)
    return found


def _ids(state: State, wanted: Contents) -> dict[tuple[str, str], str]:
    kinds = {"role": state.roles, "environment": state.environments, "application": state.applications}
    found = {(kind, name): number for kind, names in kinds.items() for name, number in names.items()}
    return found | {(kind, name): each.id for kind in wanted.objects for name, each in state.objects(kind).items()}


def _places(state: State, wanted: Contents) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(kind, name): each.at for kind in wanted.objects for name, each in state.objects(kind).items()}


def _deleted(state: State, change: ObjectChange) -> str:
    """Return what a deletion takes away."""
    kind, name = change.subject()
    if kind == "role":
        return state.role_text(name)
    if kind == "environment":
        return yaml_text(msgspec.to_builtins(state.environment(name)))
    if kind == "application":
        return state.manifest(name, state.application(name).version)
    for noun in KINDS:
        if kind == noun:
            return yaml_text(state.objects(noun)[name].content, keeps_numbers=True)
    application, _, revision = name.rpartition("/")
    document = state.revisions(application).get(revision)
    return "" if document is None else yaml_text(msgspec.to_builtins(state.revision(document)))


def _environments_in_order(state: State, wanted: Contents, application: str | None) -> set[str]:
    """Return the IDs of the environments that an order names, or is to name."""
    given = wanted.promotion if application is None else (wanted.applications or {})[application].promotion
    orders = [] if given is None else [given]
    if application is None or application in state.applications:
        orders.append(state.order(application))
    names = {each.environment for order in orders for each in order.stages or ()}
    return {number for name, number in state.environments.items() if name in names}


def _environments_of(state: State, wanted: Contents, application: str, name: str) -> set[str]:
    """Return the IDs of the environments that a revision has, or gets."""
    found: set[str | None] = set()
    revision = name[len(application) + 1 :]
    if application in state.applications and (now := state.revisions(application).get(revision)) is not None:
        found.add(now.environment_id)
    given = (wanted.applications or {}).get(application)
    content = None if given is None else (given.revisions or {}).get(revision)
    if content is not None and content.content.environment is not None:
        found.add(state.environments.get(content.content.environment))
    return {each for each in found if each is not None}


def _kept(
    state: State, wanted: Contents, changed: set[tuple[str, str]], superfluous: list[ObjectChange]
) -> list[tuple[str, str, str]]:
    """Return the objects that stay as they are.

    The detail is the reason, unless the directory has them so.
    """
    kinds = (
        ("role", wanted.roles, state.roles),
        ("environment", wanted.environments, state.environments),
        ("application", wanted.applications, state.applications),
    )
    found: list[tuple[str, str, str]] = []
    for kind, names, present in kinds:
        why = "its kind has no folder in the directory" if names is None else ""
        found += [(kind, name, why) for name in sorted(present) if names is None or name in names]
    for name, application in (wanted.applications or {}).items():
        found += [("revision", f"{name}/{revision}", "") for revision in application.revisions or {}]
    found += [
        (kind, name, "") for kind, objects in wanted.objects.items() for name in state.objects(kind) if name in objects
    ]
    found += [(*each.subject(), "isn't in the directory") for each in superfluous]
    return [each for each in found if each[:2] not in changed]


class _TakenBack(Exception):
    """Rolls the transaction of a trial back."""


async def plan_directory(ctx: Context, organization_id: str, contents: Contents, *, prune: bool) -> DirectoryPlan:
    """Return what applying a directory does. It is tried and taken back.

    Raises BadRequest and NotAllowed, as the apply would.
    """
    trials: list[StoredOrganization] = []
    answers: list[RuleAnswer] = []
    trial = replace(ctx, audited=False, is_trial=True, foreseen=[])

    def attempt(organization: StoredOrganization) -> tuple[_Found, _Found]:
        trials.append(organization)
        found = _look(organization, contents, prune)
        if found.changes:
            organization.lock()
        for change in found.changes:
            known = len(trial.foreseen)
            change.make()
            answers.extend(_answers(change.what, trial.foreseen[known:]))
        after = _look(organization, contents, prune)
        state = State(organization)
        names = {name for kind, name in found.subjects() if kind == "application" and name in state.applications}
        after.versions = {name: state.application(name).version for name in names}
        return found, after

    found, after = _Found(), _Found()
    with suppress(_TakenBack):
        async with ctx.app.database.transaction() as connection:
            with ctx.app.database.joined(connection):
                try:
                    found, after = await in_thread(trial, organization_id, attempt)
                finally:
                    # The numbers of the versions that are taken back will have other texts.
                    ctx.app.manifests.forget({each for trial in trials for each in trial.changed})
            raise _TakenBack
    entries = await asyncio.to_thread(_entries, found, after)
    application_ids, environment_ids = found.touched("application"), found.touched("environment")
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        rows = await fleet.list_concerned(
            work.connection,
            organization_id=organization.id,
            application_ids=application_ids,
            environment_ids=environment_ids,
            count=limits.DIRECTORY_SHOWN_INSTANCES + 1,
        )
        touched = {*environment_ids, *found.environment_ids}
        touched |= set(
            await fleet.list_environments_of(
                work.connection, organization_id=organization.id, application_ids=application_ids
            )
        )
        if any(kind == "role" or kind in KINDS for kind, _ in found.subjects()):
            # What a role allows counts in each of them, and so do members, services and what acts by itself.
            listed = await environments.list_by_organization(work.connection, organization_id=organization.id)
            touched |= {each.id for each in listed}
    warnings = [f"The {each.what} would still differ afterwards." for each in after.changes]
    if len(rows) > limits.DIRECTORY_SHOWN_INSTANCES:
        warnings.append(f"More than {limits.DIRECTORY_SHOWN_INSTANCES} instances: the others aren't listed.")
    entries += [_concerned(row, found, after) for row in rows[: limits.DIRECTORY_SHOWN_INSTANCES]]
    return DirectoryPlan(
        entries=entries,
        warnings=warnings,
        facts=_facts(ctx, found),
        effect=_fingerprint_of_effect(ctx, found),
        environment_ids=sorted(touched),
        application_ids=application_ids,
        answers=answers,
    )


async def preview_directory(
    ctx: Context, organization_id: str, files: Mapping[str, bytes], *, prune: bool
) -> tuple[DirectoryPlan, list[PlannedObject]]:
    """Return what applying a directory does, and the objects to show.

    Raises BadRequest and NotAllowed, as the apply would.
    """
    check_files(files)
    plan = await plan_directory(ctx, organization_id, await directory_contents(files), prune=prune)
    async with ctx.read() as work:
        organization = await work.lookup.organization(organization_id)
        shown = [
            each.shown for each in plan.entries if work.lookup.allows(organization.id, Permission.READ, each.resource())
        ]
    return plan, shown


def _answers(what: str, foreseen: Sequence[Refusal | Allowed]) -> Iterator[RuleAnswer]:
    for each in dict.fromkeys(foreseen):
        if isinstance(each, Refusal):
            yield RuleAnswer(what=what, outcome=each.outcome, messages=list(each.sentences), approvals=each.approvals)
        elif each.warnings:
            yield RuleAnswer(what=what, outcome="warn", messages=list(each.warnings))


def _entries(found: _Found, after: _Found) -> list[PlanEntry]:
    """Return the lines for changes and for what is kept."""
    redactor = Redactor(_parsed(text) for each in found.changes for text in (each.before, each.after) if _is_data(each))
    entries = []
    for change, before in zip(found.changes, found.before, strict=True):
        kind, name = change.subject()
        is_manifest = change.what == f"manifest of application {name}"
        is_gone = change.sign == DELETE and change.what == f"application {name}"
        shown = PlannedObject(
            sign=change.sign,
            what=change.what,
            kind=kind,
            id=found.ids.get((kind, name)),
            detail=redactor.text(change.detail),
            from_version=found.versions.get(name) if is_manifest or is_gone else None,
            to_version=after.versions.get(name) if is_manifest else None,
            difference=_difference(redactor, before, change.after, is_data=_is_data(change)),
        )
        entries.append(PlanEntry(shown=shown, at=_at(kind, name, found, after)))
    for kind, name, detail in found.kept:
        shown = PlannedObject(
            sign=KEEP, what=f"{kind} {name}", kind=kind, id=found.ids.get((kind, name)), detail=detail
        )
        entries.append(PlanEntry(shown=shown, at=_at(kind, name, found, after)))
    return entries


def _at(kind: str, name: str, found: _Found, after: _Found) -> tuple[str, ...]:
    if kind in KINDS:
        known = found.at.get((kind, name)) or after.at.get((kind, name))
        return known or {"service": ("service", ""), "schedule": _ALL_APPLICATIONS}.get(kind, ("user", ""))
    if kind == "organization":
        return _ALL_ENVIRONMENTS
    if kind == "revision":
        owner = ("application", found.application_of(name) or after.application_of(name))
        return "application", found.ids.get(owner) or after.ids.get(owner, "")
    return kind, found.ids.get((kind, name)) or after.ids.get((kind, name), "")


def _is_data(change: ObjectChange) -> bool:
    """Return whether its texts are data, and no role or manifest that people wrote."""
    return change.subject()[0] != "role" and not change.what.partition(" of ")[0].endswith("manifest")


def _parsed(text: str) -> Any:
    """Return YAML as values, in which secret properties are known as such."""
    try:
        found = plain(read(text.encode())) if text.strip() else {}
    except InvalidManifest:
        return {}
    properties = found.get("properties") if isinstance(found, dict) else None
    if isinstance(properties, list):
        for each in properties:
            if is_secret_name(str(each.get("name", ""))):
                each["value"] = {"password": each.get("value")}
    return found


def _difference(redactor: Redactor, before: str, after: str, *, is_data: bool) -> str:
    """Return the changed lines with masked secrets, as far as they are shown."""
    if before == after or len(before) + len(after) > _COMPARED_CHARS:
        return "" if before == after else "The texts are too long to compare.\n"
    texts = [
        redactor.text(yaml_text(redactor.value(_parsed(each))) if is_data and each else each)
        for each in (before, after)
    ]
    lines = list(difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), lineterm="", n=2))[2:]
    shown = "".join(f"{line}\n" for line in lines)
    if len(shown) > limits.DIRECTORY_DIFFERENCE_CHARS:
        return shown[: limits.DIRECTORY_DIFFERENCE_CHARS] + "…\n"
    return shown


def _concerned(row: fleet.ConcernedRow, found: _Found, after: _Found) -> PlanEntry:
    """Return the line of a live instance of what changes."""
    names = {number: subject for subject, number in found.ids.items()}
    owners = {row.application_id: "application", row.environment_id: "environment"}
    changed = {each.what for each in found.changes}
    ruled = [kind for number, kind in owners.items() if f"rules of {kind} {names.get(number, ('', ''))[1]}" in changed]
    application = names.get(row.application_id, ("", ""))[1]
    detail = f"stays at version {row.version}"
    if (
        after.versions.get(application, row.version) == row.version
        and f"manifest of application {application}" not in changed
    ):
        detail = "keeps what it has until its next reconfiguration"
    if ruled:
        detail = f"the rules of its {' and '.join(ruled)} apply immediately"
    shown = PlannedObject(
        sign=CHANGE if ruled else KEEP,
        what=f"instance {row.name}",
        kind="instance",
        id=row.id,
        detail=detail,
        from_version=row.version,
        to_version=row.version,
    )
    return PlanEntry(shown=shown, at=("instance", row.application_id, row.id))


def _facts(ctx: Context, found: _Found) -> dict[str, str]:
    return {
        change.what: ctx.app.audit.fingerprint(
            [
                *[change.sign, found.ids.get(change.subject()), found.versions.get(change.subject()[1]), before],
                *(found.services.get(change.subject()[1], []) if change.what.startswith("services of ") else []),
            ]
        )
        for change, before in zip(found.changes, found.before, strict=True)
    }


def _fingerprint_of_effect(ctx: Context, found: _Found) -> str:
    """Return a fingerprint of what the changes make."""
    return ctx.app.audit.fingerprint([[each.sign, each.what, each.detail, each.after] for each in found.changes])


def _stale(ctx: Context, plan: DirectoryPlan, found: _Found) -> list[str]:
    """Return a sentence for each thing that has changed since the plan was made."""
    facts = _facts(ctx, found)
    sentences = [
        f"Since then, the {what} changed." if what in facts else f"The {what} would no longer change."
        for what, fact in plan.facts.items()
        if facts.get(what) != fact
    ]
    sentences += [f"Since then, the {what} changed, and would change too." for what in facts if what not in plan.facts]
    if not sentences and _fingerprint_of_effect(ctx, found) != plan.effect:
        sentences = ["Its effects changed."]
    return sentences


def stale(changed: list[str]) -> Conflict:
    """Return the refusal to apply a stale change set, with what has changed."""
    return Conflict(
        "Applying the change set would no longer do what it shows.",
        *changed[:_SHOWN],
        "Make a new one from the present state.",
        code="StaleChangeSet",
    )


async def find_stale(
    ctx: Context, organization_id: str, contents: Contents, plan: DirectoryPlan, *, prune: bool
) -> list[str]:
    """Return a sentence for each thing that has changed since the plan was made."""
    found = await in_thread(ctx, organization_id, lambda organization: _look(organization, contents, prune))
    return _stale(ctx, plan, found)


async def make_directory(
    ctx: Context, organization_id: str, contents: Contents, plan: DirectoryPlan, *, prune: bool
) -> list[str]:
    """Make the changes of a plan, and return unexpected differences of the result.

    To be called in a transaction that loans join. Raises Conflict that names what has changed since.
    """

    def work(organization: StoredOrganization) -> list[str]:
        found = _look(organization, contents, prune)
        if changed := _stale(ctx, plan, found):
            raise stale(changed)
        for change in found.changes:
            change.make()
        state = State(organization)
        differences = [
            f"The {each.shown.what} has version {state.application(name).version} instead of {each.shown.to_version}."
            for each in plan.entries
            if each.shown.to_version is not None and each.shown.kind == "application"
            for name in [each.shown.what.partition(" of application ")[2]]
            if state.application(name).version != each.shown.to_version
        ]
        warned = set(plan.warnings)
        left = (
            f"The {each.what} would still differ afterwards." for each in _look(organization, contents, prune).changes
        )
        return [*differences, *(each for each in left if each not in warned)]

    return await in_thread(ctx, organization_id, work)
