"""Rules about changes: asked about each change, and kept in versions (decision 0198).

A process keeps the rules of an organization as it keeps grants: under the stamp of the organization, which each lookup
reads and each save raises. So they cost an organization without rules no statement, and a change reads none older than
its own lookup.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
import structlog

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import ActingToken, Actor, Method, Permission, Resource
from launchbay.clock import Backoff
from launchbay.concurrency import computed
from launchbay.errors import BadRequest, Conflict, InvalidManifest, NotFound
from launchbay.features.change_rules import rows as store
from launchbay.features.change_rules.rows import FactsRow
from launchbay.features.change_rules.rules import Approval, Facts, Rule, Verdict, ask, parse, problems_of
from launchbay.model.changes import GOVERNED, Allowed, Proposal, Refusal
from launchbay.model.redaction import Redactor
from launchbay.model.values import size_of
from launchbay.planning.decisions import Change
from launchbay.planning.names import DESTROY
from launchbay.store.applications import Application
from launchbay.store.database import IDLE_IN_TRANSACTION_S, Connection, after_commit
from launchbay.store.environments import Environment
from launchbay.store.organizations import Organization
from launchbay.telemetry import metrics
from launchbay.usecases.context import Context, Work

log = structlog.get_logger(__name__)
Owner = Literal["organization", "application", "environment"]
_MS_PER_HOUR = 3_600_000
_CACHED = 1_000  # organizations
_LOOKS = Backoff(0.005, 0.1)  # at changes on their way


class Scope(NamedTuple):
    """A text in force: whose rules they are, their version, and the rules.

    With a `problem`, this server can't read them.
    """

    kind: Owner
    owner_id: str
    version: int
    rules: tuple[Rule, ...]
    problem: str | None = None

    def is_about(self, change: Change) -> bool:
        if self.kind == "organization":
            return True
        return self.owner_id == (change.application_id if self.kind == "application" else change.environment_id)


class _Kept(NamedTuple):
    stamp: int
    scopes: tuple[Scope, ...]


class RulesCache:
    """The rules in force in organizations, each text compiled once."""

    def __init__(self, capacity: int = _CACHED) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def scopes(self, connection: Connection, organization_id: str, stamp: int | None) -> tuple[Scope, ...]:
        """Return the texts in force under a stamp, or a newer one.

        Without one, they are read.
        """
        kept = self._kept.get(organization_id)
        if kept is None or kept.stamp != stamp:
            rows = await store.list_current(connection, organization_id=organization_id)
            if not rows:
                return ()  # the organization is being deleted
            scopes = await asyncio.to_thread(_scopes, rows) if rows[0].owner_id is not None else ()
            kept = self._kept[organization_id] = _Kept(rows[0].access_stamp, scopes)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        self._kept.move_to_end(organization_id)
        return kept.scopes


_cache = RulesCache()


def _scopes(rows: Sequence[store.CurrentRow]) -> tuple[Scope, ...]:
    return tuple(scope for scope in map(_scope, rows) if scope.rules or scope.problem)


def _scope(row: store.CurrentRow) -> Scope:
    assert row.owner_id is not None
    assert row.rules is not None
    assert row.version is not None
    kind: Owner = "organization"
    if row.application_id is not None:
        kind = "application"
    elif row.environment_id is not None:
        kind = "environment"
    try:
        return Scope(kind, row.owner_id, row.version, parse(row.rules))
    except InvalidManifest as error:  # written by a newer server, or with time zones that this one lacks
        return Scope(kind, row.owner_id, row.version, (), problems_of(error)[0])


async def ask_rules(connection: Connection, change: Change) -> Refusal | Allowed | None:
    """Return what the rules say to a change.

    Raises Conflict for rules that this server can't read.
    """
    scopes = await _cache.scopes(connection, change.organization_id, change.stamp)
    scopes = tuple(scope for scope in scopes if scope.is_about(change))
    if not scopes:
        return None
    for scope in scopes:
        if scope.problem is not None:
            raise Conflict(
                f"This server can't read version {scope.version} of the rules of the {scope.kind} {scope.owner_id}, so"
                f" it refuses changes there: {scope.problem}",
                "Upgrade the server, or save rules that it can read.",
            )
    facts = await facts_of(connection, change)
    return await answered(scopes, facts, has_change_set=change.change_set is not None)


async def answered(scopes: Sequence[Scope], facts: Facts, *, has_change_set: bool) -> Refusal | Allowed | None:
    """Return `answer` from a thread.

    Each of many conditions may cost its bound, and other requests continue meanwhile.
    """
    return await asyncio.to_thread(answer, scopes, facts, has_change_set=has_change_set)


def answer(scopes: Sequence[Scope], facts: Facts, *, has_change_set: bool) -> Refusal | Allowed | None:
    """Return the first refusal, or all that a change needs, or the warnings."""
    warnings: list[str] = []
    needs: list[tuple[Scope, Verdict]] = []
    for scope in scopes:
        for verdict in ask(scope.rules, facts):
            if verdict.failure is not None:
                log.error(
                    "change_rules.failed",
                    rule=verdict.rule.name,
                    owner=scope.owner_id,
                    version=scope.version,
                    problem=verdict.failure,
                )
                metrics.rule_failures.inc()
            if verdict.outcome == "deny":
                return _refusal(scope, verdict, facts)
            if verdict.outcome == "warn":
                failed = "" if verdict.failure is None else f" The rule failed: {verdict.failure}"
                warnings.append(f"{verdict.sentence} ({_named(scope, verdict, facts)}){failed}")
            else:
                needs.append((scope, verdict))
    if needs:
        return _needs(needs, facts, has_change_set=has_change_set)
    return Allowed(tuple(warnings)) if warnings else None


def _named(scope: Scope, verdict: Verdict, facts: Facts) -> str:
    where = "of the organization"
    if scope.kind != "organization":
        where = f"of the {scope.kind} {facts.values[scope.kind]['name']!r}"
    return f"rule {verdict.rule.name!r}, version {scope.version} of the rules {where}"


def _writers(scope: Scope) -> str:
    of = {"organization": "everything (/*)", "application": "the application", "environment": "the environment"}
    return f"Whoever has EditRules for {of[scope.kind]} can change the rule."


def _written_at(scope: Scope) -> tuple[str, ...]:
    """Return the paths for which one needs the permission to write these rules."""
    if scope.kind == "application":
        return (str(permissions.application(scope.owner_id)),)
    if scope.kind == "environment":
        return (str(permissions.environment(scope.owner_id)),)
    return tuple(str(each) for each in everything())


def everything() -> tuple[Resource, Resource]:
    """Return objects that only a permission for everything covers."""
    return permissions.application(permissions.EVERY), permissions.environment(permissions.EVERY)


def _refusal(scope: Scope, verdict: Verdict, facts: Facts) -> Refusal:
    named = _named(scope, verdict, facts)
    details = [f"The facts were {', '.join(verdict.facts)}."] if verdict.facts else []
    if verdict.failure is not None:
        details.append(f"The rule couldn't be computed, so it refuses: {verdict.failure}")
    remedy = f"That is the {named}. {_writers(scope)}"
    return Refusal(
        "deny",
        "RuleRefused",
        verdict.sentence,
        remedy,
        details=tuple(details),
        settled_with=Permission.EDIT_RULES,
        settled_at=_written_at(scope),
    )


def _needs(found: Sequence[tuple[Scope, Verdict]], facts: Facts, *, has_change_set: bool) -> Refusal:
    scope, verdict = found[0]
    approvals = max(
        (each.rule.requirement.approvals for _, each in found if each.rule.requirement is not None), default=0
    )
    named = _named(scope, verdict, facts)
    of = _wanted(verdict)
    if has_change_set:
        remedy = f"This change set has too few. Create it again with {of}."
    else:
        remedy = f"Create a change set with {of}: launchbay change-set create, or Save as change set in the console."
    details = [f"The facts were {', '.join(verdict.facts)}."] if verdict.facts else []
    details += [each.sentence for _, each in found[1:]]
    return Refusal(
        "needs",
        "RuleRefused",
        verdict.sentence,
        f"That is the {named}. {remedy} {_writers(scope)}",
        details=tuple(details),
        approvals=approvals,
        settled_with=Permission.EDIT_RULES,
        settled_at=_written_at(scope),
    )


def _wanted(verdict: Verdict) -> str:
    requirement = verdict.rule.requirement
    if requirement is None or requirement.approvals == 0:
        return "what is to be changed"
    people = "1 approval" if requirement.approvals == 1 else f"{requirement.approvals} approvals"
    roles = f" by people with the role {' or '.join(requirement.roles)}" if requirement.roles else ""
    return f"{people} by others than its author{roles}"


async def facts_of(connection: Connection, change: Change) -> Facts:
    """Return what rules know of a change. Secrets in its parameters are masked."""
    row = await store.get_facts(
        connection,
        organization_id=change.organization_id,
        application_id=change.application_id,
        environment_id=change.environment_id,
        instance_id=change.instance_id,
        revision_id=change.proposed.revision_id,
        user_id=change.actor.user_id,
        change_set_id=change.change_set,
    )
    if row is None:
        raise NotFound("The organization has just been deleted.")
    given = change.proposed.parameters
    parameters = await computed(size_of(given, limits.INLINE_BYTES), partial(_masked, given))
    approvals = None
    change_set = _read(row.change_set, {"id": None, "author": None, "comment": None, "approvals": []})
    if change.change_set is not None:
        approvals = tuple(Approval(each["email"], tuple(each["roles"])) for each in change_set["approvals"])
    return Facts(_values(change, row, parameters, change_set), change.at or change.clock.now(), approvals)


def _masked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    redactor = Redactor([parameters])
    return {name: redactor.named(name, value) for name, value in parameters.items()}


def _values(
    change: Change, row: FactsRow, parameters: Mapping[str, Any], change_set: Mapping[str, Any]
) -> dict[str, Any]:
    proposed = change.proposed
    is_launch = change.kind == "launch"
    return {
        "operation": change.operation,
        "kind": change.kind,
        "workflow": proposed.workflow,
        "who": {"id": change.actor.user_id, "email": row.email, "name": row.person, "roles": row.roles},
        "credential": {**credential_facts(change), "origin": _origin(change.actor)},
        "application": {
            "id": change.application_id,
            "name": row.application,
            "labels": _read(row.application_labels, {}),
        },
        "revision": {"id": row.revision_id, "name": row.revision, "version": proposed.version or row.revision_version},
        "environment": {
            "id": change.environment_id,
            "name": row.environment,
            "labels": _read(row.environment_labels, {}),
            "markers": [each["name"] for each in _read(row.markers, [])],
            "properties": {each["name"]: each["value"] for each in _read(row.properties, [])},
        },
        "instance": {
            "id": change.instance_id,
            "name": row.instance if proposed.name is None else proposed.name,
            "labels": dict(proposed.labels) if is_launch else _read(row.instance_labels, {}),
            "status": row.status,
            "version": row.version,
        },
        "parameters": parameters,
        "lifetime": lifetime_facts(proposed),
        "changeSet": change_set,
    }


def _read(text: str | None, nothing: Any) -> Any:
    return nothing if text is None else msgspec.json.decode(text)


def lifetime_facts(proposed: Proposal) -> dict[str, Any]:
    """Return how long an instance would live; nulls if the change doesn't say it."""
    ms = proposed.lifetime_ms
    if ms is None:
        return {"hours": None, "isForever": None}
    return {"hours": None if ms < 0 else ms / _MS_PER_HOUR, "isForever": ms < 0}


