"""What clients ask for, one operation at a time, so that every answer can be held against what came of it."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, field
from functools import partial
from operator import lt

import httpx

from tests.support.eventually import eventually
from tests.support.family_load import VERSIONS, FamilyLoad
from tests.support.load import ASKER, CLOCK, COMMANDS, COOK, GUEST, SLEEPER, Live, Load
from tests.support.verdict import Records

EXPIRES_MS = 700
PARK_AFTER_S = 0.2  # the setting of the server
ENDED_S = 30.0
_MANIFESTS = (("clock", CLOCK), ("guest", GUEST), ("cook", COOK), ("sleeper", SLEEPER), ("asker", ASKER))
ROUNDS = 4  # of an operation, until it comes where it is to come


@dataclass
class Answers:
    """What must be so because a client was told, and what may be because a client was told nothing."""

    configurations: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # by instance: version and size
    destroyed: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    clocks: list[str] = field(default_factory=list)

    def violations(self, records: Records, may_be_gone: Set[str]) -> list[str]:
        """Return where an answer was not true, one sentence each. `may_be_gone` was asked to be deleted."""
        now = {
            row[0]: row[1:]
            for row in records.rows("SELECT id, status, version, parameters::json->>'input.size' FROM instances")
        }
        found = [
            f"answer: {each} was to be destroyed and is {now[each][0]}"
            for each in self.destroyed & now.keys()
            if now[each][0] != "Destroyed"
        ]
        found += [f"answer: {each} was to be deleted and is {now[each][0]}" for each in self.deleted & now.keys()]
        for each in self.configurations.keys() & now.keys():
            _, version, size = now[each]
            if (version, int(size)) not in self.configurations[each]:
                found.append(f"answer: {each} is {version, size}, which none of {self.configurations[each]} is")
        ticks = records.rows(
            "SELECT object, after::json->>'dueAt', count(*) FROM audit_entries"
            " WHERE actor_email = 'engine/cron' GROUP BY 1, 2 HAVING count(*) > 1"
        )
        found += [f"schedule: the time {row[1]} of {row[0]} became {row[2]} jobs" for row in ticks]
        found += [
            f"fed: {row[0]} says {row[1]} and its guest has had {row[2]}"
            for row in records.rows(
                "SELECT id, return_values::json->>'result.said', return_values::json->>'result.eaten' FROM instances"
                " WHERE return_values::json->>'result.said' <> return_values::json->>'result.eaten'"
            )
        ]
        return found + _wrong_rests(records) + _wrong_entries(records, may_be_gone)


def _wrong_rests(records: Records) -> list[str]:
    """Return waits that ended early, and questions that the log repeats."""
    early = records.rows(
        "SELECT jobs.id, path FROM steps JOIN jobs ON jobs.id = steps.job_id"
        " WHERE steps.name LIKE 'rest%' AND steps.status = 'Succeeded' AND steps.finished_at < steps.started_at"
        " + interval '2 s' AND NOT EXISTS (SELECT FROM approvals WHERE approvals.job_id = jobs.id)"
    )
    told = records.rows(
        "SELECT job_id, step, count(*) FROM log_lines WHERE text LIKE 'Waiting for approval%'"
        " GROUP BY 1, 2 HAVING count(*) > 1"
    )
    return [
        *(f"early: the wait {path} of job {job} ended before its time" for job, path in early),
        *(f"told: the question of {path} in job {job} is in the log {count} times" for job, path, count in told),
    ]


def _wrong_entries(records: Records, may_be_gone: Set[str]) -> list[str]:
    """Return where the audit log and the launches differ: an entry is written with the launch, or neither is."""
    entries = Counter(
        row[0]
        for row in records.rows(
            "SELECT split_part(object, '/', 5) FROM audit_entries WHERE operation = 'launch_application'"
        )
    )
    there = {row[0] for row in records.rows("SELECT id FROM instances WHERE parent_id IS NULL")}
    found = [f"audit: the launch {each} has {entries[each]} entries" for each in there if entries[each] != 1]
    return found + [
        f"audit: the launch {each} has an entry and is not there" for each in entries.keys() - there - may_be_gone
    ]


class Operations(FamilyLoad):
    """Clients that take turns. `one` has workflows of its own, `family` submodules, `cook` one that it feeds."""

    one: Live | None = None
    second: Live | None = None
    family: Live | None = None
    cook: Live | None = None

    async def set_up(self) -> None:
        """Make all applications."""
        self.answers = Answers()
        self._of: dict[str, str] = {}
        await super().set_up()
        await Load.set_up(self)
        [organization] = (await self._call("GET", "organizations")).json()
        for name, manifest in _MANIFESTS:
            path = f"organizations/{organization['id']}/applications"
            self._of[name] = (await self._call("POST", path, {"name": name})).json()["id"]
            answer = await self._call("PUT", f"applications/{self._of[name]}/manifest", content=manifest.encode())
            assert answer.status_code == 200, answer.text

    async def have_one(self) -> None:
        """Have an instance with workflows that were not run yet."""
        self.one = await self._fresh(self.one)

    async def have_two(self) -> None:
        """Have two of them."""
        await self.have_one()
        self.second = await self._fresh(self.second)

    async def have_family(self) -> None:
        """Have an instance with submodules."""
        if self.family is None or self.family.is_destroyed:
            self.family = await self._running(await self.launch())

    async def have_cook(self) -> None:
        """Have an instance that gives signals to a submodule."""
        if self.cook is None:
            self.cook = await self._running(await self.feed())

    async def have_both(self) -> None:
        """Have one of each kind."""
        await self.have_one()
        await self.have_family()

    async def feed(self) -> Live | None:
        """Launch an instance that gives signals to a submodule."""
        return await self._launched(self._of["cook"], {"destroyInterval": -1})

    async def say(self) -> None:
        """Change the signal that the submodule gets."""
        assert self.cook is not None
        await self._try("POST", f"instances/{self.cook.id}/actions.say", {"word": f"word {self._size()}"})

    async def begin_some(self) -> None:
        """Have several jobs under way, in the middle of their steps."""
        await self.ask()
        await self.schedule_behind_a_run()
        await self.launch()
        await asyncio.sleep(0.4)

    async def launch(self) -> Live | None:
        """Launch a family."""
        version = next(iter(VERSIONS))
        live = await self._launch_family(version)
        if live is not None:
            self.answers.configurations[live.id] = [(version, self._sizes)]
        return live

    async def launch_one(self) -> None:
        """Launch an instance whose launch has a step that fails and one that fails at first."""
        await self._launch(fails=False)

    async def run_one(self) -> None:
        """Ask four times at once for the same run."""
        assert self.one is not None
        await self._burst(self.one)

    async def schedule(self) -> None:
        """Schedule a workflow that falls due soon."""
        assert self.one is not None
        await self._schedule(self.one, 150)

    async def schedule_two(self) -> None:
        """Schedule two workflows that fall due together, on two instances."""
        assert self.one is not None
        assert self.second is not None
        await asyncio.gather(*(self._schedule(live, 300) for live in (self.one, self.second)))

    async def schedule_behind_a_run(self) -> None:
        """Schedule a workflow that falls due while another runs."""
        await self.run_one()
        await self.schedule()

    async def ask(self) -> None:
        """Run a command that calls submodules and a service, and changes signals that others listen to."""
        assert self.family is not None
        await self._command(self.family, "actions.ask")

    async def reconfigure(self) -> None:
        """Give the family another version, in which other components stand, and another size."""
        assert self.family is not None
        known = self.answers.configurations[self.family.id]
        versions = list(VERSIONS)
        version, size = versions[(versions.index(known[-1][0]) + 1) % len(versions)], self._size()
        answer = await self._reconfigure(self.family, version, size)
        if answer is None:
            known.append((version, size))
        elif answer.status_code == 200:
            known[:] = [(version, size)]

    async def destroy(self) -> None:
        """Destroy the family."""
        assert self.family is not None
        if _is_ok(await self._take_down(self.family)):
            self.answers.destroyed.add(self.family.id)

    async def delete(self) -> None:
        """Delete the family while it is busy."""
        await self.ask()
        await asyncio.sleep(0.3)
        assert self.family is not None
        if _is_ok(await self._delete(self.family)):
            self.answers.deleted.add(self.family.id)

    async def expire(self) -> None:
        """Launch an instance that is to be destroyed soon."""
        live = await self._launch(fails=False, destroy_interval_ms=EXPIRES_MS)
        if live is not None:
            live.is_destroyed = True
            self.answers.destroyed.add(live.id)

    async def rest(self) -> None:
        """Launch an instance that waits twice for long enough to be parked."""
        await self._launched(self._of["sleeper"], {"destroyInterval": -1})

    async def answer(self) -> None:
        """Launch an instance that asks, and answer once its job is parked."""
        live = await self._launched(self._of["asker"], {"destroyInterval": -1})
        until_s = time.monotonic() + ENDED_S
        while live is not None and time.monotonic() < until_s:
            asked = await self._try("GET", f"instances/{live.id}/approvals", None)
            if asked is None:
                return
            if asked.json():
                await asyncio.sleep(4 * PARK_AFTER_S)
                await self._try("POST", f"approvals/{asked.json()[0]['id']}/approve", {})
                return
            await asyncio.sleep(0.05)

    async def launch_clock(self) -> None:
        """Launch an instance that runs a workflow every second, and let some of them pass."""
        live = await self._launched(self._of["clock"], {"destroyInterval": -1})
        if live is not None:
            live.is_destroyed = True
            self.answers.clocks.append(live.id)
        await asyncio.sleep(4)

    async def stop_clocks(self, records: Records) -> None:
        """See that the clocks go on, then destroy them."""
        for clock in self.answers.clocks:
            before = _ticks(records, clock)
            await eventually(partial(_ticks, records, clock), partial(lt, before), within_s=ENDED_S)
            await eventually(partial(self._try, "POST", f"instances/{clock}/destroy", {}), _is_ok)
        self.answers.destroyed.update(self.answers.clocks)
        self.answers.clocks.clear()

    async def _fresh(self, live: Live | None) -> Live:
        if live is not None and max(live.runs, live.dues) <= COMMANDS - ROUNDS:
            return live
        return await self._running(await self._launch(fails=False))

    async def _running(self, live: Live | None) -> Live:
        assert live is not None, self.history.statuses
        await eventually(
            lambda: self._call("GET", f"instances/{live.id}"),
            lambda found: found.json()["status"] == "Running",
            within_s=ENDED_S,
        )
        return live


def _is_ok(answer: httpx.Response | None) -> bool:
    return answer is not None and answer.status_code == 200


def _ticks(records: Records, clock: str) -> int:
    [(count,)] = records.rows(f"SELECT count(*) FROM jobs WHERE instance_id = '{clock}' AND status = 'Succeeded'")
    return int(count)


async def nothing(_: Operations) -> None:
    """Need nothing."""


@dataclass(frozen=True)
class Operation:
    """What is to be there, and what is done then. A recovery is what a start does after a death amid of it."""

    prepare: Callable[[Operations], Awaitable[None]]
    act: Callable[[Operations], Awaitable[object]]
    is_recovery: bool = False
    is_stop: bool = False  # the server is told to stop in the midst of it


OPERATIONS = {
    "launch": Operation(nothing, Operations.launch),
    "launch one": Operation(nothing, Operations.launch_one),
    "run": Operation(Operations.have_one, Operations.run_one),
    "schedule": Operation(Operations.have_one, Operations.schedule),
    "two schedules": Operation(Operations.have_two, Operations.schedule_two),
    "schedule behind a run": Operation(Operations.have_one, Operations.schedule_behind_a_run),
    "ask": Operation(Operations.have_family, Operations.ask),
    "reconfigure": Operation(Operations.have_family, Operations.reconfigure),
    "destroy": Operation(Operations.have_family, Operations.destroy),
    "delete": Operation(Operations.have_family, Operations.delete),
    "expiry": Operation(nothing, Operations.expire),
    "recovery": Operation(Operations.have_both, Operations.begin_some, is_recovery=True),
    "stop": Operation(Operations.have_both, Operations.begin_some, is_stop=True),
    "rest": Operation(nothing, Operations.rest),
    "answer": Operation(nothing, Operations.answer),
    "feed": Operation(nothing, Operations.feed),
    "say": Operation(Operations.have_cook, Operations.say),
    "cron": Operation(nothing, Operations.launch_clock),
}
