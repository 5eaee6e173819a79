"""What a version, a revision, an environment or a service would do to live instances."""

from typing import Any

import pytest

from tests.support.applications import NEEDY, SPEAKER, environment, launched, offer, picky
from tests.support.service import EMAIL, YAML, Api, accepted, fresh_name, own_service, refused
from tests.support.services import POOLED, service

api = own_service  # whose administrator administers the server


async def test_instances_are_grouped_by_what_a_version_does_to_them(api: Api) -> None:
    application = await api.application(picky())
    plain = [await api.launch(application) for _ in range(2)]
    given = await api.launch(application, parameters={"input.size": 0})
    for instance in (*plain, given):
        await api.settled(instance)
    accepted(
        await api.put_yaml(f"applications/{application}/manifest", picky().replace("input.size: 1", "input.size: 2"))
    )
    found: Any = accepted(await api.get(f"applications/{application}/impact"))
    assert (found["version"], found["changes"], found["keeps"], found["fails"], found["present"]) == (3, 2, 1, 0, 0)
    changes, keeps = found["groups"]
    values = [{"name": "input.size", "from": 1, "to": 2}]
    assert changes["components"] == [
        {"path": "worker", "change": "changes", "parameters": ["input.size"], "values": values}
    ]
    assert changes["workflows"] == ["worker#resize"]
    assert {each["id"] for each in changes["instances"]} == set(plain)
    assert [each["id"] for each in keeps["instances"]] == [given]
    present = accepted(await api.get(f"applications/{application}/impact", version=2))
    assert (present["present"], present["groups"]) == (3, [])


async def test_a_workflow_that_alone_differs_is_a_change_from_its_next_run_on(api: Api) -> None:
    application = await api.application(picky())
    instance = await api.launch(application)
    await api.settled(instance)
    former = accepted(await api.get(f"applications/{application}"))["version"]
    text = picky().replace('delay: "{$.size}"', 'delay: "{$.size + 0.1}"')
    accepted(await api.put_yaml(f"applications/{application}/manifest", text))
    [group] = accepted(await api.get(f"applications/{application}/impact"))["groups"]
    assert (group["outcome"], group["components"], group["workflows"]) == ("changes", [], [])
    [code] = group["code"]
    assert code["path"] == "worker"
    [workflow] = code["workflows"]
    [step] = workflow["steps"]
    assert (step["name"], step["change"], [line[0] for line in step["diff"]]) == ("check", "changed", ["-", "+"])
    body = {"manifestVersion": former + 1, "parameters": {}}
    [previewed] = accepted(await api.post(f"instances/{instance}/configuration/preview", body))["components"]
    assert (previewed["change"], previewed["parameters"], previewed["code"]) == ("changes", [], code)
    blind = await api.member("EditInstance: [/applications/*/instances/*, /environments/*]")
    [unseen] = accepted(await blind.post(f"instances/{instance}/configuration/preview", body))["components"]
    assert unseen["code"]["workflows"][0]["steps"][0] == {**step, "diff": []}


async def test_an_unsaved_manifest_names_the_instances_that_would_fail(api: Api) -> None:
    application = await api.application(picky())
    instance = await api.launch(application, parameters={"input.size": 0})
    await api.settled(instance)
    text = picky().replace("input.size", "input.amount").replace("{size:", "{amount:").replace("$.size", "$.amount")
    answer = await api.send("POST", f"applications/{application}/impact", text.encode(), **YAML)
    found = accepted(answer)
    assert (found["version"], found["fails"], found["changes"]) == (None, 1, 0)
    assert "Unknown parameter 'input.size'" in found["groups"][0]["errors"][0]
    assert accepted(await api.get(f"applications/{application}"))["version"] == 2
    broken = await api.send("POST", f"applications/{application}/impact", b"launch: 3", **YAML)
    refused(broken, 400)


async def test_only_instances_that_the_caller_may_read_count(api: Api) -> None:
    application = await api.application(picky())
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", picky("second")))
    reader = await api.member(f"Read: [/applications/{application}]")
    seen = accepted(await reader.get(f"applications/{application}/impact"))
    assert (seen["version"], seen["groups"]) == (3, [])
    all_reader = await api.member("Read: [/*]")
    assert accepted(await all_reader.get(f"applications/{application}/impact"))["changes"] == 1
    refused(await (await api.member()).get(f"applications/{application}/impact"), 403)


PLACED = """
application:
  bindings: [[main, needs]]
  components:
    needs:
      type: reference.Service
      interfaces: {gpu: {gpu: publish-signal(unit)}, properties: {region: publish-signal(string)}}
    main:
      type: workflow.Instance
      required: [gpu, properties]
      interfaces: {gpu: {gpu: consume-signal(unit)}, properties: {region: consume-signal(string)}}
      configuration: {configuration.workflows: {launch: {steps: [{look: {action: wait, parameters: {delay: "0"}}}]}}}
"""
REGION = {"name": "region", "value": "north", "type": "string"}


