"""Services, accounts, Git sources and schedules by name, as a directory holds them.

Reading leaves out what can't be in a file and says so in a sentence. Making an object goes through the use cases of its
kind, with their permissions. Secrets stay where they are; a new object may lack them until somebody sets them.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from launchbay import limits
from launchbay.clock import from_ms, to_ms
from launchbay.errors import BadRequest, FieldErrors, LaunchbayError, NotAllowed
from launchbay.ids import with_names
from launchbay.model.archive import with_revision_ids, with_revision_names
from launchbay.model.directory_objects import (
    KINDS,
    LAUNCH_BY_ID,
    LAUNCH_FIELDS,
    Bulk,
    GitSource,
    Member,
    Noun,
    Previews,
    Schedule,
    Select,
    Service,
    ServiceAccount,
    as_values,
)
from launchbay.model.email_address import canonical_email
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus
from launchbay.model.redaction import Redactor
from launchbay.model.scalars import is_stored_as
from launchbay.model.wrong_values import converted
from launchbay.service_types.builtin import CATALOG
from launchbay.service_types.contract import REDACTED
from launchbay.service_types.secrets import SECRET_NAME, VAULT, is_reference, parse_reference
from launchbay.store import organizations
from launchbay.store.git_sources import GitSource as StoredSource
from launchbay.usecases import (
    applications,
    environments,
    git_sources,
    recurring,
    revisions,
    roles,
    service_accounts,
    services,
    users,
    webhooks,
)
from launchbay.usecases.bulk import Act
from launchbay.usecases.context import Context
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.git_sources import GitSettings, GitSourceRequest, PreviewSettings, read_settings
from launchbay.usecases.recurring import Doing, RecurringRequest, RecurringView, Timing
from launchbay.usecases.selection import SELECTED_ID_CHARS
from launchbay.usecases.sign_in import Invitation


class DirectoryObject(NamedTuple):
    """An object: values in the form of its kind, and where roles allow it.

    `reason` says why an export leaves it out. One that no file can describe has no content.
    """

    kind: Noun
    id: str
    name: str
    content: dict[str, Any]
    at: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Readable objects, and a sentence for each thing that a directory lacks.

    `unexported` are schedules that exist, and that an export leaves out.
    """

    objects: list[DirectoryObject]
    omitted: list[str]
    unexported: list[DirectoryObject] = field(default_factory=list)


class CreatedObject(NamedTuple):
    """An object that was made or changed. A new user gets an invitation."""

    id: str
    invitation: Invitation | None = None


class _Omitted(Exception):
    """Why an object can't be in a directory."""


_ENDED = "it has ended"
_ENTRIES = {"secret": "secret", "key-pair": "key pair"}  # what a vault keeps


@dataclass(slots=True)
class _Names:
    """Names of what objects refer to, by ID; read once, when they are needed."""

    ctx: Context
    organization_id: str
    _found: dict[str, dict[str, str]] = field(default_factory=dict)
    _shared: dict[str, set[str]] = field(default_factory=dict)

    async def of(self, kind: str) -> dict[str, str]:
        """Return the names of a kind by ID."""
        if kind not in self._found:
            self._found[kind] = dict(await self._listed(kind))
            counts = Counter(self._found[kind].values())
            self._shared[kind] = {name for name, count in counts.items() if count > 1}
        return self._found[kind]

    async def _listed(self, kind: str) -> list[tuple[str, str]]:
        ctx, organization_id = self.ctx, self.organization_id
        if kind == "service":
            return [(each.id, each.name) for each in await services.list_services(ctx, organization_id)]
        if kind == "service account":
            found = await service_accounts.list_service_accounts(ctx, organization_id)
            return [(each.id, each.name) for each in found]
        if kind == "application":
            return [(each.id, each.name) for each in await applications.list_applications(ctx, organization_id)]
        if kind == "environment":
            return [(each.id, each.name) for each in await environments.list_environments(ctx, organization_id)]
        if kind == "user":
            people = await _people(ctx, organization_id)
            return [(number, email) for email, (number, _, _) in people.items()]
        assert kind == "revision", kind
        names = await self.of("application")
        return [
            (each.id, f"{names[each.application_id]}/{each.name}")
            for each in await revisions.list_all_revisions(ctx, organization_id)
            if each.application_id in names
        ]

    async def name(self, kind: str, number: str) -> str:
        """Return a name. Raises _Omitted for a hidden or a shared one."""
        names = await self.of(kind)
        if number not in names:
            raise _Omitted(f"it names the {kind} {number}, which you can't see")
        if names[number] in self._shared[kind]:
            raise _Omitted(f"several objects are the {kind} '{names[number]}'")
        return names[number]

    async def number(self, kind: str, name: str) -> str:
        """Return the ID of a name. Raises BadRequest."""
        found = [number for number, each in (await self.of(kind)).items() if each == name]
        if not found:
            raise BadRequest(f"Unknown {kind} '{name[:100]}'.", code="InvalidDirectory")
        if len(found) > 1:
            raise _ambiguous(kind, name)
        return found[0]

    def reword(self, text: str) -> str:
        """Return a message about IDs as one about the names that the author wrote."""
        names = {number: name for listed in self._found.values() for number, name in listed.items()}
        return _ID_FIELD.sub(r"\1:", with_names(text, names))


