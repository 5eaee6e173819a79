"""Generated requests find nothing: no 500, no undocumented status, header, content type or body, no rule broken.

The description that the service serves is the test: schemathesis makes requests from it that fit and that do not, alone
and in sequences along its links, and checks every answer against it.
"""

import os
from pathlib import Path

import pytest

from tests.support.databases import Databases
from tests.support.fuzzing import IS_INSTALLED, run
from tests.support.worlds import target

pytestmark = pytest.mark.skipif(not IS_INSTALLED, reason="schemathesis is not installed")


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_the_service_keeps_to_its_description(databases: Databases, tmp_path: Path) -> None:
    """Without chance: every example, and every value of every schema once, fitting and not."""
    async with target(databases, copies=5) as service:
        report = await run(service, tmp_path, "--phases", "examples,coverage", "--seed", "1", "--no-shrink")
    assert report.findings == 0, report.text
    assert report.cases >= 2_000


@pytest.mark.load
@pytest.mark.timeout(3600)
async def test_the_service_keeps_to_its_description_for_long(databases: Databases, tmp_path: Path) -> None:
    """By chance, and in sequences along the links. LAUNCHBAY_FUZZING_S says for how long; 900 is a night's."""
    seconds = int(os.environ.get("LAUNCHBAY_FUZZING_S", "300"))
    async with target(databases, copies=60) as service:
        report = await run(service, tmp_path, "--no-shrink", max_time_s=seconds)
    print(report.text)
    assert report.findings == 0, report.text
    assert report.cases >= 5_000
