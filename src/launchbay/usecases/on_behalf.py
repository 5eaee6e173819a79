"""On whose behalf something acts that was begun earlier, and who may control it."""

from typing import Protocol

from launchbay.auth.gate import Grants, instance_patterns
from launchbay.auth.permissions import ActingToken, Actor, Method, Permission
from launchbay.errors import (
    Conflict,
    NotAllowed,
)
from launchbay.model.freezes import FROZEN
from launchbay.store import access_tokens
from launchbay.usecases.context import AppContext, Work

# Codes of refusals that another attempt may not meet.
PASSING = {Conflict.code, "InstanceBusy", "QuotaExceeded", "ConcurrencyLimit", *FROZEN}


class Begun(Protocol):
    """What somebody began, perhaps with an access token."""

    @property
    def id(self) -> str: ...
    @property
    def organization_id(self) -> str: ...
    @property
    def owner_id(self) -> str: ...
    @property
    def token_id(self) -> str | None: ...


def require_control(work: Work, run: Begun, what: str) -> None:
    """Raise NotAllowed unless the caller began it, or may edit all instances."""
    if not may_control(work.lookup.grants(run.organization_id), work.actor, run):
        raise NotAllowed(
            f"Only who began {what} can do this, or who has EditInstance for all instances. An access token with "
            "a scope must have begun it, or have EditInstance for all instances in its scope.",
            "Ask an administrator of the organization.",
        )


def may_control(grants: Grants, actor: Actor, run: Begun) -> bool:
    """Tell whether somebody may pause, continue and cancel a bulk run."""
    entries = [entry for _, entry in grants.entries_for(Permission.EDIT_INSTANCE)]
    is_whole = grants.scope is None or instance_patterns(grants.scope.entries, Permission.EDIT_INSTANCE) is None
    has_all = bool(entries) and instance_patterns(entries, Permission.EDIT_INSTANCE) is None
    token = actor.token
    has_begun = run.owner_id == actor.user_id and (is_whole or (token is not None and token.id == run.token_id))
    return has_begun or (has_all and is_whole)


class OnBehalf(Protocol):
    """Who began something that acts later."""

    @property
    def owner_id(self) -> str: ...
    @property
    def owner_email(self) -> str: ...
    @property
    def owner_name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def token_id(self) -> str | None: ...


async def actor_of(app: AppContext, run: OnBehalf) -> Actor:
    """Return who began it. Raises NotAllowed if their access token has ended."""
    token = await acting_token(app, run.token_id)
    return Actor(run.owner_id, run.owner_email, run.owner_name, run.address, Method(run.method), token=token)


def refuse_agents(actor: Actor, what: str) -> None:
    """Raise NotAllowed for an agent: what it began would act later as a person's."""
    if actor.is_agent:
        raise NotAllowed(f"An agent can't set {what}.", "Have a person set it.")


async def acting_token(app: AppContext, token_id: str | None) -> ActingToken | None:
    """Return an access token with its scope. Raises NotAllowed if it has ended."""
    if token_id is None:
        return None
    async with app.database.connection() as connection:
        row = await access_tokens.get_acting(connection, token_id=token_id)
    if row is None:
        raise NotAllowed("The access token that began this has expired or was revoked.")
    return ActingToken(row.id, row.name, row.organization_id, row.scope)
