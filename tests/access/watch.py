"""Tells whether anything in a database has changed, cheaply when nothing has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from launchbay.store.database import Connection, Database


class Watch:
    """Compares the content of all tables.

    A transaction that writes takes a number. As long as none was taken nothing was written, and nothing has to be read;
    one that was taken may have been rolled back, or have locked rows only, so then the content decides.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._number = ""
        self._content: dict[str, str] = {}

    @classmethod
    @asynccontextmanager
    async def on(cls, database: Database) -> AsyncIterator[Self]:
        """Watch a database through a connection of one's own."""
        async with database.connection() as connection:
            yield cls(connection)

    async def begin(self) -> None:
        """Look at the content as it is now."""
        await self._changed()

    async def changed(self) -> list[str]:
        """Return the tables that are not as they were at the last look."""
        return await self._changed()

    async def _changed(self) -> list[str]:
        number = await self._one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
        if number == self._number:
            return []
        before, self._content, self._number = self._content, await self._read(), number
        return [name for name, content in self._content.items() if before.get(name) != content]

    async def _read(self) -> dict[str, str]:
        names = await self._connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        content = {}
        for (name,) in await names.fetchall():
            content[name] = await self._one(
                f"SELECT md5(coalesce(string_agg(t::text, ';' ORDER BY t::text), '')) FROM {name} t"
            )
        return content

    async def _one(self, statement: str) -> str:
        row = await (await self._connection.execute(statement.encode())).fetchone()
        assert row is not None
        return str(row[0])
