"""kill -9 at random moments: nothing accepted is lost, nothing recorded happens twice, everything ends (promises 1-7).

`make test-faults ARGS='tests/durability -s'` shows the figures. The seed is in them; LAUNCHBAY_FAULT_SEED repeats it.
"""

import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.durability.campaign import Campaign, freeze, kill_and_wait, one_server, two_workers

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
KILLS = 100
RECOVERED_S = 8.0


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("LAUNCHBAY_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))


def check(campaign: Campaign) -> None:
    print(f"\n{campaign.figures}")
    assert campaign.broken == [], campaign.figures
    assert left_behind(campaign.directory) == []


def left_behind(directory: Path) -> list[str]:
    """Processes that name the directory."""
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(directory) in line]


async def test_a_server_that_is_killed_a_hundred_times_keeps_every_promise(tmp_path: Path, seed: int) -> None:
    campaign = await one_server(tmp_path, seed, KILLS)
    check(campaign)
    assert len(campaign.kills) == KILLS


async def test_jobs_of_a_killed_worker_go_on_at_another(tmp_path: Path, seed: int) -> None:
    campaign = await two_workers(tmp_path, seed, 6, kill_and_wait)
    check(campaign)
    assert campaign.recoveries_s
    assert max(campaign.recoveries_s) <= RECOVERED_S, campaign.figures


async def test_a_frozen_worker_that_wakes_up_writes_nothing_more(tmp_path: Path, seed: int) -> None:
    check(await two_workers(tmp_path, seed, 4, freeze))
