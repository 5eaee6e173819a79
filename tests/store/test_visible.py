"""The condition of what a caller may see: its cost in rows, counted by PostgreSQL, and that it is in one place."""

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from launchbay.auth.gate import Grants, RoleEntry, RoleGrants, visible
from launchbay.auth.permissions import Pattern, Permission
from launchbay.ids import new_id
from launchbay.store import statements

INSTANCES = 2_000
PLACES = [new_id() for _ in range(25)]
OTHERS = [new_id() for _ in range(25)]
ROLES = {
    "applications": [f"/applications/{each}/*" for each in PLACES + OTHERS],
    "instances": [f"/applications/*/instances/{each}" for each in PLACES + OTHERS],
    "applications in environments": [f"/applications/{each}/*" for each in OTHERS]
    + [f"/environments/{each}" for each in PLACES],
}
_INSERT_RUN = """
INSERT INTO bulk_runs (id, organization_id, owner_id, owner_email, owner_name, address, method, act, max_parallel)
VALUES (%(bulk)s, %(organization)s, '', '', '', '', '', '{}', 1)"""
_INSERT_INSTANCES = """
INSERT INTO bulk_instances (bulk_id, place, instance_id, instance_name, application_id, environment_id, status)
SELECT %(bulk)s, n, lpad(to_hex(n), 24, '0'), '', 'app', (%(places)s::text[])[1 + n %% 25], 'Succeeded'
FROM generate_series(1, %(instances)s) AS n"""


def looked_at(node: dict[str, Any]) -> int:
    """Return how many rows a plan looked at, in all of its loops."""
    passed = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
    rows = sum(float(node.get(name, 0)) for name in passed)
    return round(rows * int(node["Actual Loops"])) + sum(map(looked_at, node.get("Plans", [])))


@pytest.mark.parametrize("role", ROLES)
def test_runs_of_many_instances_are_not_compared_with_every_pattern(database_url: str, role: str) -> None:
    entry = RoleEntry(Permission.READ, tuple(map(Pattern, ROLES[role])))
    parameters = visible(Grants((RoleGrants("many", (entry,)),)), Permission.READ)
    given = {"bulk": new_id(), "organization": new_id(), "places": PLACES, "instances": INSTANCES}
    explained = "EXPLAIN (ANALYZE, FORMAT JSON) " + statements.load("features.bulk").text("keep_seen").decode()
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO organizations (id, name) VALUES (%(organization)s, 'many')", given)
        connection.execute(_INSERT_RUN, given)
        connection.execute(_INSERT_INSTANCES, given)
        row = connection.execute(explained.encode(), {"ids": [given["bulk"]], **parameters}).fetchone()
        connection.rollback()
    assert row is not None
    plan = row[0][0]["Plan"]
    assert plan["Actual Rows"] == 0, "nothing of the run is the caller's"
    assert looked_at(plan) < 2 * (INSTANCES + len(ROLES[role]))


def test_the_condition_is_in_one_place() -> None:
    files = (Path(__file__).parents[2] / "src" / "launchbay").rglob("*.sql")
    copied = [
        file.name
        for file in files
        if re.search(r"LIKE seen\.|%\(scoped", file.read_text("utf-8")) and "migrations" not in file.parts
    ]
    assert copied == [], "write {visible(application_id, instance_id, environment_id)} instead"
