"""Scalers of Scalers and of submodules (manifest-language §4)."""

from typing import Any

import pytest

from tests.support.applications import RELAY, SIZED_CHILD, until
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.families import links
from tests.support.service import Api, accepted, fresh_name, running_api

RACKS = """
application:
  configuration: {racks.quantity: 2, racks.nodes: 1}
  interfaces:
    racks: {quantity: bind(racks#configuration.quantity), nodes: bind(racks.rack.nodes#configuration.quantity)}
    do: {racks: bind(racks#scale.set-quantity), nodes: bind(racks.rack.nodes#scale.set-quantity)}
    seen: {sizes: bind(sum#out.sizes)}
  bindings: [[sum, racks.rack.nodes.node]]
  components:
    racks:
      type: composite.Scaler
      components:
        rack:
          components:
            nodes:
              type: composite.Scaler
              components:
                node:
                  type: workflow.Instance
                  interfaces: {made: {size: publish-signal(int)}}
                  configuration:
                    configuration.workflows:
                      launch: {steps: [], return: {size: {value: 1}}}
                      destroy: {steps: []}
    sum:
      type: workflow.Instance
      required: [made]
      interfaces: {made: {size: consume-signal(int)}, out: {sizes: publish-signal(list<int>)}}
      configuration:
        configuration.triggers: {made.size: launch}
        configuration.workflows:
          launch:
            steps: [{look: {action: getSignals, parameters: {multi: true}, output: {seen: result}}}]
            return: {sizes: {value: "{$.seen.made.*.size}"}}
"""


async def sized(api: Api, instance: str, members: int) -> Any:
    """Wait until the listener has heard of so many nodes."""
    document = await until(api, instance, lambda seen: seen["returnValues"].get("seen.sizes") == [1] * members)
    assert document["status"] == "Running", document["errorMessage"]
    return document


@pytest.mark.slow
async def test_each_member_of_a_scaler_has_inner_members_of_its_own(api: Api) -> None:
    instance = await api.running(RACKS)
    await sized(api, instance, 2)
    await api.run(instance, "do.nodes", quantity="3")
    await sized(api, instance, 6)
    await api.run(instance, "do.racks", quantity="3")
    await sized(api, instance, 7)
    told = accepted(
        await api.post(f"instances/{instance}/configuration/preview", {"parameters": {"racks.quantity": 1}})
    )
    stops = {part["path"] for part in told["components"] if part["change"] == "stops"}
    assert {"racks.rack[1].nodes", "racks.rack[1].nodes.node[2]", "racks.rack[2].nodes.node[0]"} <= stops
    assert not any(path.startswith("racks.rack[0]") for path in stops)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"racks.quantity": 1}}))
    await sized(api, instance, 3)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"racks.nodes": 2}}))
    await sized(api, instance, 4)
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"


# A Scaler of submodules: each member is an instance of its own, with what is inside of it.
FARM = """
application:
  configuration: {input.quantity: 2, input.size: 1}
  interfaces:
    input: {quantity: bind(farm#configuration.quantity), size: bind(farm.child#input.size)}
    do: {scale: bind(farm#scale.set-quantity), grow: bind(farm.child#actions.grow)}
    seen: {notes: bind(sum#out.notes)}
  bindings: [[sum, farm.child]]
  components:
    farm:
      type: composite.Scaler
      components:
        child:
          type: reference.Submodule
          configuration: {__locator.application-id: LOCATOR}
          interfaces:
            input: {size: configuration(int)}
            result: {size: publish-signal(int), note: publish-signal(string)}
            actions: {grow: receive-command(int by => int size)}
    sum:
      type: workflow.Instance
      required: [result]
      interfaces: {result: {note: consume-signal(string)}, out: {notes: publish-signal(list<string>)}}
      configuration:
        configuration.triggers: {result.note: launch}
        configuration.workflows:
          launch:
            steps: [{look: {action: getSignals, parameters: {multi: true}, output: {seen: result}}}]
            return: {notes: {value: "{$.seen.result.*.note}"}}
"""


async def noted(api: Api, instance: str, *notes: str) -> dict[str, str]:
    """Wait until the listener has heard these notes; return the instances of the members."""

    def is_heard(document: Any) -> bool:
        assert document["status"] == "Running", document["errorMessage"]
        return sorted(document["returnValues"].get("seen.notes") or []) == sorted(notes)

    return links(await until(api, instance, is_heard))


async def farm(api: Api, delay: str = "0") -> str:
    inner, middle = fresh_name("child"), fresh_name("middle")
    await api.application(SIZED_CHILD.replace("delay: 0", f"delay: {delay}"), inner)
    await api.application(RELAY.replace("LOCATOR", inner), middle)
    return await api.application(FARM.replace("LOCATOR", middle))


