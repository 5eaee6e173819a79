"""Of many requests at the same moment, to two servers, exactly one gets the instance (promise 4).

Every round asks for the same workflow on one idle instance over 64 open connections, half of them to each server. The
workflow takes longer than a round, so a second acceptance cannot be the next job after a first that has ended already.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.servers import Pair, launched, running_pair, settled

CLIENTS = 64
JOB_S = 4.0
MANIFEST = f"""
launch: {{steps: []}}
busy:
  steps:
    - rest: {{action: wait, parameters: {{delay: {JOB_S}}}}}
"""


@dataclass(frozen=True)
class Round:
    """How often each status was answered, and how long it took until all had theirs."""

    statuses: Counter[int]
    seconds: float


async def play(pair: Pair, rounds: int, instances: int) -> list[Round]:
    """Let the clients ask for each instance in turn, and return what they got."""
    played = []
    application = await pair.application(MANIFEST)
    async with pair.connections(1) as [single], pair.connections(CLIENTS) as connections:
        idle = await launched(single, application, instances)
        for number in range(rounds):
            instance = idle[number % instances]
            assert await settled(single, instance) == "Running"
            began = time.perf_counter()
            for connection in connections:
                connection.send("POST", f"instances/{instance}/busy", {})
            answers = await asyncio.gather(*(connection.receive() for connection in connections))
            played.append(Round(Counter(answer.status for answer in answers), time.perf_counter() - began))
    return played


def check(played: list[Round]) -> None:
    """Check that one was accepted in each round, and all others were refused with 409."""
    too_slow = [number for number, each in enumerate(played) if each.seconds >= JOB_S]
    assert not too_slow, f"rounds {too_slow} took longer than a job, so they show nothing"
    wrong = {number: each.statuses for number, each in enumerate(played) if each.statuses != {200: 1, 409: CLIENTS - 1}}
    assert not wrong, wrong


@pytest.mark.slow
async def test_of_64_simultaneous_runs_one_is_accepted(database_url: str, tmp_path: Path) -> None:
    with running_pair(database_url, tmp_path) as pair:
        check(await play(pair, rounds=20, instances=20))


@pytest.mark.load
@pytest.mark.timeout(900)
async def test_of_64_simultaneous_runs_one_is_accepted_500_times(database_url: str, tmp_path: Path) -> None:
    with running_pair(database_url, tmp_path) as pair:
        played = await play(pair, rounds=500, instances=40)
    check(played)
    seconds = sorted(each.seconds for each in played)
    print(f"{len(played)} rounds of {CLIENTS}; a round p50 {seconds[len(seconds) // 2]:.3f} s, max {seconds[-1]:.3f} s")


@pytest.mark.load
@pytest.mark.timeout(300)
async def test_a_check_before_an_insert_is_noticed(database_url: str, tmp_path: Path) -> None:
    with running_pair(database_url, tmp_path, seed="check-then-insert") as pair:
        played = await play(pair, rounds=3, instances=3)
    with pytest.raises(AssertionError):
        check(played)
