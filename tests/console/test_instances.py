"""The page of an instance."""

import httpx
import pytest

from tests.support.manifests import FAILING_LATE
from tests.support.pages import get
from tests.support.service import Api


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def test_a_page_shows_the_last_failure_with_its_job_until_a_reconfiguration_succeeds(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    broken = FAILING_LATE.replace("launch", "break")
    instance = await api.running(f"launch: {{steps: []}}\nfine: {{steps: []}}\n{broken}")
    await api.run(instance, "break")
    document = await api.run(instance, "fine")
    page = await get(visitor, f"/console/instances/{instance}")
    assert document["errorMessage"] in page.text
    assert "Failed in break, " in page.text
    assert f"/console/instances/{instance}/jobs/{document['lastFailure']['jobId']}" in page.links
    await api.put(f"instances/{instance}/configuration", {})
    await api.settled(instance)
    assert "Failed in" not in (await get(visitor, f"/console/instances/{instance}")).text
