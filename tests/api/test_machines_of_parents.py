"""A machine of an application around it is a role of a submodule's steps, as one of its own application is."""

from tests.support.service import Api, accepted, fresh_name

CHILD = """
application:
  interfaces:
    compute: {networks: bind(worker#compute.networks)}
    result: {"*": bind(worker#result.*)}
  components:
    worker:
      type: workflow.Instance
      required: [compute]
      interfaces:
        compute: {networks: "consume-signal(map<string, map<string, string>>)"}
        result: {host: publish-signal(string), said: publish-signal(object)}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - look: {action: getSignals, output: {seen: result}}
              - run: {action: execrun, parameters: {roles: [compute], command: [hostname]}, output: {said: stdout}}
            return: {host: {value: "{$.seen.compute.networks.public.ip}"}, said: {value: "{$.said}"}}
"""
PARENT = """
application:
  interfaces: {result: {"*": bind(app#result.*)}, machine: {networks: bind(machine#compute.networks)}}
  bindings: [[app, machine]]
  components:
    app:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces:
        compute: {networks: "consume-signal(map<string, map<string, string>>)"}
        result: {host: publish-signal(string), said: publish-signal(object)}
    machine: {type: compute.Instance}
"""


async def test_steps_of_a_submodule_run_on_a_machine_of_the_application_around_it(dry: Api) -> None:
    name = fresh_name("child")
    await dry.application(CHILD, name)
    instance = await dry.running(PARENT.replace("LOCATOR", name))
    values = (await dry.document(instance))["returnValues"]
    host = values["machine.networks"]["public"]["ip"]
    assert values["result.host"] == host
    assert list(values["result.said"]) == [host]
    assert (await dry.run(instance, "destroy"))["status"] == "Destroyed"


async def test_a_machine_of_nobody_leaves_its_role_empty(dry: Api) -> None:
    # A child that requires the machine is refused without a parent.
    application = await dry.application(CHILD.replace("[compute]\n", "[]\n", 1))
    document = await dry.settled(await dry.launch(application))
    assert document["status"] == "Running"
    log = accepted(await dry.get(f"instances/{document['id']}/log"))
    assert any("The role 'compute' has no machines; nothing to do there." in line["text"] for line in log)
    accepted(await dry.delete(f"instances/{document['id']}?force=1"))