def credential_facts(change: Change) -> dict[str, str | None]:
    """Return the kind of credential of a change.

    The name is that of a token, or of what began the change.
    """
    actor, cause = change.actor, change.cause
    if actor.is_agent:
        return {"kind": "agent", "name": None if actor.token is None else actor.token.name}
    # What somebody rolls back or applies has a cause, too. It is still theirs.
    is_own = cause is None or cause.kind in ("change-set", "rollback")
    if actor.method is Method.ENGINE or change.is_later or not is_own:
        kind = {
            "recurring-schedule": "schedule",
            "rollout": "rollout",
            "rollback": "rollback",
            "idle": "lifetime",
            "sleep": "sleep",
        }.get("" if cause is None else cause.kind)
        if kind is None:
            kind = "git" if actor.method is Method.ENGINE and not change.is_later else "schedule"
        return {"kind": kind, "name": (cause.name or None) if cause is not None else None}
    if actor.token is not None:
        return {"kind": "token", "name": actor.token.name}
    return {"kind": "session", "name": None}


def _origin(actor: Actor) -> str | None:
    """Return with what somebody began it, also what acts later; None for the engine."""
    if actor.is_agent:
        return "agent"
    if actor.token is not None:
        return "token"
    return None if actor.method is Method.ENGINE else "session"


