"""Commands that cross the boundaries of submodules: what a child needs, its parent provides (manifest-language §7)."""

import pytest

from tests.support.applications import job_of, until, until_step
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.families import links
from tests.support.service import Api, accepted, fresh_name, running_api

# A child that registers with its parent at launch, by command, and when its size changes.
CHILD = """
application:
  configuration: {input.name: web, input.seconds: "0"}
  interfaces:
    input: {name: bind(box.w#input.name), seconds: bind(box.w#input.seconds)}
    result: {token: bind(box.w#result.token)}
    actions: {again: bind(box.w#actions.again), loop: bind(box.w#actions.loop)}
    need: {"*": bind(box.w#need.*)}
  components:
    box:
      components:
        w:
          type: workflow.Instance
          interfaces:
            input: {name: configuration(string), seconds: configuration(string)}
            result: {token: publish-signal(string)}
            actions: {again: receive-command(string name => string token), loop: receive-command()}
            need: {register: "send-command(string name, string seconds => string token)"}
          configuration:
            configuration.triggers: {input.name: again}
            configuration.workflows:
              launch: &again
                steps:
                  - ask:
                      action: need.register
                      parameters: {name: "{$.name}", seconds: "{$.seconds}" MORE}
                      output: {token: token}
                return: {token: {value: "{$.token}"}}
              again: *again
              loop: {steps: [{ask: {action: need.register, parameters: {name: loop, seconds: "0"}}}]}
"""
# Passes everything on, in both directions.
MIDDLE = """
application:
  configuration: {input.name: web, input.seconds: "0"}
  interfaces:
    input: {"*": bind(group#input.*)}
    result: {"*": bind(group#result.*)}
    actions: {"*": bind(group#actions.*)}
    need: {register: bind(group#wanted.register)}
  components:
    group:
      interfaces:
        input: {"*": bind(child#input.*)}
        result: {"*": bind(child#result.*)}
        actions: {"*": bind(child#actions.*)}
        wanted: {"*": bind(child#need.*)}
      components:
        child: {type: reference.Submodule, configuration: {__locator.application-id: LOCATOR}, interfaces: PINS}
"""
PINS = (
    "{input: {name: configuration(string), seconds: configuration(string)}, result: {token: publish-signal(string)}, "
    "actions: {again: receive-command(string name => string token), loop: receive-command()}, "
    'need: {register: "send-command(string name, string seconds => string token)"}}'
)
PARENT = """
application:
  configuration: {input.name: web, input.seconds: "0"}
  interfaces:
    input: {"*": bind(child#input.*)}
    child: {token: bind(child#result.token)}
    actions: {again: bind(child#actions.again), loop: bind(child#actions.loop), rest: bind(registry.r#own.rest)}
    seen: {"*": bind(registry.r#seen.*)}
  bindings: [[child, registry]]
  components:
    child: {type: reference.Submodule, configuration: {__locator.application-id: LOCATOR}, interfaces: PINS}
    registry:
      interfaces: {door: {"*": bind(r#door.*)}}
      components:
        r:
          type: workflow.Instance
          interfaces:
            door: {register: "receive-command(string name, string seconds => string token)"}
            own: {rest: receive-command(string seconds)}
            seen: {last: publish-signal(string), count: publish-signal(int)}
            loop: {again: send-command(string name => string token)}
          configuration:
            configuration.workflows:
              launch: {steps: [], return: {last: {value: nobody}}}
              rest: {steps: [{pause: {action: wait, parameters: {delay: "{$.seconds}"}}}]}
              register:
                steps:
                  - pause: {action: wait, parameters: {delay: "{$.seconds}"}}
                return:
                  last: {value: "{$.name}"}
                  token: {value: "token of {$.name}"}
"""


async def family(api: Api, levels: int = 1, parent: str = PARENT, more: str = "") -> str:
    """Return the application of a parent that is so many levels above a child."""
    name = fresh_name("child")
    await api.application(CHILD.replace("MORE", more), name)
    for _ in range(levels - 1):
        outer = fresh_name("middle")
        await api.application(MIDDLE.replace("LOCATOR", name).replace("PINS", PINS), outer)
        name = outer
    return await api.application(parent.replace("LOCATOR", name).replace("PINS", PINS))


async def innermost(api: Api, instance: str) -> str:
    while inner := links(await api.document(instance)):
        [instance] = inner.values()
    return instance


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 2, 3])
async def test_a_child_calls_what_its_parent_provides_at_launch_and_in_commands(api: Api, levels: int) -> None:
    instance = await api.launch(await family(api, levels))
    document = await api.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"child.token": "token of web", "seen.last": "web"}
    document = await api.run(instance, "actions.again", name="shop")
    assert document["returnValues"] == {"child.token": "token of shop", "seen.last": "shop"}
    assert [job["status"] for job in document["workflowHistory"]] == ["Succeeded"] * 2
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"


