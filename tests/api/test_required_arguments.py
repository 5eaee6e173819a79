"""Arguments that a command needs: the request names each missing one, forms mark them (conformance.md, "States")."""

import pytest

from tests.support.service import Api, accepted, fresh_name, refused

# `size` has a default, `host` a configuration pin, `last` a value once the command has run, `by` and `tag` nothing.
DEMANDING = """
application:
  interfaces:
    input: {host: bind(worker#input.host)}
    actions: {grow: bind(worker#actions.grow), scale: bind(group#scale.set-quantity)}
    result: {seen: bind(worker#result.seen)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {host: configuration(string)}
        actions: {grow: "receive-command(int by, string tag, int size, string host, string last, unit u)"}
        result: {seen: publish-signal(object)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {seen: {value: null}}}
          grow:
            parameters: [{size: {default: 1}}]
            steps: []
            return:
              seen: {value: ["{$.by}", "{$.tag}", "{$.size}", "{$.host}", "{$.last}"]}
              last: {value: "{$.tag}"}
    group:
      type: composite.Scaler
      configuration: {configuration.quantity: 1}
      components:
        inner: {type: cobalt.common.Constants, configuration: {configuration.values: {}}}
"""
PLAIN = """
launch:
  parameters: [size: {default: 1}]
  steps: []
  return: {size: {value: "{$.size}"}}
grow:
  parameters: [by: {type: int}, size: {}, colour: {}, note: {default: none}]
  steps: []
  return: {size: {value: "{$.by} {$.size} {$.colour} {$.note}"}}
destroy: {steps: []}
"""


@pytest.fixture(scope="module")
async def demanding(api: Api) -> str:
    return await api.running(DEMANDING, parameters={"input.host": "here"})


async def test_each_missing_argument_is_named_and_nothing_runs(api: Api, demanding: str) -> None:
    before = len((await api.document(demanding))["workflowHistory"])
    answer = await api.post(f"instances/{demanding}/actions.grow", {"size": "2"})
    refused(answer, 400, "MissingParameter")
    assert answer.json()["errors"] == [
        "Workflow actions.grow requires the parameter 'by' (int).",
        "Workflow actions.grow requires the parameter 'tag' (string).",
        "Workflow actions.grow requires the parameter 'last' (string).",
    ]
    assert len((await api.document(demanding))["workflowHistory"]) == before


async def test_an_argument_of_a_wrong_type_is_reported_first(api: Api, demanding: str) -> None:
    refused(await api.post(f"instances/{demanding}/actions.grow", {"by": "many"}), 400, "WrongParameterType")


async def test_defaults_configuration_and_earlier_results_need_no_argument(api: Api) -> None:
    instance = await api.running(DEMANDING, parameters={"input.host": "here"})
    document = await api.run(instance, "actions.grow", by="2", tag="a", last="none")
    assert document["returnValues"] == {"result.seen": [2, "a", 1, "here", "none"]}
    document = await api.run(instance, "actions.grow", by="3", tag="b")
    assert document["returnValues"] == {"result.seen": [3, "b", 1, "here", "a"]}


async def test_a_scaler_requires_its_quantity(api: Api, demanding: str) -> None:
    sentences = refused(await api.post(f"instances/{demanding}/actions.scale", {}), 400, "MissingParameter")
    assert sentences == "Workflow actions.scale requires the parameter 'quantity' (int)."


async def test_a_schedule_is_checked_too(api: Api, demanding: str) -> None:
    path = f"instances/{demanding}/actions.grow"
    refused(await api.post(f"{path}/schedule", {"interval": 60_000}), 400, "MissingParameter")
    given = {"by": "1", "tag": "x", "last": "y"}
    accepted(await api.post(f"{path}/schedule", {"interval": 60_000, "parameters": given}))
    refused(
        await api.post(f"{path}/reschedule", {"interval": 9_000, "parameters": {"by": "1"}}), 400, "MissingParameter"
    )
    accepted(await api.post(f"{path}/reschedule", {"interval": 9_000_000}))
    accepted(await api.post(f"{path}/reschedule", {"interval": 0}))


async def test_a_workflow_manifest_requires_parameters_without_a_default(api: Api) -> None:
    instance = await api.running(PLAIN, parameters={"colour": "red"})
    sentences = refused(await api.post(f"instances/{instance}/grow", {}), 400, "MissingParameter")
    assert sentences == "Workflow grow requires the parameter 'by' (int)."
    document = await api.run(instance, "grow", by="4")
    assert document["returnValues"] == {"size": "4 1 red none"}


async def test_null_is_a_value_of_an_argument_of_any_type(api: Api) -> None:
    instance = await api.running("launch: {steps: []}\nshow: {parameters: [what: {}], steps: []}\n")
    refused(await api.post(f"instances/{instance}/show", {}), 400, "MissingParameter")
    assert (await api.run(instance, "show", what=None))["status"] == "Running"


async def test_a_command_of_a_submodule_requires_what_the_child_requires(api: Api) -> None:
    name = fresh_name("child")
    await api.application(PLAIN, name)
    instance = await api.running(
        f"""
        application:
          interfaces: {{manage: {{grow: bind(child#actions.grow)}}, result: {{size: bind(child#result.size)}}}}
          components:
            child:
              type: reference.Submodule
              interfaces:
                actions: {{grow: "receive-command(int by, object size, object colour, object note)"}}
                result: {{size: publish-signal(object)}}
              configuration: {{__locator.application-id: "{name}"}}
        """
    )
    answer = await api.post(f"instances/{instance}/manage.grow", {})
    refused(answer, 400, "MissingParameter")
    assert answer.json()["errors"] == [
        "Workflow manage.grow requires the parameter 'by' (int).",
        "Workflow manage.grow requires the parameter 'colour' (object).",
    ]
    document = await api.run(instance, "manage.grow", by="2", colour="red")
    assert document["returnValues"] == {"result.size": "2 1 red none"}
