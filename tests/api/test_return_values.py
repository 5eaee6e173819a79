"""Return values of workflow manifests (manifest-language §2): what any exposed workflow returned last."""

from tests.support.service import Api, fresh_name

GROWING = """
version: "1.1"
launch:
  steps:
    - count: {action: .count, output: {url: where}}
  return:
    url: {value: "{$.url}"}
grow:
  parameters: [by: {type: int}]
  steps: []
  return:
    size: {value: "{$.by}"}
    url: {value: "http://grown.example"}
.count:
  steps: []
  return:
    where: {value: "http://new.example"}
destroy:
  steps: []
  return:
    farewell: {value: bye}
"""
AROUND = """
application:
  interfaces:
    child: {"*": bind(child#result.*)}
    actions: {grow: bind(child#actions.grow)}
  components:
    child:
      type: reference.Submodule
      interfaces:
        result: {url: publish-signal(string), size: publish-signal(int)}
        actions: {grow: receive-command(int by)}
      configuration: {__locator.application-id: "CHILD"}
"""


async def test_what_any_exposed_workflow_returns_is_shown_from_the_moment_that_it_has_a_value(api: Api) -> None:
    instance = await api.running(GROWING)
    document = await api.document(instance)
    assert document["returnValues"] == {"url": "http://new.example"}, "neither a macro's values nor those to come"
    document = await api.run(instance, "grow", by="3")
    assert document["returnValues"] == {"url": "http://grown.example", "size": 3}
    document = await api.run(instance, "launch")
    assert document["returnValues"] == {"url": "http://new.example", "size": 3}
    document = await api.run(instance, "destroy")
    assert document["returnValues"] == {"url": "http://new.example", "size": 3, "farewell": "bye"}


async def test_a_parent_sees_what_a_command_of_its_child_returned(api: Api) -> None:
    name = fresh_name("child")
    await api.application(GROWING, name=name)
    instance = await api.running(AROUND.replace("CHILD", name))
    assert (await api.document(instance))["returnValues"] == {"child.url": "http://new.example"}
    document = await api.run(instance, "actions.grow", by="4")
    assert document["returnValues"] == {"child.url": "http://grown.example", "child.size": 4}
