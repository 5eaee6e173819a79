"""kill -9 while applications of three levels are launched, called, triggered, reconfigured, destroyed and deleted.

The sizes are set as in test_kills.py.
"""

import os
from pathlib import Path

import pytest

from tests.support.campaigns import freeze, keep, kill_worker_or_server, one_server, pauses, two_workers
from tests.support.family_load import FamilyLoad, family_violations

KILLS = int(os.environ.get("LAUNCHBAY_KILLS") or 100)
WORKER_KILLS = int(os.environ.get("LAUNCHBAY_WORKER_KILLS") or 20)
FREEZES = int(os.environ.get("LAUNCHBAY_FREEZES") or 6)
pytestmark = [pytest.mark.faults, pytest.mark.timeout(1500 + 10 * KILLS + 15 * WORKER_KILLS + 20 * FREEZES)]


@pytest.mark.parametrize("part", [0, 1])
async def test_families_keep_every_promise_through_a_hundred_kills(tmp_path: Path, seed: int, part: int) -> None:
    campaign = await one_server(tmp_path, seed + part, KILLS, load_type=FamilyLoad, more=family_violations)
    keep("families on one server killed", campaign)
    assert campaign.broken == [], campaign.figures
    assert len(campaign.kills) == KILLS


async def test_families_keep_every_promise_when_a_worker_and_a_server_are_killed_in_turns(
    tmp_path: Path, seed: int
) -> None:
    moments = pauses(seed, WORKER_KILLS)
    campaign = await two_workers(
        tmp_path, seed, moments, kill_worker_or_server, load_type=FamilyLoad, more=family_violations
    )
    keep("families on worker and server killed", campaign)
    assert campaign.broken == [], campaign.figures


async def test_a_worker_that_wakes_up_takes_no_inner_job_from_the_one_that_goes_on(tmp_path: Path, seed: int) -> None:
    moments = pauses(seed, FREEZES)
    campaign = await two_workers(tmp_path, seed, moments, freeze, load_type=FamilyLoad, more=family_violations)
    keep("families with a frozen worker", campaign)
    assert campaign.broken == [], campaign.figures
