"""Recurring schedules in a directory."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from launchbay import limits
from launchbay.clock import from_ms, to_ms
from launchbay.errors import BadRequest
from launchbay.features.bulk.usecases import Act
from launchbay.features.directories.contents import LAUNCH_BY_ID, LAUNCH_FIELDS, Bulk, Schedule, Select, as_values
from launchbay.features.directories.objects import DirectoryObject, Listing, Names, Omitted, StoredKind, within
from launchbay.features.directories.values import with_revision_ids, with_revision_names
from launchbay.features.recurring import usecases as recurring
from launchbay.features.recurring.usecases import Doing, RecurringRequest, RecurringView, Timing
from launchbay.model.email_address import canonical_email
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus
from launchbay.model.redaction import Redactor
from launchbay.model.scalars import is_stored_as
from launchbay.model.wrong_values import converted
from launchbay.usecases.context import Context
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.selection import SELECTED_ID_CHARS

_ENDED = "it has ended"


async def _schedules(names: Names, found: Listing) -> None:
    views = await _all_schedules(names)
    controlled = await recurring.controlled(names.ctx, names.organization_id, [each.schedule for each in views])
    for view in views:
        row = view.schedule
        content, reason = {}, ""
        try:
            content = as_values(await _schedule_content(names, view, controlled))
            if _has_ended(view):
                reason = _ENDED
        except Omitted as why:
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


async def _all_schedules(names: Names) -> list[RecurringView]:
    return await recurring.list_recurring_schedules(
        names.ctx,
        names.organization_id,
        instance_id=None,
        application_id=None,
        after=None,
        count=limits.RECURRING_SCHEDULES,
    )


async def _schedule_content(names: Names, view: RecurringView, controlled: Collection[str]) -> Schedule:
    """Return what a file says of a schedule.

    Raises Omitted, also unless the caller controls it.
    """
    row, doing = view.schedule, view.doing
    if row.instance_id is not None or doing.ids is not None:
        raise Omitted("it is for instances, which aren't in a directory")
    if row.id not in controlled:
        raise Omitted("only who may change it sees what it does")
    shown = msgspec.to_builtins(doing, builtin_types=(msgspec.Raw, datetime))
    if Redactor().value(shown) != shown:
        raise Omitted("it holds a secret")
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


async def _launch_by_name(names: Names, launch: Mapping[str, Any]) -> dict[str, Any]:
    if launch.get("version") is not None:
        raise Omitted("it names a version of the manifest. Let it launch a revision")
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
            raise Omitted("its submodules name instances, or what you can't see")
    return found


_LAUNCH_NAMES = (("environmentId", "environment", "environment"), ("revisionId", "revision", "revision"))


def _mentions(document: Any, name: str) -> bool:
    if isinstance(document, Mapping):
        return name in document or any(_mentions(each, name) for each in document.values())
    return False


async def _launch_by_id(names: Names, launch: Mapping[str, Any]) -> dict[str, Any]:
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


async def _bulk_by_name(names: Names, doing: Doing) -> Bulk:
    act, wanted = doing.bulk, doing.wanted
    assert act is not None, "a schedule is of a run, a launch or a bulk run"
    if act.version is not None or wanted.version is not None:
        raise Omitted("it names a version of the manifest")
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
            drifted=wanted.is_drifted,
            observed=wanted.is_observed,
            secrets_changed=wanted.has_changed_secrets,
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


async def _bulk_by_id(names: Names, bulk: Bulk) -> Doing:
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
        is_drifted=given.drifted,
        is_observed=given.observed,
        has_changed_secrets=given.secrets_changed,
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
        within("stopAfterFailures", bulk.stop_after_failures, 1, limits.BULK_INSTANCES)
    return Doing(
        bulk=act,
        wanted=wanted,
        max_parallel=within("maxParallel", bulk.max_parallel, 1, limits.BULK_PARALLEL),
        stop_after_failures=bulk.stop_after_failures,
    )


def _moment(what: str, value: int) -> datetime:
    return from_ms(within(what, value, 0, limits.TIME_LATEST_MS))


async def _put_schedule(names: Names, name: str, existing: str | None, content: Schedule) -> str:
    ctx = names.ctx
    timing = Timing(
        cron=content.cron,
        zone=content.zone,
        starts_at=None if content.starts_at is None else _moment("startsAt", content.starts_at),
        ends_at=None if content.ends_at is None else _moment("endsAt", content.ends_at),
        is_paused=content.paused,
        when_busy=content.when_busy,
        jitter_ms=within("jitterMs", content.jitter_ms, 0, limits.RECURRING_JITTER_MS),
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
        except Omitted as why:
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


async def _named(names: Names, name: str) -> list[str]:
    return await recurring.list_named(names.ctx, names.organization_id, name)


async def _delete(ctx: Context, _organization_id: str, number: str) -> None:
    await recurring.delete_recurring_schedule(ctx, number)


STORED_KIND = StoredKind("schedule", _schedules, _named, _put_schedule, _delete)
