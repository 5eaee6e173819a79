"""A named secret of a vault is used by manifests, and shown and stored in the open by nothing (promise 10)."""

import json
from collections.abc import AsyncIterator

import pytest

from launchbay.actions import registry
from launchbay.actions.restcall import _SHOWN_BODY_CHARS
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import LoopbackServer, answer, loopback_server, stream
from tests.support.service import Api, accepted, fresh_name, running_api, served
from tests.support.services import (
    LEAK,
    SECRET,
    USER,
    assert_covered,
    everything_shown,
    everything_stored,
    made_vault,
    told,
)

MASK = "********"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, LEAK))
        async with running_api(url, outgoing_allow="127.0.0.1") as api:
            vault = await made_vault(api, offered_by=api.environment)
            await told(api, vault, "set-secret", name="db", value=SECRET)
            yield api
    databases.drop(url)


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        yield server


async def test_a_secret_is_used_and_neither_shown_nor_stored_in_the_open(api: Api) -> None:
    instance = await api.running(USER)
    document = await api.run(instance, "actions.use")
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    assert LEAK.used[0] == SECRET
    assert document["returnValues"] == {"result.secret": MASK, "result.length": f"user:{MASK}@host"}
    shown = await everything_shown(api, instance)
    assert_covered(*shown, await everything_stored(api))
    [step] = [step for step in shown[2]["steps"] if step["path"].endswith("/leak")]
    assert step["outputs"]["whole"] == MASK
    assert all(MASK in part for part in step["outputs"]["parts"])
    assert step["outputs"]["by"] == {MASK: 1}


async def test_what_a_workflow_returned_is_a_secret_of_later_jobs_too(api: Api) -> None:
    instance = await api.running(USER)
    await api.run(instance, "actions.use")
    document = await api.run(instance, "actions.again")
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    assert LEAK.used[:2] == [SECRET, SECRET]
    assert_covered(*await everything_shown(api, instance), await everything_stored(api))


async def test_the_same_secret_again_is_no_change_of_a_signal(api: Api) -> None:
    instance = await api.running(USER)

    async def stored() -> str:
        async with api.database.connection() as connection:
            statement = "SELECT return_values FROM instances WHERE id = %s"
            row = await (await connection.execute(statement, [instance])).fetchone()
        assert row is not None
        return str(row[0])

    await api.run(instance, "actions.use")
    before = await stored()
    await api.run(instance, "actions.use")
    assert await stored() == before
    shown = [(await api.get(f"instances/{instance}")).text for _ in range(2)]
    assert shown[0] == shown[1]
    assert MASK in shown[0]
    assert "launchbay:sealed" not in shown[0]
    assert "launchbay:sealed" in before


async def test_an_error_that_repeats_a_secret_is_covered_everywhere(api: Api) -> None:
    instance = await api.running(USER)
    document = await api.run(instance, "actions.fail")
    assert "refused: ********" in document["errorMessage"]
    assert_covered(*await everything_shown(api, instance), await everything_stored(api))


@pytest.mark.features("webhooks")
async def test_streams_and_webhooks_tell_no_secret(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(USER)
    body = {"url": receiver.url("/hook"), "events": ["status", "job", "signal"]}
    webhook = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))["id"]
    async with served(api) as port, stream(port, instance) as listener:
        await api.run(instance, "actions.use")
        await listener.until("signal", name="result.secret")
        await listener.until("status", status="Running")
        await api.run(instance, "actions.fail")
        await listener.until("job", status="Failed")
    assert_covered(*[event.data for event in listener.seen])
    assert any(event.name == "log" and MASK in event.data["text"] for event in listener.seen)
    await eventually(lambda: any(b'"Failed"' in each.body for each in receiver.received))
    assert_covered(*[each.body.decode() for each in receiver.received])
    assert any(MASK.encode() in each.body for each in receiver.received)
    accepted(await api.delete(f"webhooks/{webhook}"))


PARENT = """
application:
  interfaces:
    result: {secret: bind(child#result.secret), heard: bind(main#result.heard)}
    actions: {go: bind(main#actions.go)}
  bindings: [[main, child]]
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: CHILD}
      interfaces:
        result: {secret: publish-signal(string)}
        actions: {use: "receive-command(=> string secret)", tell: "receive-command(object word => object said)"}
    main:
      type: workflow.Instance
      interfaces:
        child: {use: "send-command(=> string secret)", tell: "send-command(object word => object said)"}
        heard: {secret: consume-signal(string)}
        result: {heard: publish-signal(object)}
        actions: {go: "receive-command(=> object heard)"}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          go:
            steps:
              - use: {action: child.use, output: {got: secret}}
              - tell:
                  {action: child.tell, precedingPhases: [use], parameters: {word: {in: "{$.got}"}}, output: {s: said}}
              - leak: {action: test.leak, precedingPhases: [tell], parameters: {text: "{$.got}"}}
            return: {heard: {value: "{$.s}"}}
"""
TELLER = (
    USER.replace("again: bind(main#actions.again)}", "tell: bind(main#actions.tell)}")
    .replace("again: receive-command()}", 'tell: "receive-command(object word => object said)"}')
    .replace(
        'again: {steps: [{leak: {action: test.leak, parameters: {text: "{$.secret}"}}}]}',
        'tell: {steps: [], return: {said: {value: ["{$.word}"]}}}',
    )
)


