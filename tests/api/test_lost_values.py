"""A parameter whose expression has no value: where a default would make something else, the step fails instead."""

import pytest

from tests.support.service import Api

MACHINE = """
application:
  components:
    host:
      type: compute.Instance
      configuration: {configuration.hardwareId: SIZE, configuration.imageId: debian-12, configuration.login: ops}
"""


@pytest.mark.parametrize(
    ("action", "parameters", "lost"),
    [
        ("provisionVms", "roleName: web", 'staticIps: "{$.props.vms.ips}"'),
        ("execrun", "command: [reboot]", 'roles: "{$.role}"'),
        ("chefrun", 'runList: ["recipe[web]"]', 'roles: "{$.role}"'),
        ("container.run", "image: debian", 'environment: "{$.variables}"'),
        ("container.run", "image: debian", 'network: "{$.net}"'),
        ("restcall", "command: 'http://shop.example'", 'method: "{$.verb}"'),
        ("helm", "release: shop, cluster: {server: 'https://k8s.example'}", 'namespace: "{$.stage}"'),
        ("kubernetes.apply", "cluster: {server: 'https://k8s.example'}, documents: []", 'namespace: "{$.stage}"'),
        ("opentofu", "module: ''", 'operation: "{$.what}"'),
        ("ansible", "playbook: []", 'tags: "{$.tags}"'),
        ("approval", "text: Really?", 'who: "{$.role}"'),
    ],
)
async def test_a_step_fails_instead_of_making_something_else(dry: Api, action: str, parameters: str, lost: str) -> None:
    name, _, expression = lost.partition(": ")
    text = f"launch:\n  steps:\n    - make: {{action: {action}, parameters: {{{parameters}, {lost}}}}}\n"
    document = await dry.settled(await dry.launch(await dry.application(text)))
    assert document["status"] == "Failed"
    assert f"{name} is given, but has no value: {expression.strip(chr(34))}." in document["errorMessage"]


async def test_the_item_of_a_list_that_has_no_value_is_named(dry: Api) -> None:
    text = """
launch:
  parameters: {good: {type: string, default: 10.0.0.5}}
  steps:
    - make: {action: provisionVms, parameters: {roleName: web, staticIps: ["{$.good}", "{$.host}"]}}
"""
    document = await dry.settled(await dry.launch(await dry.application(text)))
    assert document["status"] == "Failed"
    assert "Item 2 of staticIps has no value. Give it one, or remove it." in document["errorMessage"]


async def test_a_null_or_empty_text_that_is_written_means_the_default(dry: Api) -> None:
    text = """
launch:
  steps:
    - make: {action: provisionVms, parameters: {hardwareId: "", imageId: , vmIdentity: "{$.login}"}, output: {ips: ips}}
  return: {ips: {value: "{$.ips}"}}
"""
    document = await dry.settled(await dry.launch(await dry.application(text)))
    assert document["status"] == "Running", document["errorMessage"]
    assert len(document["returnValues"]["ips"]) == 1


async def test_a_null_in_the_configuration_of_a_machine_is_the_default_of_its_provider(dry: Api) -> None:
    instance = await dry.running(MACHINE.replace("SIZE", "null"))
    lines = (await dry.get(f"instances/{instance}/log")).json()
    warned = [line["text"] for line in lines if line["level"] == "warning"]
    assert warned == ["configuration.hardwareId has no value, so the default of the provider is used."]
    await dry.running(MACHINE.replace("SIZE", "small"))
