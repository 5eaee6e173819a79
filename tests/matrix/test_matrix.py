"""The authorization matrix: objects named in requests, special cases, the rows that no other file has, and itself."""

from pathlib import Path

import pytest

from launchbay.app.features import ENDPOINTS
from launchbay.auth import gate
from tests.support import matrix as golden
from tests.support.databases import Watch
from tests.support.matrix import (
    NAMED_IN_REQUESTS,
    PARTS,
    REST,
    ROWS,
    SPECIAL,
    TITLES,
    Column,
    case_title,
    check,
    check_row,
    columns_of,
    outcomes,
    rows_of,
    title,
)
from tests.support.service import accepted
from tests.support.worlds import ADMINISTRATOR, FOREIGN_ADMINISTRATOR, World


@pytest.mark.slow
@pytest.mark.parametrize("operation", rows_of(REST))
async def test_who_may_call_it(world: World, watch: Watch, sections: dict[str, str], operation: str) -> None:
    await check_row(world, watch, sections, operation)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NAMED_IN_REQUESTS))
async def test_who_may_name_it_in_a_request(world: World, watch: Watch, sections: dict[str, str], name: str) -> None:
    operation, make = NAMED_IN_REQUESTS[name]
    changes = ROWS[operation].method != "GET"
    columns = {
        "home": Column(lambda _: make(world.home, world.home), ADMINISTRATOR),
        "away": Column(lambda _: make(world.home, world.away)),
    }
    await check(world, watch, sections, case_title(operation, f"naming the {name}"), columns, changes=changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SPECIAL))
async def test_who_may_ask_for_more(world: World, watch: Watch, sections: dict[str, str], name: str) -> None:
    operation, make = SPECIAL[name]
    columns = {
        "home": Column(lambda _: make(world.home), ADMINISTRATOR),
        "away": Column(lambda _: make(world.away), FOREIGN_ADMINISTRATOR, "away"),
    }
    await check(world, watch, sections, case_title(operation, name), columns, changes=True)


def test_every_part_of_the_table_has_its_file() -> None:
    files = {path.stem.removeprefix("test_matrix_") for path in Path(__file__).parent.glob("test_matrix_*.py")}
    assert files == set(PARTS)
    assert golden.WRITES or {each for part in (*PARTS, REST) for each in rows_of(part)} == set(ROWS)


async def test_no_endpoint_is_missing(world: World) -> None:
    """The table, the served description and the golden file know the same endpoints."""
    described = accepted(await world.api.get("openapi.json"))["paths"]
    served = {
        f"{operation['operationId']}: {method.upper()} {path}"
        for path, methods in described.items()
        for method, operation in methods.items()
    }
    assert served == {title(row) for row in ENDPOINTS}
    assert golden.WRITES or set(golden.stored()) == set(TITLES)


async def test_the_watch_notices_every_change(world: World, watch: Watch) -> None:
    watch.begin()
    accepted(await world.api.get("organizations"))
    assert watch.changed() == []
    accepted(await world.api.put(f"environments/{world.api.environment}/markers", {"markers": [{"name": "seen"}]}))
    assert watch.changed() == ["audit_entries", "environments"]


async def test_a_gate_that_lets_members_do_everything_is_noticed(
    world: World, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROWS["rename_environment"]
    monkeypatch.setattr(gate, "decide", lambda grants, *_: gate.Decision(allowed=grants.member))
    lines = {
        name: await outcomes(world, watch, each, [], changes=True) for name, each in columns_of(row, world).items()
    }
    text = golden.section(title(row), lines)
    assert text != golden.stored()[title(row)]
    assert "home     403 administrator of another organization, invited as administrator · 200 everybody else" in text
