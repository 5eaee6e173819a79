"""Clocks that are set while all runs, a server's and PostgreSQL's. Only PostgreSQL's says what is due (promise 5).

`make test-faults ARGS='tests/durability/test_clocks.py -s'` shows the figures. Needs libfaketime (package faketime).
"""

import asyncio
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.support.campaigns import Campaign, keep, under_load
from tests.support.clock import HOUR_S, SettableClock
from tests.support.load import WatchfulLoad
from tests.support.pages import send
from tests.support.replicas import PostgresServer, own_address
from tests.support.servers import EMAIL, PASSWORD, Process
from tests.support.verdict import Records

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not SettableClock.is_there(), reason="libfaketime is not installed (Debian package faketime)"),
]
# A noisy machine takes nobody for dead within this lease; a clock that jumps by an hour would.
SETTINGS = {"LAUNCHBAY_STALLED_AFTER_S": "20"}
# Writes down what becomes of each schedule, by the clock that decides.
WATCH = """
CREATE TABLE seen_fired (id text, due_at timestamptz, fired_at timestamptz);
CREATE FUNCTION see_fired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen_fired VALUES (OLD.id, OLD.due_at, now());
    RETURN NULL;
END $$;
CREATE TRIGGER see_fired AFTER DELETE ON schedules FOR EACH ROW EXECUTE FUNCTION see_fired();
"""


def fired_early(records: Records) -> list[str]:
    """The load cancels no schedule, and destroys nothing that has one: each that is gone has fired."""
    seen = records.rows("SELECT id, due_at::text, fired_at::text FROM seen_fired WHERE fired_at < due_at")
    return [f"early: schedule {each[0]}, due at {each[1]}, fired at {each[2]} of the same clock" for each in seen]


async def signs_in(server: Process) -> list[str]:
    """Sign in and use the session; return what went wrong."""
    root = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=root, timeout=20.0) as client:
        page = await send(client, "/refreshToken", {"Origin": root}, email=EMAIL, password=PASSWORD)
        session = await client.post("/refreshToken/jwtBearer", json={"refreshToken": page.token})
        if session.status_code != 200:
            return [f"no session: {session.status_code} {session.text}"]
        bearer = {"Authorization": f"Bearer {session.json()['jwtBearer']}"}
        answer = await client.get("/api/1/organizations", headers=bearer)
        return [] if answer.status_code == 200 else [f"a new session is refused: {answer.text}"]


class Clocked:
    """A PostgreSQL, a server and a worker under load, one of them under a clock that is set."""

    def __init__(self, directory: Path, seed: int, *, of_database: bool) -> None:
        self.campaign = Campaign(directory, seed)
        self.clock = SettableClock(directory / "clock")
        environment = self.clock.environment
        faked = environment if of_database else {}
        self.postgres = PostgresServer("c", directory / "c", own_address(seed, 1), environment=faked)
        self.shared = shared = ["--data-dir", str(directory), "--database-url", self.postgres.url]
        mine = SETTINGS if of_database else {**SETTINGS, **environment}
        self.server = Process(["serve", *shared, "--port", "0"], directory, settings=mine)
        self.worker = Process(["worker", *shared], directory, settings=SETTINGS)
        self.load = WatchfulLoad(lambda: self.server.port, seed)
        self.improper: list[str] = []

    async def run(self, kind: str, settings_of_clock: list[tuple[int, float]], besides: tuple[str, ...]) -> None:
        """Set the clock again and again under load: offset in seconds, and speed.

        `besides` are the sentences of the verdict that compare a clock that was set with another one.
        """
        try:
            await asyncio.to_thread(self.postgres.create, {})
            await asyncio.to_thread(self.first_start)
            processes = [self.server, self.worker]
            async with under_load(self.campaign, self.postgres.url, processes, self.load, fired_early):
                with psycopg.connect(self.postgres.url, autocommit=True) as connection:
                    connection.execute(WATCH)
                for offset_s, speed in settings_of_clock:
                    await asyncio.sleep(self.campaign.chance.uniform(3.0, 6.0))
                    self.clock.set(offset_s, speed)
                    await asyncio.sleep(2.0)
                    self.improper += await signs_in(self.server)
                await asyncio.sleep(5.0)
        finally:
            await asyncio.to_thread(self.postgres.end)
        self.improper += self.load.improper
        self.campaign.broken = [each for each in self.campaign.broken if not any(told in each for told in besides)]
        keep(kind, self.campaign)

    def first_start(self) -> None:
        """Create the administrator by the real clock: under libfaketime, time.sleep fails, and with it the rating."""
        first = Process(
            ["serve", *self.shared, "--port", "0"], self.campaign.directory, name="first", settings=SETTINGS
        )
        first.start()
        first.end()

    def taken_for_dead(self) -> bool:
        """Tell whether a worker lost its jobs."""
        logs = [log.read_text("utf-8") for log in self.campaign.directory.glob("*-1.log")]
        return any("worker.lease_lost" in log for log in logs)


async def test_a_server_whose_clock_is_set_fires_nothing_early_twice_or_never(tmp_path: Path, seed: int) -> None:
    run = Clocked(tmp_path, seed, of_database=False)
    # The end of a step is told by the clock of who ran it, and the ledger by the clock of that process too.
    besides = ("ran again: ",)
    await run.run("clock of a server set", [(HOUR_S, 1), (0, 1), (-HOUR_S, 1), (0, 1), (0, 1.5), (0, 1)], besides)
    assert run.campaign.broken == [], run.campaign.figures
    assert run.improper == []
    assert " 0 of them repetitions" in run.campaign.figures, "no job was broken off"
    assert not run.taken_for_dead()


async def test_a_database_whose_clock_is_set_fires_each_schedule_once_and_breaks_no_lease(
    tmp_path: Path, seed: int
) -> None:
    run = Clocked(tmp_path, seed, of_database=True)
    # In the end it is late enough for all that was due by any of its times.
    settings_of_clock = [(HOUR_S, 1.0), (0, 1.0), (-HOUR_S, 1.0), (0, 1.5), (2 * HOUR_S, 1.0)]
    # Clients told by their own clocks when a schedule may fire at the earliest; jobs begin and end by a clock that was
    # set between (that there is one at a time is an index of the database).
    await run.run("clock of the database set", settings_of_clock, ("fired early", "two jobs at once: "))
    assert run.campaign.broken == [], run.campaign.figures
    assert run.improper == []
    assert not run.taken_for_dead()
