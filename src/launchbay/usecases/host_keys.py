"""The pinned keys of the hosts that workflows reach (docs/howto/machines.md, "Host keys")."""

from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Permission, Resource
from launchbay.errors import NotFound
from launchbay.ids import new_id
from launchbay.service_types.key_pairs import fingerprint
from launchbay.store import machines as store
from launchbay.store.machines import HostKeyRow
from launchbay.usecases.desk import Desk


async def list_host_keys(desk: Desk, actor: Actor, organization_id: str) -> list[HostKeyRow]:
    """Return the pinned keys of an organization, by host."""
    async with desk.database.connection() as connection:
        await desk.lookups.on(connection, actor).organization(organization_id, *_every_environment())
        return await store.of_organization(connection, organization_id=organization_id)


async def forget_host_key(desk: Desk, actor: Actor, organization_id: str, host: str) -> None:
    """Forget the key of a host, so that the one it shows next is pinned. Raises NotFound."""
    async with desk.database.transaction() as connection:
        await desk.lookups.on(connection, actor).organization(organization_id, *_every_environment())
        key = await store.get(connection, organization_id=organization_id, host=host)
        if key is None:
            raise NotFound(f"No key is pinned for {host[:80]!r}.", "Look the host up in the list of the organization.")
        await store.forget(connection, organization_id=organization_id, host=host)
        await desk.audit.record(
            connection,
            actor,
            "forget_host_key",
            f"/hostKeys/{host}",
            organization_id=organization_id,
            before={"host": host, "fingerprint": fingerprint(key)},
        )


def _every_environment() -> tuple[Permission, Resource]:
    """Return what it takes: a pinned key counts in all environments, so it is for those who may edit every one."""
    return Permission.EDIT_ENVIRONMENT, permissions.environment(new_id())