@dataclass(frozen=True, slots=True)
class RulesText:
    """A version of a text; 0 of an owner that never had rules."""

    version: int
    rules: str
    author_id: str | None
    author_email: str | None
    created_at: datetime | None


_NEVER = RulesText(0, "", None, None, None)


async def _owner(
    work: Work, kind: Owner, owner_id: str, *, edits: bool = False
) -> Organization | Application | Environment:
    permission = Permission.EDIT_RULES if edits else Permission.READ
    if kind == "application":
        return await work.lookup.application(owner_id, permission)
    if kind == "environment":
        return await work.lookup.environment(owner_id, permission)
    found = await work.lookup.organization(owner_id)
    if edits:  # what is about everything takes the permission for everything
        for each in everything():
            work.lookup.require(found.id, permission, each)
    return found


def _organization_id(owner: Organization | Application | Environment) -> str:
    return owner.id if isinstance(owner, Organization) else owner.organization_id


async def read_rules(ctx: Context, kind: Owner, owner_id: str, version: int | None = None) -> RulesText:
    """Return the rules of an organization, an application or an environment.

    Raises NotFound for a version that isn't kept.
    """
    async with ctx.read() as work:
        owner = await _owner(work, kind, owner_id)
        ids = {"owner_id": owner.id, "organization_id": _organization_id(owner)}
        if version is None:
            row = await store.get_current(work.connection, **ids)
        else:
            row = await store.get_version(work.connection, **ids, version=version)
            if row is None:
                raise NotFound(
                    f"There is no version {version} of these rules. The last {limits.CHANGE_RULE_VERSIONS} are kept."
                )
    return _NEVER if row is None else RulesText(*row)


