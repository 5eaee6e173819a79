"""Plans of steps on machines, playbooks and requests: they show what would happen, and hold the step to it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launchbay import limits
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.external_services import TOKEN, kube_server
from tests.support.network import answer, loopback_server
from tests.support.service import Api, accepted, running_api

MACHINES = """
          launch:
            steps:
              - vms: {action: provisionVms, parameters: {roleName: web, targetQuantity: 1}}
              - first:
                  action: execrun
                  precedingPhases: [vms]
                  parameters: {roles: [web], command: ["true"], plan: ["true"]}
"""


@pytest.fixture(scope="module")
async def api(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    url = databases.create()
    data = tmp_path_factory.mktemp("data")
    settings: dict[str, Any] = {
        "machines": "local",
        "local_environments": "*",
        "data_dir": data,
        "server_programs": "ansible",
    }
    async with running_api(url, outgoing_allow="127.0.0.1", **settings) as api:
        yield api
    databases.drop(url)


def manifest(grow: str, more: str = MACHINES) -> str:
    """Return a manifest whose workflow `grow` runs for another size."""
    steps = "\n".join(f"              {line}" for line in grow.strip().splitlines())
    return f"""\
application:
  configuration: {{ input.size: 1 }}
  interfaces: {{ input: {{ size: bind(web#input.size) }} }}
  components:
    web:
      type: workflow.Instance
      interfaces: {{ input: {{ size: configuration(int) }} }}
      configuration:
        configuration.triggers: {{ input.size: grow }}
        configuration.workflows:{more}
          grow:
            steps:
{steps}
"""


async def change_set(api: Api, instance: str, **body: Any) -> Any:
    """Make a change set with plans, and return it when they are made."""
    given = body or {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": {"input.size": 2}}}
    found = accepted(await api.post(f"organizations/{api.organization}/change-sets", {"plan": True, **given}))
    found = await eventually(
        lambda: api.read(f"change-sets/{found['id']}"),
        lambda found: found["plan"][0]["effects"]["status"] not in {"Waiting", "Planning"},
        within_s=60,
    )
    return found


async def applied(api: Api, change_set: str, **body: Any) -> Any:
    accepted(await api.post(f"change-sets/{change_set}/apply", body))
    return await eventually(
        lambda: api.read(f"change-sets/{change_set}"), lambda found: found["finishedAt"] is not None, within_s=60
    )


def effects(found: Any) -> list[tuple[str, str, str]]:
    return [
        (each["kind"], each["address"].partition(": ")[2] or each["address"], each.get("note", ""))
        for step in found["plan"][0]["effects"]["steps"]
        for each in step["effects"]
    ]


@pytest.mark.slow
async def test_a_launch_plans_its_machines_and_what_runs_on_them_is_unknown(api: Api) -> None:
    application = await api.application(manifest("- a: {action: execrun, parameters: {command: ['true']}}"))
    plan = accepted(
        await api.post(
            f"organizations/{api.organization}/plans", {"act": "launch", "applicationId": application, "launch": {}}
        )
    )
    plan = await eventually(
        lambda: api.read(f"plans/{plan['id']}"), lambda plan: plan["status"] not in {"Waiting", "Planning"}, within_s=60
    )

    vms, first = plan["steps"]
    assert [(each["kind"], each["address"]) for each in vms["effects"]] == [("create", "web: new machine 1 of web")]
    assert (vms["held"], first["held"]) == (True, False)
    assert [each["kind"] for each in first["effects"]] == ["unknown"]
    assert "depends on the machines that 'vms' leaves" in first["effects"][0]["note"]


@pytest.mark.slow
async def test_a_command_that_only_reads_says_what_the_step_would_do_and_holds_it(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_text("1\n")
    grow = f"""
- migrate:
    action: execrun
    parameters: {{roles: [web], command: ["echo 2 > {file}"], plan: ["echo from $(cat {file}) to 2"]}}
"""
    instance = await api.running(manifest(grow))
    found = await change_set(api, instance)
    [step] = found["plan"][0]["effects"]["steps"]
    assert step["held"]
    assert [(each["kind"], each["after"], each["certainty"]) for each in step["effects"]] == [
        ("run", "from 1 to 2", "estimated")
    ]
    file.write_text("7\n")

    stopped = await applied(api, found["id"])

    assert stopped["status"] == "Failed"
    assert "what 'plan' says of" in stopped["plan"][0]["message"]
    assert "Nothing was done" in stopped["plan"][0]["message"]
    assert file.read_text() == "7\n"


@pytest.mark.slow
async def test_no_policy_rolls_back_what_a_plan_held_over_what_somebody_changed(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_text("1\n")
    grow = f"""
- migrate:
    action: execrun
    parameters: {{roles: [web], command: ["echo 2 > {file}"], plan: ["echo from $(cat {file}) to 2"]}}
"""
    instance = await api.running(manifest(grow))
    application = (await api.document(instance))["applicationId"]
    accepted(await api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
    found = await change_set(api, instance)
    file.write_text("7\n")

    await applied(api, found["id"])

    await eventually(
        lambda: api.get(f"instances/{instance}/log"), lambda found: "The instance isn't rolled back" in found.text
    )
    document = await api.settled(instance)
    assert document["parameters"] == {"input.size": 2}
    assert file.read_text() == "7\n"


@pytest.mark.slow
async def test_an_approved_command_runs_after_the_one_that_only_reads(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_text("1\n")
    grow = f"""
- migrate:
    action: execrun
    parameters: {{roles: [web], command: ["echo 2 > {file}"], plan: ["echo from $(cat {file}) to 2"]}}
"""
    found = await change_set(api, await api.running(manifest(grow)))

    done = await applied(api, found["id"])

    assert done["status"] == "Succeeded"
    assert file.read_text() == "2\n"


@pytest.mark.slow
async def test_a_resumed_job_looks_again_before_it_repeats_a_cancelled_command(api: Api, tmp_path: Path) -> None:
    file, ran = tmp_path / "schema", tmp_path / "ran"
    file.write_text("1\n")
    grow = f"""
- migrate:
    action: execrun
    parameters: {{roles: [web], command: ["echo ran >> {ran}; exec sleep 60"], plan: ["echo from $(cat {file}) to 2"]}}
"""
    instance = await api.running(manifest(grow))
    found = await change_set(api, instance)
    accepted(await api.post(f"change-sets/{found['id']}/apply", {}))
    await eventually(ran.exists)
    [under_way] = accepted(await api.get(f"change-sets/{found['id']}"))["plan"]
    accepted(await api.delete(f"instances/{instance}/jobs/{under_way['jobId']}"))
    await api.settled(instance)
    file.write_text("7\n")

    resumed = await api.post(f"instances/{instance}/jobs/{under_way['jobId']}/resume", {})

    job = accepted(await api.get(f"jobs/{resumed.headers['launchbay-job']}?wait=30"))
    assert "what 'plan' says of" in json.dumps(job)
    assert ran.read_text() == "ran\n"


@pytest.mark.slow
async def test_a_playbook_that_would_do_something_else_now_stops(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("size=1")
    grow = f"""
- configure:
    action: ansible
    parameters:
      onServer: true
      playbook:
        - hosts: all
          gather_facts: false
          tasks:
            - {{name: Write settings, ansible.builtin.copy: {{dest: {file}, content: "size=2"}}}}
"""
    instance = await api.running(manifest(grow))
    found = await change_set(api, instance)
    assert effects(found) == [("change", "Write settings", f"ansible.builtin.copy; {file}")]
    file.write_text("size=5")

    stopped = await applied(api, found["id"])

    assert stopped["status"] == "Failed"
    assert "the task 'Write settings' would do something else" in stopped["plan"][0]["message"]
    assert file.read_text() == "size=5"


@pytest.mark.slow
async def test_a_request_that_only_reads_says_what_the_step_would_do(api: Api) -> None:
    async with loopback_server() as server:
        server.routes["/preview"] = answer(
            200, b'{"rows": 3, "password": "canary-5"}', [("Content-Type", "application/json")]
        )
        server.routes["/apply"] = answer(200, b"")
        grow = f"""
- send:
    action: restcall
    parameters: {{command: "{server.url("/apply")}", method: POST, plan: {{command: "{server.url("/preview")}"}}}}
"""
        instance = await api.running(manifest(grow))
        found = await change_set(api, instance)
        [step] = found["plan"][0]["effects"]["steps"]
        assert step["effects"][0]["after"] == {"rows": 3, "password": "********"}
        assert [each.target for each in server.received] == ["/preview"]
        server.routes["/preview"] = answer(200, b'{"rows": 4}', [("Content-Type", "application/json")])

        stopped = await applied(api, found["id"])

        assert "what 'plan' says of" in stopped["plan"][0]["message"]
        assert "/apply" not in [each.target for each in server.received]


@pytest.mark.slow
async def test_an_object_that_somebody_changed_after_the_approval_stays(api: Api) -> None:
    async with kube_server() as cluster:
        apply = f"""
- objects:
    action: kubernetes.apply
    parameters:
      cluster: {{server: "{cluster.url}", token: {TOKEN}}}
      documents: [{{apiVersion: v1, kind: ConfigMap, metadata: {{name: settings}}, data: {{size: "n${{size}}"}}}}]
"""
        launch = apply.replace("\n", "\n" + " " * 14)
        instance = await api.running(manifest(apply, f"\n          launch:\n            steps:{launch}"))
        found = await change_set(api, instance)
        [step] = found["plan"][0]["effects"]["steps"]
        assert [(each["address"], each["before"], each["after"]) for each in step["effects"]] == [
            ("ConfigMap default/settings", {"data.size": "n1"}, {"data.size": "n2"})
        ]
        cluster.named("settings")["data"]["size"] = "by hand"

        stopped = await applied(api, found["id"])

        assert stopped["status"] == "Failed"
        assert "ConfigMap default/settings or what would happen to it changed" in stopped["plan"][0]["message"]
        assert cluster.named("settings")["data"] == {"size": "by hand"}
        removal = await change_set(api, instance, act="destroy", ids=[instance])
        assert [each["kind"] for step in removal["plan"][0]["effects"]["steps"] for each in step["effects"]] == [
            "delete"
        ]


@pytest.mark.slow
async def test_what_an_earlier_step_makes_in_the_cluster_may_be_missing_in_the_plan(api: Api) -> None:
    async with kube_server() as cluster:

        def applies(name: str, document: dict[str, Any], **more: Any) -> str:
            parameters = {
                "cluster": {"server": cluster.url, "token": TOKEN},
                "name": name,
                "documents": [{"apiVersion": "v1", **document}],
            }
            return f"- {name}: {json.dumps({'action': 'kubernetes.apply', 'parameters': parameters, **more})}\n"

        first = applies("first", {"kind": "Namespace", "metadata": {"name": "shop"}})
        settings = {"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}}
        alone = await change_set(api, await api.running(manifest(applies("second", settings))))
        assert 'namespaces "shop" not found' in alone["plan"][0]["effects"]["problem"]

        both = first + applies("second", settings, precedingPhases=["first"])
        found = await change_set(api, await api.running(manifest(both)))

        namespace, unknown = effects(found)
        assert namespace[:2] == ("create", "Namespace shop")
        assert unknown[0] == "unknown"
        assert "it may need what 'first' makes" in unknown[2]
        assert 'namespaces "shop" not found' in unknown[2]
        assert (await applied(api, found["id"]))["status"] == "Succeeded"
        assert cluster.named("settings")


@pytest.mark.slow
async def test_a_plan_that_takes_too_long_names_the_step(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = await api.running(
        manifest('- wait: {action: execrun, parameters: {roles: [web], command: ["true"], plan: ["sleep 60"]}}')
    )
    monkeypatch.setattr(limits, "PLAN_S", 1.0)

    found = await change_set(api, instance)

    problem = found["plan"][0]["effects"]["problem"]
    assert "The plan takes more than 1 s. It was at step web#grow/wait." in problem
    assert "shorter timeout" in problem


@pytest.mark.slow
async def test_a_later_step_on_the_same_machines_is_shown_and_not_held(api: Api) -> None:
    grow = """
- one: {action: execrun, parameters: {roles: [web], command: ["true"]}}
- two: {action: execrun, precedingPhases: [one], parameters: {roles: [web], command: ["true"], plan: ["echo two"]}}
"""
    found = await change_set(api, await api.running(manifest(grow)))

    one, two = found["plan"][0]["effects"]["steps"]
    assert [each["kind"] for each in one["effects"]] == ["unknown"]
    assert "Without the parameter 'plan'" in one["effects"][0]["note"]
    assert [each["kind"] for each in two["effects"]] == ["run", "unknown"]
    assert "because of 'one' on the machines before it" in two["effects"][1]["note"]
    assert not two["held"]


@pytest.mark.slow
async def test_local_machines_that_somebody_made_since_stop_a_step_that_would_make_others(api: Api) -> None:
    grow = "- vms: {action: provisionVms, parameters: {roleName: web, targetQuantity: 3}}"
    instance = await api.running(manifest(grow, MACHINES.replace("targetQuantity", "quantity")))
    found = await change_set(api, instance)
    await api.run(instance, "launch")

    stopped = await applied(api, found["id"])

    assert stopped["status"] == "Failed"
    assert "the machines are other ones" in stopped["plan"][0]["message"]


@pytest.mark.slow
async def test_machines_to_make_and_to_release_are_exact_and_held(api: Api) -> None:
    grow = "- vms: {action: provisionVms, parameters: {roleName: web, targetQuantity: 3}}"
    end = """
          destroy:
            steps:
              - gone: {action: destroyVms, parameters: {roleName: web, quantity: 1}}"""
    instance = await api.running(manifest(grow, MACHINES.rstrip().replace("targetQuantity", "quantity") + end))
    found = await change_set(api, instance)
    assert effects(found) == [
        ("create", "new machine 1 of web", "1 stay"),
        ("create", "new machine 2 of web", "1 stay"),
    ]

    removal = await change_set(api, instance, act="destroy", ids=[instance])

    counts = removal["plan"][0]["effects"]["counts"]
    assert (counts["delete"], counts["unknown"]) == (1, 0), "the machine that the step releases is counted once"
    await api.run(instance, "launch")
    stopped = await applied(api, removal["id"], allowDeletes=["*"])
    assert stopped["status"] == "Failed"
    assert "the machines are other ones" in stopped["plan"][0]["message"]
