"""The campaigns find defects: each of these is put into the product on purpose, and must be noticed."""

from pathlib import Path

import pytest

from tests.support.campaigns import cut_off, freeze, one_server, pauses, two_workers

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("defect", "told"),
    [
        ("answer-before-commit", "lost: "),
        ("next-step-before-the-record", "went back: "),
        ("check-then-insert", "two jobs at once: "),
    ],
)
async def test_killing_a_server_shows_the_defect(tmp_path: Path, defect: str, told: str) -> None:
    campaign = await one_server(tmp_path, 1, 8, up_s=(1.0, 4.0), defect=defect)
    assert [each for each in campaign.broken if each.startswith(told)], (campaign.figures, campaign.broken[:5])


async def test_freezing_a_worker_shows_a_missing_fence(tmp_path: Path) -> None:
    campaign = await two_workers(tmp_path, 1, pauses(1, 4), freeze, defect="no-fence")
    # Two write to one job: steps run out of order, and final statuses are overwritten.
    told = ("went back: ", "ran again: ", "attempt went back: ", "unfinished: ")
    assert [each for each in campaign.broken if each.startswith(told)], (campaign.figures, campaign.broken[:5])


async def test_silencing_a_worker_shows_that_it_believes_in_its_lease(tmp_path: Path) -> None:
    campaign = await cut_off(tmp_path, 1, [9.0, 9.0, 9.0], defect="belief-in-the-lease")
    told = ("went back: ", "ran again: ", "attempt went back: ")
    assert [each for each in campaign.broken if each.startswith(told)], (campaign.figures, campaign.broken[:5])
