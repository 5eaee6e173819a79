"""The activity of an organization: who did what, when, and what it changed."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.console.forms import parse_number
from launchbay.console.list_query import ActivityQuery, Facet, read_activity_query, term
from launchbay.console.rendering import actor_name
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError, NotFound
from launchbay.ids import is_id
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.store.audit import AuditRow, FoundObject
from launchbay.usecases.organizations import (
    AuditChunk,
    AuditedChange,
    AuditFilter,
    find_by_name,
    list_changes,
    read_audit_entries,
)
from launchbay.usecases.sign_in import authenticate_session

routes = Routes()

_NEWEST = 2**62  # no entry has a greater number
_NAMED = 10  # objects of a name, to choose from
_CHANGES = 4  # fields that the list shows of an entry
# The first word of an operation as it is told. What isn't here keeps its name.
_PAST = {
    "accept": "accepted",
    "apply": "applied",
    "approve": "approved",
    "assign": "assigned",
    "cancel": "cancelled",
    "change": "changed",
    "clone": "copied",
    "close": "closed",
    "continue": "continued",
    "create": "created",
    "decline": "declined",
    "delete": "deleted",
    "extend": "extended",
    "forget": "forgot",
    "generate": "made",
    "import": "imported",
    "launch": "launched",
    "leave": "left",
    "lift": "lifted",
    "open": "opened",
    "pause": "paused",
    "put": "changed",
    "reconfigure": "changed",
    "refresh": "loaded",
    "reject": "rejected",
    "remove": "removed",
    "rename": "renamed",
    "renew": "renewed",
    "replace": "changed",
    "reschedule": "rescheduled",
    "reset": "reset",
    "resume": "resumed",
    "retry": "sent again the",
    "reveal": "revealed",
    "revoke": "revoked",
    "rollback": "rolled back",
    "run": "ran",
    "schedule": "scheduled",
    "set": "set",
    "stop": "stopped",
    "supersede": "superseded",
    "take": "took",
    "test": "tested",
    "update": "changed",
    "use": "used",
    "withdraw": "withdrew",
    "write": "changed",
}
_TOLD = {
    "launch_application": "launched",
    "reconfigure_instance": "changed the configuration of",
    "replace_manifest": "saved a version of",
    "refresh_manifest": "loaded a version of",
    "run_workflow": "ran",
    "cancel_job": "cancelled",
    "resume_job": "resumed",
    "put_user_data": "changed the notes of",
    "set_destroy_at": "changed the expiry of",
    "replace_instance_environments": "changed where others find",
    "replace_environment_services": "changed the services of",
    "replace_application_lifetime": "changed the lifetimes of",
    "replace_environment_lifetime": "changed the lifetimes of",
    "replace_application_concurrency": "changed the limits of",
    "replace_environment_concurrency": "changed the limits of",
    "replace_application_sleep": "changed the sleep of",
    "replace_environment_sleep": "changed the sleep of",
    "put_instance_labels": "changed the labels of",
    "put_environment_labels": "changed the labels of",
    "keep_awake": "kept awake",
    "sync_git_source": "asked for the newest commit of",
    "sign_out_everywhere": "signed out everywhere as",
    "close_session": "signed out as",
    "reveal_instance_secret": "revealed a secret of",
    "reveal_service_secret": "revealed a secret of",
    "run_service_command": "ran a command of",
    "set_failure_policy": "changed what failures do in",
    "set_change_policy": "changed who approves in",
    "set_freeze": "froze",
    "lift_freeze": "lifted the freeze of",
    "replace_freeze_windows": "changed the freeze windows of",
    "replace_promotion_order": "changed the promotion order of",
    "replace_application_promotion_order": "changed the promotion order of",
    "override_freeze": "overrode the freeze of",
    "receive_rule_warning": "was warned by a rule about",
    "set_application_freeze": "froze",
    "lift_application_freeze": "lifted the freeze of",
    "replace_application_freeze_windows": "changed the freeze windows of",
    "create_service_account": "created service account",
    "create_git_source": "created git source",
    "create_rollout": "started the rollout",
    "create_bulk": "started the bulk run",
    "write_sign_in_policy": "changed the rules of sign-in of",
    "reset_password": "reset the password of",
    "erase_person": "erased the address of",
    "take_back_rollout": "took back the rollout",
    "undo_destroy": "took back the destruction of",
}
# What the choice of an action selects: words and operations.
_KINDS: Mapping[str, tuple[str, Sequence[str]]] = {
    "launch": ("Launched", ["launch_application"]),
    "change": ("Changed configuration", ["reconfigure_instance"]),
    "run": ("Ran workflows", ["run_workflow", "cancel_job", "resume_job", "schedule_workflow", "reschedule_workflow"]),
    "approve": (
        "Decided",
        [
            "approve",
            "reject",
            "approve_change_set",
            "reject_change_set",
            "withdraw_approval",
            "apply_change_set",
        ],
    ),
    "schedule": (
        "Changed schedules",
        [
            "schedule_workflow",
            "reschedule_workflow",
            "create_recurring_schedule",
            "update_recurring_schedule",
            "pause_recurring_schedule",
            "delete_recurring_schedule",
        ],
    ),
    "expiry": ("Changed expiry", ["set_destroy_at", "extend_instance", "undo_destroy", "keep_awake"]),
    "service": ("Changed services", ["create_service", "update_service", "delete_service", "run_service_command"]),
    "reveal": ("Revealed secrets", ["reveal_instance_secret", "reveal_service_secret"]),
    "manifest": ("Saved versions", ["replace_manifest", "set_manifest_source", "refresh_manifest"]),
    "environment": (
        "Changed environments",
        [
            "create_environment",
            "delete_environment",
            "rename_environment",
            "clone_environment",
            "replace_policies",
            "replace_markers",
            "replace_properties",
            "replace_environment_services",
        ],
    ),
    "access": (
        "Changed access",
        [
            "create_user",
            "update_user",
            "remove_user",
            "assign_roles",
            "revoke_roles",
            "create_role",
            "update_role",
            "delete_role",
            "replace_group_roles",
            "accept_membership",
            "leave_organization",
            "create_service_account",
            "update_service_account",
            "delete_service_account",
            "create_access_token",
            "revoke_access_token",
            "reset_password",
            "erase_person",
            "reset_second_factors",
            "lift_sign_in_block",
            "write_sign_in_policy",
            "set_change_policy",
            "set_freeze",
            "lift_freeze",
            "replace_freeze_windows",
            "set_application_freeze",
            "lift_application_freeze",
            "replace_application_freeze_windows",
        ],
    ),
    "delete": (
        "Deleted",
        [
            "delete_instance",
            "delete_application",
            "delete_revision",
            "delete_environment",
            "delete_service",
            "delete_role",
            "delete_service_account",
            "delete_webhook",
            "delete_recurring_schedule",
            "delete_git_source",
            "delete_change_set",
        ],
    ),
}
_PERIODS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
_COLUMNS = (
    *("id", "at", "actor", "actorEmail", "token", "address"),
    *("operation", "did", "objectName", "object", "before", "after"),
)
# Objects with a page of their own, and the segment of those whose pages are below the organization.
_PAGES = ("instances", "applications", "environments", "services", "roles")
_BELOW = {
    **{kind: kind for kind in ("users", "webhooks", "serviceAccounts", "bulk", "git-sources")},
    "change-sets": "changes",
    "changeSets": "changes",  # of entries before version 0.1
    "recurring-schedules": "recurring",
}


class Told(NamedTuple):
    """An entry in words.

    `name` and `href` are those of its object, `changes` a few of what it changed.
    """

    id: str
    row: AuditRow
    actor: str
    verb: str
    name: str
    href: str
    run_href: str
    changes: Sequence[AuditedChange]


@routes.get("/console/organizations/{id}/audit", query=("actor", "before", "object", "q"))
async def show_audit_log(request: PageRequest) -> Response:
    """Show a page of the entries that fit a query, the newest first."""
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    before = parse_number(request.query("before"), 18)
    query = _read_query(request)
    chosen = await _choose(request, query)
    rows: list[AuditRow] = []
    names: dict[str, str] = {}
    problem: LaunchbayError | None = None
    if chosen.wanted is not None:
        try:
            rows, names = await _read(request, chosen.wanted, before, CONSOLE_PAGE_ROWS + 1)
        except BadRequest as error:
            problem = error
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "audit.html",
        section="audit",
        organization_id=organization_id,
        problem=problem,
        status=None if query.problem is None else request.deps.status_of(query.problem),
        names=names,
        days=_by_day([told(organization_id, row, names) for row in shown], request.now()),
        next_before=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
        is_first=before is None,
        query=query,
        facets=[
            Facet("What", [(words, f"did:{key}") for key, (words, _) in _KINDS.items()]),
            Facet("Who", [("Me", "by:me")]),
            Facet("Since", [(words, f"since:{key}") for key, words in _PERIODS.items()]),
        ],
        unknown=chosen.unknown,
    )


class Chosen(NamedTuple):
    """What a query selects.

    `wanted` is None if a name in it doesn't say which object is meant. `unknown` then has for each such name whether
    it is a person's, the name, and the objects with the queries that choose them.
    """

    wanted: AuditFilter | None
    unknown: Sequence[tuple[bool, str, Sequence[tuple[FoundObject, str]]]]


def _read_query(request: PageRequest) -> ActivityQuery:
    """Return the query; links give a person or an object as a field."""
    given = [(field, request.query(name)) for name, field in (("actor", "by"), ("object", "on"))]
    text = " ".join([*(term(field, value) for field, value in given if value), request.query("q") or ""])
    return read_activity_query(text.strip(), list(_KINDS), request.now())


async def _choose(request: PageRequest, query: ActivityQuery) -> Chosen:
    """Find the person and the object that a query names.

    One that isn't understood selects nothing.
    """
    if query.problem is not None:
        return Chosen(None, ())
    by = request.actor.user_id if query.by == "me" else query.by
    person, people = await _resolve(request, by, is_person=True)
    about, objects = await _resolve(request, query.on, is_person=False)
    unknown = [
        (field == "by", text, [(each, query.with_last(field, each.id)) for each in found])
        for field, text, value, found in (("by", by, person, people), ("on", query.on, about, objects))
        if text is not None and value is None
    ]
    actions = [action for each in query.kinds for action in _KINDS[each][1]]
    wanted = AuditFilter(actor=person, about=about, actions=actions or None, since=query.since, until=query.until)
    return Chosen(None if unknown else wanted, unknown)


@routes.get("/console/organizations/{id}/audit/export", query=("actor", "format", "object", "q"))
async def export(request: PageRequest) -> Response:
    """Send the entries that fit a query, as CSV or JSON."""
    query = _read_query(request)
    chosen = await _choose(request, query)
    if query.problem is not None:
        raise query.problem
    if chosen.wanted is None:
        names = ", ".join(name for _, name, _ in chosen.unknown)
        raise BadRequest(f"No person or object, or more than one, is called {names}. Choose one in the list first.")
    organization_id = request.path("id")
    chunks = read_audit_entries(request.ctx, organization_id, chosen.wanted, after=None, limit=None, newest_first=True)
    first = await anext(chunks, None)  # errors are a page, not a broken file
    return request.download("activity", _COLUMNS, _exported(request, first or ([], {}), chunks))


async def _exported(
    request: PageRequest, chunk: AuditChunk, rest: AsyncIterator[AuditChunk]
) -> AsyncIterator[Sequence[Any]]:
    while True:
        rows, names = chunk
        for row in rows:
            entry = told(request.path("id"), row, names)
            yield (
                *(entry.id, row.at.isoformat(), entry.actor, row.actor_email, row.token_name, row.address),
                *(row.operation, entry.verb, entry.name, row.object, row.before, row.after),
            )
        await authenticate_session(request.app, request.session, request.actor.address)  # it may have ended
        try:
            chunk = await anext(rest)
        except StopAsyncIteration:
            return


async def _resolve(request: PageRequest, text: str | None, *, is_person: bool) -> tuple[str | None, list[FoundObject]]:
    """Return what an ID, a path, an address or a name selects.

    None, with objects to choose from, if a name doesn't say which.
    """
    if text is None or is_id(text) or text.startswith("/") or (is_person and "@" in text):
        return text, []
    found = await find_by_name(request.ctx, request.path("id"), text, _NAMED)
    found = [each for each in found if not is_person or each.kind == "user"]
    exact = [each for each in found if each.name.lower() == text.lower()]
    if len(exact or found) == 1:
        return (exact or found)[0].id, []
    return None, exact or found


@routes.get("/console/organizations/{id}/audit/{entry}")
async def show_entry(request: PageRequest) -> Response:
    """Show an entry with everything that it changed."""
    organization_id, text = request.path("id"), request.path("entry")
    request.ask_frame(organization_id)
    number = int(text, 16) if is_id(text) else 0
    rows, names = await _read(request, AuditFilter(), min(number, _NEWEST) + 1, 2)
    if not rows or rows[0].id != number:
        raise NotFound("Entry not found.", "It may be older than the log.")
    row = rows[0]
    return await request.page(
        "audit_entry.html",
        section="audit",
        organization_id=organization_id,
        entry=told(organization_id, row, names),
        names=names,
        changes=list_changes(row.before, row.after),
        path=_named(row.object, names),
        older=entry_id(rows[1]) if len(rows) > 1 else None,
    )


async def _read(
    request: PageRequest, wanted: AuditFilter, before: int | None, count: int
) -> tuple[list[AuditRow], dict[str, str]]:
    rows: list[AuditRow] = []
    names: dict[str, str] = {}
    entries = read_audit_entries(request.ctx, request.path("id"), wanted, after=before, limit=count, newest_first=True)
    async for chunk, named in entries:
        rows += chunk
        names |= named
    return rows, names


def entry_id(row: AuditRow) -> str:
    """Return the ID of an entry as in the API."""
    return f"{row.id:024x}"


def told(organization_id: str, row: AuditRow, names: Mapping[str, str]) -> Told:
    """Return an entry in words."""
    first, _, rest = row.operation.partition("_")
    parts = row.object.strip("/").split("/")
    kind, object_id = parts[-2:] if len(parts) > 1 else ("", parts[-1])
    verb = _TOLD.get(row.operation)
    if verb is None:
        noun = rest.replace("_", " ")
        is_of_kind = kind.lower().startswith(rest.replace("_", "")[:4]) if rest else False
        verb = f"{_PAST.get(first, first)} {noun}" if not rest or is_of_kind else f"{_PAST.get(first, first)} {noun} of"
    instance = parts[parts.index("instances") + 1] if "instances" in parts[:-1] else None
    name = names.get(object_id, object_id[-_ID_END:] if is_id(object_id) else object_id)
    if instance is not None and kind != "instances":  # a workflow of an instance
        name = f"{name} on {names.get(instance, instance)}"
    href = _href(organization_id, parts)
    if row.operation == "open_session":  # what it is about is the person
        verb, name, href = "signed in", "", ""
    job = _job(row)
    changes = [
        each
        for each in list_changes(row.before, row.after)
        if (each.before not in _EMPTY or each.after not in _EMPTY)
        and (each.field, each.before, each.after) != ("name", None, name)  # which the sentence says
    ]
    return Told(
        id=entry_id(row),
        row=row,
        actor=actor_name(row, names),
        verb=verb,
        name=name,
        href=href,
        run_href=f"{HOME}/instances/{instance}/jobs/{job}" if instance and job else "",
        changes=[each for each in changes if each.field != "job"][:_CHANGES],
    )


_ID_END = 6  # digits that tell objects without names apart
_EMPTY: tuple[object, ...] = (None, {}, [])


def _job(row: AuditRow) -> str | None:
    """Return the job that an entry began."""
    after = msgspec.json.decode(row.after) if row.after else None
    job = after.get("job") if isinstance(after, dict) else None
    return job if isinstance(job, str) and job.isalnum() else None


def _href(organization_id: str, parts: Sequence[str]) -> str:
    """Return the page of an object; empty if it has none."""
    for kind, object_id in zip(parts[-2::-1], parts[:0:-1], strict=True):
        if kind in _PAGES:
            return f"{HOME}/{kind}/{object_id}"
        if kind == "rollouts" and parts[-4:-3] == ["applications"]:
            return f"{HOME}/{'/'.join(parts[-4:])}"
        if kind in _BELOW:
            return f"{HOME}/organizations/{organization_id}/{_BELOW[kind]}/{object_id}"
    return ""


def _by_day(rows: Sequence[Told], now: datetime) -> list[tuple[str, list[Told]]]:
    """Return the entries of each day, in UTC."""
    found: dict[date, list[Told]] = {}
    for each in rows:
        found.setdefault(each.row.at.astimezone(UTC).date(), []).append(each)
    today = now.astimezone(UTC).date()
    names = {today: "Today", today - timedelta(days=1): "Yesterday"}
    return [(names.get(day) or day.strftime("%-d %B %Y"), entries) for day, entries in found.items()]


def _named(path: str, names: Mapping[str, str]) -> str:
    """Return a path with names in place of IDs."""
    return "/".join(names.get(part, part) for part in path.split("/"))
