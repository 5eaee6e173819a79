"""The page of an instance."""

import re

import httpx
import pytest

from tests.support.manifests import FAILING_LATE
from tests.support.pages import get
from tests.support.service import Api, accepted, fresh_name


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


async def test_the_palette_answers_with_names_that_begin_with_the_text_first(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    word = fresh_name("harbour").replace(" ", "-")
    for name in (f"old {word}", f"{word} <b>shop</b>"):
        accepted(await api.post(f"organizations/{api.organization}/applications", {"name": name}))
    answer = await visitor.get(f"/console/organizations/{api.organization}/jump", params={"q": word.upper()})
    assert answer.status_code == 200
    assert answer.text.index(f"{word} &lt;b&gt;shop") < answer.text.index(f"old {word}")
    assert "<html" not in answer.text
    sections = await visitor.get(f"/console/organizations/{api.organization}/jump", params={"q": "webh"})
    assert re.findall(r'data-href="([^"]+)"', sections.text) == [f"/console/organizations/{api.organization}/webhooks"]
    nothing = await visitor.get(f"/console/organizations/{api.organization}/jump", params={"q": f"{word}!"})
    assert "Nothing matches" in nothing.text
