"""Whatever many clients do to one instance over two servers at once, it is as if they had done it one after another.

Recorded histories of run, schedule with interval 0, configure, destroy, delete and reads are compared with a sequential
model of an instance (promise 4).
"""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.linearizability import Kind, Model, Operation, Phase, State, is_linearizable
from tests.support.servers import Answer, Connection, Pair, launched, running_pair

JOB_S = 0.15
MANIFEST = f"""
launch: {{steps: []}}
busy:
  steps:
    - rest: {{action: wait, parameters: {{delay: {JOB_S}}}}}
destroy:
  steps:
    - rest: {{action: wait, parameters: {{delay: {JOB_S}}}}}
"""
CLIENTS = 6
# A server counts the time with a clock of its own, and rounds it.
SHORTEST_S = {Kind.RUN: JOB_S * 0.9, Kind.SCHEDULE: JOB_S * 0.9, Kind.DESTROY: JOB_S * 0.9}
MODEL = Model(SHORTEST_S)
IDLE = State(Phase.IDLE)
USUAL = {Kind.RUN: 30, Kind.SCHEDULE: 15, Kind.CONFIGURE: 10, Kind.READ: 35, Kind.DELETE: 4}
AT_THE_END = USUAL | {Kind.DESTROY: 15, Kind.DELETE: 20, Kind.DELETE_BY_FORCE: 8}


async def ask(connection: Connection, instance: str, kind: Kind) -> Answer:
    match kind:
        case Kind.RUN:
            return await connection.ask("POST", f"instances/{instance}/busy", {})
        case Kind.SCHEDULE:
            return await connection.ask("POST", f"instances/{instance}/busy/schedule", {"interval": "0"})
        case Kind.CONFIGURE:
            return await connection.ask("PUT", f"instances/{instance}/configuration", {"parameters": {}})
        case Kind.DESTROY:
            return await connection.ask("POST", f"instances/{instance}/destroy", {})
        case Kind.DELETE:
            return await connection.ask("DELETE", f"instances/{instance}")
        case Kind.DELETE_BY_FORCE:
            return await connection.ask("DELETE", f"instances/{instance}?force=1")
        case Kind.READ:
            return await connection.ask("GET", f"instances/{instance}")


def outcome(kind: Kind, answer: Answer) -> str:
    """Return what the answer means to the model."""
    if answer.status == 200:
        return str(answer.json()["status"]) if kind is Kind.READ else "accepted"
    if answer.status == 404:
        return "absent"
    code = answer.json()["code"]
    known = {(409, "InstanceBusy"): "busy", (400, "InstanceDestroyed"): "destroyed", (400, "InstanceActive"): "active"}
    assert (answer.status, code) in known, answer
    return known[answer.status, code]


async def client(connection: Connection, instance: str, chance: random.Random, length: int) -> list[Operation]:
    """Ask for one thing after the other, and remember when, and what came of it."""
    history = []
    for number in range(length):
        weights = USUAL if number < length * 0.7 else AT_THE_END
        [kind] = chance.choices(list(weights), list(weights.values()))
        called_s = time.perf_counter()
        answer = await ask(connection, instance, kind)
        history.append(Operation(kind, outcome(kind, answer), called_s, time.perf_counter()))
        await asyncio.sleep(chance.random() * JOB_S / 2)
    return history


async def record(pair: Pair, seed: int, *, instances: int, length: int) -> list[list[Operation]]:
    """Return a history for each instance, made by several clients at once."""
    chance = random.Random(seed)
    application = await pair.application(MANIFEST)
    histories = []
    async with pair.connections(CLIENTS) as connections:
        for instance in await launched(connections[0], application, instances):
            made = [client(each, instance, random.Random(chance.random()), length) for each in connections]
            histories.append([operation for part in await asyncio.gather(*made) for operation in part])
    return histories


def violations(histories: list[list[Operation]]) -> list[str]:
    """Return the histories that fit no order, as text."""
    return [
        "\n".join(str(operation) for operation in sorted(history, key=lambda each: each.called_s))
        for history in histories
        if not is_linearizable(history, MODEL, IDLE)
    ]