_ID_FIELD = re.compile(r"^(account|application|previews\.environment|environment|revision)Id:")


def _ambiguous(kind: str, name: str) -> BadRequest:
    return BadRequest(
        f"Several objects are the {kind} '{name[:100]}', and a directory knows names alone.",
        "Rename all but one.",
        code="AmbiguousName",
    )


async def list_directory_objects(ctx: Context, organization_id: str) -> Listing:
    """Return the objects that the caller may read."""
    names, found = _Names(ctx, organization_id), Listing([], [])
    async with ctx.app.database.snapshot():
        for kind in KINDS:
            await _READERS[kind](names, found)
        await _webhooks(ctx, organization_id, found)
    return Listing(
        sorted(found.objects, key=lambda each: (each.kind, each.name)), sorted(found.omitted), found.unexported
    )


async def _webhooks(ctx: Context, organization_id: str, found: Listing) -> None:
    """Name the webhooks: without address and secret, which are secrets, they are nothing."""
    try:
        rows = await webhooks.list_webhooks(ctx, organization_id)
    except NotAllowed:
        return
    found.omitted.extend(
        f"webhook to {row.url} for {', '.join(row.events)}: all of it, since address and secret are secrets"
        for row in rows
    )


async def _services(names: _Names, found: Listing) -> None:
    for row in await services.describe_services(names.ctx, names.organization_id):
        parameters = dict(row.parameters)
        if parameters.pop(CATALOG, None):
            found.omitted.append(f"service '{row.name}': the shared instances, since it has no instances")
        for name, reference in row.references.items():
            vault = None
            if reference is not None:
                try:
                    vault = await names.name("service", reference[VAULT])
                except _Omitted as why:
                    found.omitted.append(f"service '{row.name}': the parameter '{name}', since {why}")
                    continue
            if reference is None:
                found.omitted.append(f"service '{row.name}': the secret parameter '{name}'")
            else:
                parameters[name] = {SECRET_NAME: reference[SECRET_NAME], VAULT: vault}
        found.omitted.extend(
            f"service '{row.name}': the {_ENTRIES[kind]} '{entry}'" for kind, entry in row.entries if kind in _ENTRIES
        )
        content = Service(row.type_id, parameters)
        found.objects.append(DirectoryObject("service", row.id, row.name, as_values(content), ("service", row.id)))


