"""What a live instance does by itself: triggers, schedules of its manifest, signals of other instances."""

import pytest

from tests.support.applications import SIZED_CHILD, child_of, names, triggered, until
from tests.support.service import Api, accepted, fresh_name


@pytest.mark.slow
async def test_a_changed_signal_runs_the_workflow_that_it_triggers(api: Api) -> None:
    instance = await api.running(triggered())
    await api.run(instance, "actions.say", word="second", tone="low")
    document = await until(api, instance, lambda seen: "alarm" in str(seen["returnValues"]))
    assert document["returnValues"]["result.heard"] == "second low"
    assert names(document) == ["hear", "actions.say", "launch"]


async def test_nobody_sees_the_instance_idle_between_a_command_and_what_it_triggers(api: Api) -> None:
    instance = await api.running(triggered())
    document = await api.run(instance, "actions.say", word="second", tone="low")
    assert names(document) == ["hear", "actions.say", "launch"]
    assert document["returnValues"]["result.heard"] == "second low"


async def test_two_changes_at_once_run_the_workflow_once(api: Api) -> None:
    instance = await api.running(triggered())
    await api.run(instance, "actions.say", word="other", tone="high")
    await until(api, instance, lambda seen: "hear" in names(seen))
    await says_something_else(api, instance)
    assert names(await api.document(instance)) == ["hear", "actions.say", "hear", "actions.say", "launch"]


async def says_something_else(api: Api, instance: str) -> None:
    """Trigger the workflow once more: whatever the changes before it trigger is there before that."""
    await api.run(instance, "actions.say", word="else", tone="any")
    await until(api, instance, lambda seen: seen["returnValues"]["result.heard"] == "else any")


async def test_a_signal_that_stays_the_same_triggers_nothing(api: Api) -> None:
    instance = await api.running(triggered())
    await api.run(instance, "actions.say", word="first", tone="low")
    await api.run(instance, "actions.stay")
    await says_something_else(api, instance)
    assert names(await api.document(instance)) == [
        *("hear", "actions.say", "actions.stay", "actions.say", "launch"),
    ]


async def test_what_the_launch_has_seen_triggers_nothing(api: Api) -> None:
    instance = await api.running(triggered())
    await says_something_else(api, instance)
    assert names(await api.document(instance)) == ["hear", "actions.say", "launch"]


async def test_a_signal_that_comes_too_late_for_the_launch_triggers_after_it(api: Api) -> None:
    late = triggered(required=False).replace(
        "launch: {steps: [], return", "launch: {steps: [{nap: {action: wait, parameters: {delay: 0.2}}}], return"
    )
    instance = await api.running(late)
    document = await until(api, instance, lambda seen: "hear" in names(seen))
    assert document["returnValues"]["result.heard"] == "first low"


async def test_a_failing_trigger_that_propagates_makes_the_instance_failed_and_a_good_one_brings_it_back(
    api: Api,
) -> None:
    instance = await api.running(triggered(delay='"{$.seen.voice.tone}"'))
    await api.run(instance, "actions.say", word="second", tone="shrill")
    document = await until(api, instance, lambda seen: seen["status"] == "Failed")
    assert "'hear'" in document["errorMessage"]
    await api.run(instance, "actions.say", word="third", tone="0")
    document = await until(api, instance, lambda seen: seen["status"] == "Running")
    assert document["returnValues"]["result.heard"] == "third 0"


CLOCKED = """
application:
  interfaces:
    result: {ticks: bind(clock#result.ticks)}
  components:
    clock:
      type: workflow.Instance
      interfaces: {result: {ticks: publish-signal(string)}}
      configuration:
        configuration.schedule: {tick: "CRON"}
        configuration.workflows:
          launch: {steps: [], return: {ticks: {value: none}}}
          tick: {steps: [], return: {ticks: {value: ticked}}}
"""


