"""The campaigns find defects: each of these is put into the product on purpose, and must be noticed."""

from pathlib import Path

import pytest

from tests.durability.campaign import freeze, one_server, two_workers

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
    campaign = await one_server(tmp_path, 1, 10, defect=defect)
    assert [each for each in campaign.broken if each.startswith(told)], (campaign.figures, campaign.broken[:5])


async def test_freezing_a_worker_shows_a_missing_fence(tmp_path: Path) -> None:
    campaign = await two_workers(tmp_path, 1, 3, freeze, defect="no-fence")
    assert [each for each in campaign.broken if each.startswith("went back: ")], (campaign.figures, campaign.broken[:5])
