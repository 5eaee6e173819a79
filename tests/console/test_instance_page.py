"""The page of an instance: required arguments, schedules of the manifest, origins of parameters, its users."""

import re

import httpx
import pytest

from tests.support.applications import NEEDY, launched, offered
from tests.support.pages import Page, get
from tests.support.second_factors import post
from tests.support.service import Api, accepted

MANIFEST = """
application:
  interfaces:
    input: {size: bind(web#input.size), name: bind(web#input.name)}
    actions: {grow: bind(web#actions.grow)}
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int), name: configuration(string)}
        actions: {grow: "receive-command(int by, int size)"}
      configuration:
        input.size: 1
        configuration.schedule: {tick: "0 0 * * * ?"}
        configuration.workflows:
          launch: {steps: []}
          grow: {steps: []}
          tick: {steps: []}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    return working_service


@pytest.fixture(scope="module")
async def instance(api: Api) -> str:
    return await api.running(MANIFEST, parameters={"input.name": "box"})


def section(page: Page, heading: str) -> str:
    """Return the text of the page from a heading to the next one."""
    found = re.search(rf'id="{heading}-heading">(.*?)<h2', page.answer.text, re.DOTALL)
    assert found is not None, heading
    return re.sub(r"<[^>]+>|\s+", " ", found[1])


async def test_the_form_of_a_command_marks_what_is_required(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    path = f"/console/instances/{instance}"
    page = await get(visitor, path)
    labels = re.findall(r'<label for="argument:actions.grow:(\w+)">(.*?)</label>', page.answer.text)
    assert [(name, "Required" in label) for name, label in labels] == [("by", True), ("size", False)]
    answer = await post(
        visitor, f"{path}/run", workflow="actions.grow", do="run", **{"argument:actions.grow:size": "2"}
    )
    assert isinstance(answer, Page)
    assert "Missing required parameter." in answer.text
    assert len((await api.document(instance))["workflowHistory"]) == 1


async def test_a_schedule_of_the_manifest_is_cancelled_and_resumed(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    path = f"/console/instances/{instance}"
    [entry] = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
    shown = section(await get(visitor, path), "schedules")
    assert "Cancel tick" in " ".join(shown.split())
    answer = await post(visitor, f"{path}/reschedule", schedule=entry["id"], do="cancel", minutes="")
    assert isinstance(answer, httpx.Response)
    shown = " ".join(section(await get(visitor, path), "schedules").split())
    assert re.search(r"Cancelled 20\d\d-.* UTC by ", shown)
    assert "Resume tick" in shown
    assert "Cancel tick" not in shown
    await post(visitor, f"{path}/reschedule", schedule=entry["id"], do="move", minutes="30")
    shown = " ".join(section(await get(visitor, path), "schedules").split())
    assert "Cancelled" not in shown


async def test_parameters_are_the_effective_ones_with_their_origin(visitor: httpx.AsyncClient, instance: str) -> None:
    shown = " ".join(section(await get(visitor, f"/console/instances/{instance}"), "parameters").split())
    assert "input.size default 1" in shown
    assert "input.name box" in shown


async def test_the_page_to_destroy_names_the_users_and_asks_for_force(api: Api, visitor: httpx.AsyncClient) -> None:
    service, where = await offered(api)
    user = await launched(api, NEEDY, where)
    path = f"/console/instances/{service}/end"
    page = await get(visitor, path)
    assert user["id"] in page.text
    refused = await post(visitor, path, do="destroy")
    assert isinstance(refused, Page)
    assert refused.status == 409
    assert (await api.document(service))["status"] == "Running"
    answer = await post(visitor, path, do="destroy", force="1")
    assert isinstance(answer, httpx.Response)
    assert (await api.settled(service))["status"] == "Destroyed"