async def _put_service(names: _Names, name: str, existing: str | None, content: Service) -> str:
    ctx, given = names.ctx, dict(content.parameters)
    for each, value in given.items():
        if is_reference(value):
            try:
                secret, vault = parse_reference(value)
            except ValueError as error:
                raise BadRequest(f"{each}: {error}", code="InvalidDirectory") from None
            given[each] = {SECRET_NAME: secret}
            if vault is not None:
                given[each][VAULT] = await names.number("service", vault)
    kind = ctx.app.service_types.find(content.type)
    plain = [
        each
        for each, value in given.items()
        if kind is not None and each in kind.parameters and kind.parameters[each].secret
        if value is not None and value != REDACTED and not is_reference(value)
    ]
    if plain:
        raise BadRequest(
            f"{', '.join(plain)}: a directory holds no secrets. Write {{fromVault: SECRET, vault: SERVICE}}, "
            "or leave it out and set it in the service.",
            code="InvalidDirectory",
        )
    if existing is None:
        return await services.create_service(
            ctx,
            names.organization_id,
            name=name,
            type_id=content.type,
            zone_id=None,
            parameters={each: value for each, value in given.items() if value is not None},
            allows_holes=True,
        )
    view = await services.read_service(ctx, existing)
    if view.record.type_id != content.type:
        raise BadRequest(
            f"The service '{name}' has the type {view.record.type_id}, and a type can't change.",
            "Delete the service, or give the file another name.",
            code="InvalidDirectory",
        )
    gone = {each for each, value in view.parameters.items() if value != REDACTED} - {CATALOG} - set(given)
    try:
        await services.update_service(ctx, existing, None, {**dict.fromkeys(gone), **given}, allows_holes=True)
    except FieldErrors as error:  # only update and command of a service answer by field (reference §7)
        raise BadRequest(*error.messages, code="InvalidParameters") from None
    return existing


async def _service_accounts(names: _Names, found: Listing) -> None:
    for row in await service_accounts.list_service_accounts(names.ctx, names.organization_id):
        content = ServiceAccount(row.description, row.enabled, sorted(row.roles))
        found.objects.append(DirectoryObject("service-account", row.id, row.name, as_values(content), ("user", row.id)))


async def _put_service_account(names: _Names, name: str, existing: str | None, content: ServiceAccount) -> str:
    ctx, organization_id = names.ctx, names.organization_id
    held: Sequence[str] = content.roles
    enabled = True
    if existing is None:
        made = await service_accounts.create_service_account(
            ctx, organization_id, name=name, description=content.description, role_names=content.roles
        )
        existing = made.id
    else:
        row = await service_accounts.read_service_account(ctx, organization_id, existing)
        held, enabled = row.roles, row.enabled
        if row.description != content.description:
            await service_accounts.update_service_account(
                ctx, organization_id, existing, name=None, description=content.description, enabled=None
            )
    if enabled != content.enabled:
        await service_accounts.update_service_account(
            ctx, organization_id, existing, name=None, description=None, enabled=content.enabled
        )
    await _assign(ctx, organization_id, existing, held, content.roles)
    return existing


async def _assign(ctx: Context, organization_id: str, user_id: str, held: Sequence[str], wanted: Sequence[str]) -> None:
    """Give a member the roles of the file, and take the others."""
    if given := [each for each in wanted if each not in held]:
        await roles.assign_roles(ctx, organization_id, user_id, given)
    if taken := [each for each in held if each not in wanted]:
        await roles.revoke_roles(ctx, organization_id, user_id, taken)


async def _people(ctx: Context, organization_id: str) -> dict[str, tuple[str, str, list[str]]]:
    """Return members and invited people by email address: ID, name and roles."""
    found = {
        each.row.email: (each.row.id, each.row.name, each.row.roles)
        for each in await users.list_users(ctx, organization_id)
    }
    try:
        invited = await users.list_pending_members(ctx, organization_id)
    except NotAllowed:
        return found
    return {**{each.email: (each.id, each.name, each.roles) for each in invited}, **found}


async def _users(names: _Names, found: Listing) -> None:
    for email, (number, name, held) in (await _people(names.ctx, names.organization_id)).items():
        content = Member(name, sorted(held))
        found.objects.append(DirectoryObject("user", number, email, as_values(content), ("user", number)))


async def _put_user(names: _Names, name: str, existing: str | None, content: Member) -> CreatedObject:
    ctx, organization_id = names.ctx, names.organization_id
    if existing is None:
        made = await users.create_user(
            ctx, organization_id, email=name, name=content.name, password=None, role_names=content.roles
        )
        return CreatedObject(made.id, made.invitation)
    _, _, held = (await _people(ctx, organization_id))[canonical_email(name)]
    await _assign(ctx, organization_id, existing, held, content.roles)
    return CreatedObject(existing)


async def _git_sources(names: _Names, found: Listing) -> None:
    for row in await git_sources.list_git_sources(names.ctx, names.organization_id, application_id=None):
        try:
            content = await _git_content(names, row, found)
        except _Omitted as why:
            found.omitted.append(f"source '{row.name}' in Git: all of it, since {why}")
            continue
        found.objects.append(
            DirectoryObject("git-source", row.id, row.name, as_values(content), ("user", row.account_id))
        )