def counts(found: Any) -> tuple[int, int, int, int]:
    return found["present"], found["keeps"], found["changes"], found["fails"]


async def test_a_revision_shows_the_instances_that_have_it_and_what_it_would_give_them(api: Api) -> None:
    application = await api.application(picky())
    body = {"name": "small", "version": 2, "parameters": {"input.size": 0}}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    other = await api.launch(application)
    plain = await api.launch(application, revisionId=revision)
    own = await api.launch(application, revisionId=revision, parameters={"input.size": 3})
    for instance in (other, plain, own):
        await api.settled(instance)
    path = f"revisions/{revision}"
    assert counts(accepted(await api.get(f"{path}/impact"))) == (2, 0, 0, 0)
    change = {"parameters": {"input.size": 7}}
    shown = accepted(await api.post(f"{path}/impact", change))
    assert counts(shown) == (1, 0, 1, 0)
    [group] = shown["groups"]
    assert (group["components"][0]["parameters"], group["workflows"]) == (["input.size"], ["worker#resize"])
    assert [each["id"] for each in group["instances"]] == [plain]
    assert accepted(await api.get(path))["parameters"] == {"input.size": 0}
    accepted(await api.put(path, change))
    assert accepted(await api.get(f"{path}/impact"))["groups"] == shown["groups"]
    # It does what the impact says.
    given = {"revisionId": revision, "parameters": {}}
    preview = accepted(await api.post(f"instances/{plain}/configuration/preview", given))
    assert preview["workflows"] == group["workflows"]
    refused(await api.post(f"{path}/impact", {"parameters": {"input.size": "many"}}), 400, "InvalidParameters")
    text = picky().replace("input.size", "input.amount").replace("{size:", "{amount:").replace("$.size", "$.amount")
    accepted(await api.put_yaml(f"applications/{application}/manifest", text))
    newer = accepted(await api.post(f"{path}/impact", {"version": 3, "parameters": {}}))
    assert counts(newer) == (0, 0, 1, 1)
    assert [[each["id"] for each in group["instances"]] for group in newer["groups"]] == [[own], [plain]]
    assert "Unknown parameter 'input.size'" in newer["groups"][0]["errors"][0]


async def test_an_environment_shows_what_its_next_settings_take_from_whom(api: Api) -> None:
    where = await environment(api)
    path = f"environments/{where}"
    accepted(await api.put(f"{path}/markers", {"markers": [{"name": "gpu"}]}))
    accepted(await api.put(f"{path}/properties", {"properties": [REGION]}))
    needing = (await launched(api, PLACED, where))["id"]
    simple = (await launched(api, picky(), where))["id"]
    assert counts(accepted(await api.get(f"{path}/impact"))) == (2, 0, 0, 0)
    without = accepted(await api.post(f"{path}/impact", {"markers": []}))
    assert counts(without) == (0, 1, 0, 1)
    fails, keeps = without["groups"]
    assert fails["errors"] == ["Component 'needs' needs marker 'gpu'. Add it to the environment."]
    assert ([each["id"] for each in fails["instances"]], [each["id"] for each in keeps["instances"]]) == (
        [needing],
        [simple],
    )
    change: Any = {"properties": [REGION | {"value": "south"}], "policies": "policies: {wait.delay: 1, execrun.x: 1}"}
    moved = accepted(await api.post(f"{path}/impact", change))
    assert counts(moved) == (0, 0, 2, 0)
    settings = {group["instances"][0]["id"]: group["settings"] for group in moved["groups"]}
    policy = {"kind": "policy", "name": "wait.delay", "component": None, "from": None, "to": 1}
    assert settings == {
        needing: [policy, {"kind": "property", "name": "region", "component": "needs", "from": "north", "to": "south"}],
        simple: [policy],
    }
    refused(await api.post(f"{path}/impact", {"policies": "policies: {nodots: 1}"}), 400, "InvalidPolicies")
    # What is saved reaches an instance with its next reconfiguration, and is shown until then.
    accepted(await api.put_yaml(path, change["policies"]))
    assert counts(accepted(await api.get(f"{path}/impact"))) == (0, 0, 2, 0)
    accepted(await api.put(f"instances/{simple}/configuration", {"parameters": {}}))
    await api.settled(simple)
    assert counts(accepted(await api.get(f"{path}/impact"))) == (1, 0, 1, 0)


