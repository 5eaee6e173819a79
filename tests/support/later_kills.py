"""Processes that do one kind of later work and kill themselves at a named step of it.

The service of these tests runs jobs and does no later work: `victim` does it in a process of its own, which dies, and
`survivor` goes on.
"""

import asyncio
import inspect
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any

from launchbay.app.build import lifespan
from launchbay.app.features import FEATURES
from launchbay.errors import BadRequest
from launchbay.feature import Feature, Features, TaskDeps
from launchbay.settings import Settings
from launchbay.store.database import Database
from launchbay.usecases.later import Later, LaterWork
from tests.support.failpoints import find
from tests.support.service import QUICK_HASHES, Api, running_api

Kind = type[LaterWork[Any, Any]]
KINDS: dict[str, Kind] = {kind.task: kind for feature in FEATURES.all for kind in feature.later}
DIES_S = 60
REFUSAL = "The test refuses it."
# What ends with the transaction that was not committed, and what goes on after it.
STEPS = ("taken", "chosen", "acted", "noted", "committed")
STEPS_WITHOUT_ACT = ("taken", "chosen", "committed")
STEPS_OF_A_REFUSAL = ("refused", "put off", "put off and committed")
# Of work with a lease, and of deliveries: the places at which a process dies, after or before a function.
PLACES = {
    "Git sources": {
        "taken": "after features.git_sources.rows:take",
        "leased": "after usecases.leases:Leases.begin",
        "read": "after egress.git:Git.fetch",
        "applied": "after features.git_sources.syncs:GitRunner._apply",
        "noted": "after features.git_sources.syncs:GitRunner._finish",
        "committed": "after features.git_sources.syncs:GitRunner._apply_and_finish",
        "failed": "before features.git_sources.syncs:GitRunner._failed",
        "failure noted": "after features.git_sources.syncs:GitRunner._failed",
    },
    "drift": {
        "taken": "after features.drift.rows:take",
        "leased": "after usecases.leases:Leases.begin",
        "planned": "after features.drift.usecases:look",
        "noted": "after features.drift.usecases:DriftRunner._note",
        "committed": "after features.drift.usecases:DriftRunner._check",
        "failed": "before features.drift.usecases:DriftRunner._failed",
        "failure noted": "after features.drift.usecases:DriftRunner._failed",
    },
    "webhooks": {
        "claimed": "after features.webhooks.rows:claim",
        "leased": "before features.webhooks.delivery:WebhookSender._deliver",
        "sent": "after features.webhooks.delivery:WebhookSender._post",
        "noted": "after features.webhooks.delivery:WebhookSender._deliver",
    },
}
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


def acts(kind: Kind) -> bool:
    """Tell whether a kind of work acts on items."""
    return kind.act is not LaterWork.act


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _refuse(kind: Kind) -> None:
    """Let acts of this kind be refused after all that they do."""
    act = kind.act

    async def refused(self: Any, row: Any, item: Any) -> None:
        await act(self, row, item)
        raise BadRequest(REFUSAL, code="Refused")

    kind.act = refused  # type: ignore[method-assign] # until the process ends


def _arm(kind: Kind, step: str) -> None:
    """Let this process die at a step of a kind of work."""
    passed: set[str] = set()

    def after(holder: Any, name: str, is_there: Callable[[Any], bool] = lambda _: True) -> None:
        function = getattr(holder, name)

        async def dying(*given: Any) -> Any:
            result = await function(*given)
            passed.add(name)
            if is_there(result):
                _die()
            return result

        setattr(holder, name, dying)

    async def dies_first(*_: Any) -> None:
        _die()

    ends = "note" if acts(kind) else "next"
    match step:
        case "taken":
            after(kind, "take", lambda row: row is not None)
        case "chosen":
            after(kind, "next", lambda found: not (acts(kind) and isinstance(found, bool)))
        case "acted":
            after(kind, "act")
        case "noted":
            after(kind, "note")
        case "committed":
            after(kind, ends, lambda _: False)
            after(Later, "_do_next", lambda _: ends in passed)
        case "refused":
            Later._put_off = dies_first  # type: ignore[method-assign, assignment] # until the process ends
        case "put off":
            after(kind, "put_off")
        case "put off and committed":
            after(Later, "_put_off")


def _arm_place(place: str) -> None:
    """Let this process die before or after a function."""
    moment, _, where = place.partition(" ")
    holder, name, function = find(where)

    async def waited_for(*given: Any, **named: Any) -> Any:
        if moment == "after":
            await function(*given, **named)
        _die()

    def called(*given: Any, **named: Any) -> None:
        function(*given, **named)
        _die()

    is_waited_for = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    setattr(holder, name, waited_for if is_waited_for else called)


