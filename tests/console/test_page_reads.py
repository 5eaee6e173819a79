"""What each page asks of the database: its statements, and the round trips that they take.

`page_reads.txt` has the figures. They are exact, and may only shrink:
LAUNCHBAY_GOLDEN=write .venv/bin/pytest tests/console/test_page_reads.py writes those that did.
"""

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from launchbay.store.connection import BoundedConnection
from tests.support.page_world import MANIFEST, address, one_of_everything
from tests.support.served import PAGES
from tests.support.service import Api
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
            async with asyncio.timeout(10):
                while api.database.pool.used:  # what a page leaves behind counts, too
                    await asyncio.sleep(0.01)
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
    plans = [plan for connection in api.database.pool._idle for plan in await _plans(connection) if plan.text in asked]
    assert {plan.text for plan in plans if plan.own_plans > _FIRST_PLANS} == set()
    assert any("job.steps AS planned" in plan.text and plan.lasting_plans for plan in plans)


class _Plan(NamedTuple):
    """How often a session planned a prepared statement for parameters of its own, and used the plan that lasts."""

    text: str
    own_plans: int
    lasting_plans: int


async def _plans(connection: BoundedConnection) -> list[_Plan]:
    rows = await connection.execute("SELECT statement, custom_plans, generic_plans FROM pg_prepared_statements")
    found = [_Plan(*row) for row in await rows.fetchall()]
    await connection.rollback()
    return found
