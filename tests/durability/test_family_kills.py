"""kill -9 while applications of three levels are launched, called, triggered, reconfigured, destroyed and deleted."""

import os
import random
from pathlib import Path

import pytest

from tests.durability.campaign import freeze, one_server, two_workers
from tests.durability.family_load import FamilyLoad, family_violations

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1500)]
KILLS = int(os.environ.get("LAUNCHBAY_FAULT_KILLS") or 100)


@pytest.mark.parametrize("part", [0, 1])
async def test_families_keep_every_promise_through_a_hundred_kills(tmp_path: Path, part: int) -> None:
    seed = int(os.environ.get("LAUNCHBAY_FAULT_SEED") or random.SystemRandom().randrange(1_000_000)) + part
    campaign = await one_server(tmp_path, seed, KILLS, load_type=FamilyLoad, more=family_violations)
    print(f"\n{campaign.figures}")
    assert campaign.broken == [], campaign.figures
    assert len(campaign.kills) == KILLS


async def test_a_worker_that_wakes_up_takes_no_inner_job_from_the_one_that_goes_on(tmp_path: Path) -> None:
    seed = int(os.environ.get("LAUNCHBAY_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))
    campaign = await two_workers(tmp_path, seed, 6, freeze, load_type=FamilyLoad, more=family_violations)
    print(f"\n{campaign.figures}")
    assert campaign.broken == [], campaign.figures
