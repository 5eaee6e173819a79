"""What a use case works with: the application, the caller, and one unit of work in the database."""

import re
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, TypedDict, TypeVar, overload

import msgspec
import structlog

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.audit import Audit, Document
from launchbay.auth.authentication import BasicAuthentication
from launchbay.auth.holders import Holders, find_holders
from launchbay.auth.identity_tokens import IdentityTokens
from launchbay.auth.lookup import Lookup, Lookups, MissingPermission
from launchbay.auth.passwords import Passwords
from launchbay.auth.permissions import Actor, Method, Permission, Resource, parse_resource
from launchbay.auth.secret_key import SecretKey
from launchbay.auth.throttle import SignInThrottle
from launchbay.auth.tokens import RefreshTokens, SessionTokens
from launchbay.clock import Clock
from launchbay.egress.http import EgressClient
from launchbay.errors import BadRequest, NotAllowed, NotFound
from launchbay.fairness.turns import RequestTurns
from launchbay.machines.registry import Providers
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.changes import (
    EXEMPT,
    GOVERNED,
    NOTHING_PROPOSED,
    OVERRIDE_FREEZE,
    RECEIVE_RULE_WARNING,
    Allowed,
    ChangeKind,
    Proposal,
    Refusal,
)
from launchbay.model.expiry import ExpiryRules, NoExpiryRules
from launchbay.model.findings import Finding
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Cause, Origin, Plan, seed_of_item
from launchbay.planning.acceptance import Dispatch, accept
from launchbay.planning.compiled import CompiledManifests
from launchbay.planning.decisions import Change, ChangeRule, Refused, RuleBusy, decide
from launchbay.planning.names import DESTROY
from launchbay.quotas.bounds import Quota, Quotas
from launchbay.service_types.registry import ServiceTypes
from launchbay.store import audit, services
from launchbay.store.applications import Application
from launchbay.store.database import Connection, Database
from launchbay.store.environments import Environment
from launchbay.store.events import EventFeed
from launchbay.store.instances import InstanceRecord
from launchbay.store.organizations import Organization
from launchbay.store.page_scope import PageScope
from launchbay.store.services import Service
from launchbay.store.statements import Value
from launchbay.store.users import Role
from launchbay.usecases.waits import Ends

_log = structlog.get_logger("launchbay.access")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


async def _no_expiry_rules(_: "Work", _organization: str, _application: str, _environment: str) -> ExpiryRules:
    return NoExpiryRules()


async def _no_rules(_: "Work", _organization: str, _application: str | None, _environment: str | None) -> list[str]:
    return []


async def _nobody_is_provisioned(_: Connection, _user: str) -> list[str]:
    return []


async def _no_groups(_: "Work", _organization: str) -> None:
    return None


async def _nothing_asks(_: "Context", _organization: str) -> int:
    return 0


async def _nobody_reads(_: "Work", _service: Service) -> list[str]:
    return []