async def test_members_of_a_scaler_can_be_submodules(api: Api) -> None:
    instance = await api.launch(await farm(api))
    members = await noted(api, instance, "size 1", "size 1")
    assert list(members) == ["farm.child[0]", "farm.child[1]"]
    for each in members.values():
        [inside] = links(await api.document(each)).values()
        assert (await api.document(inside))["status"] == "Running"
    told = accepted(
        await api.post(f"instances/{instance}/configuration/preview", {"parameters": {"input.quantity": 3}})
    )
    changes = {part["path"]: part["change"] for part in told["components"]}
    assert changes["farm.child[1]"] == "keeps"
    assert changes["farm.child[2]"] == changes["farm.child[2].child.worker"] == "starts"
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.quantity": 3}}))
    three = await noted(api, instance, *["size 1"] * 3)
    assert {name: three[name] for name in members} == members
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.quantity": 1}}))
    assert await noted(api, instance, "size 1") == {"farm.child[0]": members["farm.child[0]"]}
    for name in ("farm.child[1]", "farm.child[2]"):
        assert (await api.document(three[name]))["status"] == "Destroyed"
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"
    assert (await api.document(members["farm.child[0]"]))["status"] == "Destroyed"


async def test_one_member_may_be_launched_with_something_else(api: Api) -> None:
    body = {"submodules": {"farm.child[1]": {"submodules": {"child": {"manifestVersion": 2}}}}}
    instance = await api.launch(await farm(api), parameters={"input.size": 7}, **body)
    assert len(await noted(api, instance, "size 7", "size 7")) == 2
    application = (await api.document(instance))["applicationId"]
    made = accepted(await api.post(f"applications/{application}/revisions", {"name": "two", "instanceId": instance}))
    again = await api.launch(application, revisionId=made["id"])
    assert len(await noted(api, again, "size 7", "size 7")) == 2


async def test_commands_of_members_go_to_every_instance(api: Api) -> None:
    instance = await api.launch(await farm(api))
    await noted(api, instance, "size 1", "size 1")
    await api.run(instance, "do.grow", by="4")
    await noted(api, instance, "grown to 4", "grown to 4")


async def test_a_command_adds_and_removes_members_that_are_submodules(api: Api) -> None:
    instance = await api.launch(await farm(api), parameters={"input.size": 5})
    first = await noted(api, instance, "size 5", "size 5")
    await api.run(instance, "do.scale", quantity="3")
    three = await noted(api, instance, "size 5", "size 5", "size 5")
    assert {name: three[name] for name in first} == first
    added = await api.document(three["farm.child[2]"])
    assert (added["status"], added["parameters"]) == ("Running", {"input.size": 5})
    [inside] = links(added).values()
    assert inside not in [links(await api.document(each))["child"] for each in first.values()]
    await api.run(instance, "do.scale", quantity="1")
    assert list(await noted(api, instance, "size 5")) == ["farm.child[0]"]
    assert [(await api.document(three[f"farm.child[{number}]"]))["status"] for number in (1, 2)] == ["Destroyed"] * 2
    await api.run(instance, "do.scale", quantity="2")
    again = await noted(api, instance, "size 5", "size 5")
    assert again["farm.child[1]"] not in three.values()
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 6}}))
    assert links(await api.settled(instance)) == again
    assert [(await api.document(each))["parameters"] for each in again.values()] == [{"input.size": 6}] * 2
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"
    for each in again.values():
        assert (await api.document(each))["status"] == "Destroyed"


@pytest.mark.slow
async def test_members_that_a_command_adds_are_made_once_when_the_worker_goes(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as api:
        instance = await api.launch(await farm(api, "1.5"))
        await noted(api, instance, "size 1", "size 1")
        accepted(await api.post(f"instances/{instance}/do.scale", {"quantity": "3"}))
        await eventually(lambda: count(api, instance), lambda found: found >= 3)
    async with running_api(url) as api:
        await noted(api, instance, "size 1", "size 1", "size 1")
        assert await count(api, instance) == 3
    databases.drop(url)


async def count(api: Api, instance: str) -> int:
    async with api.database.connection() as connection:
        found = await connection.execute("SELECT count(*) FROM instances WHERE parent_id = %s", [instance])
        [number] = await found.fetchone() or [0]
    return int(number)


async def test_a_command_can_not_add_a_first_submodule(api: Api) -> None:
    instance = await api.launch(await farm(api), parameters={"input.quantity": 0})
    await api.settled(instance)
    document = await api.run(instance, "do.scale", quantity="1")
    assert "no member has had a submodule yet" in document["errorMessage"]