async def list_versions(ctx: Context, kind: Owner, owner_id: str) -> list[RulesText]:
    """Return who wrote the rules when, newest first, without their texts."""
    async with ctx.read() as work:
        owner = await _owner(work, kind, owner_id)
        rows = await store.list_versions(work.connection, owner_id=owner.id, organization_id=_organization_id(owner))
    return [RulesText(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class RulesPlace:
    """Whose rules are meant, by the name that people know."""

    kind: Owner
    id: str
    name: str
    organization_id: str


async def read_place(ctx: Context, kind: Owner, owner_id: str) -> RulesPlace:
    """Return whose rules these are, for who may read them."""
    async with ctx.read() as work:
        owner = await _owner(work, kind, owner_id)
    return RulesPlace(kind, owner.id, owner.name, _organization_id(owner))


async def list_in_force(ctx: Context, organization_id: str) -> list[tuple[RulesPlace, RulesText]]:
    """Return the texts in force in an organization, of what the caller may read."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_in_force(work.connection, organization_id=organization_id)
    found: list[tuple[RulesPlace, RulesText]] = []
    for row in rows:
        kind: Owner = "application" if row.application_id else "environment" if row.environment_id else "organization"
        path = permissions.application if row.application_id else permissions.environment
        if kind == "organization" or work.lookup.allows(organization_id, Permission.READ, path(row.owner_id)):
            text = RulesText(row.version, row.rules, None, row.author_email, row.created_at)
            found.append((RulesPlace(kind, row.owner_id, row.name, organization_id), text))
    return found


def checked(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text.

    Raises BadRequest with line and column of each error.
    """
    try:
        return parse(text)
    except InvalidManifest as error:
        raise BadRequest(*problems_of(error), code="InvalidRules", field="rules") from None


async def replace_rules(ctx: Context, kind: Owner, owner_id: str, text: str) -> int:
    """Write a new version of rules, and return its number.

    An empty text removes them. The same text again writes nothing. It returns once no change is on its way that hasn't
    read it (decision 0222); in a larger transaction, that one does. Raises BadRequest for rules with errors.
    """
    await asyncio.to_thread(checked, text)
    text = text if text.strip() else ""
    async with ctx.begin() as work:
        owner = await _owner(work, kind, owner_id, edits=True)
        organization_id = _organization_id(owner)
        await store.lock_rules(work.connection, organization_id=organization_id)
        before = await store.get_current(work.connection, owner_id=owner.id, organization_id=organization_id)
        if (before.rules if before is not None else "") == text:
            return 0 if before is None else before.version
        version = 1 if before is None else before.version + 1
        await store.retire(
            work.connection,
            owner_id=owner.id,
            organization_id=organization_id,
            version=version,
            kept=limits.CHANGE_RULE_VERSIONS,
        )
        await store.insert(
            work.connection,
            owner_id=owner.id,
            organization_id=organization_id,
            application_id=owner.id if kind == "application" else None,
            environment_id=owner.id if kind == "environment" else None,
            version=version,
            rules=text,
            author_id=ctx.actor.user_id,
        )
        old = {} if before is None else {"version": before.version, "rules": before.rules}
        await work.audit(f"replace_{kind}_rules", owner, old, {"version": version, "rules": text})
        if text:
            after_commit(work.connection, partial(_pass_changes, ctx))
    return version


async def _pass_changes(ctx: Context) -> None:
    """Wait, at most a minute, for changes that may have read the former rules."""
    async with ctx.read() as work:
        under_way = await store.list_under_way(work.connection)
    delays_s = _LOOKS.delays()
    last = time.monotonic() + IDLE_IN_TRANSACTION_S
    while under_way and time.monotonic() < last:
        await asyncio.sleep(next(delays_s))
        async with ctx.read() as work:
            under_way = await store.list_still_under_way(work.connection, ids=under_way)


@dataclass(frozen=True, slots=True)
class RefusedChange:
    """A change that rules would have refused, or needed something for."""

    at: datetime
    by: str
    operation: str
    object: str
    outcome: Literal["deny", "needs"]
    sentence: str


@dataclass(frozen=True, slots=True)
class RecentCheck:
    """What rules would have said to the last changes in their scope.

    `unchecked` are rules that read facts which the audit log doesn't have, by name. `missing` says why nothing was
    checked at all.
    """

    changes: int = 0
    refused: tuple[RefusedChange, ...] = ()
    warned: int = 0
    unchecked: tuple[str, ...] = ()
    missing: str | None = None


async def check_recent(ctx: Context, kind: Owner, owner_id: str, text: str) -> RecentCheck:
    """Return what rules would have said to the last changes.

    Objects, labels and roles are those of now, and parameters aren't in the log: rules that read them are left out.
    Raises BadRequest for rules with errors.
    """
    async with ctx.read() as work:
        owner = await _owner(work, kind, owner_id, edits=True)
        rules = await asyncio.to_thread(checked, text)
        organization_id = _organization_id(owner)
        if not work.lookup.holds(organization_id, Permission.VIEW_AUDIT):
            return RecentCheck(missing="You need the permission ViewAudit to compare rules with recent changes.")
        unchecked = tuple(rule.name for rule in rules if _UNKNOWN.intersection(_first_facts(rule)))
        rules = tuple(rule for rule in rules if rule.name not in unchecked)
        rows = await store.list_recent(
            work.connection,
            organization_id=organization_id,
            operations=list(GOVERNED),
            application_id=owner.id if kind == "application" else None,
            environment_id=owner.id if kind == "environment" else None,
            looked_at=limits.CHANGE_RULES_LOOKED_AT,
            limit=limits.CHANGE_RULES_CHECKED,
        )
        refused: list[RefusedChange] = []
        warned = 0
        for row in rows:
            change = _recent_change(organization_id, row)
            facts = await facts_of(work.connection, change)
            has_set = change.change_set is not None
            found = await answered([Scope(kind, owner.id, 0, rules)], facts, has_change_set=has_set)
            if isinstance(found, Refusal):
                refused.append(
                    RefusedChange(row.at, row.actor_email, row.operation, row.object, found.outcome, found.sentence)
                )
            elif found is not None:
                warned += 1
    return RecentCheck(len(rows), tuple(refused), warned, unchecked)


# Facts of a change that the audit log doesn't have in clear.
_UNKNOWN = frozenset({"parameters"})


def _first_facts(rule: Rule) -> frozenset[str]:
    return rule.when.variables


def _recent_change(organization_id: str, row: store.RecentRow) -> Change:
    """Return a change as its entry in the audit log has it."""
    kind = GOVERNED[row.operation]
    workflow = row.object.partition("/workflows/")[2] or None
    if kind == "run" and workflow == DESTROY and row.operation != "resume_job":
        kind = "destroy"
    known = {each.value: each for each in Method}
    token = None if row.token_id is None else ActingToken(row.token_id, row.token_name or "", organization_id, None)
    actor = Actor(row.actor_id, row.actor_email, "", "", known.get(row.method, Method.ENGINE), token=token)
    after: Any = _read(row.after, {})
    labels, interval_ms = after.get("labels"), after.get("destroyInterval")
    proposed = Proposal(
        name=after.get("name") if isinstance(after.get("name"), str) else None,
        labels=labels if isinstance(labels, dict) else {},
        workflow=workflow,
        version=after.get("version") if isinstance(after.get("version"), int) else None,
        revision_id=after.get("revisionId") if isinstance(after.get("revisionId"), str) else None,
        lifetime_ms=interval_ms if isinstance(interval_ms, int) else None,
    )
    return Change(
        operation=row.operation,
        kind=kind,
        organization_id=organization_id,
        actor=actor,
        application_id=row.application_id,
        environment_id=row.environment_id,
        instance_id=row.instance_id,
        proposed=proposed,
        change_set=row.change_set_id,
        at=row.at,
    )


async def rules_at(
    work: Work, organization_id: str, application_id: str | None, environment_id: str | None
) -> list[str]:
    """Return the rules in force for changes of an application and environment.

    Those of an object that the caller may not read are left out.
    """
    found: list[str] = []
    for scope in await _cache.scopes(work.connection, organization_id, work.lookup.stamp(organization_id)):
        path = None
        if scope.kind == "application":
            path = permissions.application(scope.owner_id)
        elif scope.kind == "environment":
            path = permissions.environment(scope.owner_id)
        if path is not None and scope.owner_id not in {application_id, environment_id}:
            continue
        if path is not None and not work.lookup.allows(organization_id, Permission.READ, path):
            continue
        where = "organization" if path is None else f"{scope.kind} {scope.owner_id}"
        found += [
            f"{rule.outcome} by the rule {rule.name!r}, version {scope.version} of the rules of the {where}, "
            f"when {rule.condition}"
            for rule in scope.rules
        ]
    return found