async def test_a_secret_travels_between_instances_as_itself_and_is_sealed_on_the_way(api: Api) -> None:
    child = fresh_name("teller")
    await api.application(TELLER, child)
    instance = await api.running(PARENT.replace("CHILD", child))
    document = await api.run(instance, "actions.go")
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    assert LEAK.used[0] == SECRET
    assert document["returnValues"] == {"result.secret": MASK, "result.heard": [{"in": MASK}]}
    [component] = [each for each in document["components"] if "instanceId" in each]
    assert_covered(
        *await everything_shown(api, instance),
        *await everything_shown(api, component["instanceId"]),
        await everything_stored(api),
    )


@pytest.mark.slow
async def test_an_answer_that_is_cut_in_the_middle_of_a_secret_shows_no_part_of_it(
    api: Api, receiver: LoopbackServer
) -> None:
    manifest = USER.replace("action: test.leak", "action: restcall").replace(
        '{text: "{$.password}", fail: true}',
        '{command: URL, headers: {x-key: "{$.password}"}}'.replace("URL", receiver.url()),
    )
    instance = await api.running(manifest)
    for shown in range(_SHOWN_BODY_CHARS - len(SECRET) - 1, _SHOWN_BODY_CHARS + 1):
        receiver.routes["/"] = answer(403, b"." * shown + SECRET.encode())
        document = await api.run(instance, "actions.fail")
        said = document["errorMessage"].replace("." * shown, "")
        assert "returned 403" in said
        assert not any(SECRET[:length] in said for length in range(4, len(SECRET)))


@pytest.mark.features("webhooks")
async def test_a_notification_of_a_step_tells_webhooks_no_secret(api: Api, receiver: LoopbackServer) -> None:
    manifest = USER.replace(
        'action: test.leak, precedingPhases: [get], parameters: {text: "{$.password}", fail: true}',
        "action: notify, precedingPhases: [get], parameters: "
        '{webhook: true, subject: told, text: "it is {$.password}", data: {key: "{$.password}"}}',
    )
    body = {"url": receiver.url("/told"), "events": ["notification"]}
    webhook = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))["id"]
    instance = await api.running(manifest)
    document = await api.run(instance, "actions.fail")
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    await eventually(lambda: receiver.received)
    told_them = json.loads(receiver.received[0].body)["notification"]
    assert (told_them["text"], told_them["data"]) == (f"it is {MASK}", {"key": MASK})
    assert_covered(await everything_stored(api))
    accepted(await api.delete(f"webhooks/{webhook}"))


async def test_secrets_are_set_listed_replaced_and_deleted(api: Api) -> None:
    vault = await made_vault(api)
    made = await told(api, vault, "set-secret", name="key", value="open sesame")
    assert made == {"id": made["id"], "name": "key", "replaced": False}
    assert await told(api, vault, "get-secret", name="key") == {"value": "open sesame"}
    again = await told(api, vault, "set-secret", name="key", value="close sesame")
    assert again == {"id": made["id"], "name": "key", "replaced": True}
    assert await told(api, vault, "get-secret", name=made["id"]) == {"value": "close sesame"}
    [listed] = (await told(api, vault, "list-secrets"))["secrets"]
    assert set(listed) == {"id", "name", "createdAt", "changedAt"}
    assert listed["changedAt"] >= listed["createdAt"]
    assert await told(api, vault, "delete-secret", name="key") == {"removed": True}
    told_no = await api.post(f"services/{vault}/get-secret", {"arguments": {"name": "key"}})
    assert (told_no.status_code, "no secret 'key'" in told_no.text) == (409, True)
    assert "Store it with the command set-secret" in told_no.text


@pytest.mark.parametrize("value", ["", "short", "x" * 70_000])
async def test_what_could_not_be_covered_is_no_secret(api: Api, value: str) -> None:
    vault = await made_vault(api)
    refusal = await api.post(f"services/{vault}/set-secret", {"arguments": {"name": "key", "value": value}})
    assert (refusal.status_code, list(refusal.json())) == (400, ["value"])


async def test_manifests_reach_what_reads_a_vault_and_nothing_that_changes_it(api: Api) -> None:
    types = accepted(await api.get(f"organizations/{api.organization}/serviceTypes"))
    [vault] = [kind for kind in types if kind["id"] == "builtin:cobalt_secure_store"]
    assert vault["interfaces"] == ["keypair-store", "secret-store"]
    application = await api.application(USER.replace("get-secret", "delete-secret"))
    refusal = await api.post(f"applications/{application}/launch", {})
    assert (refusal.status_code, "needs a service" in refusal.text) == (400, True)