@pytest.mark.parametrize("levels", [1, 3])
async def test_the_failure_of_the_provider_reaches_the_caller(api: Api, levels: int) -> None:
    instance = await api.launch(await family(api, levels), parameters={"input.seconds": "never"})
    document = await api.settled(instance)
    assert document["status"] == "Failed"
    assert "'register'" in document["errorMessage"]
    assert "never" in document["errorMessage"]
    inner = await api.document(await innermost(api, instance))
    assert "'ask'" in inner["errorMessage"]
    assert "never" in inner["errorMessage"]
    assert document["returnValues"]["seen.last"] == "nobody"


@pytest.mark.parametrize("levels", [1, 3])
async def test_a_triggered_workflow_of_the_child_calls_its_parent_too(api: Api, levels: int) -> None:
    instance = await api.launch(await family(api, levels))
    await api.settled(instance)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.name": "shop"}}))
    document = await until(api, instance, lambda seen: seen["returnValues"]["seen.last"] == "shop")
    assert document["status"] == "Running", document["errorMessage"]
    document = await until(api, instance, lambda seen: seen["returnValues"]["child.token"] == "token of shop")
    assert document["status"] == "Running", document["errorMessage"]


@pytest.mark.slow
async def test_a_workflow_that_the_child_runs_by_itself_calls_in_a_job_of_the_parent(api: Api) -> None:
    more = """
            configuration.schedule: {loop: "* * * * * ?"}"""
    name = fresh_name("child")
    scheduled = CHILD.replace("MORE", "").replace("          configuration:\n", f"          configuration:{more}\n", 1)
    await api.application(scheduled, name)
    middle = fresh_name("middle")
    await api.application(MIDDLE.replace("LOCATOR", name).replace("PINS", PINS), middle)
    for locator, expected in ((name, ["need.register"]), (middle, ["need.register"])):
        application = await api.application(PARENT.replace("LOCATOR", locator).replace("PINS", PINS))
        instance = await api.launch(application)
        document = await until(api, instance, lambda seen: seen["returnValues"].get("seen.last") == "loop")
        jobs = [job for job in document["workflowHistory"] if job["name"] == "need.register"]
        assert [jobs[-1]["name"]] == expected
        assert jobs[-1]["status"] == "Succeeded"
        accepted(await api.delete(f"instances/{instance}?force=1"))
        await api.gone(instance)


async def test_a_call_that_takes_too_long_ends_and_leaves_the_parent_free(api: Api) -> None:
    more = ", commandCallTimeout: 0.3, ignoreFail: true"
    instance = await api.launch(await family(api, 2, more=more), parameters={"input.seconds": "60"})
    document = await api.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"]["seen.last"] == "nobody"
    [pause] = [step for step in (await job_of(api, instance))["steps"] if step["name"] == "pause"]
    assert pause["status"] == "Failed"
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.seconds": "0"}}))
    await api.settled(instance)
    document = await api.run(instance, "actions.again", name="late")
    assert document["returnValues"]["seen.last"] == "late"


async def test_cancelling_the_parents_job_cancels_the_call_and_the_child(api: Api) -> None:
    instance = await api.launch(await family(api, 2), parameters={"input.seconds": "60"})
    job = await until_step(api, instance, "pause", "Executing")
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    document = await api.settled(instance)
    assert document["status"] == "Failed"
    inner = await api.document(await innermost(api, instance))
    assert inner["status"] == "Failed"
    document = await api.run(instance, "destroy")
    assert document["status"] == "Destroyed", document["errorMessage"]


async def test_a_command_that_calls_back_on_the_waiting_child_fails_at_once(api: Api) -> None:
    calls_back = PARENT.replace("bindings: [[child, registry]]", "bindings: [[child, registry], [registry.r, child]]")
    calls_back = calls_back.replace(
        '- pause: {action: wait, parameters: {delay: "{$.seconds}"}}\n                return:\n                  last',
        "- back: {action: loop.again, parameters: {name: other}}\n                return:\n                  last",
    )
    assert "back:" in calls_back
    instance = await api.launch(await family(api, 1, parent=calls_back))
    document = await api.settled(instance)
    assert document["status"] == "Failed"
    assert "deadlock" in document["errorMessage"]


