"""Reconfiguring live instances, and the previews that tell before (reference §4, configuration)."""

import json
from typing import Any

import pytest

from tests.support.applications import RELAY, SIZED_CHILD, child_of, parent, parent_and_child
from tests.support.service import UNKNOWN, Api, accepted, fresh_name, refused

SIZED = """
application:
  configuration: {input.size: 1}
  interfaces:
    input: {size: bind(worker#input.size), label: bind(worker#input.label)}
    result: {shown: bind(worker#result.shown), ran: bind(worker#result.ran)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int), label: configuration(string)}
        result: {shown: publish-signal(string), ran: publish-signal(string)}
      configuration:
        configuration.triggers: {input.size: resize, input.label: resize}
        configuration.workflows:
          launch: {steps: [], return: {shown: {value: "{$.label} {$.size}"}, ran: {value: launch}}}
          resize:
            steps: [{pause: {action: wait, parameters: {delay: DELAY}}}]
            return: {shown: {value: "{$.label} {$.size}"}, ran: {value: resize}}
          destroy: {steps: []}
"""


def sized(delay: str = "0") -> str:
    return SIZED.replace("DELAY", delay)


async def reconfigured(api: Api, instance: str, body: Any) -> Any:
    assert accepted(await api.put(f"instances/{instance}/configuration", body)) == {}
    return await api.settled(instance)


async def preview(api: Api, instance: str, body: Any) -> Any:
    return accepted(await api.post(f"instances/{instance}/configuration/preview", body))


def changes(told: Any) -> dict[str, str]:
    return {part["path"]: part["change"] for part in told["components"]}


async def test_a_changed_parameter_triggers_its_workflow_with_the_new_value(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box"})
    document = await reconfigured(api, instance, {"parameters": {"input.label": "box", "input.size": 5}})
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"result.shown": "box 5", "result.ran": "resize"}
    assert document["parameters"] == {"input.label": "box", "input.size": 5}
    assert [job["name"] for job in document["workflowHistory"]] == ["reconfigure", "launch"]