async def _git_content(names: _Names, row: StoredSource, found: Listing) -> GitSource:
    settings = read_settings(row.settings)
    previews = None
    if settings.previews is not None:
        given = settings.previews
        hidden = sorted(each for each, value in given.parameters.items() if _is_masked(each, value))
        found.omitted.extend(f"source '{row.name}' in Git: the preview's parameter '{each}'" for each in hidden)
        parameters = {each: value for each, value in given.parameters.items() if each not in hidden}
        previews = Previews(await names.name("environment", given.environment_id), given.lifetime_ms, parameters)
    document = msgspec.to_builtins(settings)
    return msgspec.structs.replace(
        msgspec.convert({**document, "account": "", "vault": None, "previews": None}, GitSource),
        account=await names.name("service account", row.account_id),
        application=None if row.application_id is None else await names.name("application", row.application_id),
        vault=None if settings.vault is None else await names.name("service", settings.vault),
        previews=previews,
        paused=row.is_paused,
    )


def _is_masked(name: str, value: Any) -> bool:
    """Return whether a value is or holds a masked secret."""
    if isinstance(value, Mapping):
        return any(_is_masked(str(each), inner) for each, inner in value.items())
    if isinstance(value, list):
        return any(_is_masked(name, inner) for inner in value)
    return Redactor().named(name, value) != value or (isinstance(value, str) and "***" in value)


async def _put_git_source(names: _Names, name: str, existing: str | None, content: GitSource) -> str:
    ctx, organization_id = names.ctx, names.organization_id
    previews = content.previews
    wanted = None
    if previews is not None:
        parameters = dict(previews.parameters)
        if existing is not None:
            now = read_settings((await git_sources.read_git_source(ctx, existing)).settings).previews
            masked = {} if now is None else now.parameters
            # The use case takes a mask for what it has.
            parameters = {each: value for each, value in masked.items() if _is_masked(each, value)} | parameters
        wanted = PreviewSettings(
            environment_id=await names.number("environment", previews.environment),
            lifetime_ms=_within("previews.lifetimeMs", previews.lifetime_ms, 1, limits.GIT_PREVIEW_LONGEST_MS),
            parameters=parameters,
        )
    document = {**as_values(content), "vault": None}
    for each in ("account", "application", "paused", "previews"):
        document.pop(each, None)
    try:
        settings = converted(document, GitSettings)
    except ValueError as error:
        raise BadRequest(str(error), code="InvalidDirectory") from None
    if settings.interval_ms is not None:
        _within("intervalMs", settings.interval_ms, limits.GIT_INTERVAL_SHORTEST_MS, limits.TIME_LATEST_MS)
    vault = None if content.vault is None else await names.number("service", content.vault)
    request = GitSourceRequest(
        name=name,
        account_id=await names.number("service account", content.account),
        application_id=None if content.application is None else await names.number("application", content.application),
        settings=msgspec.structs.replace(settings, vault=vault, previews=wanted),
        is_paused=content.paused,
    )
    if existing is None:
        return (await git_sources.create_git_source(ctx, organization_id, request, allows_holes=True)).id
    await git_sources.update_git_source(ctx, existing, request, allows_holes=True)
    return existing


