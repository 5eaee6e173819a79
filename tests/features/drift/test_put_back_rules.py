"""Rules that put addresses back without anybody."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from launchbay import limits
from launchbay.clock import to_ms
from launchbay.features.change_sets.usecases import ChangeSetView
from launchbay.features.drift import rows
from launchbay.features.drift.later import wait_of
from tests.support.databases import Databases
from tests.support.drift import MODULE, boxes, change_outside, checked, drift_of, open_findings, planned, running_boxes
from tests.support.external_services import needs_tofu
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, refused, running_api

JSON = [("Content-Type", "application/json")]
RULE: dict[str, Any] = {"addresses": ["replicas", "web#launch/*"], "mostPerDay": 2}


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1", server_programs="opentofu") as api:
        yield api
    databases.drop(url)


@pytest.fixture
async def shop() -> AsyncIterator[LoopbackServer]:
    """What a launch sets up with 2 replicas, and anybody can change."""
    async with loopback_server() as server:

        async def set_up(*given: Any) -> Any:
            runs(server, replicas=2)
            return await answer(200, b"")(*given)

        server.routes["/set"] = set_up
        yield server


def runs(server: LoopbackServer, **state: Any) -> None:
    server.routes["/state"] = answer(200, json.dumps(state).encode(), JSON)


def manifest(server: LoopbackServer) -> str:
    return f"""\
application:
  components:
    web:
      type: workflow.Instance
      checks: {{ run: [.look] }}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - put: {{ action: restcall, parameters: {{ command: "{server.url("/set")}", method: POST }} }}
          .look:
            steps:
              - ask:
                  action: restcall
                  parameters: {{ command: "{server.url("/state")}" }}
                  output: {{ seen: content }}
            return:
              findings:
                value:
                  - {{ address: replicas, from: 2, to: "{{$.seen.replicas}}" }}
                  - {{ address: color, from: "{{$= default($.seen.color, 'red')}}", to: red }}
