"""Reading the audit log (promise 14). `auth/audit.py` writes it."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from launchbay.auth.permissions import Actor, Permission
from launchbay.errors import BadRequest
from launchbay.ids import is_id
from launchbay.store import audit as store
from launchbay.store.audit import AuditRow
from launchbay.usecases.desk import Desk


async def audit_entries(
    desk: Desk,
    actor: Actor,
    organization_id: str,
    *,
    after: int,
    by: str | None,
    about: str | None,
    limit: int | None,
) -> AsyncIterator[list[AuditRow]]:
    """Stream the entries of an organization in chunks, oldest first: by an actor, about an object.

    `by` is a user's id or e-mail address. `about` is an object's id, or a path, which stands for what is below it too.
    Whoever views it sees all of it, so the permission is for anything at all. Raises BadRequest for another `about`.
    """
    async with desk.database.transaction() as connection:
        await desk.lookups.on(connection, actor).organization(organization_id, Permission.VIEW_AUDIT)
        by_id = about is not None and is_id(about)
        if about is not None and not by_id and not about.startswith("/"):
            raise BadRequest("object: give an id, or a path such as /applications/{id}.", code="WrongField")
        statement = store.of_object if by_id else store.of_organization
        async with aclosing(
            statement.chunks(
                connection, organization_id=organization_id, after=after, actor=by, object=about, limit=limit
            )
        ) as chunks:
            async for chunk in chunks:
                yield chunk
