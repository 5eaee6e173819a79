"""Organizations of the caller (reference §4, Organizations)."""

from launchbay.access.actor import Actor
from launchbay.store import organizations as store
from launchbay.store.rows import NamedRow
from launchbay.usecases.desk import Desk


async def list_organizations(desk: Desk, actor: Actor) -> list[NamedRow]:
    """Return the organizations that the caller belongs to, by name."""
    async with desk.database.connection() as connection:
        caller = await desk.lookups.on(connection, actor).caller()
        return await store.of_user(connection, user_id=caller.id)