def _within(what: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise BadRequest(f"{what} is {value}. Use {least} to {most}.", code="InvalidDirectory")
    return value


async def _schedules(names: _Names, found: Listing) -> None:
    views = await _all_schedules(names)
    controlled = await recurring.controlled(names.ctx, names.organization_id, [each.schedule for each in views])
    for view in views:
        row = view.schedule
        content, reason = {}, ""
        try:
            content = as_values(await _schedule_content(names, view, controlled))
            if _has_ended(view):
                reason = _ENDED
        except _Omitted as why:
            reason = str(why)
        at = ("application", row.application_id or "")
        one = DirectoryObject("schedule", row.id, row.name, content, at, reason)
        if reason:
            found.omitted.append(f"schedule '{row.name}': all of it, since {reason}")
            found.unexported.append(one)
        else:
            found.objects.append(one)


def _has_ended(view: RecurringView) -> bool:
    return view.schedule.due_at is None and not view.schedule.is_paused


async def _all_schedules(names: _Names) -> list[RecurringView]:
    return await recurring.list_recurring_schedules(
        names.ctx,
        names.organization_id,
        instance_id=None,
        application_id=None,
        after=None,
        count=limits.RECURRING_SCHEDULES,
    )


async def _schedule_content(names: _Names, view: RecurringView, controlled: Collection[str]) -> Schedule:
    """Return what a file says of a schedule. Raises _Omitted, also unless the caller controls it."""
    row, doing = view.schedule, view.doing
    if row.instance_id is not None or doing.ids is not None:
        raise _Omitted("it is for instances, which aren't in a directory")
    if row.id not in controlled:
        raise _Omitted("only who may change it sees what it does")
    shown = msgspec.to_builtins(doing, builtin_types=(msgspec.Raw, datetime))
    if Redactor().value(shown) != shown:
        raise _Omitted("it holds a secret")
    content = Schedule(
        cron=row.cron,
        zone=row.zone,
        starts_at=None if row.starts_at is None else to_ms(row.starts_at),
        ends_at=None if row.ends_at is None else to_ms(row.ends_at),
        paused=row.is_paused,
        when_busy="queue" if row.when_busy == "queue" else "skip",
        jitter_ms=row.jitter_ms,
    )
    if row.application_id is not None:
        content.application = await names.name("application", row.application_id)
        content.launch = await _launch_by_name(names, doing.launch or {})
    else:
        content.bulk = await _bulk_by_name(names, doing)
    return content


async def _launch_by_name(names: _Names, launch: Mapping[str, Any]) -> dict[str, Any]:
    if launch.get("version") is not None:
        raise _Omitted("it names a version of the manifest. Let it launch a revision")
    found = {name: value for name, value in launch.items() if name in {*LAUNCH_FIELDS, *LAUNCH_BY_ID}}
    if obsolete := {name: value for name, value in launch.items() if name not in found}:
        # The obsolete form of a body, which has parameters beside its settings (reference §4, launch, rule 2).
        if "labels" in found and "parameters" not in found:
            obsolete["labels"] = found.pop("labels")
        found["parameters"] = {**obsolete, **(found.get("parameters") or {})}
    for given, shown, kind in _LAUNCH_NAMES:
        if found.get(given) is not None:
            found[shown] = await names.name(kind, str(found.pop(given)))
    if isinstance(found.get("submodules"), Mapping):
        known = await names.of("revision")
        unknown: list[str] = []

        def name_of(number: str) -> str:
            if number not in known:
                unknown.append(number)
            return known.get(number, number)

        found["submodules"] = with_revision_names(found["submodules"], name_of)
        if unknown or _mentions(found["submodules"], "instanceId"):
            raise _Omitted("its submodules name instances, or what you can't see")
    return found


_LAUNCH_NAMES = (("environmentId", "environment", "environment"), ("revisionId", "revision", "revision"))


def _mentions(document: Any, name: str) -> bool:
    if isinstance(document, Mapping):
        return name in document or any(_mentions(each, name) for each in document.values())
    return False


async def _launch_by_id(names: _Names, launch: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(launch)
    for given, shown, kind in _LAUNCH_NAMES:
        if found.get(shown) is not None:
            found[given] = await names.number(kind, str(found.pop(shown)))
    if isinstance(found.get("submodules"), Mapping):
        by_name = {name: number for number, name in (await names.of("revision")).items()}

        def id_of(name: str) -> str:
            if name not in by_name:
                raise BadRequest(f"Unknown revision '{name[:100]}' in submodules.", code="InvalidDirectory")
            return by_name[name]

        found["submodules"] = with_revision_ids(found["submodules"], id_of)
    return found


async def _bulk_by_name(names: _Names, doing: Doing) -> Bulk:
    act, wanted = doing.bulk, doing.wanted
    assert act is not None, "a schedule is of a run, a launch or a bulk run"
    if act.version is not None or wanted.version is not None:
        raise _Omitted("it names a version of the manifest")
    return Bulk(
        act=act.act,
        workflow=act.workflow,
        parameters=act.parameters,
        expires_in=act.expires_in_ms,
        labels=act.labels,
        select=Select(
            statuses=_listed(wanted.statuses),
            job_statuses=_listed(wanted.job_statuses),
            degraded=wanted.is_degraded,
            workflows=_listed(wanted.workflows),
            applications=await _optional(wanted.application_ids, names.name, "application"),
            environments=await _optional(wanted.environment_ids, names.name, "environment"),
            owner=None if wanted.owner_id is None else await names.name("user", wanted.owner_id),
            expires_before=None if wanted.expires_before is None else to_ms(wanted.expires_before),
            name=wanted.name,
            name_part=wanted.name_part,
            search=wanted.search,
            labels=wanted.labels,
            all=wanted == InstanceFilter(id_chars=wanted.id_chars),
        ),
        max_parallel=doing.max_parallel,
        stop_after_failures=doing.stop_after_failures,
    )


def _listed(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)


async def _optional(
    values: Sequence[str] | None, of: Callable[[str, str], Awaitable[str]], kind: str
) -> list[str] | None:
    return None if values is None else [await of(kind, each) for each in values]


async def _bulk_by_id(names: _Names, bulk: Bulk) -> Doing:
    given = bulk.select
    chosen = as_values(given)
    if not chosen:
        raise BadRequest(
            "select has no filter, which would choose every instance of the organization.",
            "Give a filter, or say all: true if you mean every instance.",
            code="NothingChosen",
        )
    if given.all and len(chosen) > 1:
        raise BadRequest("select: all goes without a filter. Leave out one of them.", code="InvalidFilter")
    for field_name, value in chosen.items():
        if value in ("", []) or (isinstance(value, str) and not value.strip()):
            raise BadRequest(f"select: {field_name} is empty. Leave it out, or give it a value.", code="InvalidFilter")
    for field_name, values, known in (
        ("statuses", given.statuses, {each.value for each in InstanceStatus}),
        ("jobStatuses", given.job_statuses, {JobStatus.SUCCEEDED.value, JobStatus.FAILED.value}),
    ):
        if unknown := sorted(set(values or ()) - known):
            raise BadRequest(
                f"select: {field_name} has no {unknown[0][:40]!r}. Use {', '.join(sorted(known))}.",
                code="InvalidFilter",
            )
    wanted = InstanceFilter(
        statuses=given.statuses,
        job_statuses=given.job_statuses,
        is_degraded=given.degraded,
        workflows=given.workflows,
        application_ids=await _optional(given.applications, names.number, "application"),
        environment_ids=await _optional(given.environments, names.number, "environment"),
        owner_id=None if given.owner is None else await names.number("user", canonical_email(given.owner)),
        expires_before=None if given.expires_before is None else _moment("expiresBefore", given.expires_before),
        name=given.name,
        name_part=given.name_part,
        search=given.search,
        labels=given.labels,
        id_chars=SELECTED_ID_CHARS,
    )
    wanted.conditions()  # an invalid selector is refused now
    try:
        act = converted(
            {
                "act": bulk.act,
                "workflow": bulk.workflow,
                "parameters": bulk.parameters,
                "expiresInMs": bulk.expires_in,
                "labels": bulk.labels,
            },
            Act,
        )
    except ValueError as error:
        raise BadRequest(f"bulk: {error}", code="InvalidDirectory") from None
    if bulk.stop_after_failures is not None:
        _within("stopAfterFailures", bulk.stop_after_failures, 1, limits.BULK_INSTANCES)
    return Doing(
        bulk=act,
        wanted=wanted,
        max_parallel=_within("maxParallel", bulk.max_parallel, 1, limits.BULK_PARALLEL),
        stop_after_failures=bulk.stop_after_failures,
    )


def _moment(what: str, value: int) -> datetime:
    return from_ms(_within(what, value, 0, limits.TIME_LATEST_MS))


async def _put_schedule(names: _Names, name: str, existing: str | None, content: Schedule) -> str:
    ctx = names.ctx
    timing = Timing(
        cron=content.cron,
        zone=content.zone,
        starts_at=None if content.starts_at is None else _moment("startsAt", content.starts_at),
        ends_at=None if content.ends_at is None else _moment("endsAt", content.ends_at),
        is_paused=content.paused,
        when_busy=content.when_busy,
        jitter_ms=_within("jitterMs", content.jitter_ms, 0, limits.RECURRING_JITTER_MS),
    )
    if content.bulk is not None:
        request = RecurringRequest(name=name, timing=timing, doing=await _bulk_by_id(names, content.bulk))
    else:
        request = RecurringRequest(
            name=name,
            timing=timing,
            doing=Doing(launch=await _launch_by_id(names, content.launch)),
            application_id=await names.number("application", content.application or ""),
        )
    if existing is not None:
        view = await recurring.read_recurring_schedule(ctx, existing)
        try:
            controlled = await recurring.controlled(ctx, names.organization_id, [view.schedule])
            now = await _schedule_content(names, view, controlled)
        except _Omitted as why:
            raise BadRequest(
                f"The schedule '{name}' exists, and a file can't describe it, since {why}.",
                "Rename or delete it, or give the file another name.",
                code="InvalidDirectory",
            ) from None
        if _has_ended(view) and is_stored_as(as_values(content), as_values(now)):
            return existing  # its times can't be set again, since none is in the future
        if all(is_stored_as(_of(content, part), _of(now, part)) for part in ("application", "launch", "bulk")):
            await recurring.update_recurring_schedule(ctx, existing, name, timing)
            return existing
        # What a schedule does can't change, so another one takes its place, on behalf of who applies the directory.
        await recurring.delete_recurring_schedule(ctx, existing)
    return str((await recurring.create_recurring_schedule(ctx, names.organization_id, request)).schedule.id)


def _of(content: Schedule, part: str) -> Any:
    return as_values(content).get(part)


async def put_directory_object(
    ctx: Context, organization_id: str, kind: Noun, name: str, content: Mapping[str, Any]
) -> CreatedObject:
    """Make the object of this name, or change it to this content.

    Secrets that it has stay. Raises BadRequest for what can't be, and for a name that several objects have.
    """
    names = _Names(ctx, organization_id)
    wanted: Any = msgspec.convert(content, KINDS[kind].content)
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        # One after the other: of two that make the same name, the second changes what the first made.
        await organizations.lock(work.connection, organization_id=organization.id)
        with ctx.app.database.joined(work.connection):
            try:
                existing = await _existing(names, kind, name)
                made = await _WRITERS[kind](names, name, existing, wanted)
            except LaunchbayError as error:
                error.reword(names.reword)
                raise
    return made if isinstance(made, CreatedObject) else CreatedObject(made)


async def _existing(names: _Names, kind: Noun, name: str) -> str | None:
    """Return the ID of the object with this name. Raises BadRequest for several."""
    ctx, organization_id = names.ctx, names.organization_id
    if kind == "user":
        email = canonical_email(name)
        found = [number for each, (number, _, _) in (await _people(ctx, organization_id)).items() if each == email]
    elif kind == "git-source":
        sources = await git_sources.list_git_sources(ctx, organization_id, application_id=None)
        found = [each.id for each in sources if each.name == name]
    elif kind == "schedule":
        found = await recurring.list_named(ctx, organization_id, name)
    else:
        listed = await names.of(kind.replace("-", " "))
        found = [number for number, each in listed.items() if each == name]
    if len(found) > 1:
        raise _ambiguous(kind, name)
    return found[0] if found else None


async def delete_directory_object(ctx: Context, organization_id: str, kind: Noun, number: str) -> None:
    """Delete an object, with the permissions of its kind."""
    if kind == "service":
        await services.delete_service(ctx, number)
    elif kind == "service-account":
        await service_accounts.delete_service_account(ctx, organization_id, number)
    elif kind == "user":
        await users.remove_user(ctx, organization_id, number)
    elif kind == "git-source":
        await git_sources.delete_git_source(ctx, number)
    else:
        await recurring.delete_recurring_schedule(ctx, number)


_READERS: Mapping[Noun, Callable[[_Names, Listing], Awaitable[None]]] = {
    "service": _services,
    "service-account": _service_accounts,
    "user": _users,
    "git-source": _git_sources,
    "schedule": _schedules,
}
_WRITERS: Mapping[Noun, Callable[[_Names, str, str | None, Any], Awaitable[str | CreatedObject]]] = {
    "service": _put_service,
    "service-account": _put_service_account,
    "user": _put_user,
    "git-source": _put_git_source,
    "schedule": _put_schedule,
}