def figures(histories: list[list[Operation]]) -> str:
    counted = Counter(f"{operation.kind}: {operation.outcome}" for history in histories for operation in history)
    return f"{len(histories)} histories, {counted.total()} operations: {dict(sorted(counted.items()))}"


@pytest.mark.slow
async def test_recorded_histories_are_linearizable(database_url: str, tmp_path: Path) -> None:
    with running_pair(database_url, tmp_path) as pair:
        histories = await record(pair, seed=1, instances=6, length=12)
    assert violations(histories) == []


@pytest.mark.load
@pytest.mark.timeout(900)
async def test_many_recorded_histories_are_linearizable(database_url: str, tmp_path: Path) -> None:
    with running_pair(database_url, tmp_path) as pair:
        histories = await record(pair, seed=2, instances=100, length=25)
    print(figures(histories))
    assert violations(histories) == []


@pytest.mark.load
@pytest.mark.timeout(300)
async def test_a_check_before_an_insert_shows_in_the_histories(database_url: str, tmp_path: Path) -> None:
    with running_pair(database_url, tmp_path, seed="check-then-insert") as pair:
        histories = await record(pair, seed=3, instances=4, length=12)
    assert violations(histories) != []


def history(*operations: tuple[Kind, str, float, float]) -> list[Operation]:
    return [Operation(*operation) for operation in operations]


RUN, READ, DESTROY, DELETE, FORCE = Kind.RUN, Kind.READ, Kind.DESTROY, Kind.DELETE, Kind.DELETE_BY_FORCE


@pytest.mark.parametrize(
    "operations",
    [
        history((RUN, "accepted", 0, 3), (RUN, "busy", 1, 2)),
        history((RUN, "busy", 0, 3), (RUN, "accepted", 1, 2)),
        history((RUN, "accepted", 0, 0.01), (READ, "Running", 0.2, 0.3), (RUN, "accepted", 0.4, 0.5)),
        history((RUN, "accepted", 0, 0.01), (RUN, "accepted", 0.02, 0.3)),
        history((DESTROY, "accepted", 0, 0.1), (READ, "Destroying", 0, 0.1), (RUN, "destroyed", 0.5, 0.6)),
        history((FORCE, "accepted", 0, 0.1), (READ, "absent", 0.5, 0.6), (DELETE, "absent", 0.7, 0.8)),
        history((DESTROY, "accepted", 0, 0.1), (DELETE, "accepted", 0.5, 0.6), (DELETE, "accepted", 0.5, 0.6)),
    ],
)
def test_what_one_order_explains_is_linearizable(operations: list[Operation]) -> None:
    assert is_linearizable(operations, MODEL, IDLE)


@pytest.mark.parametrize(
    "operations",
    [
        history((RUN, "accepted", 0, 0.01), (RUN, "accepted", 0.02, 0.03)),
        history((RUN, "accepted", 0, 0.05), (RUN, "accepted", 0, 0.05)),
        history((RUN, "busy", 0, 1)),
        history((RUN, "accepted", 0, 0.01), (READ, "Running", 0.02, 0.03)),
        history((RUN, "accepted", 0, 0.01), (READ, "Running", 0.5, 0.6), (RUN, "busy", 0.7, 0.8)),
        history((RUN, "accepted", 1, 2), (READ, "Executing", 0, 0.5)),
        history((DESTROY, "accepted", 0, 0.01), (READ, "Executing", 0.02, 0.03)),
        history((DESTROY, "accepted", 0, 0.01), (RUN, "accepted", 0.5, 0.6)),
        history((DELETE, "accepted", 0, 0.1)),
        history((DESTROY, "accepted", 0, 0.1), (DELETE, "active", 0.5, 0.6), (READ, "Destroyed", 0.3, 0.4)),
        history((FORCE, "accepted", 0, 0.1), (READ, "Destroyed", 0.3, 0.4)),
        history((FORCE, "accepted", 0, 0.1), (READ, "absent", 0.3, 0.4), (READ, "Destroying", 0.5, 0.6)),
    ],
)
def test_what_no_order_explains_is_not(operations: list[Operation]) -> None:
    assert not is_linearizable(operations, MODEL, IDLE)
