"""A worker whose way to PostgreSQL swallows everything: others take over, and what arrives late is refused (promise 7).

`make test-faults ARGS='tests/durability/test_cut_off.py -s'` shows the figures.
"""

from pathlib import Path

import pytest

from tests.support.campaigns import TAKEN_OVER_S, cut_off, keep
from tests.support.nats_server import Dispatch

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
LONG_S = 42.0  # after which connections have been given up (decision 0082)


async def test_a_worker_that_is_cut_off_is_replaced_and_writes_nothing_when_it_is_back(
    tmp_path: Path, seed: int, dispatch: Dispatch
) -> None:
    campaign = await cut_off(tmp_path, seed, [9.0, 12.0, LONG_S, 7.0], settings=dispatch.settings)
    keep(f"worker cut off{dispatch.suffix}", campaign)
    assert campaign.broken == [], campaign.figures
    assert 0.0 < (campaign.recoveries.share_s(0.5) or 0.0) <= TAKEN_OVER_S, campaign.figures
    log = (tmp_path / "worker-1.log").read_text("utf-8")
    assert "worker.lease_lost" in log, "it learned what had become of its jobs"
