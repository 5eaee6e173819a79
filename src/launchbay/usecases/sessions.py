"""Signing in to the console, which keeps a session token for a browser (api-decisions, "Authentication")."""

from launchbay.access import resources
from launchbay.access.actor import Actor
from launchbay.access.bearer import Session
from launchbay.usecases.desk import Desk


async def open_session(desk: Desk, actor: Actor) -> Session:
    """Return a session token for the caller, who has just signed in. Raises NotAuthenticated for a disabled account."""
    async with desk.database.transaction() as connection:
        caller = await desk.lookups.on(connection, actor).caller()
        await desk.audit.record_own(connection, actor, "open_session", str(resources.user(caller.id)))
    return await desk.sessions.issue(caller)