async def test_services_that_an_environment_loses_or_gains_are_shown_with_who_uses_them(api: Api) -> None:
    where = await environment(api)
    pool = await service(api, "builtin:static_resource_pool", {"configuration.resources": ["a"]}, where=where)
    speaker = await api.running(SPEAKER)
    await offer(api, speaker, where)
    user = (await launched(api, POOLED, where))["id"]
    listener = (await launched(api, NEEDY, where))["id"]
    path = f"environments/{where}/impact"
    assert counts(accepted(await api.get(path))) == (2, 0, 0, 0)
    lost = accepted(await api.post(path, {"services": []}))
    assert counts(lost) == (1, 0, 0, 1)
    assert [each["id"] for each in lost["groups"][0]["instances"]] == [user]
    assert "needs a service" in lost["groups"][0]["errors"][0]
    body = {"name": fresh_name("pool"), "typeId": "builtin:static_resource_pool", "parameters": {}}
    body["parameters"] = {"configuration.resources": ["b"]}
    second = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    assert counts(accepted(await api.post(path, {"services": [pool, second]}))) == (2, 0, 0, 0)
    swapped = accepted(await api.post(path, {"services": [second]}))
    assert counts(swapped) == (1, 0, 1, 0)
    [group] = swapped["groups"]
    assert [(each["path"], each["change"]) for each in group["components"]] == [("pool", "stops"), ("pool", "starts")]
    assert [each["name"] for each in group["settings"]] == [pool, second]
    refused(await api.post(path, {"services": ["5f" * 12]}), 400, "UnknownId")
    await offer(api, speaker)
    gone = accepted(await api.get(path))
    assert [[each["id"] for each in group["instances"]] for group in gone["groups"]] == [[listener]]
    assert gone["fails"] == 1


async def test_parameters_of_a_service_show_the_instances_that_keep_others(api: Api) -> None:
    where = await environment(api)
    pool = await service(api, "builtin:static_resource_pool", {"configuration.resources": ["a"]}, where=where)
    user = (await launched(api, POOLED, where))["id"]
    path = f"services/{pool}/parameters/impact"
    assert counts(accepted(await api.get(path))) == (1, 0, 0, 0)
    parameters = {"configuration.resources": ["a", "b"]}
    found = accepted(await api.post(path, {"parameters": parameters}))
    assert counts(found) == (0, 0, 1, 0)
    [group] = found["groups"]
    assert group["settings"] == [
        {
            "kind": "parameter",
            "name": "configuration.resources",
            "component": "pool",
            "from": ["a"],
            "to": ["a", "b"],
        }
    ]
    assert [each["id"] for each in group["instances"]] == [user]
    told = await api.post(path, {"parameters": {"configuration.nothing": 1}})
    assert told.status_code == 400
    assert "configuration.nothing" in told.json()
    accepted(await api.put(f"services/{pool}", {"parameters": parameters}))
    assert accepted(await api.get(path))["groups"] == found["groups"]
    accepted(await api.put(f"instances/{user}/configuration", {"parameters": {}}))
    await api.settled(user)
    assert counts(accepted(await api.get(path))) == (1, 0, 0, 0)
    stranger = await api.member()
    assert (await stranger.get(path)).status_code == 403
    reader = await api.member(f"Read: [/services/{pool}]")
    assert counts(accepted(await reader.get(path))) == (0, 0, 0, 0)
    assert (await reader.post(path, {"parameters": parameters})).status_code == 403


async def test_an_instance_of_a_submodule_cannot_be_changed_by_itself_as_rollouts_say(api: Api) -> None:
    name = fresh_name("inner")
    inner = await api.application(picky(), name)
    child = f"{{type: reference.Submodule, configuration: {{__locator.application-id: {name}}}}}"
    outer = await api.running(f"application: {{components: {{child: {child}}}}}")
    own = await api.launch(inner)
    await api.settled(own)
    accepted(await api.put_yaml(f"applications/{inner}/manifest", picky().replace("input.size: 1", "input.size: 2")))
    found: Any = accepted(await api.get(f"applications/{inner}/impact"))
    assert (found["changes"], found["fails"]) == (1, 1)
    fails, changes = found["groups"]
    assert fails["errors"] == ["The instance belongs to a submodule of another instance. Reconfigure that one."]
    [part] = (await api.document(outer))["components"]
    assert [each["id"] for each in fails["instances"]] == [part["instanceId"]]
    assert [each["id"] for each in changes["instances"]] == [own]


@pytest.mark.features("freezes")
async def test_an_impact_names_the_freezes_that_keep_it_from_instances(api: Api) -> None:
    application, environment = await api.application(picky()), await api.offer()
    await api.settled(await api.launch(application, environmentId=environment))
    accepted(
        await api.put_yaml(f"applications/{application}/manifest", picky().replace("input.size: 1", "input.size: 2"))
    )
    path = f"applications/{application}/impact"
    assert accepted(await api.get(path))["warnings"] == []
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "Incident 4711."}))
    [said] = accepted(await api.get(path))["warnings"]
    assert said.startswith(f"No instance there changes now. {EMAIL} froze the environment ")
    assert said.endswith("Incident 4711.")
    assert accepted(await api.get(path, version=2))["warnings"] == [], "they have it already"
    accepted(await api.put(f"applications/{application}/freeze", {"reason": "And this."}))
    assert len(accepted(await api.get(path))["warnings"]) == 2
    answer = await api.send("POST", path, picky("other").encode(), **YAML)
    assert len(accepted(answer)["warnings"]) == 2
