"""Checks that manifests name: plans, and workflows that only read what is there."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.drift import applied, checked, open_findings, planned
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api

JSON = [("Content-Type", "application/json")]


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1") as api:
        yield api
    databases.drop(url)


@pytest.fixture
async def shop() -> AsyncIterator[LoopbackServer]:
    """Something that an instance has set up, and that anybody can change."""
    async with loopback_server() as server:
        server.routes["/set"] = answer(200, b"")
        runs(server, replicas=2)
        yield server


def runs(server: LoopbackServer, **state: Any) -> None:
    server.routes["/state"] = answer(200, json.dumps(state).encode(), JSON)


def manifest(server: LoopbackServer, method: str = "GET", checks: str = "[look]") -> str:
    return f"""\
application:
  configuration: {{ input.size: 2, input.method: {method} }}
  interfaces: {{ input: {{ size: bind(web#input.size), method: bind(web#input.method) }} }}
  components:
    web:
      type: workflow.Instance
      checks: {{ run: {checks} }}
      interfaces: {{ input: {{ size: configuration(int), method: configuration(string) }} }}
      configuration:
        configuration.triggers: {{ input.size: launch }}
        configuration.workflows:
          launch:
            steps:
              - put: {{ action: restcall, parameters: {{ command: "{server.url("/set")}", method: POST }} }}
          look:
            steps:
              - ask:
                  action: restcall
                  parameters: {{ command: "{server.url("/state")}", method: "{{$.method}}" }}
                  output: {{ seen: content }}
            return:
              findings: {{ value: [{{ address: replicas, from: "{{$.size}}", to: "{{$.seen.replicas}}" }}] }}
"""


async def ledger(api: Api, instance: str) -> Any:
    """Return all that a check could change in Launchbay, but its own report."""
    found: dict[str, Any] = {"instance": accepted(await api.get(f"instances/{instance}"))}
    tables = ("jobs", "kept_documents", "instance_history", "log_lines", "generations")
    where = dict.fromkeys(tables, "instance_id = %s")
    where |= {"steps": "job_id IN (SELECT id FROM jobs WHERE instance_id = %s)", "plans": "%s <> ''"}
    async with api.database.connection() as connection:
        for table, condition in where.items():
            statement = f"SELECT {table}::text FROM {table} WHERE {condition} ORDER BY 1"
            found[table] = await (await connection.execute(statement, [instance])).fetchall()
    return found


async def test_a_workflow_of_the_manifest_finds_what_differs_and_changes_nothing(
    api: Api, shop: LoopbackServer
) -> None:
    instance = await api.running(manifest(shop))
    quiet = await checked(api, instance)
    assert (quiet["problem"], quiet["findings"], quiet["unchecked"]) == (None, [], [])
    runs(shop, replicas=5)
    before, asked = await ledger(api, instance), len(shop.received)

    found = await checked(api, instance)

    [finding] = found["findings"]
    assert (finding["address"], finding["kind"], finding["state"]) == ("replicas", "changed", "new")
    assert (finding["from"], finding["to"]) == ({"": 2}, {"": 5})
    assert (finding["component"], finding["step"]) == ("web", "web#look")
    assert await ledger(api, instance) == before
    assert [(each.method, each.target) for each in shop.received[asked:]] == [("GET", "/state")]
    runs(shop, replicas=2)
    [gone] = (await checked(api, instance))["findings"]
    assert gone["state"] == "gone"


async def test_a_method_that_would_change_something_is_never_sent(api: Api, shop: LoopbackServer) -> None:
    instance = await api.running(manifest(shop, method="DELETE"))
    asked = len(shop.received)

    found = await checked(api, instance)

    assert found["status"] == "Failed"
    assert "A check must only read, and the method DELETE may change something: 'restcall'." in found["problem"]
    assert shop.received[asked:] == []


async def test_a_component_may_have_its_plan_checked_too_or_nothing(api: Api, shop: LoopbackServer) -> None:
    both = await checked(api, await api.running(manifest(shop, checks="[plan, look]")))
    assert [each["step"] for each in both["unchecked"]] == ["web#launch/put"], "a request without a plan is unknown"
    runs(shop, replicas=5)
    nothing = await checked(api, await api.running(manifest(shop, checks="[]")))
    assert (nothing["problem"], nothing["findings"], nothing["unchecked"]) == (None, [], [])


async def test_a_baseline_knows_what_a_workflow_finds_each_time(api: Api, shop: LoopbackServer) -> None:
    runs(shop, replicas=3)
    instance = await api.running(manifest(shop))
    assert list(open_findings(await checked(api, instance))) == ["replicas"]

    assert open_findings(await checked(api, instance, baseline=True)) == {}
    runs(shop, replicas=4)
    assert list(open_findings(await checked(api, instance))) == ["replicas"]


async def test_what_a_workflow_finds_is_taken_over_by_the_parameter_that_decides_it(
    api: Api, shop: LoopbackServer
) -> None:
    instance = await api.running(manifest(shop))
    runs(shop, replicas=5)
    [finding] = (await checked(api, instance))["findings"]

    accepted(await api.post(f"instances/{instance}/drift/findings/{finding['id']}/take-over"))
    [found] = (await checked(api, instance))["findings"]

    assert found["remedy"] == ""
    await planned(api, found["changeSetId"])
    await applied(api, found["changeSetId"])
    assert (await api.document(instance))["parameters"]["input.size"] == 5
    [answered] = (await checked(api, instance))["findings"]
    assert answered["state"] == "taken over"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('"{$.seen}"', "'findings' isn't a list"),
        ("[{ address: a }]", "findings[0] has neither 'from' nor 'to'"),
        ("[{ from: 1, to: 2 }]", "findings[0] has no 'address'"),
        ("[{ address: a, to: 1 }, { address: a, to: 2 }]", "'findings' has the address 'a' twice"),
        ("[{ address: a, to: 1, was: 2 }]", "findings[0] isn't a finding"),
    ],
)
async def test_what_is_no_finding_fails_the_check_and_says_why(
    api: Api, shop: LoopbackServer, value: str, problem: str
) -> None:
    text = manifest(shop)
    written = text[text.index("findings: { value: ") + len("findings: { value: ") : text.rindex(" }")]

    found = await checked(api, await api.running(text.replace(written, value)))

    assert found["status"] == "Failed"
    assert f"The check web#look failed: {problem}" in found["problem"]
