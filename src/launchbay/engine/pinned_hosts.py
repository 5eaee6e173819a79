"""The pinned keys of hosts in the database: implements `machines.contract.HostKeys`."""

from launchbay.machines.contract import Errand
from launchbay.store import machines as store
from launchbay.store.database import Database


class PinnedHosts:
    """One object serves all providers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pinned(self, errand: Errand, host: str) -> str | None:
        """Return the key that the host must show, None for a host that is new."""
        async with self._database.connection() as connection:
            return await store.get(connection, organization_id=errand.organization_id, host=host)

    async def pin(self, errand: Errand, host: str, key: str) -> str:
        """Keep the key of a new host, and return the one that counts."""
        async with self._database.transaction() as connection:
            await store.pin(connection, organization_id=errand.organization_id, host=host, public_key=key)
            return await store.get(connection, organization_id=errand.organization_id, host=host) or key

    async def forget(self, errand: Errand, host: str) -> None:
        """Take the host for a new one from now on."""
        async with self._database.transaction() as connection:
            await store.forget(connection, organization_id=errand.organization_id, host=host)
