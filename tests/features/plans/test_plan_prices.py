"""What the machines of a plan cost, in the API, the console and the terminal."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay.cli.plans import show_plan
from tests.support.databases import Databases
from tests.support.drift import planned
from tests.support.pages import browser, get
from tests.support.service import EMAIL, PASSWORD, Api, accepted, refused, running_api

MANIFEST = """\
application:
  configuration: {input.size: 1}
  interfaces: {input: {size: bind(web#input.size)}}
  components:
    web:
      type: workflow.Instance
      interfaces: {input: {size: configuration(int)}}
      configuration:
        configuration.triggers: {input.size: grow}
        configuration.workflows:
          launch: {steps: []}
          grow:
            steps:
              - web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 2, hardwareId: %s}}
"""


@pytest.fixture(scope="module")
async def api(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    url = databases.create()
    data = tmp_path_factory.mktemp("data")
    async with running_api(url, machines="local", local_environments="*", data_dir=data) as api:
        yield api
    databases.drop(url)


async def test_a_plan_shows_what_each_machine_costs_and_the_sum(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    environment = await api.offer()
    accepted(await api.put_yaml(f"environments/{environment}", "policies: {machines.prices: m1.small=0.05USD}"))
    ids = [await api.running(MANIFEST % size, environmentId=environment) for size in ("m1.small", "m1.huge")]
    body = {"act": "reconfigure", "ids": ids, "configuration": {"parameters": {"input.size": 2}}}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", {"plan": True, **body}))

    found = await planned(api, made["id"])

    small, huge = [next(each["effects"] for each in found["plan"] if each["instanceId"] == one) for one in ids]
    assert prices(small) == [{"hourly": "0.05", "currency": "USD"}] * 2
    assert small["cost"] == {"hourly": {"USD": "0.10"}, "unknown": 0}
    assert prices(huge) == [{}] * 2
    assert huge["cost"] == {"hourly": {}, "unknown": 2}
    show_plan(small, "table")
    show_plan(huge, "table")
    shown = capsys.readouterr().out
    assert "The plan: creates 2; new machines: 0.10 USD per hour\n" in shown
    assert "+ web: new machine 1 of web  (0.05 USD per hour" in shown
    assert "The plan: creates 2; new machines: 2 machines of unknown price\n" in shown
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        page = await get(visitor, f"/console/organizations/{api.organization}/changes/{made['id']}")
    assert "creates 4; new machines: 0.10 USD per hour, 2 machines of unknown price" in page.text
    assert (page.text.count("0.05 USD per hour"), page.text.count("unknown price")) == (2, 3)


def prices(plan: Any) -> list[Any]:
    return [each["price"] for step in plan["steps"] for each in step["effects"]]


async def test_a_policy_with_a_wrong_price_is_refused_with_its_place(api: Api) -> None:
    environment = await api.offer()
    answer = await api.put_yaml(f"environments/{environment}", "policies:\n  machines.prices: small=cheap\n")
    assert "use prices per hour such as m1.small=0.05USD" in refused(answer, 400, "InvalidPolicies")
