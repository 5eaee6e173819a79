"""What each page asks of the database: its statements, and the round trips that they take.

`page_reads.txt` has the figures. They are exact, and may only shrink:
LAUNCHBAY_GOLDEN=write .venv/bin/pytest tests/console/test_page_reads.py writes those that did.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from psycopg.pq.abc import PGresult

from launchbay.store.connection import BoundedConnection, Statement
from tests.support.eventually import eventually
from tests.support.page_world import MANIFEST, address, one_of_everything
from tests.support.served import PAGES
from tests.support.service import EMAIL, Api
from tests.support.statements import counted, note_statements

FIGURES = Path(__file__).with_name("page_reads.txt")
_VISITS = 25  # of a pool that usually lends the same connection
_FIRST_PLANS = 5  # PostgreSQL's own number
WRITES = os.environ.get("LAUNCHBAY_GOLDEN") == "write"
# A stream ends when the browser leaves. An explanation and a token's form need a query of their own.
COUNTED = [
    page
    for page in PAGES
    if page.method == "GET"
    and not page.public
    and not page.path.endswith(("events", "explanation", "{token}"))
    and not page.path.startswith("/docs")  # reads no database
]


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine: pages about runs have something to show."""
    return working_service


def _read_figures() -> dict[str, tuple[int, int]]:
    rows = [line.rsplit(maxsplit=2) for line in FIGURES.read_text().splitlines()[1:]]
    return {path: (int(statements), int(trips)) for path, statements, trips in rows}


def _write_figures(found: dict[str, tuple[int, int]]) -> None:
    width = max(map(len, found)) + 2
    lines = [f"{'page':{width}}{'statements':>10}{'round trips':>13}"]
    lines += [f"{path:{width}}{statements:>10}{trips:>13}" for path, (statements, trips) in found.items()]
    FIGURES.write_text("\n".join(lines) + "\n")


def _is_more(counts: tuple[int, int], before: tuple[int, int] | None) -> bool:
    return before is not None and any(now > then for now, then in zip(counts, before, strict=True))


@pytest.mark.slow
async def test_each_page_takes_so_many_statements_in_so_many_round_trips(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await one_of_everything(api)
    note_statements(monkeypatch)
    found: dict[str, tuple[int, int]] = {}
    for page in COUNTED:
        path = address(page, world)
        await visitor.get(path)  # reads the grants, and compiles the manifest
        with counted() as reads:
            answer = await visitor.get(path)
            assert answer.status_code in {200, 303}, path
            # what a page leaves behind counts, too
            await eventually(lambda: not api.database.pool.used)
        found[page.path] = reads.counts
    before = _read_figures()
    worse = {path: (before[path], counts) for path, counts in found.items() if _is_more(counts, before.get(path))}
    assert not worse, f"These pages ask for more than before: {worse}"
    if WRITES:
        _write_figures(found)
    assert found == _read_figures(), "Pages ask for less than before, or are new: write the figures."


async def test_postgresql_plans_the_statements_of_an_instance_s_page_only_at_first(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It plans a statement anew, each time, if a plan that knows the parameters seems much better after five of those.
    note_statements(monkeypatch)
    path = f"/console/instances/{await api.launch(await api.application(MANIFEST))}"
    with counted() as reads:
        for _ in range(_VISITS):
            assert (await visitor.get(path)).status_code == 200
    asked = {statement.text.decode() for statement in reads.statements}
    async with asyncio.timeout(30):  # what else the service does may spread the visits over more sessions
        while not any(
            "job.steps AS planned" in plan.text and plan.lasting_plans for plan in await _kept_plans(api, asked)
        ):
            assert (await visitor.get(path)).status_code == 200
    assert {plan.text for plan in await _kept_plans(api, asked) if plan.own_plans > _FIRST_PLANS} == set()


class _Plan(NamedTuple):
    """How often a session planned a prepared statement for parameters of its own, and used the plan that lasts."""

    text: str
    own_plans: int
    lasting_plans: int


def _last(plans: list[_Plan]) -> bool:
    """Return whether a session has a plan that lasts for the longest statement of the page."""
    return any("job.steps AS planned" in plan.text and plan.lasting_plans for plan in plans)


async def _kept_plans(api: Api, asked: set[str]) -> list[_Plan]:
    return [plan for connection in api.database.pool._idle for plan in await _plans(connection) if plan.text in asked]


async def _plans(connection: BoundedConnection) -> list[_Plan]:
    rows = await connection.execute("SELECT statement, custom_plans, generic_plans FROM pg_prepared_statements")
    found = [_Plan(*row) for row in await rows.fetchall()]
    await connection.rollback()
    return found


PEOPLE = 2_000
_PEOPLE = """
WITH made AS (
    INSERT INTO users (id, email, name, home_organization_id)
    SELECT launchbay_new_id(), 'member' || n || '@many.example', 'Member ' || n, %(organization)s
    FROM generate_series(1, %(people)s) AS n RETURNING id
)
INSERT INTO memberships (organization_id, user_id) SELECT %(organization)s, id FROM made
"""
_ORGANIZATIONS = """
WITH made AS (
    INSERT INTO organizations (id, name) SELECT launchbay_new_id(), 'Many ' || n FROM generate_series(1, 60) AS n
    RETURNING id
)
INSERT INTO memberships (organization_id, user_id) SELECT made.id, users.id FROM made, users WHERE users.email = %s
"""
MOST_ROWS = 400  # sixty organizations of the menu, one page of people, and those whom a field suggests
OF_ALL_PEOPLE = {"/console/organizations/{id}/archive"}
MOST_BYTES = 200_000


@pytest.mark.slow
async def test_pages_read_the_names_of_those_whom_they_show_alone(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await one_of_everything(api)
    account = next(page for page in COUNTED if page.path == "/console/account")
    note_statements(monkeypatch)
    await visitor.get(address(account, world))
    with counted() as before:
        await visitor.get(address(account, world))
    async with api.database.transaction() as connection:
        await connection.execute(_PEOPLE, {"organization": api.organization, "people": PEOPLE})
        await connection.execute(_ORGANIZATIONS, [EMAIL])
    rows = 0
    exchange = BoundedConnection._exchange

    async def counting(self: BoundedConnection, given: Sequence[Statement]) -> list[PGresult]:
        nonlocal rows
        found = await exchange(self, given)
        rows += sum(each.ntuples for each, of in zip(found, given, strict=True) if b"memberships" in of.text)
        return found

    monkeypatch.setattr(BoundedConnection, "_exchange", counting)
    read: dict[str, int] = {}
    for page in COUNTED:
        rows = 0
        answer = await visitor.get(address(page, world))
        assert answer.status_code in {200, 303}, page.path
        assert len(answer.content) <= MOST_BYTES or page.path in OF_ALL_PEOPLE, page.path
        read[page.path] = rows
    assert {path for path, count in read.items() if count > MOST_ROWS} == OF_ALL_PEOPLE, read
    with counted() as after:
        await visitor.get(address(account, world))
    assert after.counts == before.counts
