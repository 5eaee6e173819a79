"""`launchbay` with a known defect in it: `python -m tests.support.defects DEFECT serve …`.

The suites must find each of them; otherwise they find nothing.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any
from unittest.mock import patch

from launchbay.app import build
from launchbay.cli.main import main
from launchbay.engine.journal import PostgresJournal
from launchbay.machines import remote_commands
from launchbay.machines.clouds.driver import Node
from launchbay.machines.clouds.provider import NodeLaunch
from launchbay.model.job import StepStatus, transition_step
from launchbay.planning.acceptance import StartedJob
from launchbay.store import database, instances, jobs, schedules, schema
from launchbay.store.database import Connection
from launchbay.store.jobs import EndRow
from launchbay.store.statements import Row, Value, load
from launchbay.usecases import launch
from launchbay.usecases.context import Work
from launchbay.usecases.launch_tree import write_launch

LOST_MB = 0.5  # with every launch
_kept: list[Any] = []


def leak_descriptors() -> None:
    """Leave a file open with every launch."""
    _with_every_launch(_lose_descriptor)


def leak_memory() -> None:
    """Keep some memory with every launch."""
    _with_every_launch(_lose_memory)


def leak_tasks() -> None:
    """Start a task with every launch that nobody ends."""
    _with_every_launch(_lose_task)


def leak_everything() -> None:
    """Leak descriptors, memory and tasks."""
    _with_every_launch(_lose_descriptor, _lose_memory, _lose_task)


def _lose_descriptor() -> None:
    _kept.append(os.open("/dev/null", os.O_RDONLY))


def _lose_memory() -> None:
    _kept.append(bytearray(b"x" * int(LOST_MB * 1024 * 1024)))


def _lose_task() -> None:
    _kept.append(asyncio.create_task(asyncio.Event().wait()))


def _with_every_launch(*leaks: Callable[[], None]) -> None:
    def write_and_leak(work: Work, *given: Any, **named: Any) -> StartedJob:
        for leak in leaks:
            leak()
        return write_launch(work, *given, **named)

    patch.object(launch, "write_launch", write_and_leak).start()


LEAKS: dict[str, Callable[[], None]] = {
    "descriptors": leak_descriptors,
    "memory": leak_memory,
    "tasks": leak_tasks,
    "everything": leak_everything,
}

_background: set[asyncio.Task[Any]] = set()


def answer_before_commit() -> None:
    """Commit a launch a moment after the client was told of it."""
    commit = database._Transaction.__aexit__
    launches: set[int] = set()

    def write_and_mark(work: Work, *given: Any, **named: Any) -> StartedJob:
        launches.add(id(work.connection))
        return write_launch(work, *given, **named)

    async def later(
        self: Any, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = id(self._connection)
        if error is not None or connection not in launches:
            await commit(self, kind, error, trace)
            return
        launches.discard(connection)

        async def in_a_moment() -> None:
            await asyncio.sleep(0.3)
            await commit(self, None, None, None)

        task = asyncio.create_task(in_a_moment())
        _background.add(task)
        task.add_done_callback(_background.discard)

    patch.object(launch, "write_launch", write_and_mark).start()
    database._Transaction.__aexit__ = later  # type: ignore[method-assign] # the defect


def no_fence() -> None:
    """Let whoever once held a job go on writing to it."""
    texts = load("jobs")
    for name in ("write_journal", "end"):
        text = texts.text(name)
        unfenced = text.replace(b"AND fence = %(fence)s AND status = 'Executing'", b"")
        assert unfenced != text
        if name == "write_journal":
            jobs.write_journal = Value(name, unfenced)
        else:
            jobs.end = Row(name, unfenced, EndRow)


def next_step_before_the_record() -> None:
    """Begin a step without waiting until its begin, and the end of the one before, are on record."""

    async def start(self: Any, path: str, name: str, attempt: int, at: datetime, **_: bool) -> None:
        row = self._row(path, name)
        row.is_record = True
        row.status = transition_step(row.status, StepStatus.EXECUTING)
        row.attempt = attempt
        row.started_at = at
        row.attempt_at = self._clock.now()
        self._put(path, row)

    def within(self: Any, _: float, *_turns: int) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(0.6, self._write_now)

    PostgresJournal.start = start  # type: ignore[method-assign] # the defect
    PostgresJournal._write_within = within  # type: ignore[method-assign, assignment] # the defect


def belief_in_the_lease() -> None:
    """Begin a step when the database has been silent for a second, as if the job were held all the same."""
    start = PostgresJournal.start

    async def impatient(self: Any, path: str, name: str, attempt: int, at: datetime, **durable: bool) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await start(self, path, name, attempt, at, **durable)

    PostgresJournal.start = impatient  # type: ignore[method-assign] # the defect


def check_then_insert() -> None:
    """Look whether the instance is free, and take it some time later, without the index that would notice."""

    async def upgrade_and_drop(database_url: str) -> bool:
        was_missing = await schema.upgrade(database_url)
        # Not before the insert: two transactions that have read the table and then drop its index wait for each other.
        async with await database.connect_directly(database_url, name="launchbay defect") as connection:
            await connection.execute("DROP INDEX IF EXISTS jobs_one_under_way")
        return was_missing

    async def accept(connection: Connection, /, **given: Any) -> Any:
        await asyncio.sleep(0.05)
        await connection.execute(
            "UPDATE instances SET job_id = %(job_id)s, status = %(status)s WHERE id = %(instance_id)s", given
        )
        await connection.execute(
            "INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, steps, worker_id, fence)"
            " VALUES (%(job_id)s, %(instance_id)s, %(name)s, %(owner_id)s, %(job_status)s, %(plan)s, %(steps)s,"
            " %(worker_id)s::bigint, CASE WHEN %(worker_id)s::bigint IS NULL THEN 0 ELSE 1 END)",
            given,
        )
        await connection.execute(
            "INSERT INTO ready (organization_id, job_id) SELECT organization_id, %(job_id)s FROM instances"
            " WHERE id = %(instance_id)s AND %(worker_id)s::bigint IS NULL",
            given,
        )
        return given["job_id"]

    patch.object(build, "upgrade", upgrade_and_drop).start()
    jobs.accept_work = accept  # type: ignore[assignment] # the defect


def forget_before_firing() -> None:
    """Drop what is due, for good, before its job is accepted."""
    take_due = schedules.take_due

    async def take_and_drop(connection: Connection, /, **given: Any) -> Any:
        due = await take_due(connection, **given)
        await schedules.delete(connection, schedule_ids=[row.id for row in due])
        await _commit_in_the_middle(connection)
        return due

    patch.object(schedules, "take_due", take_and_drop).start()


def level_by_level() -> None:
    """Commit a new configuration after each level of submodules."""
    change_configuration = instances.change_configuration

    async def change_and_commit(connection: Connection, /, **given: Any) -> Any:
        changed = await change_configuration(connection, **given)
        await _commit_in_the_middle(connection)
        return changed

    patch.object(instances, "change_configuration", change_and_commit).start()


async def _commit_in_the_middle(connection: Connection) -> None:
    await connection.execute("COMMIT")
    await connection.execute("BEGIN")


def no_adoption() -> None:
    """Begin a remote command anew after a crash, as if nothing was known of the one that was begun."""

    def key(context: Any, machine: Any, purpose: str = "") -> str:
        return f"{remote_commands.job_prefix(context)}{os.getpid()}-{context.tag[:16]}{purpose}"

    patch.object(remote_commands, "run_key", key).start()


def no_take_over() -> None:
    """Make the machines of a step anew after a crash, as if nobody had looked for those that it made."""

    async def standing(self: NodeLaunch) -> list[Node]:
        return []

    patch.object(NodeLaunch, "existing", standing).start()


DEFECTS: dict[str, Callable[[], None]] = {
    "answer-before-commit": answer_before_commit,
    "no-fence": no_fence,
    "next-step-before-the-record": next_step_before_the_record,
    "belief-in-the-lease": belief_in_the_lease,
    "check-then-insert": check_then_insert,
    "forget-before-firing": forget_before_firing,
    "level-by-level": level_by_level,
    "no-adoption": no_adoption,
    "no-take-over": no_take_over,
    **{f"leak-{name}": leak for name, leak in LEAKS.items()},
}

if __name__ == "__main__":
    DEFECTS[sys.argv.pop(1)]()
    main()