async def test_a_need_that_nobody_provides_fails_the_call_naming_it(api: Api) -> None:
    unbound = PARENT.replace("bindings: [[child, registry]]", "bindings: []")
    for levels in (1, 2):
        instance = await api.launch(await family(api, levels, parent=unbound))
        document = await api.settled(instance)
        assert document["status"] == "Failed"
        assert "no receiver" in document["errorMessage"]
        assert "'register'" in document["errorMessage"]


async def test_a_sibling_may_provide_what_a_child_needs(api: Api) -> None:
    provider = fresh_name("provider")
    await api.application(
        """
        application:
          interfaces: {door: {"*": bind(r#door.*)}, seen: {"*": bind(r#seen.*)}}
          components:
            r:
              type: workflow.Instance
              interfaces:
                door: {register: "receive-command(string name, string seconds => string token)"}
                seen: {last: publish-signal(string)}
              configuration:
                configuration.workflows:
                  launch: {steps: []}
                  register: {steps: [], return: {last: {value: "{$.name}"}, token: {value: "by a sibling"}}}
        """,
        provider,
    )
    text = f"""
application:
  interfaces:
    child: {{token: bind(child#result.token)}}
    seen: {{"*": bind(sibling#seen.*)}}
    actions: {{again: bind(child#actions.again)}}
  bindings: [[child, sibling]]
  components:
    child: {{type: reference.Submodule, configuration: {{__locator.application-id: LOCATOR}}, interfaces: PINS}}
    sibling:
      type: reference.Submodule
      configuration: {{__locator.application-id: {provider}}}
      interfaces:
        door: {{register: "receive-command(string name, string seconds => string token)"}}
        seen: {{last: publish-signal(string)}}
"""
    instance = await api.launch(await family(api, 1, parent=text))
    document = await api.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"child.token": "by a sibling", "seen.last": "web"}
    document = await api.run(instance, "actions.again", name="again")
    assert document["returnValues"]["seen.last"] == "again"


async def test_the_callers_step_shows_how_far_the_called_workflow_is(api: Api) -> None:
    slow = PARENT.replace(
        '- pause: {action: wait, parameters: {delay: "{$.seconds}"}}\n                return:',
        "- one: {action: wait, parameters: {delay: 0}}\n"
        "                  - two: {action: wait, precedingPhases: [one], parameters: {delay: 0}}\n"
        '                  - pause: {action: wait, precedingPhases: [two], parameters: {delay: "{$.seconds}"}}\n'
        "                return:",
    )
    assert "one:" in slow
    instance = await api.launch(await family(api, 1, parent=slow), parameters={"input.seconds": "60"})
    await until_step(api, instance, "pause", "Executing")
    child = await innermost(api, instance)
    ask = (await eventually(lambda: job_of(api, child), lambda found: found["steps"][0]["percentComplete"] == 66))[
        "steps"
    ][0]
    assert (ask["name"], ask["status"]) == ("ask", "Executing")
    job = await job_of(api, instance)
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    await api.settled(instance)


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 2])
async def test_a_call_goes_on_after_the_worker_that_ran_it_has_gone(databases: Databases, levels: int) -> None:
    url = databases.create()
    async with running_api(url) as api:
        instance = await api.launch(await family(api, levels), parameters={"input.seconds": "1.5"})
        await until_step(api, instance, "pause", "Executing")
    async with running_api(url) as api:
        document = await api.settled(instance)
        assert document["status"] == "Running", document["errorMessage"]
        assert document["returnValues"] == {"child.token": "token of web", "seen.last": "web"}
    databases.drop(url)


@pytest.mark.slow
async def test_what_an_ended_child_has_called_is_not_lost_with_the_worker(databases: Databases) -> None:
    later = """
    later:
      type: workflow.Instance
      required: [token]
      interfaces: {token: {token: consume-signal(string)}}
      configuration:
        configuration.workflows:
          launch: {steps: [{hold: {action: wait, parameters: {delay: 1.5}}}]}
"""
    parent = PARENT.replace("bindings: [[child, registry]]", "bindings: [[child, registry], [later, child]]") + later
    url = databases.create()
    async with running_api(url) as api:
        instance = await api.launch(await family(api, 2, parent=parent))
        await until_step(api, instance, "hold", "Executing")
        assert (await api.document(await innermost(api, instance)))["status"] == "Running"
        assert "seen.last" not in (await api.document(instance))["returnValues"]
    async with running_api(url) as api:
        document = await api.settled(instance)
        assert document["status"] == "Running", document["errorMessage"]
        assert document["returnValues"] == {"child.token": "token of web", "seen.last": "web"}
    databases.drop(url)
