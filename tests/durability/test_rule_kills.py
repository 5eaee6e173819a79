"""kill -9 while instances sleep by rules, tick by recurring schedules, wait for places, or for their destruction.

The sizes are set as in test_kills.py.
"""

import os
from pathlib import Path

import pytest

from tests.support.campaigns import keep, kill_worker_or_server, one_server, pauses, two_workers
from tests.support.rule_load import RuleLoad, rule_violations

KILLS = int(os.environ.get("LAUNCHBAY_KILLS") or 100)
WORKER_KILLS = int(os.environ.get("LAUNCHBAY_WORKER_KILLS") or 20)
pytestmark = [pytest.mark.faults, pytest.mark.timeout(1500 + 10 * KILLS + 15 * WORKER_KILLS)]


async def test_rules_keep_every_promise_through_a_hundred_kills(tmp_path: Path, seed: int) -> None:
    campaign = await one_server(tmp_path, seed, KILLS, load_type=RuleLoad, more=rule_violations)
    keep("rules on one server killed", campaign)
    assert campaign.broken == [], campaign.figures
    assert len(campaign.kills) == KILLS


async def test_rules_keep_every_promise_when_a_worker_and_a_server_are_killed_in_turns(
    tmp_path: Path, seed: int
) -> None:
    moments = pauses(seed, WORKER_KILLS)
    campaign = await two_workers(
        tmp_path, seed, moments, kill_worker_or_server, load_type=RuleLoad, more=rule_violations
    )
    keep("rules on worker and server killed", campaign)
    assert campaign.broken == [], campaign.figures
