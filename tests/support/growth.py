"""What a request reads of the database, in buffers, at two sizes of one organization."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg

from benchmarks import population
from launchbay.store.connection import Statement
from launchbay.store.database import conninfo
from tests.support.pages import browser
from tests.support.service import EMAIL, PASSWORD, Api, Caller
from tests.support.statements import counted

SMALL = population.Size(300, people=50)
LARGE = population.Size(3_000, people=500)


@dataclass
class Grown:
    """A service with an organization of some size, and its five kinds of readers."""

    api: Api
    url: str
    readers: Mapping[str, Caller]


async def grow(api: Api, url: str, size: population.Size) -> Grown:
    """Fill the organization of a service, and let the readers join it."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        administrator = connection.execute("SELECT id FROM users ORDER BY created_at LIMIT 1").fetchone()
        assert administrator is not None, "the service has its first user"
        population.fill(connection, api.organization, administrator[0], size)
    entries = {who: text.removeprefix("- ").splitlines() for who, text in population.READERS.items()}
    readers = {who: await api.member(*(each.removeprefix("- ") for each in lines)) for who, lines in entries.items()}
    return Grown(api, conninfo(url), readers)


async def buffers(grown: Grown, who: str, path: str, query: Mapping[str, str]) -> tuple[int, Any]:
    """Return how many buffers the statements of a request read, and its answer.

    `note_statements` must be on.
    """
    path = path.replace("ORGANIZATION", grown.api.organization)
    await grown.readers[who].get(path, **query)  # who signs in reads more
    with counted() as reads:
        answer = await grown.readers[who].get(path, **query)
    assert answer.status_code in {200, 403, 404}, answer.text
    return sum([await _buffers_of(grown.api, each) for each in _reads(reads.statements)]), answer.json()


def _reads(statements: Sequence[Statement]) -> list[Statement]:
    return [
        each
        for each in statements
        if each.text.lstrip().startswith((b"SELECT", b"WITH", b"--")) and b"UPDATE " not in each.text
    ]


async def _buffers_of(api: Api, statement: Statement) -> int:
    explained = Statement(
        b"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + statement.text,
        statement.parameters,
        is_prepared=False,
    )
    async with api.database.connection() as connection:
        await connection.run(explained)  # a new session reads catalogs, too
        result = await connection.run(explained)
        plan = msgspec.json.decode(result.get_value(0, 0) or b"")[0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def plan_buffers(connection: psycopg.Connection, statement: Statement, mode: str) -> int:
    """Return the buffers that a prepared statement reads with a `generic` or a `custom` plan."""
    connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
    connection.execute(b"PREPARE measured AS " + statement.text)
    given = ", ".join(["%s"] * len(statement.parameters))
    values = [None if each is None else each.decode() for each in statement.parameters]
    execute = f"EXECUTE measured({given})" if given else "EXECUTE measured"
    found = psycopg.ClientCursor(connection).execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {execute}", values)
    row = found.fetchone()
    assert row is not None, "EXPLAIN returns its plan"
    plan = row[0][0]["Plan"]
    connection.execute("DEALLOCATE measured")
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def count_buffers(connection: psycopg.Connection, text: bytes, values: Mapping[str, Any]) -> int:
    """Return the buffers that a statement reads with these values. Nothing that it changes stays."""
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + text
    row = connection.execute(explain, values).fetchone()
    row = connection.execute(explain, values).fetchone()  # a new session reads catalogs, too
    assert row is not None, "EXPLAIN returns its plan"
    connection.rollback()
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


async def page_statements(grown: Grown, path: str) -> Sequence[Statement]:
    """Return what a page of the console sends to the database for the administrator."""
    async with browser(grown.api) as client:
        await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        with counted() as reads:
            answer = await client.get(path.replace("ORGANIZATION", grown.api.organization))
    assert answer.status_code == 200, answer.text
    return _reads(reads.statements)


async def palette_buffers(grown: Grown, who: str, text: str) -> int:
    """Return how many buffers the console's palette reads for a text that somebody types."""
    signed = grown.readers[who].client.headers["authorization"].removeprefix("Basic ")
    email, _, password = base64.b64decode(signed).decode().partition(":")
    path = f"/console/organizations/{grown.api.organization}/jump"
    async with browser(grown.api) as client:
        await client.post("/console/signIn", data={"email": email, "password": password})
        await client.get(path, params={"q": text})
        with counted() as reads:
            answer = await client.get(path, params={"q": text})
    assert answer.status_code == 200, answer.text
    listing = [each for each in _reads(reads.statements) if b"fleet" in each.text]
    return sum([await _buffers_of(grown.api, each) for each in listing])