@pytest.mark.slow
async def test_a_schedule_of_the_manifest_runs_again_and_again(api: Api) -> None:
    instance = await api.running(CLOCKED.replace("CRON", "* * * * * ?"))
    document = await until(api, instance, lambda seen: names(seen).count("tick") >= 2)
    assert document["returnValues"] == {"result.ticks": "ticked"}
    starts = [job["startedAt"] // 1000 for job in document["workflowHistory"] if job["name"] == "tick"]
    assert len(set(starts)) == len(starts), "never twice for one second"
    await api.run(instance, "destroy")
    ended = len((await api.document(instance))["workflowHistory"])
    other = await api.running(CLOCKED.replace("CRON", "* * * * * ?"))
    await until(api, other, lambda seen: names(seen).count("tick") >= 2)  # so a second that both have has come
    assert len((await api.document(instance))["workflowHistory"]) == ended


async def test_the_next_run_of_a_manifests_schedule_is_listed(api: Api) -> None:
    instance = await api.running(CLOCKED.replace("CRON", "0 0 0 1 1 ? 2190"))
    [entry] = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
    assert entry["name"] == "tick"
    assert entry["timestamp"] == 6_942_585_600_000  # 2190-01-01T00:00:00Z


TICKING_MEMBERS = """
application:
  interfaces:
    group: {size: bind(group#scale.set-quantity)}
    result: {ticked: bind(group.member#result.ticked)}
  components:
    group:
      type: composite.Scaler
      configuration: {configuration.quantity: 2}
      components:
        member:
          type: workflow.Instance
          interfaces: {result: {ticked: publish-signal(string)}}
          configuration:
            configuration.schedule: {tick: "SCHEDULE"}
            configuration.workflows:
              launch: {steps: []}
              tick: {steps: [], return: {ticked: {value: ticked}}}
"""


async def test_members_of_a_scaler_have_their_schedules_for_as_long_as_they_are_there(api: Api) -> None:
    instance = await api.running(TICKING_MEMBERS.replace("SCHEDULE", "0 0 0 1 1 ? 2090"))

    async def listed() -> list[str]:
        return [entry["name"] for entry in accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]]

    assert await listed() == ["tick"] * 2
    await api.run(instance, "group.size", quantity="4")
    assert await listed() == ["tick"] * 4
    await api.run(instance, "group.size", quantity="1")
    assert await listed() == ["tick"]
    await api.run(instance, "group.size", quantity="2")
    assert await listed() == ["tick"] * 2


async def test_a_member_that_a_command_has_added_runs_by_its_schedule(api: Api) -> None:
    text = TICKING_MEMBERS.replace("SCHEDULE", "* * * * * ?").replace("quantity: 2", "quantity: 0")
    instance = await api.running(text)
    await api.run(instance, "group.size", quantity="1")
    document = await until(api, instance, lambda seen: "result.ticked" in seen["returnValues"])
    assert "tick" in names(document)


LISTENING_PARENT = """
application:
  interfaces:
    result: {size: bind(child#result.size), told: bind(main#out.told)}
  bindings: [[main, child]]
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces:
        result: {size: publish-signal(int), note: publish-signal(string)}
    main:
      type: workflow.Instance
      required: [result]
      interfaces:
        result: {note: consume-signal(string)}
        out: {told: publish-signal(string)}
      configuration:
        configuration.triggers: {result.note: listen}
        configuration.workflows:
          launch: {steps: [], return: {told: {value: nothing}}}
          listen:
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {told: {value: "{$.seen.result.note}"}}
"""


async def test_a_change_inside_a_child_flows_up_at_once_and_triggers_the_parent(api: Api) -> None:
    name = fresh_name("child")
    # The child changes by itself, by a schedule of its own manifest: no job of the parent has a part in it.
    ticking = SIZED_CHILD.replace(
        "configuration.workflows:", 'configuration.schedule: {grow: "* * * * * ?"}\n        configuration.workflows:'
    ).replace("{$.by}", "42")
    await api.application(ticking, name)
    instance = await api.launch(await api.application(LISTENING_PARENT.replace("LOCATOR", name)))
    assert (await api.settled(instance))["returnValues"]["result.told"] == "nothing"
    document = await until(api, instance, lambda seen: seen["returnValues"]["result.told"] != "nothing")
    assert document["returnValues"] == {"result.size": 42, "result.told": "grown to 42"}
    assert names(document) == ["listen", "launch"]
    assert "grow" in names(await api.document(child_of(document)))


