"""One server on a stand: an operation leads it to a failpoint, it dies there, starts again, and is judged."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

from launchbay.postgres.server import EmbeddedPostgres
from tests.durability.failpoints import POINTS
from tests.durability.family_load import family_violations
from tests.durability.operations import OPERATIONS, ROUNDS, Operation, Operations
from tests.durability.servers import Process, join_postgres, remove_postgres
from tests.durability.verdict import Records, read_ledger, violations

REACHED_S = 40.0


class Stand:
    """A server with its database, for one failpoint after the other. `defect` is one of seeded.py."""

    def __init__(self, directory: Path, defect: str | None = None) -> None:
        self._directory = directory
        self._failpoint = directory / "failpoint"
        command = ["serve", "--data-dir", str(directory), "--port", "0"]
        self._server = Process(command, directory, defect, failpoint=self._failpoint)
        self._load = Operations(lambda: self._server.port, 0)
        self._postgres: EmbeddedPostgres | None = None
        self.is_sound = True

    async def judge(self, name: str, number: int) -> list[str]:
        """Let the server die at the pass of this number, start it again, and return every promise that is broken.

        Raises AssertionError when the operation does not lead there.
        """
        self.is_sound = False
        records = await self._ready()
        try:
            operation = OPERATIONS[POINTS[name].operation]
            await operation.prepare(self._load)
            assert await records.settled() == []
            if operation.is_recovery:
                await operation.act(self._load)
                await asyncio.to_thread(self._server.kill)
            self._failpoint.write_text(f"{name} {number}", "utf-8")
            await (self._recover() if operation.is_recovery else self._lead(operation, records))
            reached = self._failpoint.with_suffix(".reached")
            assert not self._server.lives(), f"{name} is not passed {number} times by {POINTS[name].operation!r}"
            assert reached.read_text("utf-8") == name, "it died of something else"
            self._failpoint.unlink()
            reached.unlink()
            await asyncio.to_thread(self._server.start)
            await self._load.stop_clocks(records)
            broken = [f"not settled: {each}" for each in await records.settled()]
            broken += violations(self._load.history, records, read_ledger(self._directory / "ledger"))
            broken += family_violations(records)
            broken += self._load.answers.violations(records, self._load.deletions.asked)
        finally:
            records.close()
            await self._load.close()
        self.is_sound = not broken
        return broken

    def end(self) -> None:
        """End everything."""
        self._server.end()
        if self._postgres is not None:
            self._postgres.stop()
        remove_postgres(self._directory)

    async def _ready(self) -> Records:
        self._load.open()
        if self._postgres is None:
            await asyncio.to_thread(self._server.start)
            self._postgres = await asyncio.to_thread(join_postgres, self._directory)
            await self._load.set_up()
        return Records(self._postgres.url)

    async def _recover(self) -> None:
        """Start the server again, and let it die of that."""
        with suppress(AssertionError):  # it may die before it is ready
            await asyncio.to_thread(self._server.start)
        until_s = time.monotonic() + REACHED_S
        while self._server.lives() and time.monotonic() < until_s:
            await asyncio.sleep(0.05)

    async def _lead(self, operation: Operation, records: Records) -> None:
        """Repeat the operation until the server dies of it."""
        for _ in range(ROUNDS):
            await operation.act(self._load)
            until_s = time.monotonic() + REACHED_S
            while self._server.lives() and time.monotonic() < until_s and records.left():
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)  # what comes after the last trace in the database
            if not self._server.lives():
                return
            await operation.prepare(self._load)
