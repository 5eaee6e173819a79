"""How long instances live: rules, extensions, and warnings before the end."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from launchbay.auth.lookup import RuleOwner
from launchbay.auth.permissions import Permission
from launchbay.clock import to_ms
from launchbay.errors import BadRequest, NotAllowed, NotFound
from launchbay.features.lifetimes import rows as store
from launchbay.features.lifetimes.rules import WARNINGS_S, LifetimeRules, merged
from launchbay.ids import first_id_of_last, new_id
from launchbay.limits import INTERVAL_LONGEST_MS
from launchbay.model.expiry import duration
from launchbay.model.instance import InstanceStatus
from launchbay.model.waits import Ends
from launchbay.store import instances, schedules
from launchbay.store.instances import InstanceRecord
from launchbay.store.schedules import WaitingDestroy
from launchbay.usecases.context import AppContext, Context, Work

POLL_S = 10.0
_WARNED = 500  # in one transaction
_LAUNCHING = timedelta(minutes=1)  # an end counts from the request, a little later or earlier than the instance
_LAUNCHED_LATELY_S = 3_600  # much longer than no round takes place while instances are launched


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long an instance lives.

    `coming` is what will happen by itself, in order: kind, time and a sentence. `ends_at` is the nearest of `ends` and
    `idle_ends_at`, which is when the instance ends if nothing runs on it. `ends_soon` means that the last warning was
    due; what lives no longer than that has none. The ends of a submodule are those of the instance that it goes with.
    """

    created_at: datetime
    destroy_at: datetime | None
    latest: datetime | None
    rules: LifetimeRules
    extensions: int
    coming: list[tuple[str, datetime, str]]
    ends: Ends
    waiting_destroy: WaitingDestroy | None = None
    idle_ends_at: datetime | None = None
    ends_at: datetime | None = None
    ends_soon: bool = False


async def read_rules(ctx: Context, kind: RuleOwner, owner_id: str) -> LifetimeRules:
    """Return the rules that are set for an application or environment."""
    async with ctx.read() as work:
        found = await work.lookup.rule_owner(kind, owner_id)
        return (
            await rules_for(work, found.organization_id, owner_id, "")
            if kind == "application"
            else await rules_for(work, found.organization_id, "", owner_id)
        )


async def replace_rules(ctx: Context, kind: RuleOwner, owner_id: str, rules: LifetimeRules) -> None:
    """Replace the rules of an application or environment.

    Instances that live already keep their end until somebody changes it; the time of a new idle rule begins now. Raises
    BadRequest for rules that contradict each other.
    """
    rules.check()
    async with ctx.begin() as work:
        found = await work.lookup.rule_owner(kind, owner_id, edits=True)
        ids = (found.id, "") if kind == "application" else ("", found.id)
        await store.lock_rules(work.connection, organization_id=found.organization_id)
        before = await rules_for(work, found.organization_id, *ids)
        if rules == LifetimeRules():
            await store.remove_rules(work.connection, organization_id=found.organization_id, owner_id=found.id)
        else:
            write = store.set_application_rules if kind == "application" else store.set_environment_rules
            text = msgspec.json.encode(rules).decode()
            await write(work.connection, owner_id=found.id, organization_id=found.organization_id, rules=text)
        if rules.idle_ms != before.idle_ms:
            await store.set_idle_ends(work.connection, organization_id=found.organization_id, owner_id=found.id)
        await work.audit(f"replace_{kind}_lifetime", found, msgspec.to_builtins(before), msgspec.to_builtins(rules))


async def rules_for(work: Work, organization_id: str, application_id: str, environment_id: str) -> LifetimeRules:
    """Return the rules for instances of an application in an environment, both together."""
    found = await store.list_rules(
        work.connection,
        organization_id=organization_id,
        application_id=application_id,
        environment_id=environment_id,
    )
    return merged(map(_decode, found))


async def rules_of(work: Work, record: InstanceRecord) -> LifetimeRules:
    """Return the rules of an instance's application and environment together."""
    return await rules_for(work, record.organization_id, record.application_id, record.environment_id)