NEEDY_CHILD = """
application:
  interfaces:
    servers: {"*": bind(balancer#servers.*)}
    result: {known: bind(balancer#result.known)}
  components:
    balancer:
      type: workflow.Instance
      interfaces:
        servers: {uri: consume-signal(string)}
        result: {known: publish-signal(string)}
      configuration:
        configuration.triggers: {servers.uri: reload}
        configuration.workflows:
          launch: &reload
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {known: {value: "{$.seen.servers.uri}"}}
          reload: *reload
"""
FEEDING_PARENT = """
application:
  interfaces:
    result: {known: bind(lb#result.known)}
    actions: {move: bind(app#actions.move)}
  bindings: [[lb, app]]
  components:
    lb:
      type: reference.Submodule
      REQUIRED
      configuration: {__locator.application-id: LOCATOR}
      interfaces:
        servers: {uri: consume-signal(string)}
        result: {known: publish-signal(string)}
    app:
      type: workflow.Instance
      interfaces:
        servers: {uri: publish-signal(string)}
        actions: {move: receive-command(string to)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {uri: {value: "http://one"}}}
          move: {steps: [], return: {uri: {value: "{$.to}"}}}
"""
REQUIRING_CHILD = NEEDY_CHILD.replace("    balancer:\n", "    balancer:\n      required: [servers]\n")
SLOW = 'launch: {steps: [{s: {action: wait, parameters: {delay: DELAY}}}], return: {uri: {value: "http://one"}}}'


async def feeding(api: Api, delay: str) -> str:
    """Make a parent whose component gives to its child what that requires, though the parent does not say so."""
    name = fresh_name("balancer")
    await api.application(REQUIRING_CHILD, name)
    text = FEEDING_PARENT.replace("LOCATOR", name).replace("      REQUIRED\n", "")
    quick = 'launch: {steps: [], return: {uri: {value: "http://one"}}}'
    assert quick in text
    return text.replace(quick, SLOW.replace("DELAY", delay))


async def test_a_child_is_launched_when_what_its_own_components_require_is_there(api: Api) -> None:
    document = await api.settled(await api.launch(await api.application(await feeding(api, "0.3"))))
    assert document["returnValues"] == {"result.known": "http://one"}, document["errorMessage"]
    [child] = [part["instanceId"] for part in document["components"] if part["name"] == "lb"]
    assert names(await api.document(child)) == ["launch"]


async def test_a_child_is_not_launched_when_what_it_requires_will_not_be_there(api: Api) -> None:
    document = await api.settled(await api.launch(await api.application(await feeding(api, "never"))))
    assert document["status"] == "Failed"
    assert "'app'" in document["errorMessage"]
    [child] = [part["instanceId"] for part in document["components"] if part["name"] == "lb"]
    assert names(await api.document(child)) == []


async def test_a_child_does_not_wait_for_those_that_wait_for_it(api: Api) -> None:
    text = (await feeding(api, "0")).replace(
        "        servers: {uri: publish-signal(string)}\n",
        "        servers: {uri: publish-signal(string)}\n        result: {known: consume-signal(string)}\n",
    )
    text = text.replace(
        "    app:\n      type: workflow.Instance\n",
        "    app:\n      type: workflow.Instance\n      required: [result]\n",
    )
    instance = await api.running(text)
    # What it could not wait for it hears of later.
    document = await until(api, instance, lambda seen: seen["returnValues"].get("result.known") == "http://one")
    assert document["status"] == "Running"


async def test_a_child_gets_the_signals_of_its_siblings_and_is_triggered_by_them(api: Api) -> None:
    name = fresh_name("balancer")
    await api.application(NEEDY_CHILD, name)
    parent = FEEDING_PARENT.replace("LOCATOR", name).replace("      REQUIRED\n", "")
    instance = await api.launch(await api.application(parent))
    document = await until(api, instance, lambda seen: seen["returnValues"].get("result.known") == "http://one")
    assert document["status"] == "Running"
    await api.run(instance, "actions.move", to="http://two")
    document = await until(api, instance, lambda seen: seen["returnValues"]["result.known"] == "http://two")
    [child] = [part["instanceId"] for part in document["components"] if part["name"] == "lb"]
    assert "reload" in names(await api.document(child))
