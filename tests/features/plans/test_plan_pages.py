"""Plans on the page of a change set: what deletes first, and an approval that says so."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from launchbay.features.plans.rules import PlannedStep
from tests.support.databases import Databases
from tests.support.drift import applied, planned
from tests.support.eventually import eventually
from tests.support.external_services import needs_tofu, tofu_manifest
from tests.support.network import answer, loopback_server
from tests.support.pages import ORIGIN, Page, browser, get
from tests.support.service import EMAIL, PASSWORD, Api, accepted, running_api

GROW = """\
application:
  onDifference: replan
  configuration: { input.size: 1 }
  interfaces: { input: { size: bind(web#input.size) } }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { size: configuration(int) } }
      configuration:
        configuration.triggers: { input.size: grow }
        configuration.workflows:
          launch: { steps: [] }
          grow: { steps: [call: { action: restcall, parameters: { command: "URL", plan: { command: "URL" } } }] }
"""


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu", outgoing_allow="127.0.0.1") as api:
        yield api
    databases.drop(url)


@pytest.fixture(scope="module")
async def idle(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        yield api
    databases.drop(url)


async def sent(visitor: httpx.AsyncClient, path: str, page: Page, **fields: str) -> httpx.Response:
    hidden: dict[str, str] = {name: page.fields[name] for name in ("formToken", "planDigest") if name in page.fields}
    form = {**hidden, **fields}
    return await visitor.post(path, data=form, headers={"Origin": ORIGIN})


@needs_tofu
@pytest.mark.slow
async def test_a_planned_destruction_is_shown_and_applied_once_its_deletions_are_allowed(
    api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "made"
    instance = await api.running(tofu_manifest(file), instanceName="Shop <b>")
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        page = await get(visitor, f"/console/instances/{instance}/end")
        saved = await sent(visitor, f"/console/instances/{instance}/end", page, do="save change set", changePlan="1")
        assert saved.status_code == 303, Page(saved).text
        path = saved.headers["location"]
        page = await eventually(
            lambda: get(visitor, path), lambda page: "data-refresh" not in page.attributes, within_s=60
        )
        text = " ".join(page.text.split())
        for words in ("What its steps do", "deletes 1", "Deletes 1:", "terraform_data.file", "Allow 1 deletion"):
            assert words in text

        refused = await sent(visitor, f"{path}/apply", page)

        assert "The plan deletes" in Page(refused).text
        assert file.exists()
        assert (await sent(visitor, f"{path}/apply", page, allowDeletes="1")).status_code == 303
        await api.settled(instance)
        assert not file.exists()
    change_set = re.sub(r".*/", "", path)
    assert accepted(await api.get(f"change-sets/{change_set}"))["plan"][0]["effects"]["status"] == "Planned"


async def test_effects_that_nobody_knows_yet_are_not_nothing(idle: Api) -> None:
    application = await idle.application("launch: {steps: []}\n")
    body = {"act": "launch", "applicationId": application, "launch": {}, "plan": True}
    change_set = accepted(await idle.post(f"organizations/{idle.organization}/change-sets", body))["id"]
    async with browser(idle) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        path = f"/console/organizations/{idle.organization}/changes/{change_set}"

        async def effects() -> str:
            return " ".join((await get(visitor, path)).text.split()).partition("What its steps do")[2][:20]

        assert effects_are(await effects(), "not known yet")
        await end_plan(idle, change_set, "Failed", None)
        assert effects_are(await effects(), "no plan")
        step = PlannedStep(path="web#launch/one", component="web", action="restcall", effects=[])
        await end_plan(idle, change_set, "Planned", msgspec.json.encode([step] * 103).decode())
        assert effects_are(await effects(), "nothing")
        assert "and 3 more steps" in " ".join((await get(visitor, path)).text.split())


def effects_are(text: str, words: str) -> bool:
    return text.strip().startswith(words)


async def end_plan(api: Api, change_set: str, status: str, result: str | None) -> None:
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE plans SET status = %s, result = %s WHERE change_set_id = %s", (status, result, change_set)
        )


async def test_a_change_set_that_stopped_and_the_one_that_follows_link_to_each_other(api: Api) -> None:
    async with loopback_server() as world, browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        instance = await api.running(GROW.replace("URL", world.url()), instanceName="shop-3")
        configuration = {"parameters": {"input.size": 2}}
        body = {"act": "reconfigure", "ids": [instance], "configuration": configuration, "plan": True}
        first = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
        await planned(api, first)
        world.routes["/"] = answer(body=b"somebody was here")
        await applied(api, first)

        home = f"/console/organizations/{api.organization}/changes"
        await eventually(
            lambda: api.read(f"change-sets/{first}"), lambda found: found["plan"][0]["followUp"] is not None
        )
        stopped = (await get(visitor, f"{home}/{first}")).answer.text
        follows = re.search(r'It is planned again, and waits for somebody: <a href="([^"]+)"', stopped)
        assert follows is not None
        again = await get(visitor, follows[1])

        assert "A step of another change set stopped because it couldn’t do what was approved." in words(again)
        assert f"{home}/{first}" in again.links
        assert "Change shop-3" in words(again), "it keeps its version"
        assert "Change the version" not in words(again)


def words(page: Page) -> str:
    return " ".join(page.text.split())