async def _no_past_instance(_: "Context", _instance: str, _at_ms: int) -> dict[str, Any]:
    raise BadRequest("This server keeps no history of instances.", "Leave out `at`.", code="NotRecorded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What the kernel asks of features, with its answer where none has one."""

    # Of an organization, for an application and an environment of it. Lifetimes fill it.
    expiry_rules: Callable[["Work", str, str, str], Awaitable[ExpiryRules]] = _no_expiry_rules
    # The document of an instance, by ID, at a time in ms. History fills it with its endpoint's own.
    past_instance: Callable[["Context", str, int], Awaitable[dict[str, Any]]] = _no_past_instance
    # The rules in force for changes of an organization's application and environment, in words. Change rules fill it.
    rules_at: Callable[["Work", str, str | None, str | None], Awaitable[list[str]]] = _no_rules
    # How many objects of an organization wait for the caller's answer, besides approvals. Change sets fill it.
    count_asking: Callable[["Context", str], Coroutine[Any, Any, int]] = _nothing_asks
    # The first who need a service for what it gives to jobs, in words. Secret providers fill it.
    service_users: Callable[["Work", Service], Awaitable[list[str]]] = _nobody_reads
    # The organizations that hear of a person's groups otherwise than by the sign-in. SCIM fills it.
    provisioned_in: Callable[[Connection, str], Awaitable[Sequence[str]]] = _nobody_is_provisioned
    # Gives the roles of groups to the members of an organization, whose row is locked. SCIM fills it.
    apply_groups: Callable[["Work", str], Awaitable[None]] = _no_groups


NO_PORTS = Ports()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """The services of this process that use cases need.

    `check` returns the findings of a manifest, which has `manifest_bytes` at most; `runnable_types` are the component
    types that live instances run. `organization_creators` is the setting; each person may create as many as
    `organizations_each`, 0 for any number.
    """

    database: Database
    lookups: Lookups
    locks: Mapping[str, Value[str]]  # by the first segment of an API path
    ports: Ports
    change_rules: tuple[ChangeRule, ...]  # what is asked about each change (decision 0200)
    offers: tuple[object, ...]  # what features have for others of them
    quotas: Quotas
    turns: RequestTurns
    organization_creators: frozenset[str]
    organizations_each: int
    dispatch: Dispatch
    manifests: CompiledManifests
    check: Callable[[bytes], list[Finding]]
    manifest_bytes: int
    runnable_types: frozenset[str]
    clock: Clock
    feed: EventFeed
    ends: Ends
    service_types: ServiceTypes
    machines: Providers
    secret_key: SecretKey
    egress: EgressClient
    audit: Audit
    passwords: Passwords
    sign_in: BasicAuthentication
    throttle: SignInThrottle
    refresh_tokens: RefreshTokens
    sessions: SessionTokens
    identity_tokens: IdentityTokens
    session_lifetime_s: int
    session_idle_s: float
    given_password_days: float

    def offered(self, kind: type[A]) -> list[A]:
        """Return what features offer of a class, in the order of `app/features.py`.

        Who asks decides what several mean.
        """
        return [each for each in self.offers if isinstance(each, kind)]


class _Ids(TypedDict, total=False):
    application_id: str
    environment_id: str
    instance_id: str


_RULED = (Application, Environment, InstanceRecord, Service)
LookedUp = Application | Environment | InstanceRecord | Organization | Role | Service
_RESOURCES: Mapping[type, Callable[[Any], Resource | str]] = {
    Application: lambda found: permissions.application(found.id),
    Environment: lambda found: permissions.environment(found.id),
    InstanceRecord: lambda found: permissions.instance(found.application_id, found.id),
    Organization: lambda found: f"/organizations/{found.id}",
    Role: lambda found: permissions.role(found.id),
    Service: lambda found: permissions.service(found.id),
}


class Work:
    """One unit of work: a connection, and what the caller may do through it."""

    __slots__ = ("_ctx", "_decided", "_holders", "connection", "lookup")

    def __init__(self, ctx: "Context", connection: Connection) -> None:
        self._ctx = ctx
        self.connection = connection
        self.lookup: Lookup = ctx.app.lookups.bind(connection, ctx.actor)
        self._decided: set[tuple[str, str]] = set()  # operations, and the objects that they change
        self._holders: dict[tuple[str, tuple[str, ...]], Holders] = {}  # by permission and paths

    @property
    def app(self) -> AppContext:
        return self._ctx.app

    @property
    def actor(self) -> Actor:
        return self._ctx.actor

    async def expiry_rules(self, record: InstanceRecord) -> ExpiryRules:
        """Return the rules for the lifetime of an instance."""
        ask = self.app.ports.expiry_rules
        return await ask(self, record.organization_id, record.application_id, record.environment_id)

    @overload
    async def together(self, a: Coroutine[Any, Any, A], b: Coroutine[Any, Any, B], /) -> tuple[A, B]: ...
    @overload
    async def together(
        self, a: Coroutine[Any, Any, A], b: Coroutine[Any, Any, B], c: Coroutine[Any, Any, C], /
    ) -> tuple[A, B, C]: ...
    @overload
    async def together(
        self,
        a: Coroutine[Any, Any, A],
        b: Coroutine[Any, Any, B],
        c: Coroutine[Any, Any, C],
        d: Coroutine[Any, Any, D],
        /,
    ) -> tuple[A, B, C, D]: ...
    async def together(self, *reads: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
        """Return what reads find that don't depend on each other.

        On a page they take one round trip. Otherwise each waits for the one before.
        """
        scope = PageScope.current(self.app.database.pool)
        if scope is not None and self.connection is scope:  # type: ignore[comparison-overlap] # it stands for one
            return tuple([await task for task in [scope.ask(each) for each in reads]])
        left = iter(reads)
        try:
            return tuple([await each for each in left])
        finally:
            for each in left:
                each.close()

    def manifest(self, application_id: str, version: int) -> Awaitable[CompiledManifest]:
        """Return a stored manifest version, compiled. Raises InvalidManifest, Conflict."""
        return self.app.manifests.get(self.connection, application_id, version)

    def warn(self, texts: Iterable[str]) -> None:
        """Tell the caller what had no effect, or is odd.

        It hears each text once, also if the attempt is repeated.
        """
        told = self._ctx.warnings
        told.extend(text for text in dict.fromkeys(texts) if text not in told)

    async def accept(self, record: InstanceRecord, plan: Plan, manifest: CompiledManifest, version: int) -> str | None:
        """Accept a job and return its ID; None if another request was first."""
        return await accept(
            self.connection,
            self.app.dispatch,
            record.organization_id,
            record.id,
            self.actor.user_id,
            self.seeded(plan),
            manifest,
            version=version,
            origin=self.origin(),
        )

    def seeded(self, plan: Plan) -> Plan:
        """Return the plan with the idempotency keys of the item that begins it."""
        item = self._ctx.item
        return msgspec.structs.replace(plan, key_seed=seed_of_item(*item, plan.workflow)) if item else plan

    async def admit(self, organization_id: str, adding: Mapping[Quota, int]) -> None:
        """Check the organization's quotas before something is added. Raises BadRequest, Unavailable."""
        await self.app.quotas.admit(self.connection, organization_id, adding)

    async def admit_job(self, organization_id: str, *, new_instances: int = 0) -> None:
        """Check the organization's quotas before a job is accepted. Raises BadRequest, Unavailable."""
        adding = {Quota.QUEUED_JOBS: 0, Quota.JOBS: 1, Quota.WAITING_JOBS: 0, Quota.JOURNAL_BYTES: 0}
        if new_instances:
            adding[Quota.INSTANCES] = new_instances
        await self.admit(organization_id, adding)

    async def audit(
        self,
        operation: str,
        changed: LookedUp | str,
        before: Document | None = None,
        after: Document | None = None,
        *,
        at: Resource | str | None = None,
        keeps: bool = False,
        proposed: Proposal = NOTHING_PROPOSED,
    ) -> None:
        """Ask the rules, and record a change in the same transaction (promise 14).

        Raises NotAllowed if a rule refuses it, unless `decide` has asked before. `changed` is the object, which names
        its organization too. If the change is not of a looked-up object, `at` is its path, and `changed` another object
        of the organization, or the organization's ID. What only `keeps` what is there isn't asked about: an incident
        needs it most. Rules know what is `proposed`.
        """
        kind = None if keeps else _kind_of(operation, changed, at)
        if kind is not None and not isinstance(changed, str) and (operation, changed.id) not in self._decided:
            await self.decide(operation, changed, kind=kind, proposed=proposed)
        if not self._ctx.audited:
            return
        if isinstance(changed, str):
            assert at is not None, "an organization's ID says where to record, not what"
            organization_id = changed
        else:
            organization_id = changed.id if isinstance(changed, Organization) else changed.organization_id
            at = at or _RESOURCES[type(changed)](changed)
        await self.app.audit.record(
            self.connection, self.actor, operation, str(at), organization_id=organization_id, before=before, after=after
        )

    async def decide(
        self,
        operation: str,
        changed: LookedUp,
        *,
        kind: ChangeKind,
        environment_id: str | None = None,
        may_be_ruled: bool = True,
        at: Resource | None = None,
        proposed: Proposal = NOTHING_PROPOSED,
    ) -> None:
        """Raise NotAllowed unless the rules allow a change.

        `audit` does this for what isn't asked before. Ask where it must be known before anything is written. Without
        `may_be_ruled`, a lookup of the same transaction has found that there is no rule. An override is recorded `at`
        what is made, or else at the object.
        """
        self._decided.add((operation, changed.id))
        if not may_be_ruled:
            return
        places = [environment_id]
        if isinstance(changed, Service):
            places = list(await services.list_offering(self.connection, service_id=changed.id))
        where = at or _RESOURCES[type(changed)](changed)
        warnings: list[str] = []
        for place in places:
            change = self._change(operation, changed, kind, place, proposed)
            if self._ctx.is_trial:
                self._ctx.foreseen.append(await self._foresee(change))
                continue
            try:
                decided = await decide(self.connection, self.app.change_rules, change, partial(self._overrides, change))
            except Refused as refused:
                raise Refused(await self._with_holders(change, refused.refusal)) from None
            for each in decided.overridden:
                await self._record_override(change.organization_id, operation, where, each)
            warnings += decided.warnings
        if warnings:  # in one entry, however many environments offer a service
            organization_id = changed.id if isinstance(changed, Organization) else changed.organization_id
            self.warn(warnings)
            await self._record_warnings(organization_id, operation, where, warnings)

    async def foresee(
        self,
        operation: str,
        changed: LookedUp,
        *,
        kind: ChangeKind,
        environment_id: str | None = None,
        proposed: Proposal = NOTHING_PROPOSED,
    ) -> Refusal | Allowed:
        """Return what the rules would say to a change now, for a preview.

        It waits for nobody, and may miss a rule.
        """
        return await self._foresee(self._change(operation, changed, kind, environment_id, proposed))

    async def _foresee(self, change: Change) -> Refusal | Allowed:
        change = replace(change, never_waits=True)
        try:
            found = await decide(self.connection, self.app.change_rules, change, partial(self._may_override, change))
        except Refused as refused:
            return await self._with_holders(change, refused.refusal)
        except RuleBusy:
            return Allowed(())
        return Allowed(tuple(found.warnings))

    async def _with_holders(self, change: Change, refusal: Refusal) -> Refusal:
        """Return a refusal with who can end it."""
        if refusal.settled_with is None or not self.lookup.has_grants(change.organization_id):
            return refusal
        key = (refusal.settled_with, refusal.settled_at)
        if key not in self._holders:
            wanted = [(parse_resource(each),) for each in refusal.settled_at]
            self._holders[key] = await find_holders(
                self.connection, self.lookup, change.organization_id, Permission(refusal.settled_with), wanted
            )
        said = self._holders[key].sentence(refusal.settled_with)
        return refusal._replace(details=(*refusal.details, said))

    def _may_override(self, change: Change, refusal: Refusal) -> bool:
        try:
            return self._overrides(change, refusal)
        except NotAllowed:
            return False

    def _change(
        self, operation: str, changed: LookedUp, kind: ChangeKind, environment_id: str | None, proposed: Proposal
    ) -> Change:
        """Return the facts of a change."""
        assert isinstance(changed, _RULED), "rules are about these objects"
        ids: _Ids = {}
        if isinstance(changed, InstanceRecord):
            ids = {"application_id": changed.application_id, "environment_id": changed.environment_id}
            ids["instance_id"] = changed.id
        elif isinstance(changed, Environment):
            ids = {"environment_id": changed.id}
        elif isinstance(changed, Application):
            ids = {"application_id": changed.id}
        if environment_id is not None:
            ids["environment_id"] = environment_id
        return Change(
            operation=operation,
            kind=kind,
            organization_id=changed.organization_id,
            actor=self.actor,
            change_set=self._ctx.change_set,
            cause=self._ctx.cause,
            is_later=bool(self._ctx.item),
            clock=self.app.clock,
            proposed=proposed,
            stamp=self.lookup.stamp(changed.organization_id),
            **ids,
        )

    async def _record_override(
        self, organization_id: str, operation: str, at: Resource | str, refusal: Refusal
    ) -> None:
        """Say it in the audit log, besides the change's own entry, and to webhooks."""
        after = {"reason": self._ctx.override, "operation": operation, "freeze": refusal.sentence}
        await self.app.audit.record(
            self.connection, self.actor, OVERRIDE_FREEZE, str(at), organization_id=organization_id, after=after
        )
        is_instance = isinstance(at, Resource) and at.segments[2:3] == ("instances",)
        what = {**after, "by": self.actor.name, "byId": self.actor.user_id, "object": str(at)}
        audit.post_override.later(
            self.connection,
            organization_id=organization_id,
            instance_id=at.segments[3] if isinstance(at, Resource) and is_instance else None,
            what=msgspec.json.encode(what).decode(),
        )

    async def _record_warnings(
        self, organization_id: str, operation: str, at: Resource | str, warnings: Sequence[str]
    ) -> None:
        """Say it in the audit log, besides the change's own entry: nobody reads the answer to what happens later."""
        shown = list(dict.fromkeys(warnings))
        if len(shown) > limits.WARNINGS_RECORDED:
            shown = [*shown[: limits.WARNINGS_RECORDED - 1], f"and {len(shown) - limits.WARNINGS_RECORDED + 1} others"]
        after = {"operation": operation, "warnings": shown}
        await self.app.audit.record(
            self.connection, self.actor, RECEIVE_RULE_WARNING, str(at), organization_id=organization_id, after=after
        )

    def _overrides(self, change: Change, refusal: Refusal) -> bool:
        """Return whether the caller overrides a refusal.

        Raises NotAllowed if that isn't theirs to do. Only who acts in person does: neither programs with an access
        token nor what acts later.
        """
        if self._ctx.override is None or not refusal.overridable:
            return False
        if self.actor.token is not None or self.actor.method is Method.ENGINE:
            raise NotAllowed(
                f"An access token can't override a freeze. {refusal.sentence}", "Sign in and do it yourself."
            )
        for kind in refusal.overridable:
            if kind == "environment":
                frozen = permissions.environment(change.environment_id or "")
            else:
                frozen = permissions.application(change.application_id or "")
            self.lookup.require(change.organization_id, Permission.OVERRIDE_FREEZE, frozen)
        return True

    async def audit_own(
        self, operation: str, changed: Resource | str, before: Document | None = None, after: Document | None = None
    ) -> None:
        """Record what the caller changed about themselves, for the organization that made the account."""
        await self.app.audit.record_own(
            self.connection, self.actor, operation, str(changed), before=before, after=after
        )

    def origin(self) -> Origin | None:
        """Return what asks for a job, if not the caller in person."""
        token, cause = self.actor.token, self._ctx.cause
        if token is not None:
            return Origin("token", token.id, token.name, cause)
        if cause is not None and cause.kind == "recurring-schedule":
            return Origin("schedule", cause.id, cause.name)
        if cause is not None and cause.kind == "idle":
            return Origin("expiry", cause.id, "end of its idle time")
        if cause is not None and cause.kind == "sleep":
            return Origin("schedule", cause.id, "sleep window")
        return None if cause is None else Origin("person", self.actor.user_id, self.actor.name, cause)

    def fingerprint(self, value: Any) -> str:
        """Return what the audit log shows of a value that may be a secret."""
        return self.app.audit.fingerprint(value)

    def fingerprints(self, values: Mapping[str, Any]) -> dict[str, str]:
        return self.app.audit.fingerprints(values)


@dataclass(frozen=True, slots=True)
class Context:
    """The application and the caller of a use case.

    async with ctx.begin() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        await store.rename(work.connection, application_id=application.id, name=name)
        await work.audit("rename_application", application, {"name": application.name}, {"name": name})

    `audited` is False for the steps of a larger change that has its own entry; `cause` names that change in the jobs
    that it starts. `item` identifies what begins by itself, such as a schedule and its time: the job that it starts
    has the same idempotency keys after a restore (decision 0151). `change_set` is the ID of the change set that is
    applied, or whose way back this is: rules ask for its approvals. `override` is why the caller changes what is
    frozen; what acts later has none. What a trial does is taken back, so rules refuse nothing: what they would say is
    collected in `foreseen`. `warnings` are collected for the caller (`Work.warn`). In a request, nobody but the caller
    reads a refusal, so that it may name people whom the caller may see.
    """

    app: AppContext
    actor: Actor
    audited: bool = True
    cause: Cause | None = None
    item: tuple[object, ...] = ()
    change_set: str | None = None
    override: str | None = None
    is_trial: bool = False
    foreseen: list[Refusal | Allowed] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_request: bool = False

    def begin(self, *, shares_commit: bool = False) -> "_Loan":
        """Open a transaction. The end of the block commits it.

        An exception rolls it back. With `shares_commit`, the end may raise NotTogether (`Database.transaction`).
        """
        return _Loan(self, self.app.database.transaction(shares_commit=shares_commit))

    @asynccontextmanager
    async def locked(self, kind: str, object_id: str) -> AsyncIterator[None]:
        """Lock an object; use cases in the block join one transaction.

        `kind` is the first segment of its API path.
        """
        async with self.app.database.transaction() as connection:
            with self.app.database.joined(connection):
                await self.app.locks[kind](connection, id=object_id)
                yield

    def read(self) -> "_Loan":
        """Open a connection for reads; each statement is its own transaction."""
        return _Loan(self, self.app.database.connection())


def _kind_of(operation: str, changed: LookedUp | str, at: Resource | str | None) -> ChangeKind | None:
    """Return the kind of a change; None if rules aren't asked."""
    kind = GOVERNED.get(operation)
    if kind is None:
        is_object = isinstance(changed, _RULED)
        assert not is_object or operation in EXEMPT, f"model/changes.py doesn't say whether rules govern {operation}"
        return None
    if isinstance(changed, InstanceRecord):
        if operation == "delete_instance" and changed.status is InstanceStatus.DESTROYED:
            return None  # only its record is left
        is_asked = operation != "resume_job"  # that goes on with what was decided
        if kind == "run" and is_asked and isinstance(at, Resource) and at.segments[-1] == DESTROY:
            return "destroy"
    return kind


class _Loan:
    """A borrowed connection as a unit of work.

    A class, since each request enters one (decision 0169).
    """

    __slots__ = ("_ctx", "_lent", "_work")

    def __init__(self, ctx: Context, lent: AbstractAsyncContextManager[Connection]) -> None:
        self._ctx = ctx
        self._lent = lent

    async def __aenter__(self) -> Work:
        self._work = Work(self._ctx, await self._lent.__aenter__())
        return self._work

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[bool | None]:
        if self._ctx.is_request and isinstance(error, MissingPermission) and not error.is_complete:
            return self._refuse(error, trace)
        return self._lent.__aexit__(kind, error, trace)

    async def _refuse(self, error: MissingPermission, trace: TracebackType | None) -> bool | None:
        """End the transaction, and say in the refusal who has the permission.

        That comes second: no lock waits for it, and if it fails, the refusal is as good without it.
        """
        is_suppressed = await self._lent.__aexit__(type(error), error, trace)
        wanted, found = [error.touched] if error.touched else [], ""
        try:
            async with self._ctx.read() as work:
                held = await find_holders(
                    work.connection, self._work.lookup, error.organization_id, error.permission, wanted
                )
                found = held.sentence(error.permission)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the caller must hear of the refusal
            _log.warning("refusal.unnamed", error=str(failure))
        error.complete(found)
        return is_suppressed


# Control characters, separators of lines, and what turns the direction of the text that follows.
_NEVER_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_INVISIBLE = frozenset(("Cc", "Cf", "Zl", "Zp", "Zs"))


def validate_name(name: str, field: str = "name") -> str:
    """Return a name without surrounding whitespace; `field` is its field in the request.

    Raises BadRequest if it is empty or too long, or has characters that break or turn a line.
    """
    subject, name = "A name" if field == "name" else field, name.strip()
    if not name or len(name) > limits.NAME_CHARS:
        raise BadRequest(
            f"{subject} must have 1 to {limits.NAME_CHARS} characters. This one has {len(name)}.",
            code="InvalidName",
            field=field,
        )
    found = _NEVER_IN_NAMES.search(name)
    if found is not None:
        raise BadRequest(
            f"{subject} can't contain the character U+{ord(found[0]):04X} (position {found.start() + 1}). Remove it.",
            code="InvalidName",
            field=field,
        )
    if all(unicodedata.category(each) in _INVISIBLE for each in name):
        raise BadRequest(f"{subject} must have a character that can be seen.", code="InvalidName", field=field)
    return name


def name_taken(what: str, name: str) -> tuple[str, str, str]:
    """Return message, code and field for a name that another object has; `what` has its article."""
    return f"There is {what} named {name!r} already. Choose another name.", "NameTaken", "name"


@contextmanager
def as_invalid_id(field: str) -> Iterator[None]:
    """Raise BadRequest if a lookup finds nothing: 404 is only for the object in the path ("Wire" 6)."""
    try:
        yield
    except NotFound as error:
        raise BadRequest(f"{field}: {error.messages[0]}", *error.messages[1:], code="UnknownId") from error
