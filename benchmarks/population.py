"""An organization as it is after months: instances, their jobs and steps, people, versions, and the audit log.

`fill` writes it with plain SQL. Triggers are off meanwhile, and the lists are written in one go: the
rows are those that triggers would have written. `READERS` are five kinds of people who read it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg

from launchbay.store.database import conninfo

SMALL_APPLICATION = "a" + "1".rjust(23, "0")  # with one in a thousand instances
LARGE_APPLICATION = "a" + "2".rjust(23, "0")  # with one in two
ENVIRONMENT = "b" + "1".rjust(23, "0")  # with one in fifty
INACTIVE = "c" + "0".rjust(23, "0")  # somebody who never did anything
RARE = "delete_application"  # an operation that hardly anybody asked for

ADMINISTRATOR = "an administrator"

# What each kind of person may read, as the text of a role.
READERS: Mapping[str, str] = {
    "nobody": "",
    "an application": f"- Read: [/applications/{SMALL_APPLICATION}/*]\n",
    "an environment": f"- Read: [/applications/*, /environments/{ENVIRONMENT}]\n",
    "a pattern": "- Read: ['/applications/*1/*']\n",
    ADMINISTRATOR: "- Read: [/*]\n- ViewAudit: [/*]\n",
}


_TRIGGERED = """
SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"""


class Size(NamedTuple):
    """How large an organization is."""

    instances: int
    jobs_each: int = 10
    people: int = 200
    applications: int = 40
    versions: int = 20
    steps_each: int = 0  # records in the journal of each job, and as many lines of its log


_STATEMENTS = (Path(__file__).parent / "population.sql").read_bytes()


def fill(connection: psycopg.Connection[tuple[object, ...]], organization: str, administrator: str, size: Size) -> None:
    """Fill an organization without instances; the connection must be in autocommit mode."""
    given = {
        "organization": organization,
        "administrator": administrator,
        "rare": RARE,
        "small": SMALL_APPLICATION,
        "large": LARGE_APPLICATION,
        "environment": ENVIRONMENT,
        "instances": size.instances,
        "jobs": size.jobs_each,
        "people": size.people,
        "steps": size.steps_each,
        "applications": size.applications,
        "versions": size.versions,
    }
    connection.execute("SET statement_timeout = 0")
    tables = [str(name) for (name,) in connection.execute(_TRIGGERED).fetchall()]
    _switch(connection, "DISABLE", tables)
    with psycopg.ClientCursor(connection) as cursor:  # values in the text: generate_series needs their types
        cursor.execute(_STATEMENTS, given)
    _switch(connection, "ENABLE", tables)
    connection.execute("VACUUM (ANALYZE)")


def fill_first(url: str, size: Size) -> str:
    """Fill the first organization of a server, whose administrator is the first user. Return its id."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        [organization] = connection.execute("SELECT id FROM organizations ORDER BY created_at LIMIT 1").fetchall()
        [administrator] = connection.execute("SELECT id FROM users ORDER BY created_at LIMIT 1").fetchall()
        fill(connection, organization[0], administrator[0], size)
    return str(organization[0])


def _switch(connection: psycopg.Connection[tuple[object, ...]], act: str, tables: Sequence[str]) -> None:
    for table in tables:
        connection.execute(f"ALTER TABLE {table} {act} TRIGGER USER".encode())
