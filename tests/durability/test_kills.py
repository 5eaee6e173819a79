"""kill -9 at random moments: nothing accepted is lost, nothing recorded happens twice, everything ends (promises 1-7).

`make test-faults ARGS='tests/durability -s'` shows the figures. The seed is in them; LAUNCHBAY_FAULT_SEED repeats it.
The sizes here are for a look now and then. A campaign sets them: LAUNCHBAY_KILLS=1000, LAUNCHBAY_WORKER_KILLS=500,
LAUNCHBAY_TAKEOVER_MINUTES=15, LAUNCHBAY_STOPS=100, and LAUNCHBAY_EVIDENCE to a directory for what it shows.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.campaigns import (
    TAKEN_OVER_S,
    Campaign,
    freeze,
    keep,
    kill_and_wait,
    kill_either,
    kill_worker_or_server,
    one_server,
    pauses,
    pauses_for,
    stop_either,
    two_workers,
)
from tests.support.nats_server import Dispatch

KILLS = int(os.environ.get("LAUNCHBAY_KILLS") or 100)
WORKER_KILLS = int(os.environ.get("LAUNCHBAY_WORKER_KILLS") or 20)
TAKEOVER_MINUTES = float(os.environ.get("LAUNCHBAY_TAKEOVER_MINUTES") or 2)
FREEZES = int(os.environ.get("LAUNCHBAY_FREEZES") or 4)
STOPS = int(os.environ.get("LAUNCHBAY_STOPS") or 10)
HANDED_OVER_S = 1.0
ELSEWHERE_S = 5.0  # p99 of the next step on the other worker, on a busy machine (decision 0116)
pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(900 + 10 * KILLS + 15 * WORKER_KILLS + 20 * FREEZES + 120 * TAKEOVER_MINUTES),
]


def check(kind: str, campaign: Campaign) -> None:
    keep(kind, campaign)
    assert campaign.broken == [], campaign.figures
    assert left_behind(campaign.directory) == []


def left_behind(directory: Path) -> list[str]:
    """Processes that name the directory."""
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(directory) in line]


async def test_a_server_that_is_killed_a_hundred_times_keeps_every_promise(
    tmp_path: Path, seed: int, dispatch: Dispatch
) -> None:
    campaign = await one_server(tmp_path, seed, KILLS, settings=dispatch.settings)
    check(f"one server killed{dispatch.suffix}", campaign)
    assert len(campaign.kills) == KILLS


async def test_a_worker_and_a_server_that_are_killed_in_turns_keep_every_promise(
    tmp_path: Path, seed: int, dispatch: Dispatch
) -> None:
    campaign = await two_workers(
        tmp_path, seed, pauses(seed, WORKER_KILLS), kill_worker_or_server, settings=dispatch.settings
    )
    check(f"worker and server killed{dispatch.suffix}", campaign)
    assert len(campaign.kills) == WORKER_KILLS


async def test_jobs_of_a_killed_worker_go_on_at_another(tmp_path: Path, seed: int, dispatch: Dispatch) -> None:
    campaign = await two_workers(tmp_path, seed, pauses(seed, 6), kill_and_wait, settings=dispatch.settings)
    check(f"worker killed and left dead{dispatch.suffix}", campaign)
    assert 0.0 < (campaign.recoveries.share_s(1.0) or 0.0) <= TAKEN_OVER_S, campaign.figures


async def test_of_two_workers_one_is_killed_every_now_and_then_and_the_other_takes_over(
    tmp_path: Path, seed: int, dispatch: Dispatch
) -> None:
    moments = pauses_for(seed, TAKEOVER_MINUTES, 5.0, 40.0)
    campaign = await two_workers(tmp_path, seed, moments, kill_either, are_apart=True, settings=dispatch.settings)
    check(f"one of two workers killed{dispatch.suffix}", campaign)
    assert 0.0 < (campaign.recoveries.share_s(0.99) or 0.0) <= ELSEWHERE_S, campaign.figures


async def test_a_worker_that_is_asked_to_stop_hands_its_jobs_over_within_a_second_and_cuts_no_step_in_two(
    tmp_path: Path, seed: int, dispatch: Dispatch
) -> None:
    campaign = await two_workers(
        tmp_path, seed, pauses(seed, STOPS), stop_either, are_apart=True, settings=dispatch.settings
    )
    check(f"one of two workers stopped{dispatch.suffix}", campaign)
    assert campaign.repeated == 0, campaign.figures
    assert 0.0 < (campaign.recoveries.share_s(0.5) or 0.0) <= HANDED_OVER_S, campaign.figures


async def test_a_frozen_worker_that_wakes_up_writes_nothing_more(tmp_path: Path, seed: int, dispatch: Dispatch) -> None:
    check(
        f"worker frozen{dispatch.suffix}",
        await two_workers(tmp_path, seed, pauses(seed, FREEZES), freeze, settings=dispatch.settings),
    )
