"""What a database is like after long use."""

from typing import NamedTuple

import psycopg

from launchbay.store.database import connect_directly, refused
from launchbay.store.quotas import list_miscounted

_STATE = """
SELECT pg_database_size(current_database()), blks_hit, blks_read,
       (SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers')
FROM pg_stat_database WHERE datname = current_database()
"""
_TABLES = """
SELECT relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid)
FROM pg_stat_user_tables ORDER BY n_dead_tup DESC LIMIT 5
"""
_OLDEST = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


class TableState(NamedTuple):
    """A table with its estimated rows, and its bytes with indexes."""

    name: str
    live_rows: int
    dead_rows: int
    size: int


class Upkeep(NamedTuple):
    """Sizes in bytes, and pages since the statistics began."""

    size: int
    pages_hit: int  # in the cache
    pages_read: int
    cache: int
    tables: tuple[TableState, ...]
    oldest_transaction_s: float
    miscounted: tuple[tuple[str, int], ...]  # organizations, and how many instances are missing from their number


async def look(database_url: str) -> Upkeep:
    """Look at a database that has the schema of this version, and change nothing.

    Raises CannotStart if the database refuses the connection.
    """
    try:
        async with await connect_directly(database_url, name="launchbay doctor") as connection:
            [(size, hit, read, cache)] = await (await connection.execute(_STATE)).fetchall()
            tables = await (await connection.execute(_TABLES)).fetchall()
            [(oldest_s,)] = await (await connection.execute(_OLDEST)).fetchall()
            miscounted = await (await connection.execute(list_miscounted.text)).fetchall()
    except psycopg.Error as error:
        raise refused(database_url, error) from error
    return Upkeep(size, hit, read, cache, tuple(TableState(*row) for row in tables), oldest_s, tuple(miscounted))
