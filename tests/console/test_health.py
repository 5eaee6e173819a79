"""How an instance is: lists, groups, pages, failures and tools say the same of one whose submodule has failed."""

import re
from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.support.pages import get, words_of
from tests.support.service import Api, accepted, fresh_name

Break = Callable[[Api, str], Awaitable[str]]
CHILD = """
application:
  interfaces: {actions: {stumble: bind(main#actions.stumble)}}
  components:
    main:
      type: workflow.Instance
      interfaces: {actions: {stumble: receive-command()}}
      configuration:
        configuration.propagateStatus: [stumble]
        configuration.workflows:
          launch: {steps: [{go: {action: wait, parameters: {delay: 0}}}]}
          stumble: {steps: [{call: {action: restcall, parameters: {command: "ftp://nowhere.example"}}}]}
"""
PARENT = """
application:
  interfaces: {actions: {poke: bind(main#actions.poke)}}
  bindings: [[main, db]]
  components:
    db:
      type: reference.Submodule
      configuration: {__locator.application-id: "%s"}
      interfaces: {actions: {stumble: receive-command()}}
    main:
      type: workflow.Instance
      interfaces: {actions: {poke: receive-command(), stumble: send-command()}}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          poke: {steps: [{tell: {action: actions.stumble, parameters: {ignoreFail: true}}}]}
"""
GRANDPARENT = """
application:
  interfaces: {actions: {prod: bind(main#actions.prod)}}
  bindings: [[main, middle]]
  components:
    middle:
      type: reference.Submodule
      configuration: {__locator.application-id: "%s"}
      interfaces: {actions: {poke: receive-command()}}
    main:
      type: workflow.Instance
      interfaces: {actions: {prod: receive-command(), poke: send-command()}}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          prod: {steps: [{tell: {action: actions.poke}}]}
"""
INCOMPLETE = """
application:
  interfaces: {actions: {mend: bind(first#actions.mend)}}
  components:
    first:
      type: workflow.Instance
      interfaces: {actions: {mend: receive-command()}}
      configuration:
        configuration.propagateStatus: [mend]
        configuration.workflows: {launch: {steps: []}, mend: {steps: []}}
    second:
      type: workflow.Instance
      required: [first]
      configuration:
        configuration.workflows:
          launch: {steps: [{call: {action: restcall, parameters: {command: "ftp://nowhere.example"}}}]}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    return working_service


async def with_failed_submodule(api: Api, name: str) -> str:
    parent = await api.running(PARENT % await api.application(CHILD), instanceName=name)
    await api.run(parent, "actions.poke")
    components = accepted(await api.get(f"instances/{parent}/components"))
    assert {each["path"]: each["status"] for each in components} == {"db": "Failed", "main": "Running"}
    return parent


async def with_failed_submodule_of_a_submodule(api: Api, name: str) -> str:
    parent = await api.application(PARENT % await api.application(CHILD))
    instance = await api.running(GRANDPARENT % parent, instanceName=name)
    await api.run(instance, "actions.prod")
    components = accepted(await api.get(f"instances/{instance}/components"))
    assert {each["path"]: each["status"] for each in components} == {"middle": "Degraded", "main": "Running"}
    return instance


async def without_component(api: Api, name: str) -> str:
    instance = await api.launch(await api.application(INCOMPLETE), instanceName=name)
    assert (await api.settled(instance))["status"] == "Failed"
    await api.run(instance, "actions.mend")
    return instance


@pytest.mark.parametrize("break_it", [with_failed_submodule, with_failed_submodule_of_a_submodule, without_component])
async def test_every_surface_says_that_an_instance_with_a_broken_part_is_degraded(
    api: Api, visitor: httpx.AsyncClient, break_it: Break
) -> None:
    name = fresh_name("Tug").replace(" ", "-")
    root = f"/console/organizations/{api.organization}"
    before = degraded((await get(visitor, root)).answer.text)
    instance = await break_it(api, name)
    document = await api.document(instance)
    assert (document["status"], document["workflowHistory"][0]["status"]) == ("Running", "Succeeded")
    listing = f"organizations/{api.organization}/instances"
    for more in ({}, {"degraded": "true"}):
        [listed] = accepted(await api.get(listing, name=name, **more))
        assert listed["health"] == "Degraded"
    groups = accepted(await api.get(f"organizations/{api.organization}/failures?instances=1000"))
    [group] = [each for each in groups if instance in [row["id"] for row in each["instances"]]]
    assert group["message"] == "A component isn't launched, or a submodule has failed or is degraded."
    for query in (name, f"health:degraded {name}"):
        page = (await get(visitor, f"{root}/instances?q={query}")).answer.text
        assert "Degraded" in words_of(page.partition(f'href="/console/instances/{instance}"')[2].partition("</tr>")[0])
    page = (await get(visitor, f"/console/instances/{instance}")).answer.text
    assert "Status: Degraded" in words_of(page)
    assert degraded((await get(visitor, root)).answer.text) == before + (
        1 if break_it is not with_failed_submodule_of_a_submodule else 2
    ), "of it and its submodule"
    application = words_of((await get(visitor, f"/console/applications/{document['applicationId']}")).answer.text)
    assert "Degraded" in application


def degraded(overview: str) -> int:
    """Return how many degraded instances the overview counts; without applications it counts none."""
    found = re.search(r"<b>(\d+) degraded</b>", overview)
    return 0 if found is None else int(found[1])
