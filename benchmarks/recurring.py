"""100,000 recurring schedules in many time zones: what waiting costs, how late they fire, how many at once.

python -m benchmarks.recurring [--count 100000] [--json FILE]

They are copies of one that was made through the API, on ten thousand instances: ten times what one organization may
have. Each is sealed for itself, as the server does it, and due at the next 07:00 of a weekday in its zone.
"""

import argparse
import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import psycopg

from benchmarks.lists import fill
from benchmarks.reads import running_instance
from benchmarks.schedules import idle_cpu_percent
from benchmarks.server import Server, running
from benchmarks.table import Limit, Table
from launchbay.auth.secret_key import SecretKey, read_secret_key
from launchbay.features.recurring.rows import recurring_purpose
from launchbay.ids import new_id
from launchbay.model.schedule import zoned_due_times
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

INSTANCES = 10_000
LATE = 300
LATE_OVER_S = 15.0
AT_ONCE = 1_000
READS = 20
CRON = "0 7 * * MON-FRI"
ZONES = (
    *("UTC", "Europe/Berlin", "Europe/London", "Europe/Istanbul", "Africa/Cairo", "Africa/Lagos", "Asia/Tehran"),
    *("Asia/Karachi", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Dhaka", "Asia/Bangkok", "Asia/Shanghai", "Asia/Tokyo"),
    *("Australia/Adelaide", "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Honolulu"),
    *("America/Anchorage", "America/Los_Angeles", "America/Denver", "America/New_York", "America/Sao_Paulo"),
)
_COPY = """
COPY recurring_schedules (id, organization_id, name, owner_id, owner_email, owner_name, address, method, kind,
                          application_id, instance_id, act, cron, zone, when_busy, due_at, fires_at) FROM STDIN
"""
_DUE = """
UPDATE recurring_schedules SET due_at = due.at, fires_at = due.at
FROM (SELECT id, now() + interval '2 seconds' + row_number() OVER (ORDER BY id) * %(over_s)s / %(count)s
          * interval '1 second' AS at
      FROM (SELECT min(id) AS id FROM recurring_schedules
            WHERE fired = 0 AND instance_id NOT IN (SELECT instance_id FROM jobs WHERE name = %(workflow)s)
            GROUP BY instance_id LIMIT %(count)s) AS chosen) AS due
WHERE recurring_schedules.id = due.id
RETURNING recurring_schedules.instance_id, due.at
"""
Times = dict[str, datetime]


async def make_one(server: Server, instance: str) -> tuple[str, str]:
    """Make a schedule through the API; return its ID and its workflow."""
    client = server.bearer()
    organization = (await client.json("GET", "/api/1/organizations"))[0]["id"]
    workflow = "destroy"
    body = {"name": "mornings", "cron": CRON, "zone": "UTC", "instanceId": instance, "workflow": workflow}
    made = await client.json("POST", f"/api/1/organizations/{organization}/recurring-schedules", body)
    client.close()
    return str(made["id"]), workflow


def copy(connection: psycopg.Connection, key: SecretKey, schedule: str, count: int) -> None:
    """Copy a schedule to all instances, in all zones."""
    found = connection.execute(
        "SELECT organization_id, name, owner_id, owner_email, owner_name, address, method, kind, application_id, act"
        " FROM recurring_schedules WHERE id = %s",
        [schedule],
    ).fetchone()
    assert found is not None
    *columns, sealed = found
    act = key.open(bytes(sealed), recurring_purpose(schedule))
    instances = [row[0] for row in connection.execute("SELECT id FROM instances WHERE status = 'Running'").fetchall()]
    now = datetime.now(UTC)
    due = {zone: next(zoned_due_times(CRON, ZoneInfo(zone), now + timedelta(hours=1))) for zone in ZONES}
    with connection.cursor().copy(_COPY) as rows:
        for number in range(count):
            made, zone = new_id(), ZONES[number % len(ZONES)]
            instance = instances[number % len(instances)]
            own = key.seal(act, recurring_purpose(made))
            rows.write_row((made, *columns, instance, own, CRON, zone, "skip", due[zone], due[zone]))
    connection.execute("DELETE FROM recurring_schedules WHERE id = %s", [schedule])
    connection.execute("VACUUM (ANALYZE) recurring_schedules")


def fall_due(connection: psycopg.Connection, workflow: str, count: int, over_s: float) -> tuple[Times, Times]:
    """Let schedules of different instances fall due; return when they were due, and when their jobs were accepted."""
    given = {"count": count, "over_s": over_s, "workflow": workflow}
    due: Times = dict(connection.execute(_DUE, given).fetchall())
    assert len(due) == count, len(due)
    until = time.monotonic() + over_s + 120
    accepted: Times = {}
    while len(accepted) < count:
        assert time.monotonic() < until, f"only {len(accepted)} of {count} fired"
        time.sleep(0.1)
        accepted = dict(
            connection.execute(
                "SELECT instance_id, min(created_at) FROM jobs WHERE instance_id = ANY (%s) AND name = %s GROUP BY 1",
                [list(due), workflow],
            ).fetchall()
        )
    return due, accepted


async def page_ms(server: Server) -> float:
    """Return how long a page of a hundred schedules takes, with their next times; the best of several."""
    client = server.bearer()
    organization = (await client.json("GET", "/api/1/organizations"))[0]["id"]
    best = float("inf")
    for _ in range(READS):
        began = time.perf_counter()
        found = await client.json("GET", f"/api/1/organizations/{organization}/recurring-schedules?limit=100")
        best = min(best, time.perf_counter() - began)
        assert len(found) == 100, len(found)
    client.close()
    return best * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    table = Table()
    table.head()
    with running() as server, EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
        instance = asyncio.run(running_instance(server))
        with psycopg.connect(conninfo(joined.url), autocommit=True) as connection:
            connection.execute("SET statement_timeout = 0")
            fill(joined.url, instance, INSTANCES)
            alone = Limit("without schedules", idle_cpu_percent(server))
            schedule, workflow = asyncio.run(make_one(server, instance))
            copy(connection, read_secret_key(server.data_dir / "secret.key"), schedule, options.count)
            among = f"{options.count:,} in {len(ZONES)} zones"
            table.add("idle CPU", idle_cpu_percent(server), "%", must=3, limit=alone, beside=among)
            table.add("a page of 100 schedules with next times", asyncio.run(page_ms(server)), "ms", beside=among)
            due, accepted = fall_due(connection, workflow, LATE, LATE_OVER_S)
            late = sorted((accepted[each] - at).total_seconds() * 1000 for each, at in due.items())
            table.add("lateness p50", late[len(late) // 2], "ms", aim=1000, beside=f"of {len(late)}, {among}")
            table.add("lateness p99", late[int(len(late) * 0.99)], "ms", aim=2000)
            due, accepted = fall_due(connection, workflow, AT_ONCE, 0.0)
            took = (max(accepted.values()) - min(due.values())).total_seconds()
            table.add("1,000 due at once", AT_ONCE / took, "/s", beside="each on an instance of its own")
            [(twice,)] = connection.execute(
                "SELECT count(*) FROM"
                " (SELECT FROM jobs WHERE name = %s GROUP BY instance_id HAVING count(*) > 1) AS twice",
                [workflow],
            ).fetchall()
            table.add("schedules that fired twice", twice, "", must=0)
            table.add("memory of the server with them", server.memory_mb(), "MB")
    table.write(options.json)


if __name__ == "__main__":
    main()
