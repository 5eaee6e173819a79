"""One organization sends all it can, in eight ways; another one keeps half of its rates (decision 0098).

    pytest -m load tests/abuse

LAUNCHBAY_FLOOD_S is the time for each way with and without the flood, in turns, and LAUNCHBAY_EVIDENCE a directory for
the figures.
"""

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from launchbay.auth.passwords import Passwords
from launchbay.ids import new_id
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store import users
from launchbay.store.database import Database
from launchbay.usecases.organizations import create_first_organization
from tests.support.evidence import keep_evidence
from tests.support.flood import WAYS, Flood, Line, Worked, compared, flooded, work
from tests.support.servers import EMAIL, PASSWORD, Process, remove_postgres
from tests.support.service import QUICK_HASHES, basic

SECONDS = float(os.environ.get("LAUNCHBAY_FLOOD_S", "5"))
ROUNDS = 5  # of quiet and flood for each way
SETTLING_S = 0.4  # what was begun ends, and turns are as they are without others
LEAST_RATE = 0.5
MOST_P99 = 5.0
QUIET = "launch:\n  steps: []\ndestroy:\n  steps: []\n"
WAITING = "launch:\n  steps:\n    - rest: {action: wait, parameters: {delay: '600'}}\ndestroy:\n  steps: []\n"
NEIGHBOR = ("neighbor@example.org", "another good password")
MANY_LINES = """
INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
SELECT %(instance)s, 'none', 'step', 'info', repeat('a line of a log ', 10), now() FROM generate_series(1, 20000)"""
MANY_INSTANCES = """
INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status)
SELECT launchbay_new_id(), organization_id, application_id, environment_id, version, name || each, owner_id, 'Running'
FROM instances, generate_series(1, 5000) AS each WHERE id = %(instance)s"""


@dataclass
class Site:
    """Servers on one database, the objects of the flooding organization, and those of its neighbor."""

    ports: list[int]
    ids: dict[str, str]
    application: str
    instance: str


@asynccontextmanager
async def site(count: int) -> AsyncIterator[Site]:
    """Start so many servers on one database."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-flood-"))
    directory.chmod(0o711)
    postgres = await asyncio.to_thread(EmbeddedPostgres.start, directory)
    async with AsyncExitStack() as stack:
        stack.callback(remove_postgres, directory)
        stack.push_async_callback(asyncio.to_thread, postgres.stop)
        processes = [
            Process(
                ["serve", "--data-dir", str(directory), "--database-url", postgres.url, "--port", "0"],
                directory,
                settings={"LAUNCHBAY_LOG_LEVEL": "warning"},
                name=f"server-{number}",
            )
            for number in range(count)
        ]
        for process in processes:
            await asyncio.to_thread(process.start)
            stack.push_async_callback(asyncio.to_thread, process.end)
        ports = [process.port for process in processes if process.port is not None]
        line = await Line.open(ports[0])
        admin = basic(EMAIL, PASSWORD)
        organization = (await line.ask("GET", "organizations", b"", admin))[0]["id"]
        ids = {name: await made(line, admin, organization, name, QUIET) for name in ("quiet", "changing", "crowded")}
        ids["waiting"] = await made(line, admin, organization, "waiting", WAITING)
        ids["instance"] = await running(line, admin, ids["crowded"])
        async with Database(postgres.url, connections=1) as database, database.transaction() as connection:
            await connection.execute(MANY_LINES, {"instance": ids["instance"]})
            await connection.execute(MANY_INSTANCES, {"instance": ids["instance"]})
            user_id, passwords = new_id(), Passwords(QUICK_HASHES)
            hashed = await passwords.hash(NEIGHBOR[1])
            passwords.close()
            await users.insert(connection, id=user_id, email=NEIGHBOR[0], name="Neighbor", password_hash=hashed)
            theirs = await create_first_organization(connection, "Neighbors", user_id)
        neighbor = basic(*NEIGHBOR)
        application = await made(line, neighbor, theirs, "theirs", QUIET)
        yield Site(ports, ids, application, await running(line, neighbor, application))


async def made(line: Line, authorization: str, organization: str, name: str, manifest: str) -> str:
    body = json.dumps({"name": name}).encode()
    application: str = (await line.ask("POST", f"organizations/{organization}/applications", body, authorization))["id"]
    await line.ask("PUT", f"applications/{application}/manifest", manifest.encode(), authorization)
    return application


async def running(line: Line, authorization: str, application: str) -> str:
    instance: str = (await line.ask("POST", f"applications/{application}/launch", b"{}", authorization))["id"]
    while (await line.ask("GET", f"instances/{instance}?wait=30", b"", authorization))["status"] != "Running":
        pass
    return instance


@pytest.mark.load
@pytest.mark.timeout(600)
@pytest.mark.parametrize("servers", [1, 2])
async def test_an_organization_works_on_while_another_one_sends_all_it_can(servers: int) -> None:
    found: dict[str, dict[str, float]] = {}
    async with site(servers) as here:
        theirs = (here.ports[0], basic(*NEIGHBOR), here.application, here.instance)
        await work(*theirs, seconds=1.0)
        for way in WAYS:
            quiet, busy = Worked(0.0), Worked(0.0)
            with flooded(Flood(way, here.ports, EMAIL, PASSWORD, here.ids)) as sender:
                # In turns: what else the machine does falls on both alike.
                for _ in range(ROUNDS):
                    sender.pause()
                    await asyncio.sleep(SETTLING_S)
                    quiet = quiet.and_also(await work(*theirs, seconds=SECONDS / ROUNDS))
                    sender.resume()
                    await asyncio.sleep(SETTLING_S)
                    busy = busy.and_also(await work(*theirs, seconds=SECONDS / ROUNDS))
            found[way] = compared(quiet, busy)
            print(f"\n{servers} servers, {way}: " + ", ".join(f"{k} {v:.3g}" for k, v in found[way].items()))
    keep(servers, found)
    starved = [
        f"{way}: {name} {value:.2f}"
        for way, figures in found.items()
        for name, value in figures.items()
        if (name.endswith("rate_ratio") and value < LEAST_RATE) or (name.endswith("p99_ratio") and value > MOST_P99)
    ]
    assert not starved, starved


def keep(servers: int, found: dict[str, dict[str, float]]) -> None:
    """Write the figures down where evidence is collected."""
    about = {
        "servers": servers,
        "seconds": SECONDS,
        "rounds": ROUNDS,
        "load": round(os.getloadavg()[0], 2),
        "least_rate": LEAST_RATE,
        "most_p99": MOST_P99,
        "ways": found,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    keep_evidence("floods", about)
