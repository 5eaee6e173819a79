from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from aiosql.adapters.ageneric import AsyncGenericAdapter
from aiosql.query_loader import QueryLoader

from launchbay.auth.gate import ALL_GRANTS, Grants, RoleGrants, read_role_text, visible
from launchbay.auth.permissions import Permission
from launchbay.limits import LIST_CHUNK_ROWS
from launchbay.store import fleet, keys, statements
from launchbay.store.database import Connection, Database
from launchbay.store.statements import Change, Row, Rows, Shape, Value
from tests.support.databases import numbered

SOURCES = Path(statements.__file__).parents[1]
FILES = [*sorted((SOURCES / "store/queries").glob("*.sql")), *sorted((SOURCES / "features").glob("*/statements.sql"))]


class OrganizationRow(NamedTuple):
    id: str
    name: str


@dataclass(frozen=True)
class Organization:
    id: str
    name: str


insert = Change("insert", b"INSERT INTO organizations (id, name) VALUES (%(id)s, %(name)s)")
get = Row("get", b"SELECT id, name FROM organizations WHERE id = %(id)s", OrganizationRow)
get_whole = Row("get_whole", b"SELECT id, name FROM organizations WHERE id = %(id)s", Organization)
every = Rows("every", b"SELECT id, name FROM organizations ORDER BY id", OrganizationRow)
count: Value[int] = Value("count", b"SELECT count(*) FROM organizations")
name_of: Value[str] = Value("name_of", b"SELECT name FROM organizations WHERE id = %(id)s")


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    async with database.transaction() as lent:
        yield lent


@pytest.mark.parametrize("noun", statements.aggregates())
async def test_every_statement_fits_the_schema(connection: Connection, noun: str) -> None:
    file = statements.load(noun)
    assert file.names()
    for name in file.names():
        await connection.execute(
            f"PREPARE {noun.replace('.', '_')}_{name} AS {numbered(file.text(name).decode())}".encode()
        )


async def test_a_row_comes_as_its_class_and_no_row_as_none(connection: Connection) -> None:
    assert await insert(connection, id="a", name="Acme") == 1
    assert await get(connection, id="a") == OrganizationRow("a", "Acme")
    assert await get_whole(connection, id="a") == Organization("a", "Acme")
    assert await get(connection, id="b") is None


async def test_a_value_is_the_first_column_and_no_row_is_none(connection: Connection) -> None:
    await insert(connection, id="a", name="Acme")
    assert await count(connection) == 1
    assert await name_of(connection, id="a") == "Acme"
    assert await name_of(connection, id="b") is None


async def test_a_row_class_that_does_not_fit_the_columns_is_found_at_the_first_use(connection: Connection) -> None:
    wrong = Row("wrong", b"SELECT name, id FROM organizations", OrganizationRow)
    with pytest.raises(
        AssertionError, match=r"wrong returns the columns \('name', 'id'\), its row has \('id', 'name'\)"
    ):
        await wrong(connection)


async def test_a_missing_parameter_is_refused(connection: Connection) -> None:
    with pytest.raises(Exception, match="name"):
        await insert(connection, id="a")


async def test_many_changes_go_in_one_call(connection: Connection) -> None:
    await insert.each(connection, [{"id": f"{number:04d}", "name": f"Company {number}"} for number in range(500)])
    assert await count(connection) == 500
    assert len(await every(connection)) == 500


following = Rows(
    "following", b"SELECT id, name FROM organizations WHERE id > %(after)s ORDER BY id LIMIT %(limit)s", OrganizationRow
)


async def insert_numbers(database: Database, count: int) -> None:
    """Make organizations whose IDs are numbers."""
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO organizations (id, name) SELECT lpad(n::text, 6, '0'), n FROM generate_series(1, %s) AS n",
            [count],
        )


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        (0, None),
        (1, None),
        (LIST_CHUNK_ROWS, None),
        (2 * LIST_CHUNK_ROWS + 1, None),
        (3, 2),
        (LIST_CHUNK_ROWS + 2, LIST_CHUNK_ROWS + 1),
        (2 * LIST_CHUNK_ROWS, LIST_CHUNK_ROWS),
    ],
)
async def test_chunks_bring_every_row_once_and_in_order(database: Database, rows: int, limit: int | None) -> None:
    await insert_numbers(database, rows)
    chunks = [chunk async for chunk in following.chunks(database.connection, after="", limit=limit)]
    assert all(0 < len(chunk) <= LIST_CHUNK_ROWS for chunk in chunks)
    expected = rows if limit is None else limit
    assert [row.id for chunk in chunks for row in chunk] == [f"{number:06d}" for number in range(1, expected + 1)]


