"""Rules about changes on a service: they are asked at every door, kept in versions, and never lock anybody out."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client import generate_latest

from launchbay.features.change_rules.rules import Facts, parse
from launchbay.features.change_rules.suite import read_suite
from launchbay.features.change_rules.usecases import Scope, answered
from launchbay.model.changes import Allowed
from launchbay.telemetry import metrics
from tests.support.databases import until_locked
from tests.support.eventually import eventually
from tests.support.service import EMAIL, Api, Caller, accepted, fresh_name, own_service, refused
from tests.support.statements import counted, note_statements

api = own_service  # whose administrator administers the server

MANIFEST = """
greet:
  parameters: { size: { type: int, default: 1 } }
  steps: []
launch:
  parameters:
    servers: { type: int, default: 1 }
    password: { type: string, default: "" }
  steps: []
destroy:
  steps: []
"""


def rule(when: str, then: str = "deny: Not here.", name: str = "one") -> str:
    return f'- name: {name}\n  when: "{when}"\n  {then}\n'


async def put_rules(api: Caller, owner: str, text: str) -> Any:
    return accepted(await api.put(f"{owner}/change-rules", {"rules": text}))["version"]


async def held(api: Api) -> tuple[str, str, str]:
    """Return an environment, an application, and a running instance."""
    environment, application = await api.offer(), await api.application(MANIFEST)
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    return environment, application, instance


async def token_of(api: Api) -> Caller:
    tokens = f"organizations/{api.organization}/accessTokens"
    made = accepted(await api.post(tokens, {"name": fresh_name("bot"), "days": 1}))
    return api.caller(f"Bearer {made['token']}")


async def test_a_rule_of_an_environment_refuses_at_every_door_and_says_what_decided(api: Api) -> None:
    environment, application, instance = await held(api)
    at = f"instances/{instance}"
    doors: dict[str, Callable[[Caller], Awaitable[httpx.Response]]] = {
        "launch": lambda by: by.post(f"applications/{application}/launch", {"environmentId": environment}),
        "run": lambda by: by.post(f"{at}/greet", {}),
        "schedule": lambda by: by.post(f"{at}/greet/schedule", {"interval": 60_000}),
        "reconfigure": lambda by: by.put(f"{at}/configuration", {"parameters": {}}),
        "destroy": lambda by: by.post(f"{at}/destroy", {}),
        "delete by force": lambda by: by.delete(f"{at}?force=1"),
        "markers": lambda by: by.put(f"environments/{environment}/markers", {"markers": []}),
    }
    text = rule(f"$.environment.id == '{environment}'", 'deny: "{$.environment.name} is closed."', "closed")
    assert await put_rules(api, f"environments/{environment}", text) == 1
    name = next(each["name"] for each in await environments(api) if each["id"] == environment)
    for caller in (api, await token_of(api)):
        for door, open_it in doors.items():
            answer = await open_it(caller)
            said = refused(answer, 403, "RuleRefused")
            assert answer.json()["errors"][0] == f"{name} is closed.", door
            assert f"the rule 'closed', version 1 of the rules of the environment {name!r}" in said, door
            assert "Whoever has EditRules for the environment can change the rule." in said, door
            assert f'The facts were environment.id: "{environment}".' in said, door
    # Elsewhere everything continues, and here too once the rules are gone.
    await api.settled(await api.launch(application))
    assert await put_rules(api, f"environments/{environment}", "") == 2
    accepted(await api.post(f"{at}/greet", {}))


async def environments(api: Api) -> Any:
    return accepted(await api.get(f"organizations/{api.organization}/environments"))


async def test_rules_of_an_application_and_of_the_organization_are_asked_too(api: Api) -> None:
    _, application, instance = await held(api)
    await put_rules(api, f"applications/{application}", rule("$.kind == 'edit'", "deny: No edits."))
    said = refused(await api.put_yaml(f"applications/{application}/manifest", MANIFEST), 403, "RuleRefused")
    assert said.startswith("No edits.")
    accepted(await api.post(f"instances/{instance}/greet", {}))
    await api.settled(instance)
    other = await api.application(MANIFEST)
    text = rule(f"$.application.id == '{other}' && $.kind == 'launch'", "deny: Not that.")
    await put_rules(api, f"organizations/{api.organization}", text)
    try:
        assert "of the rules of the organization" in refused(
            await api.post(f"applications/{other}/launch", {}), 403, "RuleRefused"
        )
        accepted(await api.post(f"applications/{application}/launch", {}))
    finally:
        await put_rules(api, f"organizations/{api.organization}", "")


@pytest.mark.parametrize(
    ("when", "body"),
    [
        ("$.parameters.servers > 3", {"parameters": {"servers": 4}}),
        ("$.parameters.servers == 1", {}),  # the default of the manifest
        ("$.instance.name == 'Wrong'", {"instanceName": "Wrong"}),
        ("$.instance.labels.team == 'x'", {"labels": {"team": "x"}}),
        ("$.lifetime.hours > 1", {"destroyInterval": 7_200_000}),
        ("$.lifetime.isForever", {"destroyInterval": -1}),
        (f"$.who.email == '{EMAIL}' && 'Administrator' in $.who.roles", {}),
        ("$.credential.kind == 'session'", {}),
        ("$.operation == 'launch_application' && $.time.year > 2000", {}),
    ],
)
async def test_a_launch_is_refused_by_its_facts(api: Api, when: str, body: dict[str, Any]) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    await put_rules(api, f"environments/{environment}", rule(when))
    path = f"applications/{application}/launch"
    refused(await api.post(path, {"environmentId": environment, **body}), 403, "RuleRefused")
    await put_rules(api, f"environments/{environment}", rule(f"!({when})"))
    accepted(await api.post(path, {"environmentId": environment, **body}))


async def test_a_run_and_a_new_configuration_are_refused_by_their_parameters(api: Api) -> None:
    environment, _, instance = await held(api)
    text = rule("$.workflow == 'greet' && $.parameters.size > 2", name="greet") + rule(
        "$.kind == 'reconfigure' && $.parameters.servers > 2", name="servers"
    )
    await put_rules(api, f"environments/{environment}", text)
    refused(await api.post(f"instances/{instance}/greet", {"size": 3}), 403, "RuleRefused")
    refused(await api.put(f"instances/{instance}/configuration", {"parameters": {"servers": 3}}), 403, "RuleRefused")
    accepted(await api.post(f"instances/{instance}/greet", {"size": 2}))
    await api.settled(instance)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"servers": 2}}))


async def test_secrets_are_masked_for_rules_and_in_what_they_say(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    text = rule("$.parameters.password != ''", 'deny: "The password is {$.parameters.password}."')
    await put_rules(api, f"environments/{environment}", text)
    body = {"environmentId": environment, "parameters": {"password": "open sesame 4711"}}
    said = refused(await api.post(f"applications/{application}/launch", body), 403, "RuleRefused")
    assert "sesame" not in said
    assert "The password is" in said


async def test_a_warning_is_shown_and_the_change_happens(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    await put_rules(api, f"environments/{environment}", rule("true", "warn: Think twice.", "think"))
    body = {"environmentId": environment}
    answer = await api.post(f"applications/{application}/launch", body)
    accepted(answer)
    assert (
        "Think twice. (rule 'think', version 1 of the rules of the environment" in answer.headers["launchbay-warnings"]
    )
    preview = accepted(await api.post(f"applications/{application}/launch/preview", body))
    assert any(each.startswith("Think twice.") for each in preview["warnings"])
    assert preview["errors"] == []


async def test_previews_say_the_refusal_that_the_change_would_get(api: Api) -> None:
    environment, application, instance = await held(api)
    await put_rules(api, f"environments/{environment}", rule("$.parameters.servers > 2 || $.kind == 'destroy'"))
    path = f"applications/{application}/launch/preview"
    few, many = ({"environmentId": environment, "parameters": {"servers": number}} for number in (2, 3))
    assert accepted(await api.post(path, few))["warnings"] == []
    said = "This would be refused now. Not here. That is the rule 'one', version 1"
    assert accepted(await api.post(path, many))["warnings"][0].startswith(said)
    path = f"instances/{instance}/configuration/preview"
    assert accepted(await api.post(path, {"parameters": {"servers": 3}}))["warnings"][0].startswith(said)
    assert accepted(await api.post(path, {"parameters": {"servers": 2}}))["warnings"] == []


async def test_a_rule_that_fails_refuses_and_is_counted(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    await put_rules(api, f"environments/{environment}", rule("$.parameters.missing > 2", "deny: No luck."))
    before = metrics.rule_failures._value.get()
    said = refused(
        await api.post(f"applications/{application}/launch", {"environmentId": environment}), 403, "RuleRefused"
    )
    assert said.startswith("No luck. ")
    assert "The rule couldn't be computed, so it refuses: $.parameters.missing > 2: > can't compare null" in said
    assert metrics.rule_failures._value.get() == before + 1
    assert "launchbay_change_rule_failures_total" in generate_latest(metrics.REGISTRY).decode(), "an alert reads it"


async def test_a_token_that_rolls_back_is_a_token(api: Api) -> None:
    environment, _, instance = await held(api)
    at = f"instances/{instance}/configuration"
    accepted(await api.put(at, {"parameters": {"servers": 2}}))
    await api.settled(instance)
    await put_rules(api, f"environments/{environment}", rule("$.credential.kind == 'token'", "deny: Not by programs."))
    token = await token_of(api)
    preview = accepted(await token.post(f"{at}/rollback", {"preview": True}))
    assert "This would be refused now. Not by programs." in str(preview)
    refused(await token.post(f"{at}/rollback", {}), 403, "RuleRefused")
    accepted(await api.post(f"{at}/rollback", {}))


async def test_rules_that_a_server_cannot_read_refuse_and_say_whose_they_are(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    owner = f"environments/{environment}"
    await put_rules(api, owner, rule("$.kind == 'launch'"))
    async with api.database.transaction() as connection:
        newer = ("UPDATE change_rules SET rules = replace(rules, 'kind', 'newFact') WHERE owner_id = %s", [environment])
        await connection.execute(*newer)
    body = {"environmentId": environment}
    said = refused(await api.post(f"applications/{application}/launch", body), 409)
    assert f"This server can't read version 1 of the rules of the environment {environment}" in said
    assert "There is no fact 'newFact'" in said
    accepted(await api.post(f"applications/{application}/launch", {}))  # elsewhere
    await put_rules(api, owner, "")
    accepted(await api.post(f"applications/{application}/launch", body))


async def test_a_change_set_has_the_approvals_that_rules_ask_for(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    text = rule("$.kind == 'launch'", "require: { approvals: 1 }\n  because: Somebody else approves.", "others")
    await put_rules(api, f"environments/{environment}", text)
    path, body = f"applications/{application}/launch", {"environmentId": environment}
    said = refused(await api.post(path, body), 403, "RuleRefused")
    assert said.startswith("Somebody else approves.")
    assert "Create a change set with 1 approval by others than its author" in said
    preview = accepted(await api.post(f"{path}/preview", body))
    assert preview["warnings"][0].startswith("This would be refused now. Somebody else approves.")
    change = {"act": "launch", "applicationId": application, "launch": body}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", change))
    assert (made["approvals"], made["status"]) == (1, "Pending") if "approvals" in made else True
    change_set = f"change-sets/{made['id']}"
    refused(await api.post(f"{change_set}/apply"), 409)
    other = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]", "CreateInstance: [/*]")
    accepted(await other.post(f"{change_set}/approve"))
    accepted(await api.post(f"{change_set}/apply"))


async def test_a_change_set_from_before_a_rule_is_refused(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    body = {"act": "launch", "applicationId": application, "launch": {"environmentId": environment}}
    early = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
    await put_rules(api, f"environments/{environment}", rule("true", "require: { approvals: 2 }\n  because: Two."))
    said = refused(await api.post(f"change-sets/{early}/apply"), 403, "RuleRefused")
    assert "This change set has too few. Create it again with 2 approvals by others than its author." in said
    assert accepted(await api.get(f"change-sets/{early}"))["status"] == "Ready"


async def test_tokens_may_propose_and_not_apply(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    await put_rules(api, f"environments/{environment}", rule("$.credential.kind in ['agent', 'token']"))
    token = await token_of(api)
    body = {"environmentId": environment}
    refused(await token.post(f"applications/{application}/launch", body), 403, "RuleRefused")
    change = {"act": "launch", "applicationId": application, "launch": body}
    made = accepted(await token.post(f"organizations/{api.organization}/change-sets", change))["id"]
    refused(await token.post(f"change-sets/{made}/apply"), 403, "RuleRefused")
    accepted(await api.post(f"change-sets/{made}/apply"))


async def test_a_client_that_says_it_is_an_agent_is_one(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    await put_rules(api, f"environments/{environment}", rule("$.credential.kind == 'agent'"))
    path, body = f"applications/{application}/launch", {"environmentId": environment}
    refused(await api.client.post(path, json=body, headers={"Launchbay-Agent": "mcp"}), 403, "RuleRefused")
    accepted(await api.client.post(path, json=body))


@pytest.mark.features("bulk")
async def test_what_a_token_began_is_of_a_token_also_when_it_acts_later(api: Api) -> None:
    environment, _, _ = await held(api)
    text = rule("$.credential.kind == 'schedule' && $.credential.origin == 'token'", "deny: Not by programs.")
    await put_rules(api, f"environments/{environment}", text)
    body = {"act": "run", "workflow": "greet", "parameters": {}, "select": {"environment": environment}}
    outcomes = []
    for caller in (await token_of(api), api):
        bulk = accepted(await caller.post(f"organizations/{api.organization}/bulk", body))["id"]
        await eventually(partial(api.read, f"bulk/{bulk}"), lambda found: found["finishedAt"] is not None)
        [row] = accepted(await api.get(f"bulk/{bulk}/instances"))
        outcomes.append((row["status"], row["message"]))
    assert outcomes[0][0] == "Refused"
    assert outcomes[0][1].startswith("Not by programs.")
    assert outcomes[1][0] == "Succeeded"


@pytest.mark.features("drift", "promotion")
async def test_an_agent_sets_nothing_that_changes_instances_by_itself(api: Api) -> None:
    environment, application, instance = await held(api)
    stages = [{"environmentId": environment}, {"environmentId": await api.offer(), "automatic": True}]
    for path, body in (
        (f"instances/{instance}/drift/put-back-rule", {"addresses": ["a"]}),
        (f"applications/{application}/promotion-order", {"stages": stages}),
    ):
        said = await api.client.put(path, json=body, headers={"Launchbay-Agent": "mcp"})
        assert refused(said, 403, "NotAllowed").startswith("An agent can't set")
        accepted(await api.client.put(path, json=body))


async def test_a_due_workflow_that_a_rule_refuses_fails_with_its_sentence(api: Api) -> None:
    environment, _, instance = await held(api)
    accepted(await api.post(f"instances/{instance}/greet/schedule", {"interval": 300}))
    text = rule("$.credential.kind == 'schedule' && $.workflow == 'greet'", "deny: Not by schedules.")
    await put_rules(api, f"environments/{environment}", text)
    jobs = (await eventually(lambda: api.settled(instance), lambda found: len(found["workflowHistory"]) >= 2))[
        "workflowHistory"
    ]
    job = accepted(await api.get(f"jobs/{jobs[0]['id']}"))
    assert job["status"] == "Failed"
    assert job["errorMessage"].startswith("Not by schedules.")


async def test_each_save_is_a_version_with_its_author(api: Api) -> None:
    owner = f"environments/{await api.offer()}"
    assert accepted(await api.get(f"{owner}/change-rules"))["version"] == 0
    first, second = rule("true", "warn: One."), rule("true", "warn: Two.")
    assert [await put_rules(api, owner, text) for text in (first, first, second)] == [1, 1, 2]
    found = accepted(await api.get(f"{owner}/change-rules"))
    assert (found["version"], found["rules"], found["byEmail"]) == (2, second, EMAIL)
    assert accepted(await api.get(f"{owner}/change-rules", version=1))["rules"] == first
    refused(await api.get(f"{owner}/change-rules", version=9), 404)
    listed = accepted(await api.get(f"{owner}/change-rules/versions"))
    assert [(each["version"], each["byEmail"]) for each in listed] == [(2, EMAIL), (1, EMAIL)]
    query = {"object": f"/{owner}", "sort": "-at", "limit": 1}
    [entry] = accepted(await api.get(f"organizations/{api.organization}/audit", **query))
    assert (entry["operation"], entry["after"]) == ("replace_environment_rules", {"version": 2, "rules": second})


async def test_rules_with_errors_are_refused_and_nothing_is_saved(api: Api) -> None:
    owner = f"environments/{await api.offer()}"
    answer = await api.put(f"{owner}/change-rules", {"rules": "- name: a\n  when: $.kin == 1\n  deny: No.\n"})
    assert "Line 2, column 9: a: There is no fact 'kin'." in refused(answer, 400, "InvalidRules")
    assert accepted(await api.get(f"{owner}/change-rules"))["version"] == 0


async def test_who_saves_over_a_newer_version_is_refused(api: Api) -> None:
    path = f"environments/{await api.offer()}/change-rules"
    tag = (await api.get(path)).headers["etag"]
    texts = [rule("true", f"warn: Number {number}.") for number in range(6)]
    answers = await asyncio.gather(
        *(api.client.put(path, json={"rules": text}, headers={"If-Match": tag}) for text in texts)
    )
    assert sorted(each.status_code for each in answers) == [200] + [412] * 5
    assert accepted(await api.get(path))["version"] == 1


async def test_saves_at_the_same_time_are_versions_in_one_order(api: Api) -> None:
    owner = f"environments/{await api.offer()}"
    versions = await asyncio.gather(*(put_rules(api, owner, rule("true", f"warn: {n}.")) for n in range(6)))
    assert sorted(versions) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kind", ["organizations", "applications", "environments"])
async def test_writing_rules_needs_its_own_permission(api: Api, kind: str) -> None:
    made = {
        "organizations": api.organization,
        "applications": await api.application(MANIFEST),
        "environments": await api.offer(),
    }[kind]
    body = {"rules": "# none\n"}
    path = f"{kind}/{made}/change-rules"
    for entries in (["Read: [/*]"], ["Read: [/*]", "EditApplication: [/*]", "EditEnvironment: [/*]"]):
        editor = await api.member(*entries)
        refused(await editor.put(path, body), 403, "NotAllowed")
        accepted(await editor.get(path))
        accepted(await editor.get(f"{path}/versions"))
    narrow = await api.member("EditRules: [/applications/*]")
    answer = await narrow.put(path, body)
    assert answer.status_code == (200 if kind == "applications" else 403), answer.text
    accepted(await (await api.member("EditRules: [/*]")).put(path, body))


async def test_rules_are_read_only_for_those_who_may_write_them(api: Api) -> None:
    reader = await api.member("Read: [/*]")
    path = f"environments/{await api.offer()}/change-rules"
    for body in ({"rules": "- wrong"}, {"rules": "- wrong", "dryRun": True}):
        assert "EditRules" in refused(await reader.put(path, body), 403)


async def test_other_requests_continue_while_many_rules_are_computed() -> None:
    text = "".join(f"- {{name: r{n}, when: '$.parameters.big == $.parameters.big', warn: Large.}}\n" for n in range(50))
    nothing = read_suite(b"facts: {}\ntests: { one: { expect: allow } }").cases[0].facts
    facts = Facts({**nothing.values, "parameters": {"big": ["x" * 100] * 500}}, nothing.at)
    asked = asyncio.create_task(answered([Scope("organization", "o", 1, parse(text))] * 3, facts, has_change_set=False))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert isinstance(await asked, Allowed)
    assert turns > 3


async def test_a_rule_that_locks_everybody_out_can_be_removed(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    owner = f"environments/{environment}"
    await put_rules(api, owner, "- name: never\n  deny: Never.\n")
    refused(await api.put(f"{owner}/markers", {"markers": []}), 403, "RuleRefused")
    await put_rules(api, owner, "")
    accepted(await api.put(f"{owner}/markers", {"markers": []}))
    accepted(await api.post(f"applications/{application}/launch", {"environmentId": environment}))


async def test_rules_of_a_deleted_environment_are_gone(api: Api) -> None:
    environment = await api.offer()
    await put_rules(api, f"environments/{environment}", rule("$.kind == 'launch'"))
    accepted(await api.delete(f"environments/{environment}"))
    async with api.database.connection() as connection:
        found = await connection.execute("SELECT count(*) FROM change_rules WHERE owner_id = %s", [environment])
        assert await found.fetchone() == (0,)


async def test_rules_cost_an_organization_without_them_no_statement(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, application, instance = await held(api)
    note_statements(monkeypatch)

    async def asked(path: str, body: Any) -> list[bytes]:
        accepted(await api.post(path, body))  # what is kept in memory is there
        await api.settled(instance)
        with counted() as reads:
            accepted(await api.post(path, body))
        await api.settled(instance)
        return [each.text for each in reads.statements]

    for path, body in (
        (f"instances/{instance}/greet", {}),
        (f"applications/{application}/launch", {"environmentId": environment}),
    ):
        texts = await asked(path, body)
        assert texts
        assert not [
            text for text in texts if b"change_rules AS current" in text or b"launchbay_change_set_facts" in text
        ]
    owner = f"environments/{environment}"
    await put_rules(api, owner, rule("false"))
    texts = await asked(f"instances/{instance}/greet", {})
    assert len([text for text in texts if b"launchbay_change_set_facts" in text]) == 1, "facts are read once"
    assert not [text for text in texts if b"change_rules AS current" in text], "rules are kept in memory"


async def test_a_dry_run_names_the_recent_changes_that_rules_would_have_refused(api: Api) -> None:
    environment, application, instance = await held(api)
    accepted(await api.post(f"instances/{instance}/greet", {}))
    await api.settled(instance)
    await api.settled(await api.launch(application))  # elsewhere
    accepted(await api.put(f"environments/{environment}/markers", {"markers": []}))
    owner = f"environments/{environment}"
    text = rule("$.kind == 'launch' && $.who.roles != []", name="launches") + rule(
        "$.workflow == 'greet'", "require: { changeSet: true }\n  because: Propose it.", "runs"
    )
    text += rule("$.kind == 'edit'", "warn: Careful.", "edits") + rule("$.parameters.size > 3", name="sizes")
    found = accepted(await api.put(f"{owner}/change-rules", {"rules": text, "dryRun": True}))
    recent = found["recent"]
    assert (found["version"], found["saved"], recent["missing"]) == (0, False, None)
    assert (recent["changes"], recent["warned"], recent["unchecked"]) == (3, 1, ["sizes"])
    assert [(each["operation"], each["outcome"], each["sentence"]) for each in recent["refused"]] == [
        ("run_workflow", "needs", "Propose it."),
        ("launch_application", "deny", "Not here."),
    ]
    assert recent["refused"][1]["object"] == f"/applications/{application}/instances/{instance}"
    assert accepted(await api.get(f"{owner}/change-rules"))["version"] == 0
    assert accepted(await api.put(f"{owner}/change-rules", {"rules": text}))["recent"] == recent


async def test_each_change_of_an_applied_change_set_counts_as_a_recent_one(api: Api) -> None:
    environment, application, instance = await held(api)
    other = await api.launch(application, environmentId=environment)
    await api.settled(other)
    for act in ({"act": "version", "version": 2, "parameters": {"size": 2}}, {"act": "destroy"}):
        body = {**act, "ids": [instance, other], "comment": "", "onFailure": "keep"}
        made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
        accepted(await api.post(f"change-sets/{made['id']}/apply"))
        for each in (instance, other):
            await api.settled(each)
    text = rule("$.kind == 'destroy'", name="ends") + rule("$.kind == 'reconfigure'", name="changes")
    text += rule("$.kind != 'edit'", "require: { changeSet: true }\n  because: Propose it.", "all")
    body = {"rules": text, "dryRun": True}
    recent = accepted(await api.put(f"environments/{environment}/change-rules", body))["recent"]
    at = {f"/applications/{application}/instances/{each}" for each in (instance, other)}
    assert recent["changes"] == 6
    assert {(each["operation"], each["object"]) for each in recent["refused"]} == {
        *(("launch_application", each) for each in at),
        *(("reconfigure_instance", each) for each in at),
        *(("run_workflow", f"{each}/workflows/destroy") for each in at),
    }


async def test_recent_changes_are_for_those_who_may_view_the_audit_log(api: Api) -> None:
    environment, _, _ = await held(api)
    writer = await api.member("EditRules: [/*]", "Read: [/*]")
    body = {"rules": "- name: never\n  deny: Never.\n", "dryRun": True}
    recent = accepted(await writer.put(f"environments/{environment}/change-rules", body))["recent"]
    assert (recent["changes"], recent["refused"]) == (0, [])
    assert "ViewAudit" in recent["missing"]


async def test_explain_names_the_rules_of_a_place(api: Api) -> None:
    environment, application, instance = await held(api)
    await put_rules(api, f"environments/{environment}", rule("$.kind == 'destroy'", name="stays"))
    query = {"permission": "EditInstance", "path": f"/applications/{application}/instances/{instance}"}
    said = (
        f"deny by the rule 'stays', version 1 of the rules of the environment {environment}, when $.kind == 'destroy'"
    )
    found = accepted(await api.get("permissions/explain", **query))
    assert (found["allowed"], found["rules"]) == (True, [said])
    assert accepted(await api.get("permissions/explain", **{**query, "permission": "Read"}))["rules"] == []
    narrow = await api.member(f"EditInstance: [/applications/{application}/*]")
    assert accepted(await narrow.get("permissions/explain", **query))["rules"] == [], "it may not read them"


@pytest.mark.parametrize("door", ["launch", "run"])
async def test_a_save_is_answered_after_the_changes_that_have_read_the_rules_before(api: Api, door: str) -> None:
    environment, application, instance = await held(api)
    doors: dict[str, tuple[str, Any]] = {
        "launch": (f"applications/{application}/launch", {"environmentId": environment}),
        "run": (f"instances/{instance}/greet", {}),
    }
    owner = f"organizations/{api.organization}"
    text = rule(f"$.environment.id == '{environment}' && $.kind != 'destroy'")
    async with await psycopg.AsyncConnection.connect(api.database.url) as other:
        changed = "environments" if door == "launch" else "instances"
        await other.execute(
            f"SELECT FROM {changed} WHERE id = %s FOR UPDATE", [environment if door == "launch" else instance]
        )
        changing = asyncio.create_task(api.post(*doors[door]))
        await until_locked(api.database.url)
        saving = asyncio.create_task(put_rules(api, owner, text))
        try:
            await eventually(lambda: api.read(f"{owner}/change-rules"), lambda found: found["rules"] == text)
            assert not changing.done()
            await asyncio.wait({saving}, timeout=0.2)
            assert not saving.done()
        finally:
            await other.commit()
            await saving
    accepted(await changing)
    await api.settled(instance)
    try:
        refused(await api.post(*doors[door]), 403, "RuleRefused")
    finally:
        await put_rules(api, owner, "")


async def test_launches_and_saves_at_the_same_time_are_in_one_order(api: Api) -> None:
    environment, application, _ = await held(api)
    owner = f"environments/{environment}"
    answers: list[tuple[int, int]] = []  # versions of rules that were answered before, and the status
    answered_versions = 0

    async def launch() -> None:
        before = answered_versions
        answer = await api.post(f"applications/{application}/launch", {"environmentId": environment})
        answers.append((before, answer.status_code))

    async def save() -> None:
        nonlocal answered_versions
        await put_rules(api, owner, rule("$.kind == 'launch'"))
        answered_versions = 1

    await asyncio.gather(*(launch() for _ in range(8)), save(), *(launch() for _ in range(8)))
    listed = accepted(await api.get(f"environments/{environment}/instances"))
    await asyncio.gather(*(launch() for _ in range(4)))
    assert {status for before, status in answers if before} == {403}
    assert {status for _, status in answers} <= {200, 403}
    assert len(accepted(await api.get(f"environments/{environment}/instances"))) == len(listed)


async def test_a_save_under_a_condition_waits_for_changes_on_their_way_too(api: Api) -> None:
    owner = f"environments/{await api.offer()}"
    tag = (await api.get(f"{owner}/change-rules")).headers["etag"]
    async with await psycopg.AsyncConnection.connect(api.database.url, application_name="launchbay") as other:
        await other.execute("SELECT access_stamp FROM organizations WHERE id = %s", [api.organization])
        body = {"rules": rule("false")}
        saving = asyncio.create_task(api.client.put(f"{owner}/change-rules", json=body, headers={"If-Match": tag}))
        await eventually(lambda: api.read(f"{owner}/change-rules"), lambda found: found["version"] == 1)
        await asyncio.wait({saving}, timeout=0.2)
        assert not saving.done()
        await other.commit()
    accepted(await saving)


@pytest.mark.features("plans")
async def test_a_plan_asks_the_rules_of_the_operation_that_it_is_for(api: Api) -> None:
    environment, application, instance = await held(api)
    plans = f"organizations/{api.organization}/plans"
    requests: dict[str, dict[str, Any]] = {
        "launch_application": {
            "act": "launch",
            "applicationId": application,
            "launch": {"environmentId": environment},
        },
        "reconfigure_instance": {"act": "reconfigure", "instanceId": instance, "configuration": {}},
        "run_workflow": {"act": "destroy", "instanceId": instance},
    }
    for operation in requests:
        await put_rules(api, f"environments/{environment}", rule(f"$.operation == '{operation}'"))
        for other, body in requests.items():
            answer = await api.post(plans, body)
            if other == operation:
                refused(answer, 403, "RuleRefused")
            else:
                accepted(answer)


@pytest.mark.features("change_sets", "directories")
async def test_a_change_set_of_a_directory_says_what_rules_say_and_has_the_approvals_that_they_require(
    api: Api,
) -> None:
    name, open_one, closed = fresh_name("lab"), fresh_name("open"), fresh_name("closed")
    files = {f"environments/{each}.yaml": "markers: [blue]\n" for each in (name, open_one, closed)}
    made = {
        each: accepted(await api.post(f"organizations/{api.organization}/environments", {"name": each}))["id"]
        for each in (name, open_one, closed)
    }
    text = rule("$.kind == 'edit'", "require: { approvals: 2 }\n  because: Two others approve.", "two")
    await put_rules(api, f"environments/{made[name]}", text)
    await put_rules(api, f"environments/{made[closed]}", rule("$.operation == 'replace_markers'", "deny: Not now."))
    preview = accepted(await api.post(f"organizations/{api.organization}/directory/preview", {"files": files}))
    assert [(each["what"], each["outcome"], each["approvals"], each["messages"][0]) for each in preview["rules"]] == [
        (f"markers of environment {closed}", "deny", 0, "Not now."),
        (f"markers of environment {name}", "needs", 2, "Two others approve."),
    ]
    change_set = {"act": "apply", "files": files}
    shown = accepted(await api.post(f"organizations/{api.organization}/change-sets", change_set))
    assert (shown["needed"], shown["status"]) == (2, "Pending")
    [said] = shown["directory"]["warnings"]
    assert said.startswith(f"markers of environment {closed}: Not now. That is the rule 'one', version 1")
    for _ in range(2):
        other = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
        accepted(await other.post(f"change-sets/{shown['id']}/approve"))
    refused(await api.post(f"change-sets/{shown['id']}/apply"), 403, "RuleRefused")
    await put_rules(api, f"environments/{made[closed]}", "")
    accepted(await api.post(f"change-sets/{shown['id']}/apply"))
    markers = accepted(await api.get(f"environments/{made[name]}/markers"))
    assert [each["name"] for each in markers["markers"]] == ["blue"]


@pytest.mark.features("directories", "freezes")
async def test_the_preview_of_a_directory_names_a_freeze_and_is_for_who_may_make_its_changes(api: Api) -> None:
    name = fresh_name("lab")
    made = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": name}))["id"]
    accepted(await api.put(f"environments/{made}/freeze", {"reason": "An incident."}))
    path = f"organizations/{api.organization}/directory/preview"
    body = {"files": {f"environments/{name}.yaml": "markers: [blue]\n"}}
    [said] = accepted(await api.post(path, body))["rules"]
    assert said["outcome"] == "deny"
    assert f"froze the environment {name!r} at " in said["messages"][0]
    assert "An incident." in said["messages"][0]
    refused(await (await api.member("Read: [/*]")).post(path, body), 403, "NotAllowed")
    assert accepted(await api.get(f"environments/{made}/markers")) == {"markers": []}


async def test_a_refusal_names_who_can_change_the_rule_and_so_does_an_explanation(api: Api) -> None:
    home = accepted(await api.post("organizations", {"name": fresh_name("holders")}))["id"]
    environment = accepted(await api.post(f"organizations/{home}/environments", {"name": "prod"}))["id"]
    application = accepted(await api.post(f"organizations/{home}/applications", {"name": "shop"}))["id"]
    accepted(await api.put_yaml(f"applications/{application}/manifest", MANIFEST))
    await put_rules(api, f"environments/{environment}", rule("$.kind == 'launch'"))
    launch = (f"applications/{application}/launch", {"environmentId": environment})
    assert "EditRules is held there by Administrator." in refused(await api.post(*launch), 403, "RuleRefused")
    # Who may read no users hears of roles.
    launcher = await api.member("CreateInstance: [/*]", "Read: [/applications/*, /roles/*]", organization=home)
    said = refused(await launcher.post(*launch), 403, "RuleRefused")
    assert "EditRules is held there by people with the role Administrator." in said
    for _ in range(6):
        await api.member("EditRules: [/environments/*]", organization=home)
    said = refused(await api.post(*launch), 403, "RuleRefused")
    assert "EditRules is held there by people with the roles " in said
    query = {"permission": "EditRules", "path": f"/environments/{environment}"}
    explained = accepted(await api.get("permissions/explain", **query))
    assert explained["heldBy"].startswith("people with the roles ")
    assert "Administrator" in explained["heldBy"]
    query = {"permission": "CreateInstance", "path": f"/applications/{application}", "touching": query["path"]}
    explained = accepted(await api.get("permissions/explain", **query))
    assert explained["heldBy"] == "Administrator, Member"
    assert explained["rules"] == [
        f"deny by the rule 'one', version 1 of the rules of the environment {environment}, when $.kind == 'launch'"
    ]