"""


async def turns(api: Api, instance: str) -> Any:
    """Give the rule its turns until it has put the instance back or says why not, and return the drift."""
    async with asyncio.timeout(60):
        while True:
            async with api.database.transaction() as connection:
                due = "UPDATE put_backs SET looks_at = now() WHERE instance_id = %s AND looks_at < 'infinity'"
                await connection.execute(f"{due} AND message IS NULL", [instance])
            await api.round_of("plans")
            await api.round_of("put backs")
            async with api.database.connection() as connection:
                state = "SELECT message, looks_at = 'infinity' FROM put_backs WHERE instance_id = %s"
                row = await (await connection.execute(state, [instance])).fetchone()
            if row is not None and (row[0] is not None or row[1]):
                break
    await api.settled(instance)
    return await drift_of(api, instance)


async def turns_again(api: Api, instance: str) -> Any:
    """Give the rule its turns after its pause."""
    async with api.database.transaction() as connection:
        over = "UPDATE put_backs SET message = NULL, looks_at = now() WHERE instance_id = %s"
        await connection.execute(over, [instance])
    return await turns(api, instance)


async def proposed(api: Api, instance: str) -> str:
    """Give the rule the turn that makes its change set, and return its ID."""
    await api.round_of("put backs")
    [found] = await left(api, instance)
    return found


async def left(api: Api, instance: str) -> list[str]:
    """Return the change sets of an instance that nobody has applied."""
    async with api.database.connection() as connection:
        statement = """SELECT change_set_id FROM change_set_instances JOIN change_sets ON change_sets.id = change_set_id
                       WHERE instance_id = %s AND change_sets.status IN ('Pending', 'Ready')"""
        return [row[0] for row in await (await connection.execute(statement, [instance])).fetchall()]


async def drifted(api: Api, server: LoopbackServer, rule: Any, environment: str | None = None, **state: Any) -> str:
    """Return an instance with a rule and a check that has found this state."""
    instance = await api.running(manifest(server), environmentId=environment or api.environment)
    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", rule))
    runs(server, **state)
    await checked(api, instance)
    return instance


async def ignore(api: Api, instance: str, address: str) -> str:
    """Ignore a finding, and return its path."""
    findings = (await drift_of(api, instance))["findings"]
    [found] = [each["id"] for each in findings if each["address"] == address]
    path = f"instances/{instance}/drift/findings/{found}/ignored"
    until = to_ms(api.clock.now() + timedelta(days=1))
    accepted(await api.put(path, {"reason": "It holds the service up.", "until": until}))
    return path


def sets(server: LoopbackServer) -> int:
    return sum(each.target == "/set" for each in server.received)


async def test_what_a_rule_names_is_put_back_without_anybody(api: Api, shop: LoopbackServer) -> None:
    instance = await api.running(manifest(shop))
    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", RULE))
    await checked(api, instance)
    assert sets(shop) == 1, "nothing differs"
    runs(shop, replicas=5)
    await checked(api, instance)

    await turns(api, instance)

    assert sets(shop) == 2
    found = await checked(api, instance)
    assert [(each["address"], each["state"]) for each in found["findings"]] == [("replicas", "put back")]
    job = (await api.document(instance))["workflowHistory"][0]
    assert (job["name"], job["status"]) == ("launch", "Succeeded")
    entries = accepted(await api.get(f"organizations/{api.organization}/audit?action=put_back_drift"))
    assert entries[0]["after"]["rule"] == {"kind": "instance", "id": instance}


async def test_nothing_is_put_back_without_a_rule_or_that_it_does_not_name(api: Api, shop: LoopbackServer) -> None:
    instance = await api.running(manifest(shop))
    runs(shop, replicas=5, color="blue")
    await checked(api, instance)
    await api.round_of("put backs")
    assert (await drift_of(api, instance))["putBack"] is None

    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", RULE))

    found = await turns(api, instance)
    assert found["putBack"].startswith("A launch would also put back what the rule doesn't name: color.")
    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", {**RULE, "addresses": ["replicas", "color"]}))
    found = await turns(api, instance)
    assert found["putBack"].startswith("Its plan also touches what the rule doesn't name: web#launch/put.")
    assert sets(shop) == 1
    assert await left(api, instance) == [], "else each instance of a rule would leave one of those that may be open"
    assert {each["changeSetId"] for each in found["findings"]} == {None}


async def test_an_address_that_somebody_changes_again_and_again_is_put_back_a_few_times_a_day(
    api: Api, shop: LoopbackServer
) -> None:
    instance = await api.running(manifest(shop))
    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", RULE))
    for _ in range(3):
        runs(shop, replicas=5)
        await checked(api, instance)
        found = await turns(api, instance)

    assert sets(shop) == 1 + RULE["mostPerDay"]
    assert (
        "The rule has put this back 2 times within a day, and stops for the rest of that: replicas." in found["putBack"]
    )
    async with api.database.transaction() as connection:  # a day passes
        statement = "SELECT done FROM put_backs WHERE instance_id = %s"
        [[done]] = await (await connection.execute(statement, [instance])).fetchall()
        past = json.dumps([{**each, "at": each["at"] - 86_400_000} for each in json.loads(done)])
        await connection.execute("UPDATE put_backs SET done = %s WHERE instance_id = %s", [past, instance])
    assert (await turns_again(api, instance))["putBack"] is None
    assert sets(shop) == 2 + RULE["mostPerDay"]


async def test_a_rule_acts_as_who_set_it_and_stops_when_they_lose_the_right(api: Api, shop: LoopbackServer) -> None:
    application = await api.application(manifest(shop))
    instance = await api.launch(application)
    await api.until(instance, "Running")
    owner = await api.member("Read: [/*]", f"EditApplication: [/applications/{application}]")
    path = f"applications/{application}/put-back-rule"
    accepted(await owner.put(path, RULE))
    runs(shop, replicas=5)
    await checked(api, instance)

    found = await turns(api, instance)

    assert "EditInstance" in found["putBack"]
    shown = accepted(await api.get(path))
    assert (shown["problem"], shown["ownerEmail"].startswith("member")) == (None, True)
    async with api.database.transaction() as connection:
        lost = "DELETE FROM role_assignments WHERE user_id = (SELECT id FROM users WHERE email = %s)"
        await connection.execute(lost, [shown["ownerEmail"]])
        stamped = "UPDATE users SET access_stamp = access_stamp + 1 WHERE email = %s"
        await connection.execute(stamped, [shown["ownerEmail"]])
    await checked(api, instance)
    await turns(api, instance)
    assert accepted(await api.get(path))["problem"].startswith("Stopped: ")
    assert sets(shop) == 1
    accepted(await api.put(path, RULE))
    await turns(api, instance)
    assert sets(shop) == 2, "somebody who may has saved it again"


async def test_a_freeze_is_asked_as_for_every_change(api: Api, shop: LoopbackServer) -> None:
    instance = await api.running(manifest(shop))
    environment = (await api.document(instance))["environmentId"]
    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", RULE))
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "An incident."}))
    runs(shop, replicas=5)
    await checked(api, instance)

    found = await turns(api, instance)

    assert "An incident." in found["putBack"]
    assert sets(shop) == 1
    accepted(await api.delete(f"environments/{environment}/freeze"))
    async with asyncio.timeout(20):
        while sets(shop) < 2:  # its end wakes what waits for it
            await turns(api, instance)


async def test_a_rule_waits_for_the_approvals_of_the_policy(api: Api, shop: LoopbackServer) -> None:
    environment = await api.offer()
    instance = await api.running(manifest(shop), environmentId=environment)
    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", RULE))
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    runs(shop, replicas=5)
    await checked(api, instance)

    assert (await turns(api, instance))["putBack"] == "The change set waits for approval."
    assert (await turns_again(api, instance))["putBack"] == "The change set waits for approval."

    assert sets(shop) == 1
    [finding] = (await drift_of(api, instance))["findings"]
    refused(await api.post(f"change-sets/{finding['changeSetId']}/approve"), 403)
    other = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    accepted(await other.post(f"change-sets/{finding['changeSetId']}/approve"))
    assert (await turns_again(api, instance))["putBack"] is None
    assert sets(shop) == 2


async def test_a_rule_brings_no_version_past_a_gate(api: Api, shop: LoopbackServer) -> None:
    environments = [await api.offer() for _ in range(2)]
    application = await api.application(manifest(shop))
    first, second = [await api.launch(application, environmentId=each) for each in environments]
    version = [(await api.settled(each))["version"] for each in (first, second)][1]
    stages = [{"environmentId": environments[0]}, {"environmentId": environments[1], "approvals": 1}]
    accepted(await api.put(f"applications/{application}/promotion-order", {"stages": stages}))
    newer = manifest(shop).replace("color, from", "colour, from")
    accepted(await api.put_yaml(f"applications/{application}/manifest", newer))
    accepted(await api.put(f"instances/{first}/configuration", {"manifestVersion": version + 1}))
    await api.settled(first)
    accepted(await api.put(f"instances/{second}/drift/put-back-rule", RULE))
    runs(shop, replicas=5)
    before = sets(shop)
    await checked(api, second)

    assert (await turns(api, second))["putBack"] is None

    assert sets(shop) == before + 1
    assert (await api.document(second))["version"] == version
    body = {"manifestVersion": version + 1}
    refused(await api.put(f"instances/{second}/configuration", body), 403, "PromotionGate")


REPLACED = MODULE.replace("{ input = var.size }", "{\n  input = var.size\n  triggers_replace = var.size\n}")


@needs_tofu
@pytest.mark.slow
async def test_a_rule_deletes_only_what_it_says_it_may(api: Api) -> None:
    instance = await running_boxes(api, boxes(REPLACED))
    path = f"instances/{instance}/drift/put-back-rule"
    rule = {"addresses": ["terraform_data.*", "output.*"], "allowDeletes": ["terraform_data.lock"]}
    accepted(await api.put(path, rule))
    await checked(api, instance, baseline=True)
    await change_outside(api, instance, box={"triggers_replace": 5})
    assert list(open_findings(await checked(api, instance))) == ["terraform_data.box"]

    found = await turns(api, instance)

    assert found["putBack"].startswith("Its plan deletes what the rule doesn't allow it to: terraform_data.box.")
    assert len((await api.document(instance))["workflowHistory"]) == 1
    accepted(await api.put(path, {**rule, "allowDeletes": ["terraform_data.box"]}))
    await turns(api, instance)
    assert open_findings(await checked(api, instance)) == {}
    assert len((await api.document(instance))["workflowHistory"]) == 2


async def test_a_wrong_rule_is_refused_and_one_without_addresses_ends_it(api: Api, shop: LoopbackServer) -> None:
    instance = await api.running(manifest(shop))
    path = f"instances/{instance}/drift/put-back-rule"
    for wrong in ({"mostPerDay": 0}, {"addresses": [""]}, {"allowDeletes": ["x" * 300]}, {"addresses": ["a"] * 101}):
        refused(await api.put(path, {**RULE, **wrong}), 400, "InvalidPutBackRule")
    accepted(await api.put(path, RULE))
    assert accepted(await api.get(path))["addresses"] == RULE["addresses"]
    accepted(await api.put(path, {}))
    assert accepted(await api.get(path))["addresses"] == []


ACCOUNT = {"configuration.provider": "aws-ec2", "configuration.identity": "AKIA", "configuration.credential": "hunter2"}
BOTH = {**RULE, "addresses": ["replicas", "color", "web#launch/*"]}


async def test_what_somebody_ignores_is_not_put_back_even_if_the_rule_names_it(api: Api, shop: LoopbackServer) -> None:
    instance = await drifted(api, shop, BOTH, replicas=5, color="blue")
    path = await ignore(api, instance, "color")

    found = await turns(api, instance)

    assert found["putBack"].startswith("A launch would also put back what somebody ignores: color.")
    assert (sets(shop), await left(api, instance)) == (1, [])
    accepted(await api.delete(path))
    await checked(api, instance)
    await turns_again(api, instance)
    assert sets(shop) == 2


async def test_what_somebody_ignores_when_the_change_set_is_made_is_not_put_back(
    api: Api, shop: LoopbackServer
) -> None:
    instance = await drifted(api, shop, BOTH, replicas=5, color="blue")
    made = await proposed(api, instance)
    await ignore(api, instance, "color")

    found = await turns(api, instance)

    assert found["putBack"].startswith("A launch would also put back what somebody ignores: color.")
    assert sets(shop) == 1
    refused(await api.get(f"change-sets/{made}"), 404)


async def test_a_change_set_goes_when_nothing_is_left_to_put_back(api: Api, shop: LoopbackServer) -> None:
    instance = await drifted(api, shop, RULE, replicas=5)
    await proposed(api, instance)
    await ignore(api, instance, "replicas")
    await turns(api, instance)
    assert (sets(shop), await left(api, instance)) == (1, [])


async def test_what_a_check_finds_after_the_change_set_was_made_keeps_the_rule_from_applying_it(
    api: Api, shop: LoopbackServer
) -> None:
    instance = await drifted(api, shop, RULE, replicas=5)
    await proposed(api, instance)
    runs(shop, replicas=5, color="blue")
    await checked(api, instance)
    found = await turns(api, instance)
    assert found["putBack"].startswith("A launch would also put back what the rule doesn't name: color.")
    assert (sets(shop), await left(api, instance)) == (1, [])


async def test_a_plan_that_fails_once_delays_a_rule_until_the_next_check(api: Api, shop: LoopbackServer) -> None:
    instance = await drifted(api, shop, RULE, replicas=5)
    made = await proposed(api, instance)
    async with api.database.transaction() as connection:
        failed = "UPDATE plans SET status = 'Failed', problem = 'The host is away.' WHERE change_set_id = %s"
        await connection.execute(failed, [made])

    found = await turns(api, instance)

    assert found["putBack"] == "The plan of the change set failed: The host is away."
    await checked(api, instance)
    await turns_again(api, instance)
    assert sets(shop) == 2


async def test_a_change_set_that_is_stale_delays_a_rule_until_the_next_check(api: Api, shop: LoopbackServer) -> None:
    environment = await api.offer()
    instance = await drifted(api, shop, RULE, environment, replicas=5)
    await proposed(api, instance)
    service = {"name": "an account", "typeId": "builtin:cloud_account", "parameters": ACCOUNT}
    offered = accepted(await api.post(f"organizations/{api.organization}/services", service))["id"]
    accepted(await api.put(f"environments/{environment}/services", {"services": [offered]}))

    found = await turns(api, instance)

    assert "no longer do what it shows" in found["putBack"]
    await checked(api, instance)
    await turns_again(api, instance)
    assert sets(shop) == 2


async def test_a_rule_has_few_change_sets_at_a_time(
    api: Api, shop: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PUT_BACKS_UNAPPLIED", 1)
    application = await api.application(manifest(shop))
    accepted(await api.put(f"applications/{application}/put-back-rule", RULE))
    instances = [await api.launch(application) for _ in range(2)]
    for each in instances:
        await api.until(each, "Running")
    runs(shop, replicas=5)
    for each in instances:
        await checked(api, each)
    await api.round_of("put backs")
    assert sum([len(await left(api, each)) for each in instances]) == 1
    waits = [(await drift_of(api, each))["putBack"] for each in instances]
    assert any(each is not None and "as many change sets as it may" in each for each in waits)


async def test_an_approval_that_counts_no_longer_is_withdrawn_by_the_turn_that_would_apply(
    api: Api, shop: LoopbackServer
) -> None:
    environment = await api.offer()
    instance = await drifted(api, shop, RULE, environment, replicas=5)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    made = await proposed(api, instance)
    await turns(api, instance)
    digest = (await planned(api, made))["planDigest"]
    approver = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    email = accepted(await approver.post(f"change-sets/{made}/approve", {"planDigest": digest}))["answers"][0]["email"]
    async with api.database.transaction() as connection:
        lost = "DELETE FROM role_assignments WHERE user_id = (SELECT id FROM users WHERE email = %s)"
        await connection.execute(lost, [email])
        await connection.execute("UPDATE users SET access_stamp = access_stamp + 1 WHERE email = %s", [email])

    found = await turns_again(api, instance)

    assert found["putBack"].startswith(f"The change set waits for approval again: {email} approved it")
    shown = accepted(await api.get(f"change-sets/{made}"))
    assert (shown["status"], shown["answers"]) == ("Pending", [])


async def test_a_rule_that_somebody_else_saved_meanwhile_does_not_stop(api: Api, shop: LoopbackServer) -> None:
    instance = await api.running(manifest(shop))
    path = f"instances/{instance}/drift/put-back-rule"
    owner = await api.member("Read: [/*]", "EditInstance: [/*]")
    accepted(await owner.put(path, RULE))
    async with api.database.transaction() as connection:
        old = await rows.get_put_back_rule(connection, scope_id=instance)
        assert old is not None
    accepted(await api.put(path, RULE))
    by = {"owner_id": old.owner_id, "method": old.method, "token_id": old.token_id}
    async with api.database.transaction() as connection:
        assert await rows.stop_put_back_rule(connection, scope_id=instance, problem="Stopped.", **by) == 0
    assert accepted(await api.get(path))["problem"] is None


@pytest.mark.parametrize("plans", [0, 1])
def test_nothing_is_applied_without_a_plan_to_read(plans: int) -> None:
    found: Any = SimpleNamespace(id="1", status="Ready", plans=plans, needed=0)
    rule: Any = SimpleNamespace(addresses=["*"], allow_deletes=[])
    wait = wait_of(ChangeSetView(found, [], []), rule)
    assert wait is not None
    assert "may not read the plan" in (wait.message or "")
