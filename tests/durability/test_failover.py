"""A PostgreSQL that fails over to its replica, under load: nothing answered is lost, nobody restarts (promises 1, 12).

`make test-faults ARGS='tests/durability/test_failover.py -s'` shows the figures.
"""

from pathlib import Path

import pytest

from tests.durability.failover import failovers

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]


async def test_a_database_that_fails_over_there_and_back_loses_nothing_that_was_answered(
    tmp_path: Path, seed: int
) -> None:
    run = await failovers(tmp_path, seed, ["kill", "quit", "kill"])
    print(f"\n{run.figures}")
    assert run.campaign.broken == [], run.figures
    assert run.load.improper == []
    assert len(run.load.history.launched) > 10, "there was load"


async def test_a_primary_that_hangs_is_left_for_the_one_that_took_its_place(tmp_path: Path, seed: int) -> None:
    run = await failovers(tmp_path, seed, ["hang", "hang"])
    print(f"\n{run.figures}")
    assert run.campaign.broken == [], run.figures
    assert run.load.improper == []


async def test_a_replica_that_commits_do_not_wait_for_loses_answers(tmp_path: Path) -> None:
    run = await failovers(tmp_path, 1, ["kill"], asynchronous=True, unseen_s=3.0)
    assert [each for each in run.campaign.broken if each.startswith("lost: ")], (run.figures, run.campaign.broken[:5])
