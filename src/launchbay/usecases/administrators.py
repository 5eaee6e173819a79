"""The rule that an organization keeps an administrator (api-decisions, "Organizations, roles, permissions")."""

from launchbay.errors import BadRequest
from launchbay.store import users
from launchbay.store.database import Connection
from launchbay.store.users import leaves_no_administrator


async def keep_an_administrator(connection: Connection, organization_id: str, user_id: str) -> None:
    """Refuse what would take the last administrator away. Raises BadRequest.

    The caller holds the organization's row locked, so that two requests cannot each take one of two.
    """
    rows = await users.administrators(connection, organization_id=organization_id)
    if leaves_no_administrator([row.user_id for row in rows], user_id):
        raise BadRequest(
            "This is the last administrator of the organization.",
            "Give the role Administrator to somebody else first.",
            code="LastAdministrator",
        )