async def test_several_changed_pins_of_one_workflow_run_it_once(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box"})
    document = await reconfigured(api, instance, {"parameters": {"input.label": "crate", "input.size": 2}})
    assert document["returnValues"]["result.shown"] == "crate 2"
    steps = accepted(await api.get(f"instances/{instance}/jobs"))[0]["steps"]
    assert [step["name"] for step in steps].count("pause") == 1


async def test_parameters_that_are_not_given_go_back_to_their_defaults(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box", "input.size": 9})
    document = await reconfigured(api, instance, {"parameters": {"input.label": "box"}})
    assert document["returnValues"]["result.shown"] == "box 1"


async def test_required_parameters_that_are_not_given_are_refused_naming_each(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box"})
    told = refused(await api.put(f"instances/{instance}/configuration", {}), 400, "InvalidParameters")
    assert "input.label" in told
    assert (await api.document(instance))["parameters"] == {"input.label": "box", "input.size": 1}


async def test_nothing_runs_where_nothing_changes(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box"})
    document = await reconfigured(api, instance, {"parameters": {"input.label": "box"}})
    assert document["returnValues"]["result.ran"] == "launch"


async def test_the_name_changes_with_the_configuration(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box"}, instanceName="first")
    body = {"instanceName": "second", "parameters": {"input.label": "box"}}
    assert (await reconfigured(api, instance, body))["name"] == "second"


async def test_a_trigger_that_fails_without_propagating_leaves_the_instance_running_with_the_error(api: Api) -> None:
    instance = await api.running(sized('"{$.label}"'), parameters={"input.label": "0"})
    document = await reconfigured(api, instance, {"parameters": {"input.label": "never"}})
    assert document["status"] == "Running"
    assert "'resize'" in document["errorMessage"]
    assert document["workflowHistory"][0]["status"] == "Failed"


async def test_a_trigger_that_fails_and_propagates_fails_the_instance(api: Api) -> None:
    text = sized('"{$.label}"').replace(
        "configuration.triggers", "configuration.propagateStatus: [resize]\n        configuration.triggers"
    )
    instance = await api.running(text, parameters={"input.label": "0"})
    assert (await reconfigured(api, instance, {"parameters": {"input.label": "never"}}))["status"] == "Failed"
    document = await reconfigured(api, instance, {"parameters": {"input.label": "0.01"}})
    assert document["status"] == "Running"
    assert document["errorMessage"] is None


ECHO = """
application:
  configuration: {input.size: 1, input.label: box}
  interfaces:
    input: {"*": bind(worker#input.*)}
    actions: {"*": bind(worker#actions.*)}
    result: {"*": bind(worker#result.*)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int), label: configuration(string)}
        actions: {resize: "receive-command(int size)", show: receive-command()}
        result: {size: publish-signal(int), shown: publish-signal(string)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {size: {value: "{$.size}"}}}
          resize: {steps: [], return: {size: {value: "{$.size}"}}}
          show: {steps: [], return: {shown: {value: "{$.label} {$.size}"}}}
          destroy: {steps: []}
"""


async def test_what_a_command_returned_counts_until_the_pin_of_that_name_is_configured_otherwise(api: Api) -> None:
    instance = await api.running(ECHO)
    await api.run(instance, "actions.resize", size="5")
    await reconfigured(api, instance, {"parameters": {"input.label": "crate"}})
    document = await api.run(instance, "actions.show")
    assert document["returnValues"] == {"result.size": 5, "result.shown": "crate 5"}
    await reconfigured(api, instance, {"parameters": {"input.size": 7}})
    document = await api.run(instance, "actions.show")
    assert document["returnValues"]["result.shown"] == "box 7"


TWO_PARTS = """
application:
  interfaces:
    result: {old: bind(old#result.note), kept: bind(kept#result.note)}
  components:
    old: PART
    kept: PART
"""
PART = (
    "{type: workflow.Instance, interfaces: {result: {note: publish-signal(string)}}, configuration: "
    "{configuration.workflows: {launch: {steps: [], return: {note: {value: NOTE}}}, "
    "destroy: {steps: [{bye: {action: wait, parameters: {delay: 0}}}]}}}}"
)


async def test_another_version_stops_starts_and_keeps_components(api: Api) -> None:
    first = TWO_PARTS.replace("PART", PART.replace("NOTE", "one"))
    second = TWO_PARTS.replace("PART", PART.replace("NOTE", "two")).replace("old", "fresh")
    application = await api.application(first)
    instance = await api.launch(application)
    await api.settled(instance)
    version = accepted(await api.put_yaml(f"applications/{application}/manifest", second))["version"]
    told = await preview(api, instance, {"manifestVersion": version})
    assert changes(told) == {"old": "stops", "fresh": "starts", "kept": "changes"}  # what it returns differs
    assert told["workflows"] == ["old#destroy", "fresh#launch"]
    document = await reconfigured(api, instance, {"manifestVersion": version})
    assert document["version"] == version
    assert document["returnValues"] == {"result.fresh": "two", "result.kept": "one"}
    assert [part["name"] for part in document["components"]] == ["fresh", "kept"]


async def test_a_preview_changes_nothing_and_tells_values_and_resets(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box", "input.size": 9})
    before = await api.document(instance)
    told = await preview(api, instance, {"parameters": {"input.label": "crate"}})
    assert told["errors"] == []
    assert changes(told) == {"worker": "changes"}
    assert told["components"][0]["parameters"] == [
        {"name": "input.size", "from": 9, "to": 1, "reset": True},
        {"name": "input.label", "from": "box", "to": "crate", "reset": False},
    ]
    assert told["workflows"] == ["worker#resize"]
    assert await api.document(instance) == before


async def test_a_preview_tells_the_reasons_for_a_refusal(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box"})
    told = await preview(api, instance, {"parameters": {"input.colour": "red"}})
    assert any("input.colour" in sentence for sentence in told["errors"])
    assert any("input.label" in sentence for sentence in told["errors"])
    assert told["components"] == []


async def test_a_preview_of_a_launch_shows_every_component_of_every_level(api: Api) -> None:
    application = await parent_and_child(api)
    told = accepted(await api.post(f"applications/{application}/launch/preview", {"parameters": {"input.size": 3}}))
    assert changes(told) == {"child": "starts", "main": "starts", "child.worker": "starts"}
    assert set(told["workflows"]) == {"main#launch", "child.worker#launch"}
    assert accepted(await api.get(f"applications/{application}/instances")) == []


async def test_a_child_takes_over_the_parameters_of_its_parent(api: Api) -> None:
    name = fresh_name("child")
    # The child gives its size back; a changed one counts all the same.
    resizing = SIZED_CHILD.replace(
        "configuration.workflows:", "configuration.triggers: {input.size: launch}\n        configuration.workflows:"
    )
    await api.application(resizing, name)
    instance = await api.launch(await api.application(parent(name)), parameters={"input.size": 2})
    child = child_of(await api.settled(instance))
    document = await reconfigured(api, instance, {"parameters": {"input.size": 6}})
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"]["result.size"] == 6
    assert child_of(document) == child
    seen = await api.document(child)
    assert seen["parameters"] == {"input.size": 6}
    assert [job["name"] for job in seen["workflowHistory"]] == ["reconfigure", "launch"]


async def test_another_version_of_a_child_keeps_its_instance(api: Api) -> None:
    name = fresh_name("child")
    application = await api.application(SIZED_CHILD, name)
    instance = await api.launch(await api.application(parent(name)))
    child = child_of(await api.settled(instance))
    accepted(await api.put_yaml(f"applications/{application}/manifest", SIZED_CHILD.replace("grown to", "grew to")))
    unchanged = await reconfigured(api, instance, {})
    assert (await api.document(child_of(unchanged)))["version"] == 2
    document = await reconfigured(api, instance, {"submodules": {"child": {"manifestVersion": 3}}})
    assert child_of(document) == child
    assert (await api.document(child))["version"] == 3
    await api.run(instance, "actions.grow", by="3")
    assert (await api.document(child))["returnValues"]["result.note"] == "grew to 3"


async def test_a_revision_brings_its_submodules_and_what_is_given_wins_over_them(api: Api) -> None:
    name = fresh_name("child")
    child = await api.application(SIZED_CHILD, name)
    accepted(await api.put_yaml(f"applications/{child}/manifest", SIZED_CHILD.replace("grown to", "grew to")))
    application = await api.application(parent(name))
    instance = await api.launch(application)
    document = await api.settled(instance)
    content = {"name": "stable", "version": 2, "submodules": {"child": {"manifestVersion": 2}}}
    revision = accepted(await api.post(f"applications/{application}/revisions", content))["id"]
    told = await preview(api, instance, {"revisionId": revision})
    assert told["errors"] == []
    await reconfigured(api, instance, {"revisionId": revision})
    assert (await api.document(child_of(document)))["version"] == 2
    body = {"revisionId": revision, "submodules": {"child": {"manifestVersion": 3}}}
    await reconfigured(api, instance, body)
    assert (await api.document(child_of(document)))["version"] == 3


async def test_a_revision_resets_parameters_that_are_not_given(api: Api) -> None:
    text = "launch:\n  parameters: [{a: {default: 1}}, {b: {default: 2}}, {c: {default: 3}}]\n  steps: []\n"
    flat = await api.application(text)
    content = {"name": "kept", "version": 2, "parameters": {"a": 10, "b": 20}}
    revision = accepted(await api.post(f"applications/{flat}/revisions", content))["id"]
    instance = await api.launch(flat, revisionId=revision)
    assert (await api.settled(instance))["parameters"] == {"a": 10, "b": 20, "c": 3}
    document = await reconfigured(api, instance, {"revisionId": revision, "parameters": {"b": 21}})
    assert document["parameters"] == {"a": 1, "b": 21, "c": 3}
    assert document["parameterOrigins"] == {"a": "default", "b": "given", "c": "default"}
    told = await preview(api, instance, {"revisionId": revision})
    [part] = [part for part in told["components"] if part["parameters"]]
    assert [(each["name"], each["to"], each["reset"]) for each in part["parameters"]] == [("input.b", 2, True)]
    # With another version, the defaults are those of the version.
    accepted(await api.put_yaml(f"applications/{flat}/manifest", text.replace("default: 1", "default: 5")))
    body = {"revisionId": revision, "manifestVersion": 3, "parameters": {"c": 30}}
    assert (await reconfigured(api, instance, body))["parameters"] == {"a": 5, "b": 2, "c": 30}


@pytest.mark.parametrize("by_its_own", [False, True])
async def test_a_revision_resets_parameters_of_submodules_too(api: Api, *, by_its_own: bool) -> None:
    name = fresh_name("child")
    child = await api.application(SIZED_CHILD, name)
    unmapped = parent(name).replace("    input: {size: bind(child#input.size)}\n", "")
    application = await api.application(unmapped)
    given = {"parameters": {"input.size": 4}}
    if by_its_own:
        content = {"name": "four", "version": 2, **given}
        request = {"revisionId": accepted(await api.post(f"applications/{child}/revisions", content))["id"]}
    else:
        request = {"manifestVersion": "2", **given}
    content = {"name": "kept", "version": 2, "submodules": {"child": request}}
    revision = accepted(await api.post(f"applications/{application}/revisions", content))["id"]
    instance = await api.launch(application, revisionId=revision)
    document = await api.settled(instance)
    assert (await api.document(child_of(document)))["parameters"] == {"input.size": 4}
    document = await reconfigured(api, instance, {"revisionId": revision})
    assert document["status"] == "Running", document["errorMessage"]
    assert (await api.document(child_of(document)))["parameters"] == {"input.size": 1}


async def test_another_locator_replaces_the_child(api: Api) -> None:
    first, second = fresh_name("child"), fresh_name("child")
    await api.application(SIZED_CHILD, first)
    await api.application(SIZED_CHILD.replace("size {$.size}", "other {$.size}"), second)
    application = await api.application(parent(first))
    instance = await api.launch(application)
    child = child_of(await api.settled(instance))
    accepted(await api.put_yaml(f"applications/{application}/manifest", parent(second)))
    told = await preview(api, instance, {"manifestVersion": 3})
    assert [part["change"] for part in told["components"] if part["path"] == "child"] == ["stops", "starts"]
    document = await reconfigured(api, instance, {"manifestVersion": 3})
    assert document["status"] == "Running", document["errorMessage"]
    assert child_of(document) != child
    assert (await api.document(child))["status"] == "Destroyed"
    assert (await api.document(child_of(document)))["returnValues"]["result.note"] == "other 1"


async def test_a_preview_shows_what_goes_with_a_child_at_every_level(api: Api) -> None:
    bottom, middle = fresh_name("bottom"), fresh_name("middle")
    await api.application(SIZED_CHILD, bottom)
    await api.application(RELAY.replace("LOCATOR", bottom), middle)
    application = await api.application(parent(middle))
    instance = await api.launch(application)
    document = await api.settled(instance)
    body = {"manifestVersion": accepted(await api.put_yaml(f"applications/{application}/manifest", "{}"))["version"]}
    told = await preview(api, instance, body)
    gone = ["main", "child", "child.child", "child.child.worker"]
    assert [(part["path"], part["change"]) for part in told["components"] if part["change"] == "stops"] == [
        (path, "stops") for path in gone
    ]
    assert told["workflows"] == ["child.child.worker#destroy"]
    second = child_of(document)
    third = child_of(await api.document(second))
    await reconfigured(api, instance, body)
    for each in (second, third):
        assert (await api.document(each))["status"] == "Destroyed"


async def test_a_locator_may_be_a_parameter_and_another_one_replaces_the_child(api: Api) -> None:
    first, second = fresh_name("child"), fresh_name("child")
    await api.application(SIZED_CHILD, first)
    await api.application(SIZED_CHILD.replace("size {$.size}", "other {$.size}"), second)
    text = parent(first).replace("input: {size:", "input: {app: bind(child#__locator.application-id), size:", 1)
    application = await api.application(text)
    instance = await api.launch(application, parameters={"input.app": second})
    document = await api.settled(instance)
    assert document["returnValues"]["result.told"] == "other 1"
    before = child_of(document)
    document = await reconfigured(api, instance, {})
    assert child_of(document) != before
    assert (await api.document(before))["status"] == "Destroyed"
    document = await api.run(instance, "launch")
    assert document["returnValues"]["result.told"] == "size 1"
    refused(
        await api.post(f"applications/{application}/launch", {"parameters": {"input.app": "nobody"}}),
        400,
        "UnknownSubmodule",
    )


async def test_a_child_refuses_a_configuration_of_its_own(api: Api) -> None:
    instance = await api.launch(await parent_and_child(api))
    child = child_of(await api.settled(instance))
    refused(await api.put(f"instances/{child}/configuration", {}), 403, "SubmoduleInstance")


async def test_a_busy_instance_refuses_a_configuration_with_409(api: Api) -> None:
    instance = await api.running(sized("0.5"), parameters={"input.label": "box"})
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.label": "x"}}))
    refused(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.label": "y"}}), 409)
    document = await api.settled(instance)
    assert document["parameters"] == {"input.label": "x", "input.size": 1}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"manifestVersion": 99}, "InvalidManifestVersion"),
        ({"manifestVersion": "x"}, "InvalidField"),
        ({"revisionId": UNKNOWN}, "UnknownRevision"),
        ({"parameters": []}, "InvalidField"),
        ({"instanceName": "x" * 300}, "InvalidName"),
        ({"instanceName": "\t"}, "InvalidName"),
        ({"instanceName": "a\nb"}, "InvalidName"),
        ({"instanceName": "safe\u202egpj.exe"}, "InvalidName"),
        ({"submodules": {"nobody": {}}}, "UnknownSubmodule"),
        ({"parameters": {"input.label": "x", "input.size": "many"}}, "InvalidParameters"),
    ],
)
async def test_a_configuration_that_makes_no_sense_is_400_and_changes_nothing(api: Api, body: Any, code: str) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box"})
    before = await api.document(instance)
    body.setdefault("parameters", {"input.label": "box"})
    refused(await api.put(f"instances/{instance}/configuration", body), 400, code)
    assert await api.document(instance) == before


async def test_a_blank_name_keeps_the_name_with_a_warning(api: Api) -> None:
    instance = await api.running(sized(), parameters={"input.label": "box"}, instanceName="first")
    body = {"instanceName": " ", "parameters": {"input.label": "box"}}
    answer = await api.put(f"instances/{instance}/configuration", body)
    assert json.loads(answer.headers["Launchbay-Warnings"]) == [
        "instanceName is blank, so the instance keeps its name."
    ]
    await api.settled(instance)
    assert (await api.document(instance))["name"] == "first"


async def test_changed_policies_and_properties_are_seen_after_the_next_reconfiguration(api: Api) -> None:
    environment = await api.offer(properties=[{"name": "region", "value": "north", "type": "string"}])
    text = """
    application:
      interfaces: {result: {region: bind(main#result.region)}, actions: {look: bind(main#actions.look)}}
      bindings: [[main, props]]
      components:
        props: {type: reference.Service, interfaces: {properties: {region: publish-signal(string)}}}
        main:
          type: workflow.Instance
          required: [properties]
          interfaces:
            properties: {region: consume-signal(string)}
            actions: {look: receive-command()}
            result: {region: publish-signal(string)}
          configuration:
            configuration.workflows:
              launch: &look
                steps: [{get: {action: getEnvironmentProperties, output: {seen: result}}}]
                return: {region: {value: "{$.seen.properties.region}"}}
              look: *look
    """
    instance = await api.running(text, environmentId=environment)
    changed = {"properties": [{"name": "region", "value": "south", "type": "string"}]}
    accepted(await api.put(f"environments/{environment}/properties", changed))
    assert (await api.run(instance, "actions.look"))["returnValues"] == {"result.region": "north"}
    await reconfigured(api, instance, {})
    assert (await api.run(instance, "actions.look"))["returnValues"] == {"result.region": "south"}
