"""The parameters of an instance: effective, typed, with their origins (reference §2, Instance)."""

from typing import Any

from tests.support.service import Api, accepted, fresh_name

SIZED = """
application:
  interfaces: {input: {"*": bind(web#input.*)}}
  components:
    web:
      type: workflow.Instance
      interfaces:
        input:
          size: configuration(int)
          on: configuration(bool)
          tags: configuration(list<string>)
          name: configuration(string)
      configuration:
        input.size: "1"
        input.on: true
        input.tags: [a]
        configuration.workflows: {launch: {parameters: [name: {default: NAME}], steps: []}}
"""
DEFAULTS = {"input.size": 1, "input.on": True, "input.tags": ["a"], "input.name": "web"}
# `size` of the child is the parent's, `name` is set by the parent's manifest.
PARENT = """
application:
  interfaces: {input: {size: bind(child#input.size)}}
  components:
    child:
      type: reference.Submodule
      interfaces:
        input: {size: configuration(int), name: configuration(string)}
      configuration: {__locator.application-id: "CHILD", input.name: "of the parent", input.size: 2}
"""


async def versions(api: Api, name: str | None = None) -> str:
    """Make an application whose version 3 has another default for the name."""
    application = await api.application(SIZED.replace("NAME", "web"), name)
    accepted(await api.put_yaml(f"applications/{application}/manifest", SIZED.replace("NAME", "newer")))
    return application


async def shown(api: Api, instance: str) -> tuple[dict[str, Any], dict[str, str]]:
    document = await api.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    assert document["parameterOrigins"].keys() == document["parameters"].keys()
    return document["parameters"], {
        name.partition(".")[2]: origin for name, origin in document["parameterOrigins"].items() if origin != "default"
    }


async def test_defaults_of_the_manifest_are_shown_each_in_its_type(api: Api) -> None:
    instance = await api.launch(await versions(api), version=2)
    assert await shown(api, instance) == (DEFAULTS, {})


async def test_given_values_have_their_declared_types(api: Api) -> None:
    given = {"input.size": "5", "input.on": "false", "input.tags": '["x", "y"]'}
    instance = await api.launch(await versions(api), version=2, parameters=given)
    parameters, origins = await shown(api, instance)
    assert parameters == {"input.size": 5, "input.on": False, "input.tags": ["x", "y"], "input.name": "web"}
    assert origins == {"size": "given", "on": "given", "tags": "given"}


async def test_a_reconfiguration_shows_what_is_effective_then(api: Api) -> None:
    instance = await api.launch(await versions(api), version=2, parameters={"input.size": "5"})
    await api.settled(instance)
    body = {"manifestVersion": 3, "parameters": {"input.on": "false"}}
    accepted(await api.put(f"instances/{instance}/configuration", body))
    parameters, origins = await shown(api, instance)
    assert parameters == DEFAULTS | {"input.on": False, "input.name": "newer"}
    assert origins == {"on": "given"}


async def test_a_revision_keeps_only_what_was_given(api: Api) -> None:
    application = await versions(api)
    first = await api.launch(application, version=2, parameters={"input.size": "5"})
    body = {"name": "stable", "instanceId": first}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    assert accepted(await api.get(f"revisions/{revision}"))["parameters"] == {"input.size": "5"}
    second = await api.launch(application, revisionId=revision, parameters={"input.on": False})
    parameters, origins = await shown(api, second)
    assert parameters == DEFAULTS | {"input.size": 5, "input.on": False}
    assert origins == {"size": "revision", "on": "given"}
    given = {"revisionId": revision, "parameters": {"input.size": 6}}
    accepted(await api.put(f"instances/{second}/configuration", given))
    assert await shown(api, second) == (DEFAULTS | {"input.size": 6}, {"size": "given"})
    accepted(await api.put(f"instances/{second}/configuration", {"revisionId": revision}))
    # The revision brings its manifest; what isn't given has the default.
    assert await shown(api, second) == (DEFAULTS, {})


async def child_of(api: Api, instance: str) -> str:
    [component] = (await api.settled(instance))["components"]
    return str(component["instanceId"])


async def test_a_submodule_shows_what_is_of_its_parent_of_a_revision_and_of_the_request(api: Api) -> None:
    name = fresh_name("child")
    child = await versions(api, name)
    body = {"name": "stable", "version": 2, "parameters": {"input.tags": ["r"], "input.name": "r"}}
    revision = accepted(await api.post(f"applications/{child}/revisions", body))["id"]
    application = await api.application(PARENT.replace("CHILD", name))
    asked = {"child": {"revisionId": revision, "parameters": {"input.on": "false"}}}
    instance = await api.launch(application, parameters={"input.size": "7"}, submodules=asked)
    assert await shown(api, instance) == ({"input.size": 7}, {"size": "given"})
    assert await shown(api, await child_of(api, instance)) == (
        {"input.size": 7, "input.on": False, "input.tags": ["r"], "input.name": "of the parent"},
        {"size": "parent", "name": "parent", "on": "given", "tags": "revision"},
    )


async def test_what_the_revision_of_the_root_says_of_a_submodule_is_of_the_revision(api: Api) -> None:
    name = fresh_name("child")
    await versions(api, name)
    application = await api.application(PARENT.replace("CHILD", name))
    submodules = {"child": {"parameters": {"input.on": False, "input.tags": ["r"]}}}
    body = {"name": "stable", "version": 2, "submodules": submodules}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    asked = {"child": {"parameters": {"input.tags": ["g"]}}}
    instance = await api.launch(application, revisionId=revision, submodules=asked)
    assert await shown(api, instance) == ({"input.size": 2}, {})
    parameters, origins = await shown(api, await child_of(api, instance))
    assert (parameters["input.on"], parameters["input.tags"]) == (False, ["g"])
    assert origins == {"size": "parent", "name": "parent", "on": "revision", "tags": "given"}


async def test_undeclared_parameters_of_a_workflow_manifest_are_shown_as_given(api: Api) -> None:
    manifest = "launch: {parameters: [size: {default: 1, type: int}, label: {}], steps: []}"
    instance = await api.launch(await api.application(manifest), parameters={"label": "x", "colour": "red"})
    document = await api.settled(instance)
    assert document["parameters"] == {"size": 1, "label": "x", "colour": "red"}
    assert document["parameterOrigins"] == {"size": "default", "label": "given", "colour": "given"}


async def test_what_a_resumed_launch_gets_is_given(api: Api) -> None:
    application = await api.application(
        """
        launch:
          parameters: [size: {type: int}, name: {type: string}]
          steps: [{call: {action: restcall, parameters: {command: "not a URL"}}}]
        """
    )
    body = {"name": "stable", "version": 2, "parameters": {"size": "1", "name": "r"}}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    instance = await api.launch(application, revisionId=revision)
    document = await api.settled(instance)
    assert document["parameterOrigins"] == {"size": "revision", "name": "revision"}
    [job] = document["workflowHistory"]
    accepted(await api.post(f"instances/{instance}/jobs/{job['id']}/resume", {"parameters": {"size": "2"}}))
    document = await api.settled(instance)
    assert document["parameters"] == {"size": 2, "name": "r"}
    assert document["parameterOrigins"] == {"size": "given", "name": "revision"}