async def test_streams_hold_no_connection_while_their_readers_wait(database: Database) -> None:
    await insert_numbers(database, 2 * LIST_CHUNK_ROWS)
    streams = [following.chunks(database.connection, after="", limit=None) for _ in range(3 * database.pool.most)]
    for stream in streams:
        assert len(await anext(stream)) == LIST_CHUNK_ROWS
    assert database.pool.used == 0
    for stream in streams:
        await stream.aclose()


async def test_the_first_proposal_of_a_key_decides_for_all(connection: Connection) -> None:
    assert await keys.get_key_marks(connection) is None
    assert await keys.propose_key_marks(connection, marks=b"first") == 1
    assert await keys.propose_key_marks(connection, marks=b"other") == 0
    assert await keys.get_key_marks(connection) == b"first"


def test_a_statement_that_the_file_does_not_have_is_named_with_those_it_has() -> None:
    with pytest.raises(LookupError, match=r"has no statement 'gte'\. It has get_key_marks, propose_key_marks"):
        statements.load("keys").change("gte")


async def test_who_sees_every_instance_shares_a_prepared_statement_without_the_condition(
    connection: Connection,
) -> None:
    async def prepared() -> list[str]:
        # Without those that other tests prepared by name.
        rows = await connection.execute(
            b"SELECT statement FROM pg_prepared_statements WHERE statement NOT LIKE 'PREPARE %%'", []
        )
        return [text for (text,) in await rows.fetchall() if "status = 'Executing'" in text]

    about = {"organization_id": "0" * 24, "most": 9}
    someone = visible(Grants((RoleGrants("one", read_role_text("- Read: [/applications/shop/*]")),)), Permission.READ)
    everyone = visible(Grants((RoleGrants("all", ALL_GRANTS),)), Permission.READ)
    for _ in range(3):
        assert await fleet.count_running(connection, **about, **someone) == 0
    assert await prepared() == []
    for _ in range(3):
        assert await fleet.count_running(connection, **about, **everyone) == 0
    [text] = await prepared()
    assert "unnest" not in text


class ListedName(NamedTuple):
    name: str


LISTED = b"""
SELECT name FROM organizations
WHERE (%(name)s::text IS NULL OR name = %(name)s) AND (%(ids)s::text[] IS NULL OR id = ANY (%(ids)s::text[]))
  AND %(all)s::boolean
ORDER BY CASE %(sort)s::text WHEN 'name' THEN name ELSE id END LIMIT %(count)s
"""


async def test_a_list_is_prepared_for_each_set_of_conditions_and_planned_for_lists_of_values(
    connection: Connection,
) -> None:
    listed = Rows("listed", LISTED, ListedName, shape=Shape(frozenset({"sort"}), frozenset({"name", "count"})))
    for each, name in {"a": "Zebra", "b": "Acme"}.items():
        await insert(connection, id=each, name=name)

    async def names(**given: object) -> list[str]:
        wanted = {"name": None, "ids": None, "all": True, "sort": "name", "count": 9, **given}
        return [row.name for row in await listed(connection, **wanted)]

    for _ in range(3):  # the second use prepares it
        assert await names() == ["Acme", "Zebra"]
        assert await names(sort="id", count=1) == ["Zebra"]
        assert await names(name="Acme") == ["Acme"]
        assert await names(ids=["a"]) == ["Zebra"]
        assert await names(all=False) == []
        assert await names(sort="it's") == ["Zebra", "Acme"]
    rows = await connection.execute("SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%FROM organ%'")
    prepared = [row[0] for row in await rows.fetchall()]
    assert sum("ORDER BY CASE" in text for text in prepared) == 5
    assert all("NULL::text[]" in text for text in prepared if "ORDER BY CASE" in text)


async def test_many_sets_of_conditions_push_out_neither_what_is_used_nor_other_statements(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "SHAPES", 3)
    shape = Shape(frozenset({"sort"}), frozenset({"name", "count"}))
    listed = Rows("listed", LISTED, ListedName, shape=shape)
    used = {"name": None, "ids": None, "all": True, "sort": "name", "count": 9}
    kept = listed._shaped_for(used, shape)
    for number in range(9):
        assert listed._shaped_for({**used, "sort": str(number)}, shape) is not None
        assert listed._shaped_for(used, shape) is kept
    assert len(listed._shaped) == 3


@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}/{file.name}" for file in FILES])
def test_each_file_is_read_as_by_the_loader_that_also_looks_for_comments_of_several_lines(file: Path) -> None:
    text = file.read_text("utf-8")
    ours, theirs = (
        loader(AsyncGenericAdapter(), None, mandatory_parameters=False).load_query_data_from_sql(text, [], file.name)
        for loader in (statements._Loader, QueryLoader)
    )
    assert ours == theirs
    assert ours
