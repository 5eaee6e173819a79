"""The audit entry of work that is several transactions: a command of a service may wait in between (promise 14)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from launchbay.store.database import Connection, Database


def entered_once(
    database: Database, write: Callable[[Connection], Awaitable[None]]
) -> Callable[[], AbstractAsyncContextManager[Connection]]:
    """Return what opens transactions; the first one that commits holds the entry that `write` makes as well."""
    is_entered = False

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Connection]:
        nonlocal is_entered
        async with database.transaction() as connection:
            if not is_entered:
                await write(connection)
            yield connection
        is_entered = True

    return transaction