def _note_after_the_commit(kind: Kind) -> None:
    """Accept a job in one transaction, and note it in another one."""
    note, do_next = kind.note, Later._do_next
    left: list[tuple[Any, ...]] = []

    async def remember(self: Any, _: Any, *about: Any) -> None:
        left.append((self, *about))

    async def do_and_note(self: Any, row_id: str) -> bool:
        has_more = await do_next(self, row_id)
        for work, *about in left:
            async with work.app.database.transaction() as connection:
                await note(work, connection, *about)
        left.clear()
        return has_more

    kind.note = remember  # type: ignore[method-assign, assignment] # the defect
    Later._do_next = do_and_note  # type: ignore[method-assign] # the defect


def _note_before_the_act(_: Kind) -> None:
    """Note in one transaction that an item is done, and act in the next one.

    A process that dies at `acted` leaves the note without the act: the act isn't committed yet. At other steps both
    are there, or neither.
    """
    do_next = Later._do_next

    async def note_and_do(self: Any, row_id: str) -> bool:
        work, database = self._work, self._database
        async with database.transaction() as connection:
            row = await work.take(connection, row_id)
            item = False if row is None else await work.next(connection, row)
            if isinstance(item, bool):
                return item
            await work.note(connection, row, item, None)
        async with database.transaction() as connection:
            with database.joined(connection):
                await work.act(row, item)
        return bool(await do_next(self, row_id))

    Later._do_next = note_and_do  # type: ignore[method-assign] # the defect


def _act_alone(_: Kind) -> None:
    """Act in transactions of the act's own."""
    Database.joined = lambda *_: nullcontext()  # type: ignore[method-assign, assignment] # the defect


DEFECTS: dict[str, Callable[[Kind], None]] = {
    "note after the commit": _note_after_the_commit,
    "note before the act": _note_before_the_act,
    "act alone": _act_alone,
}


async def _do_until_dead(settings: Settings, task: str) -> None:
    async with _running(settings) as deps:
        advance = _round(deps, task)
        while True:
            await advance()
            await asyncio.sleep(0.05)


def _round(deps: TaskDeps, task: str) -> Callable[[], Awaitable[object]]:
    """Return what does one round of later work."""
    if task in KINDS:
        return Later(KINDS[task](deps.app)).advance
    [found] = [each for each in FEATURES.tasks(deps) if each.name == task]
    return found.run


def _victim(settings: Settings, task: str, step: str, defect: str | None) -> None:
    if task in KINDS:
        kind = KINDS[task]
        if step in STEPS_OF_A_REFUSAL:
            _refuse(kind)
        _arm(kind, step)
        if defect is not None:
            DEFECTS[defect](kind)
    else:
        _arm_place(PLACES[task][step])
    asyncio.run(_do_until_dead(settings, task))


async def kill_at(api: Api, task: str, step: str, defect: str | None = None) -> None:
    """Let another process do what is due, and wait until it dies at a step. Fails if it doesn't get there."""
    given = (api.settings, task, step, defect)
    process = _PROCESSES.Process(target=_victim, args=given, daemon=True)
    process.start()
    try:
        await asyncio.to_thread(process.join, DIES_S)
        assert process.exitcode == -signal.SIGKILL, f"{task} doesn't get to {step!r}: {process.exitcode}"
    finally:
        process.kill()


@asynccontextmanager
async def _running(settings: Settings) -> AsyncIterator[TaskDeps]:
    found: list[TaskDeps] = []
    async with lifespan(settings, None, QUICK_HASHES, features=_without_later_work(found)):
        yield found[0]


def _without_later_work(found: list[TaskDeps]) -> Features:
    """Return all features, whose tasks do nothing. `found` gets what tasks of the process need."""

    def keep(deps: TaskDeps) -> tuple[()]:
        found.append(deps)
        return ()

    idle = (replace(feature, later=(), tasks=None) for feature in FEATURES.all)
    return Features((*idle, Feature(name="kept", tasks=keep)))


class Bay:
    """A service that runs jobs, and does later work when it is told to."""

    def __init__(self, api: Api, deps: TaskDeps) -> None:
        self.api = api
        self.deps = deps

    async def until(self, task: str, is_done: Callable[[], Awaitable[bool]], *, refuses: bool = False) -> None:
        """Do work of a kind until something is so, and twice more, which must do nothing."""
        advance = _round(self.deps, task)
        if refuses:
            kind = type(task, (KINDS[task],), {})  # the class itself stays as it is
            _refuse(kind)
            advance = Later(kind(self.deps.app)).advance
        async with asyncio.timeout(60):
            while not await is_done():
                await advance()
                await asyncio.sleep(0.02)
        await advance()
        await advance()

    async def execute(self, statement: str, *values: Any) -> list[Any]:
        """Execute a statement and return its rows."""
        async with self.api.database.connection() as connection:
            answer = await connection.execute(statement.encode(), list(values))
            return await answer.fetchall() if answer.description else []


@asynccontextmanager
async def running_bay(database_url: str, **settings: Any) -> AsyncIterator[Bay]:
    """Start the service on a database."""
    found: list[TaskDeps] = []
    async with running_api(database_url, features=_without_later_work(found), **settings) as api:
        yield Bay(api, found[0])
