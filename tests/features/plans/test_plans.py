"""Plans of launches, reconfigurations and destructions: what would happen, and nothing does."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.external_services import MODULE, needs_tofu, tofu_manifest
from tests.support.service import Api, Caller, accepted, fresh_name, person, refused, running_api

NO_PLAN = "Without the parameter 'plan', this action can't say what it would do."
CANARY = "canary-7391-key"
LATER = """\
    - check:
        action: restcall
        precedingPhases: [infra]
        parameters: { url: "http://127.0.0.1:1/{$.found.place}" }
    - never:
        action: restcall
        when: "{$= 1 > 2}"
        precedingPhases: [infra]
        parameters: { url: "http://127.0.0.1:1/" }
    - hook:
        action: restcall
        precedingPhases: [infra]
        parameters: { url: "http://127.0.0.1:1/" }
"""


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


def shop(file: Path | str) -> str:
    """Return a manifest whose workflow runs again for another size."""
    inner = tofu_manifest(file).replace("size: 1 }", 'size: "${size}" }')
    indented = "\n".join(f"          {line}" for line in inner.strip().splitlines())
    return f"""\
application:
  configuration: {{ input.size: 1 }}
  interfaces: {{ input: {{ size: bind(web#input.size) }} }}
  components:
    web:
      type: workflow.Instance
      interfaces: {{ input: {{ size: configuration(int) }} }}
      configuration:
        configuration.triggers: {{ input.size: launch }}
        configuration.workflows:
{indented}
"""


async def planned(api: Api, caller: Caller | None = None, **body: Any) -> Any:
    """Ask for a plan, and return it when it has been made."""
    asked = caller or api
    plan = accepted(await asked.post(f"organizations/{api.organization}/plans", body))
    plan = await eventually(
        lambda: asked.read(f"plans/{plan['id']}"),
        lambda plan: plan["status"] not in {"Waiting", "Planning"},
        within_s=60,
    )
    return plan


async def planned_change_set(api: Api, **body: Any) -> Any:
    """Make a change set with plans, and return it when they have been made."""
    found = accepted(await api.post(f"organizations/{api.organization}/change-sets", {"plan": True, **body}))
    found = await eventually(
        lambda: api.read(f"change-sets/{found['id']}"),
        lambda found: not any(each["effects"]["status"] in {"Waiting", "Planning"} for each in found["plan"]),
        within_s=60,
    )
    return found


@needs_tofu
@pytest.mark.slow
async def test_a_launch_is_planned_step_by_step_and_nothing_is_made(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "made"
    application = await api.application(tofu_manifest(file) + LATER)

    plan = await planned(api, act="launch", applicationId=application, launch={})

    assert (plan["status"], plan["problem"]) == ("Planned", None)
    assert plan["counts"] == {"delete": 0, "create": 1, "change": 2, "run": 0, "unknown": 2}
    infra, *others = plan["steps"]
    assert (infra["action"], infra["held"]) == ("opentofu", True)
    assert infra["path"].endswith("#launch/infra")
    assert infra["effects"][0]["address"] == "terraform_data.file"
    assert infra["effects"][0]["after"]["input"] == str(file)
    assert {each["path"].rpartition("/")[2]: each["effects"][0]["note"] for each in others} == {
        "check": "Unknown: its parameters depend on 'infra'.",
        "hook": NO_PLAN,
    }
    assert not file.exists()


@needs_tofu
@pytest.mark.slow
async def test_a_reconfiguration_shows_what_it_replaces_and_a_destruction_what_goes(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "made"
    instance = await api.running(shop(file))
    assert file.read_text() == "1\n"

    plan = await planned(api, act="reconfigure", instanceId=instance, configuration={"parameters": {"input.size": 2}})

    assert plan["deletes"] == ["terraform_data.file"]
    [step] = plan["steps"]
    assert [(each["kind"], each["address"]) for each in step["effects"]][:2] == [
        ("delete", "terraform_data.file"),
        ("create", "terraform_data.file"),
    ]
    assert "because of triggers_replace" in step["effects"][0]["note"]

    end = await planned(api, act="destroy", instanceId=instance)

    assert end["deletes"] == ["terraform_data.file"]
    assert file.read_text() == "1\n"


@needs_tofu
@pytest.mark.slow
async def test_a_sensitive_value_is_in_no_answer_and_no_table(api: Api, tmp_path: Path) -> None:
    module = MODULE + 'variable "key" { sensitive = true }\nresource "terraform_data" "kept" { input = var.key }\n'
    text = tofu_manifest(
        tmp_path / "made", module.replace("{ sensitive", "{\n  sensitive").replace("true }", "true\n}")
    )
    application = await api.application(text.replace("size: 1 }", f'size: 1, key: "{CANARY}" }}'))

    plan = await planned(api, act="launch", applicationId=application, launch={})
    await planned_change_set(api, act="launch", applicationId=application, launch={})

    assert plan["status"] == "Planned", plan
    kept = next(each for each in plan["steps"][0]["effects"] if each["address"] == "terraform_data.kept")
    assert kept["after"]["input"] == "********"
    assert CANARY not in str(plan)
    async with api.database.connection() as connection:
        for table in ("plans", "plan_artifacts"):
            rows = await (await connection.execute(f"SELECT {table}::text FROM {table}")).fetchall()
            assert rows
            assert CANARY not in str(rows)
            assert CANARY.encode().hex() not in str(rows)


@needs_tofu
@pytest.mark.slow
async def test_a_value_whose_name_is_secret_is_in_no_effect_though_the_module_does_not_say_so(
    api: Api, tmp_path: Path
) -> None:
    module = (
        MODULE + 'variable "db_password" {}\nresource "terraform_data" "kept" { input = "is ${var.db_password}" }\n'
    )
    text = tofu_manifest(tmp_path / "made", module)
    application = await api.application(text.replace("size: 1 }", f'size: 1, db_password: "{CANARY}" }}'))

    plan = await planned(api, act="launch", applicationId=application, launch={})

    assert plan["status"] == "Planned", plan
    assert any(each["address"] == "terraform_data.kept" for each in plan["steps"][0]["effects"])
    assert CANARY not in str(plan)


@needs_tofu
@pytest.mark.slow
async def test_a_module_that_cannot_be_planned_fails_the_plan_and_says_where_and_why(api: Api) -> None:
    application = await api.application(tofu_manifest("x", 'resource "terraform_data" "x" {\n  nonsense = 1\n}\n'))

    plan = await planned(api, act="launch", applicationId=application, launch={})

    assert plan["status"] == "Failed"
    assert "#launch/infra can't be planned" in plan["problem"]
    assert "nsupported argument" in plan["problem"] or "undeclared" in plan["problem"]


@needs_tofu
@pytest.mark.slow
async def test_what_depends_on_what_another_step_leaves_is_unknown(api: Api, tmp_path: Path) -> None:
    more = """\
    - again: {action: opentofu, precedingPhases: [infra], parameters: {operation: destroy, name: shop}}
    - other: {action: opentofu, precedingPhases: [again], parameters: {operation: destroy, name: other}}
    - until: {action: opentofu, precedingPhases: [other], until: "{$= true}", parameters: {operation: destroy, name: b}}
"""
    application = await api.application(tofu_manifest(tmp_path / "made") + more)

    plan = await planned(api, act="launch", applicationId=application, launch={})

    assert plan["status"] == "Planned", plan
    notes = {
        each["path"].rpartition("/")[2]: [effect.get("note") for effect in each["effects"]] for each in plan["steps"]
    }
    assert notes["again"] == ["Unknown: it depends on what 'infra' leaves."]
    assert notes["other"] == []
    assert notes["until"] == ["Unknown: it repeats until a condition is true."]


async def test_what_runs_only_after_a_failure_is_unknown(api: Api) -> None:
    hook = "{action: restcall, parameters: {url: 'http://127.0.0.1:1/'}}"
    text = f"launch:\n  steps: [{{go: {hook}}}]\n  onFailure: [{{report: {hook}}}]\n"
    application = await api.application(text)

    plan = await planned(api, act="launch", applicationId=application, launch={})

    notes = {each["path"].rpartition("/")[2]: each["effects"][0]["note"] for each in plan["steps"]}
    assert notes["report"] == "Unknown: it runs only if another step fails."
    assert set(notes) == {"go", "report"}


async def test_a_plan_is_refused_as_the_change_itself_would_be(api: Api) -> None:
    path = f"organizations/{api.organization}/plans"
    refused(await api.post(path, {"act": "launch"}), 400, "InvalidAct")
    refused(await api.post(path, {"act": "destroy", "instanceId": "0" * 24}), 404)


async def test_a_plan_is_shown_and_deleted_only_by_who_asked_for_it(api: Api) -> None:
    application = await api.application("launch: {steps: []}\n")
    plan = await planned(api, act="launch", applicationId=application, launch={})
    assert plan["status"] == "Planned", plan
    other = await person(api)
    refused(await other.get(f"plans/{plan['id']}"), 404)
    refused(await other.delete(f"plans/{plan['id']}"), 404)

    await api.delete(f"plans/{plan['id']}")

    refused(await api.get(f"plans/{plan['id']}"), 404)


MACHINES = """\
application:
  components:
    box: { type: compute.Instance, interfaces: { compute: { networks: publish-signal(object) } } }
"""


def shop_with_database(database: str, *, has_database: bool = True) -> str:
    """Return a manifest with a machine, perhaps with a submodule."""
    if not has_database:
        return MACHINES
    child = f"{{ type: reference.Submodule, configuration: {{ __locator.application-id: {database} }} }}"
    return f"{MACHINES}    db: {child}\n"


async def dry(api: Api) -> str:
    """Make an environment whose machines are simulated, and return its ID."""
    path = f"organizations/{api.organization}/environments"
    environment = str(accepted(await api.post(path, {"name": fresh_name("dry")}))["id"])
    accepted(await api.put_yaml(f"environments/{environment}", "policies: {machines.provider: dry-run}"))
    return environment


async def test_a_destruction_shows_submodules_and_machines_at_every_level(api: Api) -> None:
    database = await api.application(MACHINES)
    environment = await dry(api)
    application = await api.application(shop_with_database(database))
    start = await planned(api, act="launch", applicationId=application, launch={"environmentId": environment})
    made = [(each["instance"], each["effects"][0]["kind"], each["effects"][0]["address"]) for each in start["steps"]]
    assert made == [("", "create", "box: machine"), ("db", "create", "db.box: machine")]
    instance = await api.launch(application, environmentId=environment)
    assert (await api.settled(instance))["status"] == "Running"

    end = await planned(api, act="destroy", instanceId=instance)

    assert end["deletes"] == ["db", "box: machine 1 of compute", "db.box: machine 1 of compute"]
    assert end["counts"]["delete"] == 3
    assert {each["certainty"] for step in end["steps"] for each in step["effects"]} == {"estimated"}


async def test_a_reconfiguration_shows_the_submodule_that_it_removes(api: Api) -> None:
    database = await api.application(MACHINES)
    environment = await dry(api)
    application = await api.application(shop_with_database(database))
    instance = await api.launch(application, environmentId=environment)
    assert (await api.settled(instance))["status"] == "Running"
    smaller = shop_with_database(database, has_database=False)
    made = accepted(await api.put_yaml(f"applications/{application}/manifest", smaller))

    body = {"manifestVersion": made["version"]}
    plan = await planned(api, act="reconfigure", instanceId=instance, configuration=body)

    assert plan["deletes"] == ["db", "db.box: machine 1 of compute"]


async def test_a_plan_needs_the_approvals_that_its_change_needs(api: Api) -> None:
    environment = await dry(api)
    application = await api.application(MACHINES)
    instance = await api.launch(application, environmentId=environment)
    assert (await api.settled(instance))["status"] == "Running"
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 2}))

    plans, change_sets = (f"organizations/{api.organization}/{each}" for each in ("plans", "change-sets"))
    launch = {"act": "launch", "applicationId": application, "launch": {"environmentId": environment}}
    refused(await api.post(plans, launch), 403, "ChangeSetRequired")
    refused(await api.post(plans, {"act": "destroy", "instanceId": instance}), 403, "ChangeSetRequired")
    refused(await api.post(plans, {"act": "reconfigure", "instanceId": instance}), 403, "ChangeSetRequired")
    told = refused(await api.post(change_sets, {**launch, "plan": True}), 403, "PlansNotAllowed")
    assert "plansBeforeApproval" in told

    policy = {"approvals": 2, "roleId": None, "plansBeforeApproval": True}
    accepted(await api.put(f"environments/{environment}/changePolicy", policy))
    assert accepted(await api.get(f"environments/{environment}/changePolicy")) == policy
    assert accepted(await api.post(change_sets, {**launch, "plan": True}))["status"] == "Pending"


async def test_rules_see_in_a_plan_the_credential_of_who_asked(api: Api) -> None:
    instance = await api.running("launch: {steps: []}\ndestroy: {steps: []}\n")
    environment = accepted(await api.get(f"instances/{instance}"))["environmentId"]
    rule = "- name: people\n  when: $.credential.kind != 'session'\n  deny: Only people change this.\n"
    accepted(await api.put(f"environments/{environment}/change-rules", {"rules": rule}))
    try:
        plan = await planned(api, act="destroy", instanceId=instance)
    finally:
        accepted(await api.put(f"environments/{environment}/change-rules", {"rules": ""}))
    assert (plan["status"], plan["problem"]) == ("Planned", None)


async def test_a_plan_is_of_the_organization_that_asks(api: Api) -> None:
    application = await api.application("launch: {steps: []}\n")
    other = accepted(await api.post("organizations", {"name": fresh_name("other")}))["id"]

    launch = {"act": "launch", "applicationId": application}
    told = refused(await api.post(f"organizations/{other}/plans", launch), 400, "InvalidAct")

    assert "another organization" in told
    await planned(api, act="launch", applicationId=application)
    entries = (await api.get(f"organizations/{api.organization}/audit")).text
    assert f'"applicationId":"{application}"' in entries


async def made_again(api: Api, plan: Any, *, begun: int = 0, asked: Caller | None = None) -> Any:
    """Have a plan made again, as by another server after its own has ended, and return it when that has ended."""
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE plans SET status = 'Waiting', fence = %s, lease_until = NULL, result = NULL, digest = NULL"
            " WHERE id = %s",
            (begun, plan["id"]),
        )
    plan = await eventually(
        lambda: (asked or api).read(f"plans/{plan['id']}"), lambda plan: plan["status"] not in {"Waiting", "Planning"}
    )
    return plan


async def with_token(api: Api, *scope: str) -> tuple[Caller, str]:
    """Return a caller with a new access token of the administrator, and the path of the token."""
    path = f"organizations/{api.organization}/accessTokens"
    created = accepted(await api.post(path, {"name": fresh_name("token"), "scope": list(scope)}))
    return api.caller(f"Bearer {created['token']}"), f"{path}/{created['id']}"


async def test_a_plan_is_made_within_the_scope_of_its_access_token_and_ends_with_it(api: Api) -> None:
    application = await api.application("launch: {steps: []}\n")
    program, path = await with_token(api, "Read: [/*]", "CreateInstance: [/*]")
    plan = await planned(api, program, act="launch", applicationId=application, launch={})
    assert plan["status"] == "Planned", plan

    accepted(await api.delete(path))

    plan = await made_again(api, plan)
    assert plan["status"] == "Failed"
    assert "was revoked" in plan["problem"]


async def test_a_plan_is_shown_only_to_who_may_read_what_it_is_about(api: Api) -> None:
    application = await api.application("launch: {steps: []}\n")
    plan = await planned(api, act="launch", applicationId=application, launch={})
    other = await api.application("launch: {steps: []}\n")

    narrow, _ = await with_token(api, f"Read: [/applications/{other}]")
    refused(await narrow.get(f"plans/{plan['id']}"), 403, "NotAllowed")

    wide, _ = await with_token(api, f"Read: [/applications/{application}]")
    assert accepted(await wide.get(f"plans/{plan['id']}"))["id"] == plan["id"]


async def test_a_plan_whose_servers_end_before_it_fails(api: Api) -> None:
    application = await api.application("launch: {steps: []}\n")
    plan = await planned(api, act="launch", applicationId=application, launch={})

    assert (await made_again(api, plan, begun=2))["status"] == "Planned"
    failed = await made_again(api, plan, begun=3)

    assert failed["status"] == "Failed"
    assert "started 3 times" in failed["problem"]


async def test_the_plan_of_a_change_set_is_not_deleted_alone(api: Api) -> None:
    application = await api.application("launch: {steps: []}\n")
    body = {"act": "launch", "applicationId": application, "launch": {}, "plan": True}
    change_set = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
    plan = change_set["plan"][0]["effects"]["id"]

    refused(await api.delete(f"plans/{plan}"), 409, "PlanOfChangeSet")

    assert accepted(await api.get(f"plans/{plan}"))["id"] == plan


@pytest.mark.parametrize(
    ("act", "more", "unused"),
    [
        ("launch", {"force": True}, "force"),
        ("reconfigure", {"launch": {}}, "launch"),
        ("destroy", {"configuration": {}, "ifExists": "fail"}, "configuration, ifExists"),
    ],
)
async def test_fields_of_another_act_are_refused(api: Api, act: str, more: dict[str, Any], unused: str) -> None:
    about = {"applicationId": "0" * 24} if act == "launch" else {"instanceId": "0" * 24}
    path = f"organizations/{api.organization}/plans"

    assert f"has no {unused}." in refused(await api.post(path, {"act": act, **about, **more}), 400, "InvalidAct")


HOOK = "restcall, parameters: {url: 'http://127.0.0.1:1/'"
FOLLOWING = f"""
application:
  interfaces: {{input: {{size: bind(web#input.size), mode: bind(web#input.mode)}}}}
  configuration: {{input.size: 1, input.mode: a}}
  components:
    web:
      type: workflow.Instance
      interfaces: {{input: {{size: configuration(int), mode: configuration(string)}}}}
      configuration:
        configuration.triggers: {{input.size: resize, input.mode: remode}}
        configuration.workflows:
          launch:
            steps: STEPS
            return: {{size: {{value: 1}}}}
          resize:
            steps:
              - two: {{action: {HOOK}}}, when: "{{$= $.size == 2}}"}}
              - grow: {{action: .grow, parameters: {{n: "2"}}}}
            return: {{note: {{value: new}}}}
          .grow:
            parameters: [n: {{type: int}}]
            steps:
              - three: {{action: {HOOK}}}, when: "{{$= $.n == 2}}"}}
          remode:
            steps:
              - uses: {{action: {HOOK}, body: {{note: "{{$.note}}"}}}}}}
          destroy: {{steps: []}}
"""


FIRST = f"""
              - who: {{action: getInstanceContext, output: {{me: id}}}}
              - named: {{action: {HOOK}, body: {{id: "{{$.me}}"}}}}, precedingPhases: [who]}}
              - timed: {{action: {HOOK}, body: {{at: "{{$= now()}}"}}}}}}
              - known: {{action: {HOOK}}}}}