async def read_lifetime(ctx: Context, instance_id: str) -> Lifetime:
    """Return how long an instance lives, and what will happen when."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        rules, extended, found = await work.together(
            rules_of(work, record),
            store.get_extensions(work.connection, instance_id=record.id),
            schedules.get_ends(work.connection, instance_id=record.id),
        )
        idle_ends_at = await _idle_end(work, record, rules)
    assert found is not None, "the statement returns a row"
    is_gone = record.status is InstanceStatus.DESTROYED
    now, ends = ctx.app.clock.now(), Ends() if is_gone else found.ends
    end = min((each for each in (ends.first, idle_ends_at) if each is not None), default=None)
    last = timedelta(seconds=min(WARNINGS_S))
    return Lifetime(
        record.created_at,
        record.destroy_at,
        rules.latest(record.created_at),
        rules,
        extended or 0,
        _coming(ends, idle_ends_at, now, by_mail=rules.mail),
        ends,
        None if is_gone else found.waiting_destroy,
        idle_ends_at=idle_ends_at,
        ends_at=end,
        ends_soon=end is not None and record.created_at + last + _LAUNCHING < end <= now + last,
    )


def _coming(
    ends: Ends, idle_ends_at: datetime | None, now: datetime, *, by_mail: bool
) -> list[tuple[str, datetime, str]]:
    """Return what will happen until the end of an instance.

    A destroy in its grace time has no warnings: it has just been requested.
    """
    warned = min((each for each in (ends.lifetime, ends.scheduled, idle_ends_at) if each is not None), default=None)
    end = min((each for each in (ends.first, warned) if each is not None), default=None)
    if end is None:
        return []
    coming = []
    mail = ", and its owner by email," if by_mail else ""
    for ahead_s in WARNINGS_S:
        at = (warned or now) - timedelta(seconds=ahead_s)
        if now < at < end and not ends.is_submodule:
            sentence = f"Launchbay notifies webhooks{mail} that it ends in {duration(ahead_s * 1000)}."
            coming.append(("warning", at, sentence))
    what = "Launchbay destroys the instance if nothing runs until then."
    if ends.is_submodule:
        what = (
            "Launchbay destroys the instance that this one belongs to if nothing runs on that one until then, "
            "and this one with it."
        )
    if end == ends.first:
        what = "Launchbay destroys the instance that this one belongs to, and this one with it."
        what = what if ends.is_submodule else "Launchbay destroys the instance."
        if end <= now:
            what = "The destruction is due, and waits for the job before it."
        what = what if end not in {ends.undoable, ends.scheduled} else f"{what} {ends.advice}"
    return [*coming, ("destroy", end, what)]


async def _idle_end(work: Work, record: InstanceRecord, rules: LifetimeRules) -> datetime | None:
    """Return when an instance ends if nothing runs on it.

    A submodule goes with the outermost instance, whose application may have other rules.
    """
    is_submodule = record.parent_id is not None
    if record.status is InstanceStatus.DESTROYED or (rules.idle_ms is None and not is_submodule):
        return None
    return await store.get_idle_end(work.connection, instance_id=record.id)


async def extend(ctx: Context, instance_id: str, by_ms: int) -> tuple[datetime, str | None]:
    """Let an instance live longer; return its new end, and what ends it before.

    Whoever may run the workflow `extend` may do so, within the rules. Of two ends, this moves the nearer one. Raises
    BadRequest for an instance without an end, and for what the rules forbid.
    """
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.RUN_INSTANCE_WORKFLOW, workflow="extend")
        if record.parent_id is not None:
            raise NotAllowed(
                f"The instance belongs to a submodule of the instance {record.parent_id} and goes with that one.",
                code="SubmoduleInstance",
            )
        locked = await instances.lock_expiry(work.connection, instance_id=record.id)
        if locked is None:
            raise NotFound(f"The instance {record.id} has just been deleted.")
        if locked.status == InstanceStatus.DESTROYED:
            raise BadRequest("The instance is destroyed already.", code="InstanceDestroyed")
        rules = await rules_of(work, record)
        idle_ends_at = await _idle_end(work, record, rules)
        ends = [each for each in (idle_ends_at, locked.destroy_at) if each is not None]
        if not ends:
            raise BadRequest("The instance has no end that could be extended.", code="LifetimeRule")
        if by_ms <= 0:
            raise BadRequest(f"byMs is {by_ms}; give milliseconds above 0.", code="LifetimeRule")
        if by_ms > to_ms(ctx.app.clock.now()) + INTERVAL_LONGEST_MS - to_ms(min(ends)):
            raise BadRequest(f"byMs is {by_ms}; the new end must be within 100 years.", code="LifetimeRule")
        if rules.extend_ms is not None and by_ms > rules.extend_ms:
            most = duration(rules.extend_ms)
            raise BadRequest(f"An extension can be {most} at most, not {duration(by_ms)}.", code="LifetimeRule")
        extensions = await store.get_extensions(work.connection, instance_id=record.id) or 0
        if rules.extensions is not None and extensions >= rules.extensions:
            raise BadRequest(
                f"The rules for lifetimes allow {rules.extensions} extension{'' if rules.extensions == 1 else 's'}. "
                f"The instance has had {extensions}.",
                code="LifetimeRule",
            )
        destroy_at = min(ends) + timedelta(milliseconds=by_ms)
        if min(ends) == locked.destroy_at:
            rules.require(record.created_at, destroy_at)
            await instances.set_expiry(
                work.connection,
                instance_id=record.id,
                destroy_at=destroy_at,
                schedule_id=new_id(),
                owner_id=ctx.actor.user_id,
            )
        else:
            await store.extend_idle_end(work.connection, instance_id=record.id, destroy_at=destroy_at)
        await store.count_extension(work.connection, instance_id=record.id)
        before, after = {"destroyAt": to_ms(min(ends))}, {"destroyAt": to_ms(destroy_at), "byMs": by_ms}
        await work.audit("extend_instance", record, before, after)
        found = await schedules.get_ends(work.connection, instance_id=record.id)
        assert found is not None, "the statement returns a row"
        idle_ends_at = await _idle_end(work, record, rules)
    return destroy_at, found.ends.first_before(destroy_at, idle_ends_at)


class WarningRunner:
    """Warns of instances that end soon; `advance` is one round."""

    def __init__(self, app: AppContext, *, has_mail: bool) -> None:
        self._app = app
        self._has_mail = has_mail

    async def advance(self) -> bool:
        """Give due warnings; those by email are only noted. True: there may be more."""
        async with self._app.database.connection() as connection:
            await store.add_idle_ends(connection, after=first_id_of_last(_LAUNCHED_LATELY_S))
            await store.move_idle_ends(connection, ahead_s=max(WARNINGS_S), instance_id=None)
            await store.list_idle_as_expiring(connection, ahead_s=max(WARNINGS_S))
            warned = await store.warn(
                connection,
                ahead_s=list(WARNINGS_S),
                longest_s=max(WARNINGS_S),
                has_mail=self._has_mail,
                count=_WARNED,
            )
        return warned == _WARNED


_decode = msgspec.json.Decoder(LifetimeRules).decode