"""


def notes_of(plan: Any) -> dict[str, str]:
    return {each["path"].rpartition("/")[2]: each["effects"][0]["note"] for each in plan["steps"]}


async def test_what_a_run_may_find_otherwise_is_unknown_to_a_plan(api: Api) -> None:
    application = await api.application(FOLLOWING.replace("STEPS", FIRST))

    plan = await planned(api, act="launch", applicationId=application, launch={})

    assert plan["status"] == "Planned", plan
    assert notes_of(plan) == {
        "named": "Unknown: its parameters depend on 'who'.",
        "timed": "Unknown: its parameters depend on the time of the run.",
        "known": NO_PLAN,
    }


async def test_a_reconfiguration_is_planned_with_the_values_that_its_job_will_have(api: Api) -> None:
    instance = await api.running(FOLLOWING.replace("STEPS", "[]"))
    configuration = {"parameters": {"input.size": 2, "input.mode": "b"}}

    plan = await planned(api, act="reconfigure", instanceId=instance, configuration=configuration)

    assert plan["status"] == "Planned", plan
    assert notes_of(plan) == {
        "two": NO_PLAN,  # the launch returned 1, which the job drops
        "three": NO_PLAN,  # "2" is a number there
        "uses": "Unknown: its parameters depend on 'resize'.",
    }


@pytest.mark.features("freezes")
async def test_the_plan_of_a_change_set_is_not_made_in_a_frozen_environment(api: Api) -> None:
    path = f"organizations/{api.organization}/environments"
    environment = accepted(await api.post(path, {"name": fresh_name("frozen")}))["id"]
    instance = await api.running("launch: {steps: []}", environmentId=environment)
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "Audit"}))

    found = await planned_change_set(api, act="destroy", ids=[instance])

    [plan] = found["plan"]
    assert (plan["effects"]["status"], "Audit" in plan["effects"]["problem"]) == ("Failed", True)


@needs_tofu
@pytest.mark.slow
async def test_a_destruction_that_changes_a_document_first_is_held_to_nothing_in_it(api: Api, tmp_path: Path) -> None:
    before_it_goes = tofu_manifest(tmp_path / "moved").replace("launch:", "destroy:")
    instance = await api.running(tofu_manifest(tmp_path / "made") + before_it_goes)

    plan = await planned(api, act="destroy", instanceId=instance)

    assert plan["status"] == "Planned", plan
    teardown = plan["steps"][-1]
    assert [each["kind"] for each in teardown["effects"]] == ["delete", "unknown"]
    assert teardown["effects"][1]["note"] == "Unknown: it depends on what 'infra' leaves."
    assert not teardown["held"]


async def test_a_step_whose_parameters_cannot_be_computed_fails_the_plan_if_its_action_can_plan(api: Api) -> None:
    application = await api.application(
        'launch: {steps: [{infra: {action: opentofu, parameters: {name: "{$= 1 / 0}"}}}]}'
    )

    plan = await planned(api, act="launch", applicationId=application, launch={})

    assert (plan["status"], "#launch/infra can't be planned" in plan["problem"]) == ("Failed", True)
