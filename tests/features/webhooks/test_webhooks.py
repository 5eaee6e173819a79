"""Webhooks: a real receiver on loopback is told, signed, what happens; again after failures, and not for ever."""

import asyncio
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from launchbay.auth.secret_key import read_secret_key
from launchbay.features.webhooks.chat import counted, failure_key, message
from launchbay.features.webhooks.delivery import delete_old_deliveries
from launchbay.features.webhooks.usecases import seal_url
from tests.support.databases import Databases
from tests.support.documentation import DOCS, blocks
from tests.support.eventually import eventually
from tests.support.manifests import FAILING_EARLY, PAUSING, WORKFLOWS
from tests.support.network import LoopbackServer, Received, answer, loopback_server, redirect
from tests.support.service import UNKNOWN, Api, accepted, fresh_name, refused, running_api

SECRET = "a secret of sixteen bytes or more"
HOWTO = DOCS / "howto" / "webhooks.md"
EVENTS = DOCS / "reference" / "webhook-events.md"
ALL = ["status", "job", "signal"]


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1") as api:
        yield api
    databases.drop(url)


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/hook"] = answer(204)
        yield server


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.limits.WEBHOOK_RETRY_FIRST_S", 0.05)
    monkeypatch.setattr("launchbay.limits.WEBHOOK_RETRY_LONGEST_S", 0.2)


@pytest.fixture
async def hook(api: Api, receiver: LoopbackServer) -> AsyncIterator[str]:
    """A webhook for all events."""
    webhook = await create(api, receiver)
    yield webhook
    await api.delete(f"webhooks/{webhook}")


async def create(api: Api, receiver: LoopbackServer, events: list[str] | None = None, path: str = "/hook") -> str:
    body = {"url": receiver.url(path), "events": events or ALL, "secret": SECRET}
    created: str = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))["id"]
    return created


async def shown(api: Api, webhook: str) -> Any:
    rows = accepted(await api.get(f"organizations/{api.organization}/webhooks"))
    return next(row for row in rows if row["id"] == webhook)


async def deliveries(api: Api, webhook: str) -> list[Any]:
    found: list[Any] = accepted(await api.get(f"webhooks/{webhook}/deliveries"))
    return found


async def heard_by_another(api: Api, receiver: LoopbackServer) -> None:
    """Launch an instance, and wait until another webhook has told all of it: what the others tell was sent before."""
    count = len(receiver.received)
    other = await create(api, receiver, path="/other")
    await api.running(None)
    await eventually(lambda: [each.target for each in receiver.received].count("/other") >= 4)
    accepted(await api.delete(f"webhooks/{other}"))
    receiver.received[count:] = [each for each in receiver.received[count:] if each.target != "/other"]


def told(receiver: LoopbackServer, instance: str) -> list[Any]:
    """Return what the receiver heard of an instance, each delivery once, in the order of what happened."""
    bodies = {body["id"]: body for body in (json.loads(received.body) for received in receiver.received)}
    return sorted((body for body in bodies.values() if body.get("instance") == instance), key=lambda body: body["at"])


def is_signed(received: Received, secret: str = SECRET) -> bool:
    parts = dict(part.split("=", 1) for part in received.headers["launchbay-signature"].split(","))
    expected = hmac.new(secret.encode(), f"{parts['t']}.".encode() + received.body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(parts["v1"], expected) and abs(time.time() - int(parts["t"])) < 60


@pytest.mark.slow
async def test_a_launch_is_told_from_its_beginning_to_its_end(api: Api, receiver: LoopbackServer, hook: str) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"}, instanceName="shop")
    heard = await eventually(lambda: told(receiver, instance), lambda events: len(events) >= 5)
    statuses = {body["status"]: body for body in heard if body["event"] == "status"}
    # A launch is accepted and begins in one moment, so those two may arrive in either order.
    assert statuses.keys() == {"Requested", "Executing", "Running"}
    [job] = [body["job"] for body in heard if body["event"] == "job"]
    assert (job["name"], job["status"], job["errorMessage"]) == ("launch", "Succeeded", None)
    [signal] = [body["signal"] for body in heard if body["event"] == "signal"]
    assert signal == {"shown": "1 of x"}
    document = await api.document(instance)
    first = statuses["Requested"]
    states = {status: (body["job"]["status"], body["job"]["number"]) for status, body in statuses.items()}
    assert states == {"Requested": ("Executing", 1), "Executing": ("Executing", 1), "Running": ("Succeeded", 1)}
    assert {body["job"]["id"] for body in heard if body["event"] != "signal"} == {job["id"]}
    assert (first["organization"], first["application"]) == (api.organization, document["applicationId"])
    assert (first["environment"], first["instanceName"]) == (api.environment, "shop")
    assert abs(first["at"] - time.time() * 1000) < 60_000


async def test_an_event_has_the_fields_that_the_how_to_shows(api: Api, receiver: LoopbackServer, hook: str) -> None:
    instance = await api.running("launch: {steps: []}")
    heard = await eventually(lambda: told(receiver, instance), lambda events: len(events) >= 4)
    page = {block.language: block.text for block in [*blocks(HOWTO), *blocks(EVENTS)]}
    status = next(body for body in heard if body["event"] == "status")
    assert list(json.loads(page["json"])) == list(status)
    names: dict[str, Any] = {}
    exec(page["python"], names)
    received = receiver.received[0]
    header = received.headers["launchbay-signature"]
    assert names["is_genuine"](header, received.body, SECRET.encode())
    assert not names["is_genuine"](header, received.body + b" ", SECRET.encode())


async def test_every_request_is_signed_and_says_what_it_is(api: Api, receiver: LoopbackServer, hook: str) -> None:
    instance = await api.running(None)
    await eventually(lambda: len(told(receiver, instance)) >= 4)
    for received in receiver.received:
        body = json.loads(received.body)
        assert received.method == "POST"
        assert received.headers["content-type"] == "application/json"
        assert received.headers["launchbay-event"] == body["event"]
        assert received.headers["launchbay-delivery"] == body["id"]
        assert is_signed(received)
        assert not is_signed(received, "another secret")


async def test_only_the_wanted_events_are_told(api: Api, receiver: LoopbackServer) -> None:
    webhook = await create(api, receiver, ["job"])
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    await api.run(instance, "echo", text="hi")
    heard = await eventually(lambda: told(receiver, instance), lambda events: len(events) >= 2)
    await heard_by_another(api, receiver)
    assert [(body["event"], body["job"]["name"]) for body in told(receiver, instance)] == [
        ("job", "launch"),
        ("job", "echo"),
    ]
    assert len(heard) == 2
    accepted(await api.delete(f"webhooks/{webhook}"))


async def test_a_signal_tells_what_has_changed_with_secrets_covered(
    api: Api, receiver: LoopbackServer, hook: str
) -> None:
    manifest = """
    launch:
      parameters: [{apiToken: {default: "t0p-s3cret"}}]
      steps: []
      return: {size: {value: 1}, dbPassword: {value: "hidden one"}, note: {value: "{$.apiToken} is used"}}
    grow:
      steps: []
      return: {size: {value: 2}, dbPassword: {value: "hidden two"}, note: {value: same}}
    """
    instance = await api.running(manifest, parameters={"apiToken": "t0p-s3cret"})
    await api.run(instance, "grow")
    signals = await eventually(
        lambda: [body["signal"] for body in told(receiver, instance) if "signal" in body],
        lambda found: len(found) == 2,
    )
    assert signals[0] == {"size": 1, "dbPassword": "********", "note": "******** is used"}
    assert signals[1]["size"] == 2
    sent = b"".join(received.body for received in receiver.received)
    assert b"t0p-s3cret" not in sent
    assert b"hidden" not in sent


@pytest.mark.slow
async def test_a_failed_delivery_is_repeated_until_it_arrives_and_is_the_same(
    api: Api, receiver: LoopbackServer, hook: str
) -> None:
    receiver.routes["/hook"] = answer(500)
    instance = await api.running(None)
    await eventually(lambda: len(receiver.received) >= 8)
    pending = await deliveries(api, hook)
    assert {row["status"] for row in pending} == {"pending"}
    assert any(row["attempts"] > 1 and row["lastStatus"] == 500 for row in pending)
    assert all(row["lastError"] == "The receiver returned 500." for row in pending if row["lastStatus"])
    assert (await shown(api, hook))["failingSince"] is not None
    receiver.routes["/hook"] = answer(200, b"thanks")

    async def all_delivered() -> bool:
        return {row["status"] for row in await deliveries(api, hook)} == {"delivered"}

    await eventually(all_delivered)
    assert (await shown(api, hook))["failingSince"] is None
    assert len(told(receiver, instance)) == 4, "Requested, Executing, the job's end, Running"
    of_one = [received.body for received in receiver.received if json.loads(received.body)["event"] == "job"]
    assert len(of_one) > 1
    assert len(set(of_one)) == 1, "every attempt says the same"


async def test_the_log_shows_each_delivery_newest_first_and_by_pages(
    api: Api, receiver: LoopbackServer, hook: str
) -> None:
    await api.running(None)

    async def finished() -> list[Any] | None:
        rows = await deliveries(api, hook)
        return rows if len(rows) == 4 and {row["status"] for row in rows} == {"delivered"} else None

    rows = await eventually(finished)
    assert [row["createdAt"] for row in rows] == sorted((row["createdAt"] for row in rows), reverse=True)
    assert {(row["attempts"], row["lastStatus"], row["lastError"], row["nextAt"]) for row in rows} == {
        (1, 204, None, None)
    }
    seen, path = [], f"webhooks/{hook}/deliveries?limit=3"
    while path:
        page = await api.get(path)
        seen += accepted(page)
        path = page.links.get("next", {}).get("url", "").removeprefix("/api/1/")
    assert seen == rows


@pytest.mark.slow
async def test_a_receiver_that_does_not_answer_holds_up_nobody_else(
    api: Api, receiver: LoopbackServer, hook: str
) -> None:
    receiver.routes["/slow"] = lambda *_: asyncio.sleep(60)
    slow = await create(api, receiver, path="/slow")
    for _ in range(3):
        await api.running(None)
    instance = await api.running(None)
    await eventually(
        lambda: len([body for body in told(receiver, instance) if body["event"] == "job"]) == 1, within_s=8
    )

    async def arrived() -> bool:
        return all(row["status"] == "delivered" for row in await deliveries(api, hook))

    await eventually(arrived, within_s=8)
    assert len([received for received in receiver.received if received.target == "/slow"]) <= 4
    accepted(await api.delete(f"webhooks/{slow}"))


@pytest.mark.slow
async def test_after_long_failure_a_webhook_is_switched_off_and_can_be_switched_on(
    api: Api, receiver: LoopbackServer, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.limits.WEBHOOK_DISABLED_AFTER_S", 0.3)
    receiver.routes["/hook"] = answer(503)
    await api.running(None)

    async def disabled() -> Any:
        row = await shown(api, hook)
        return None if row["enabled"] else row

    row = await eventually(disabled)
    assert "503" in row["disabledReason"]
    assert {row["status"] for row in await deliveries(api, hook)} == {"failed"}
    count = len(receiver.received)
    await heard_by_another(api, receiver)
    assert len(receiver.received) == count
    receiver.routes["/hook"] = answer(200)
    accepted(await api.put(f"webhooks/{hook}", {"enabled": True}))
    row = await shown(api, hook)
    assert (row["enabled"], row["disabledReason"], row["failingSince"]) == (True, None, None)
    instance = await api.running(None)
    await eventually(lambda: len(told(receiver, instance)) == 4)


async def test_a_delivery_is_given_up_after_its_time(
    api: Api, receiver: LoopbackServer, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.limits.WEBHOOK_GIVE_UP_S", 0.5)
    receiver.routes["/hook"] = answer(500)
    await api.running(None)

    async def given_up() -> bool:
        return {row["status"] for row in await deliveries(api, hook)} == {"failed"}

    await eventually(given_up)
    assert (await shown(api, hook))["enabled"]


async def test_a_redirect_is_no_success(api: Api, receiver: LoopbackServer) -> None:
    receiver.routes["/moved"] = redirect("/hook", 302)
    webhook = await create(api, receiver, ["status"], "/moved")
    await api.running(None)

    async def tried() -> Any:
        return next((row for row in await deliveries(api, webhook) if row["attempts"]), None)

    row = await eventually(tried)

    async def told_why() -> bool:
        return any("redirects" in (each["lastError"] or "") for each in await deliveries(api, webhook))

    await eventually(told_why)
    assert row["status"] == "pending"
    accepted(await api.delete(f"webhooks/{webhook}"))


async def test_addresses_that_the_rules_forbid_are_never_called(api: Api) -> None:
    body = {"url": "http://127.0.0.1:9/path-secret", "events": ["status"]}
    webhook = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))["id"]
    # As one stored before the operator narrowed the setting.
    key = read_secret_key(api.settings.key_file())
    sealed = seal_url(key, webhook, "http://127.0.0.2:9/path-secret")
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE webhooks SET sealed_url = %s WHERE id = %s", [sealed, webhook])
    await api.running(None)

    async def refused_by_rules() -> Any:
        return next((row["lastError"] for row in await deliveries(api, webhook) if row["lastError"]), None)

    error = await eventually(refused_by_rules)
    assert "refused" in error
    assert "path-secret" not in error
    assert " The receiver" not in error, error
    accepted(await api.delete(f"webhooks/{webhook}"))


@pytest.mark.slow
async def test_what_a_dying_process_had_under_way_is_sent_again(databases: Databases) -> None:
    url = databases.create()
    async with loopback_server() as receiver:
        started = asyncio.Event()

        async def hang(*_: Any) -> None:
            started.set()
            await asyncio.sleep(60)

        receiver.routes["/hook"] = hang
        async with running_api(url, outgoing_allow="127.0.0.1") as api:
            webhook = await create(api, receiver, ["job"])
            await api.running(None)
            await eventually(started.is_set)
        receiver.routes["/hook"] = answer(200)
        before = len(receiver.received)
        async with running_api(url, outgoing_allow="127.0.0.1") as api:
            async with api.database.connection() as connection:  # the lease of the dead process is over
                await connection.execute("UPDATE webhook_deliveries SET next_at = now() WHERE status = 'pending'")
            await eventually(lambda: len(receiver.received) > before)

            async def arrived() -> bool:
                return [row["status"] for row in await deliveries(api, webhook)] == ["delivered"]

            await eventually(arrived)
    databases.drop(url)


async def test_events_of_another_organization_are_not_told(api: Api, receiver: LoopbackServer, hook: str) -> None:
    outsider, organization, _ = await api.outsider()
    created = accepted(await outsider.post(f"organizations/{organization}/applications", {"name": "theirs"}))
    instance = accepted(await outsider.post(f"applications/{created['id']}/launch", {}))["id"]
    await eventually(lambda: outsider.read(f"instances/{instance}"), lambda found: found["status"] == "Running")
    own = await api.running(None)
    await eventually(lambda: len(told(receiver, own)) == 4)
    assert told(receiver, instance) == []


async def test_a_webhook_shows_neither_its_secret_nor_its_path(api: Api, receiver: LoopbackServer) -> None:
    body = {"url": receiver.url("/services/T0/verysecret?token=x"), "events": ["job", "status", "job"]}
    created = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))
    assert set(created) == {"id", "secret"}
    assert len(created["secret"]) >= 32
    answer_ = await api.get(f"organizations/{api.organization}/webhooks")
    assert "verysecret" not in answer_.text
    assert created["secret"] not in answer_.text
    row = await shown(api, created["id"])
    assert row["url"] == receiver.url("/…")
    assert row["events"] == ["status", "job"]
    audit = await api.get(f"organizations/{api.organization}/audit")
    assert "verysecret" not in audit.text
    assert created["secret"] not in audit.text
    async with api.database.connection() as connection:
        stored = await (
            await connection.execute("SELECT secret FROM webhooks WHERE id = %s", [created["id"]])
        ).fetchone()
    assert stored is not None
    assert created["secret"].encode() not in bytes(stored[0])
    accepted(await api.delete(f"webhooks/{created['id']}"))


async def test_a_given_secret_is_not_returned(api: Api, receiver: LoopbackServer) -> None:
    body = {"url": receiver.url("/hook"), "events": ["job"], "secret": SECRET}
    created = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))
    assert set(created) == {"id"}
    accepted(await api.delete(f"webhooks/{created['id']}"))


async def test_a_change_keeps_what_is_not_given(api: Api, receiver: LoopbackServer, hook: str) -> None:
    before = await shown(api, hook)
    accepted(await api.put(f"webhooks/{hook}", {"events": ["job"]}))
    assert await shown(api, hook) == {**before, "events": ["job"]}
    accepted(await api.put(f"webhooks/{hook}", {"secret": "another secret, long enough"}))
    await api.running(None)
    await eventually(lambda: receiver.received)
    assert is_signed(receiver.received[-1], "another secret, long enough")


async def test_a_webhook_that_is_switched_off_hears_nothing(api: Api, receiver: LoopbackServer, hook: str) -> None:
    accepted(await api.put(f"webhooks/{hook}", {"enabled": False}))
    await heard_by_another(api, receiver)
    assert receiver.received == []
    assert await deliveries(api, hook) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"url": "ftp://x.example/a", "events": ["job"]}, "InvalidUrl"),
        ({"url": "no url at all", "events": ["job"]}, "InvalidUrl"),
        ({"url": "https://", "events": ["job"]}, "InvalidUrl"),
        ({"url": "https://jo:pw@x.example/a", "events": ["job"]}, "InvalidUrl"),
        ({"url": "https://x.example/a#b", "events": ["job"]}, "InvalidUrl"),
        ({"url": "https://x.example/" + "a" * 2048, "events": ["job"]}, "InvalidUrl"),
        ({"url": "https://x.example/a", "events": ["deleted"]}, "UnknownEvent"),
        ({"url": "https://x.example/a", "events": []}, "UnknownEvent"),
        ({"url": "https://x.example/a", "events": ["job"], "secret": "short"}, "InvalidSecret"),
        ({"url": "https://x.example/a", "events": ["job"], "secret": "x" * 1025}, "InvalidSecret"),
        ({"url": "https://x.example/a"}, "WrongField"),
        ({"events": ["job"]}, "WrongField"),
    ],
)
async def test_a_webhook_that_makes_no_sense_is_400(api: Api, hook: str, body: Any, code: str) -> None:
    path = f"organizations/{api.organization}/webhooks"
    refused(await api.post(path, body), 400, code)
    if len(body) > 1:
        refused(await api.put(f"webhooks/{hook}", body), 400, code)
    assert len(accepted(await api.get(path))) == 1


async def test_webhooks_are_for_those_who_manage_the_organization(api: Api, hook: str) -> None:
    member = await api.member("Read: [/*]", "ManageRoles: [/*]", "ViewAudit: [/*]")
    outsider = (await api.outsider())[0]
    body = {"url": "https://x.example/a", "events": ["job"]}
    for caller in (member, outsider):
        refused(await caller.get(f"organizations/{api.organization}/webhooks"), 403, "NotAllowed")
        refused(await caller.post(f"organizations/{api.organization}/webhooks", body), 403, "NotAllowed")
        refused(await caller.put(f"webhooks/{hook}", {"enabled": False}), 403, "NotAllowed")
        refused(await caller.delete(f"webhooks/{hook}"), 403, "NotAllowed")
        refused(await caller.get(f"webhooks/{hook}/deliveries"), 403, "NotAllowed")
    for answer_ in (
        await api.put(f"webhooks/{UNKNOWN}", {}),
        await api.delete(f"webhooks/{UNKNOWN}"),
        await api.get(f"webhooks/{UNKNOWN}/deliveries"),
        await api.get(f"organizations/{UNKNOWN}/webhooks"),
    ):
        refused(answer_, 404, "NotFound")
    assert (await shown(api, hook))["enabled"]


async def test_what_is_signed_goes_over_plain_http_only_if_an_administrator_allows_the_host(
    api: Api, receiver: LoopbackServer, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"organizations/{api.organization}/webhooks"
    for url in ("http://hooks.example.org/a", "http://93.184.216.34/a"):
        told = refused(await api.post(path, {"url": url, "events": ["job"]}), 400, "InvalidUrl")
        assert "over plain HTTP" in told
        assert f"add http://{url.split('/')[2]} to the setting outgoing_allow" in told
        refused(await api.put(f"webhooks/{hook}", {"url": url}), 400, "InvalidUrl")
    # One that was stored before isn't sent to.
    monkeypatch.setattr("launchbay.egress.addresses.Allowlist.allows_plain", lambda *_: False)
    sent = accepted(await api.post(f"webhooks/{hook}/test"))["delivery"]
    found = await eventually(lambda: api.read(f"webhooks/{hook}/deliveries/{sent}"), lambda found: found["lastError"])
    assert "over plain HTTP" in found["lastError"]
    assert receiver.received == []


async def test_who_manages_users_but_reads_no_instance_makes_and_redirects_no_webhook(api: Api, hook: str) -> None:
    path, body = f"organizations/{api.organization}/webhooks", {"url": "https://x.example/a", "events": ["job"]}
    sent = accepted(await api.post(f"webhooks/{hook}/test"))["delivery"]
    application = await api.application()
    for readable in ((), (f"Read: [/applications/{application}/*]",), ("Read: [/*, /environments/x]",)):
        manager = await api.member("ManageUsers: [/*]", *readable)
        if readable and "/*," in readable[0]:
            accepted(await manager.put(f"webhooks/{hook}", {"events": ["job"]}))  # may read everything
            continue
        for changed in ({"url": "https://evil.example/"}, {"events": ["job", "signal"]}, {"enabled": True}):
            refused(await manager.put(f"webhooks/{hook}", changed), 403, "NotAllowed")
        assert "Read for all" in refused(await manager.post(path, body), 403, "NotAllowed")
        refused(await manager.get(f"webhooks/{hook}/deliveries"), 403, "NotAllowed")
        refused(await manager.get(f"webhooks/{hook}/deliveries/{sent}"), 403, "NotAllowed")
        accepted(await manager.get(path))
        accepted(await manager.put(f"webhooks/{hook}", {"enabled": False}))  # tells nobody more
        accepted(await api.put(f"webhooks/{hook}", {"enabled": True}))
    refused(await (await api.member("Read: [/*]")).post(path, body), 403, "NotAllowed")
    both = await api.member("ManageUsers: [/*]", "Read: [/*]")
    accepted(await both.delete(f"webhooks/{accepted(await both.post(path, body))['id']}"))


async def test_old_deliveries_and_those_that_are_too_many_go(
    api: Api, receiver: LoopbackServer, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.routes["/hook"] = answer(500)
    monkeypatch.setattr("launchbay.limits.WEBHOOK_PENDING", 2)
    instance = await api.running(PAUSING)
    await eventually(lambda: len(receiver.received) >= 4)
    await delete_old_deliveries(api.database)
    rows = await deliveries(api, hook)
    assert sorted(row["status"] for row in rows) == ["failed", "failed", "pending", "pending"]
    async with api.database.connection() as connection:
        await connection.execute(
            "UPDATE webhook_deliveries SET finished_at = now() - interval '8 days' WHERE status = 'failed'"
        )
    await delete_old_deliveries(api.database)
    assert len(await deliveries(api, hook)) == 2
    accepted(await api.delete(f"instances/{instance}?force=1"))


NOTIFYING = """
launch:
  steps:
    - tell:
        action: notify
        parameters: {subject: "Shop is up", webhook: true, data: {version: "1.4", apiKey: "{$.apiKey}"}}
        output: {count: webhooks}
  parameters: [{apiKey: {default: "hunter22-hunter22"}}]
  return: {count: {value: "{$.count}"}}
"""


async def test_a_step_tells_the_webhooks_that_ask_for_notifications(api: Api, receiver: LoopbackServer) -> None:
    webhook = await create(api, receiver, ["notification"])

    instance = await api.running(NOTIFYING, parameters={"apiKey": "hunter22-hunter22"})

    [body] = await eventually(lambda: told(receiver, instance))
    assert body["event"] == "notification"
    shown = {"version": "1.4", "apiKey": "********"}
    assert body["notification"] == {"subject": "Shop is up", "text": "", "data": shown}
    assert (body["job"]["name"], body["job"]["status"], len(body["job"]["id"])) == ("launch", "Executing", 24)
    assert is_signed(receiver.received[-1])
    assert (await api.document(instance))["returnValues"] == {"count": 1}
    await api.delete(f"webhooks/{webhook}")


async def test_a_step_fails_that_would_tell_webhooks_where_none_asks(api: Api, hook: str) -> None:
    document = await api.settled(await api.launch(await api.application(NOTIFYING)))

    assert document["status"] == "Failed"
    assert "subscribes to the event notification" in document["errorMessage"]


@pytest.mark.slow
async def test_chats_are_told_of_a_failed_job_with_its_error_and_a_link(
    databases: Databases, receiver: LoopbackServer
) -> None:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1", base_url="http://bay.example.org/") as api:
        for form in ("json", "slack", "teams"):
            receiver.routes[f"/{form}"] = answer(204)
            body = {"url": receiver.url(f"/{form}"), "events": ["job"], "secret": SECRET, "format": form}
            accepted(await api.post(f"organizations/{api.organization}/webhooks", body))
        application = await api.application(FAILING_EARLY)
        instance = await api.launch(application, instanceName="<Elsa> & Anna")
        await eventually(lambda: len({each.target for each in receiver.received}) == 3)
        bodies = {each.target: json.loads(each.body) for each in receiver.received}
        assert all(is_signed(each) for each in receiver.received)
    databases.drop(url)
    link = f"http://bay.example.org/console/instances/{instance}"
    job = bodies["/json"]["job"]
    assert (job["name"], job["status"], bodies["/json"]["link"]) == ("launch", "Failed", link)
    [example] = [json.loads(block.text) for block in blocks(EVENTS) if block.language == "json"]
    assert list(example["job"]) == list(job)
    job_link = f"{link}/jobs/{job['id']}"
    assert job["link"] == job_link
    assert job["finishedAt"] >= job["startedAt"] > 0
    said = bodies["/slack"]["text"].split("\n")
    assert said[0] == "Job 'launch' of instance '&lt;Elsa&gt; &amp; Anna' failed."
    assert said[-1] == f"<{job_link}|Open in the console>"
    assert "step" in said[1]
    [attachment] = bodies["/teams"]["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    texts = [block["text"] for block in attachment["content"]["body"]]
    assert texts == ["Job 'launch' of instance '<Elsa> & Anna' failed.", job["errorMessage"]]
    assert attachment["content"]["actions"] == [
        {"type": "Action.OpenUrl", "title": "Open in the console", "url": job_link}
    ]


async def chat(api: Api, receiver: LoopbackServer, form: str = "slack") -> str:
    receiver.routes["/chat"] = answer(204)
    body = {"url": receiver.url("/chat"), "events": ["job"], "secret": SECRET, "format": form}
    webhook: str = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))["id"]
    return webhook


def messages(receiver: LoopbackServer) -> list[list[str]]:
    """Return the lines of what a chat was sent."""
    return [json.loads(each.body)["text"].splitlines() for each in receiver.received if each.target == "/chat"]


def failure(kind: str, instance: str, name: str, job: str, at: int) -> dict[str, Any]:
    """Return the event of a failure."""
    about = {"id": job, "name": "launch", "status": "Failed", "errorMessage": "It broke."}
    event = {"event": kind, "at": at, "instance": instance, "instanceName": name, "job": about, "link": "/o"}
    return event if kind == "job" else {**event, "status": "Failed"}


@pytest.mark.parametrize(
    ("kind", "words"), [("status", "2 more instances failed"), ("job", "3 more jobs 'launch' failed")]
)
def test_a_message_counts_instances_and_jobs_and_not_events_or_names(kind: str, words: str) -> None:
    events = [failure(kind, "1", "web", "a", 0), failure(kind, "1", "web", "b", 1), failure(kind, "2", "web", "c", 2)]
    events.append(events[0])  # it came twice
    [said, _, _] = message("slack", counted(events[0], events[1:]))["text"].split("\n")
    assert said == f"{words} in the same way, at 00:00:00 UTC: 'web', 'web'."


def test_cancelled_jobs_are_not_told_as_failed() -> None:
    event = failure("job", "1", "web", "a", 0)
    event["job"]["errorMessage"] = "Cancelled by ann@example.org."
    said = message("slack", event)["text"].split("\n")
    assert said[:2] == ["Job 'launch' of instance 'web' was cancelled.", "Cancelled by ann@example.org."]
    counted_said = message("slack", counted(event, [event, {**event, "job": {**event["job"], "id": "b"}}]))["text"]
    assert counted_said.startswith("2 more jobs 'launch' were cancelled in the same way, ")


async def end_of_hold(api: Api, webhook: str) -> None:
    """Let the time end in which equal failures wait."""
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE webhook_failures SET until = now() WHERE webhook_id = %s", [webhook])
        await connection.execute(
            "UPDATE webhook_deliveries SET next_at = now() WHERE webhook_id = %s AND attempts = 0", [webhook]
        )


async def fail_many(api: Api, application: str, names: Sequence[str]) -> None:
    for name in names:
        await api.settled(await api.launch(application, instanceName=name))


def test_failures_that_differ_by_the_names_of_application_and_environment_are_equal() -> None:
    def key(application: str, environment: str) -> str | None:
        event = failure("job", "1", "web", "a", 0)
        event["job"]["errorMessage"] = f"Nothing answers at {application}.{environment}.example."
        return failure_key(event, application, environment)

    assert key("shop", "north") == key("ferry", "south") is not None


async def held(api: Api, webhook: str, count: int) -> list[Any] | None:
    rows = [row for row in await deliveries(api, webhook) if row["status"] == "pending" and row["attempts"] == 0]
    joined = [row for row in rows if row["joinedTo"]]
    return rows if len(rows) == count and len(joined) == count - 1 else None


@pytest.mark.slow  # twenty launches
async def test_equal_failures_are_one_message_of_a_chat_at_once_and_one_that_counts_the_others(
    api: Api, receiver: LoopbackServer, hook: str
) -> None:
    webhook = await chat(api, receiver)
    application = await api.application(FAILING_EARLY)
    await fail_many(api, application, ["Elsa 1"])
    await eventually(lambda: messages(receiver))
    await fail_many(api, application, [f"Elsa {number}" for number in range(2, 21)])
    await eventually(lambda: held(api, webhook, 19))
    assert [lines[0] for lines in messages(receiver)] == ["Job 'launch' of instance 'Elsa 1' failed."]
    await end_of_hold(api, webhook)
    await eventually(lambda: len(messages(receiver)) == 2)
    said = messages(receiver)[1]
    when = r"(at TIME|first at TIME, last at TIME)".replace("TIME", r"\d\d:\d\d:\d\d")
    assert re.match(f"19 more jobs 'launch' failed in the same way, {when} UTC: ", said[0]), said
    assert said[0].endswith(" UTC: 'Elsa 2', 'Elsa 3', 'Elsa 4' and 16 more.")
    assert said[1] == messages(receiver)[0][1], "the error"

    async def finished() -> bool:
        return {row["status"] for row in await deliveries(api, webhook)} == {"delivered"}

    await eventually(finished)

    def failed() -> set[str]:
        events = [json.loads(each.body) for each in receiver.received if each.target == "/hook"]
        return {event["instanceName"] for event in events if event["event"] == "job"}

    await eventually(lambda: len(failed()) == 20)  # programs get each event
    await fail_many(api, application, ["Elsa 21"])
    await eventually(lambda: held(api, webhook, 1))
    assert len(messages(receiver)) == 2, "the second message holds back others too"
    await end_of_hold(api, webhook)
    await eventually(lambda: len(messages(receiver)) == 3)
    assert messages(receiver)[2][0] == "Job 'launch' of instance 'Elsa 21' failed.", "one alone is said as ever"
    await api.delete(f"webhooks/{webhook}")


@pytest.mark.slow  # launches, and waits for the sender
async def test_failures_that_differ_by_the_name_of_their_application_are_one_message(
    api: Api, receiver: LoopbackServer
) -> None:
    webhook = await chat(api, receiver)
    failing = "launch: {steps: [{call: {action: restcall, parameters: {command: 'http://%s.invalid/'}}}]}"
    names = [fresh_name(noun).replace(" ", "-") for noun in ("ferry", "shop", "yard")]
    applications = [await api.application(failing % name, name=name) for name in names]
    await fail_many(api, applications[0], ["Anna"])
    await eventually(lambda: messages(receiver))
    for each in applications[1:]:
        await fail_many(api, each, ["Olaf"])
    await eventually(lambda: held(api, webhook, 2))
    await end_of_hold(api, webhook)
    await eventually(lambda: len(messages(receiver)) == 2)
    assert re.match("2 more jobs 'launch' failed in the same way, ", messages(receiver)[1][0])
    assert names[0] in messages(receiver)[0][1], "the error has the name in which they differ"
    await api.delete(f"webhooks/{webhook}")


@pytest.mark.slow  # launches, and waits for the sender
async def test_another_failure_and_each_success_are_messages_of_their_own(api: Api, receiver: LoopbackServer) -> None:
    webhook = await chat(api, receiver)
    other = "launch: {steps: [{other: {action: restcall, parameters: {command: 'http://127.0.0.1:1/'}}}]}"
    await fail_many(api, await api.application(FAILING_EARLY), ["Elsa"])
    await fail_many(api, await api.application(other), ["Anna"])
    fine = await api.application("launch: {steps: []}")
    await fail_many(api, fine, ["Olaf", "Sven"])
    await eventually(lambda: len(messages(receiver)) == 4)
    assert {lines[0] for lines in messages(receiver)} == {
        "Job 'launch' of instance 'Elsa' failed.",
        "Job 'launch' of instance 'Anna' failed.",
        "Job 'launch' of instance 'Olaf' succeeded.",
        "Job 'launch' of instance 'Sven' succeeded.",
    }
    await api.delete(f"webhooks/{webhook}")


@pytest.mark.slow  # launches, and waits for the sender
async def test_a_message_that_counts_others_is_lost_neither_by_its_receiver_nor_by_a_change_of_the_webhook(
    api: Api, receiver: LoopbackServer
) -> None:
    webhook = await chat(api, receiver)
    application = await api.application(FAILING_EARLY)
    await fail_many(api, application, ["Elsa"])
    await eventually(lambda: messages(receiver))
    await fail_many(api, application, ["Anna", "Olaf", "Sven"])
    await eventually(lambda: held(api, webhook, 3))
    receiver.routes["/chat"] = answer(500)
    await end_of_hold(api, webhook)
    await eventually(lambda: len(messages(receiver)) >= 3)
    assert {row["status"] for row in await deliveries(api, webhook)} == {"pending", "delivered"}
    receiver.routes["/chat"] = answer(204)

    async def finished() -> bool:
        return {row["status"] for row in await deliveries(api, webhook)} == {"delivered"}

    await eventually(finished)
    assert {lines[0][:12] for lines in messages(receiver)[1:]} == {"3 more jobs "}, "each attempt says the same"
    await fail_many(api, application, ["Kristoff", "Hans"])
    await eventually(lambda: held(api, webhook, 2))
    receiver.received.clear()
    accepted(await api.put(f"webhooks/{webhook}", {"format": "json"}))
    await eventually(lambda: len(receiver.received) == 2)
    assert {json.loads(each.body)["instanceName"] for each in receiver.received} == {"Kristoff", "Hans"}
    await api.delete(f"webhooks/{webhook}")


@pytest.mark.slow  # launches, and waits for the sender
async def test_an_event_that_is_held_while_the_format_changes_is_sent_by_itself(
    api: Api, receiver: LoopbackServer
) -> None:
    webhook = await chat(api, receiver)
    application = await api.application(FAILING_EARLY)
    await fail_many(api, application, ["Elsa"])
    await eventually(lambda: messages(receiver))
    await fail_many(api, application, ["Anna", "Olaf"])
    await eventually(lambda: held(api, webhook, 2))
    receiver.received.clear()
    async with api.database.transaction() as connection:
        # The change, as it is where the sender holds the second event just afterwards.
        await connection.execute("UPDATE webhooks SET format = 'json' WHERE id = %s", [webhook])
        await connection.execute(
            "UPDATE webhook_deliveries SET failure = NULL WHERE webhook_id = %s AND joined_to IS NULL"
            " AND status = 'pending'",
            [webhook],
        )
    await end_of_hold(api, webhook)
    await eventually(lambda: len(receiver.received) == 2)
    assert {json.loads(each.body)["instanceName"] for each in receiver.received} == {"Anna", "Olaf"}
    await api.delete(f"webhooks/{webhook}")


async def test_a_status_event_names_the_job_and_its_error_with_secrets_covered(
    api: Api, receiver: LoopbackServer
) -> None:
    webhook = await create(api, receiver, ["status"])
    failing = """
    application:
      interfaces: {input: {apiKey: bind(wf#input.apiKey)}}
      components:
        wf:
          type: workflow.Instance
          interfaces: {input: {apiKey: configuration(string)}}
          required: [input.apiKey]
          configuration:
            configuration.workflows:
              launch:
                steps:
                  - go: {action: restcall, parameters: {command: "http://127.0.0.1:1/{$.apiKey}"}}
    """
    instance = await api.launch(await api.application(failing), parameters={"input.apiKey": "hunter22-hunter22"})
    document = await api.settled(instance)
    assert document["status"] == "Failed", document
    heard = await eventually(lambda: told(receiver, instance), lambda events: len(events) == 3)
    assert [body["status"] for body in heard] == ["Requested", "Executing", "Failed"]
    job = heard[-1]["job"]
    assert (job["id"], job["name"], job["status"]) == (document["lastFailure"]["jobId"], "launch", "Failed")
    assert job["errorMessage"]
    assert "hunter22" not in json.dumps(heard)
    [said] = [message("slack", body)["text"] for body in heard[-1:]]
    assert said.splitlines()[1] == job["errorMessage"]
    await api.delete(f"webhooks/{webhook}")


@pytest.mark.slow  # launches, and waits for the sender
async def test_a_change_set_is_told_and_holds_up_no_other_event(api: Api, receiver: LoopbackServer, hook: str) -> None:
    instance = await api.running("launch: {steps: []}")
    receiver.routes["/changes"] = answer(204)
    webhook = await create(api, receiver, ["changeSet"], "/changes")
    body = {"act": "destroy", "ids": [instance]}
    change_set = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
    accepted(await api.post(f"instances/{instance}/destroy"))
    heard = await eventually(lambda: [json.loads(each.body) for each in receiver.received if each.target == "/changes"])
    assert (heard[0]["event"], heard[0]["changeSet"]["id"], heard[0]["link"]) == ("changeSet", change_set, None)
    await eventually(lambda: [each for each in told(receiver, instance) if each.get("status") == "Destroyed"])
    await api.delete(f"webhooks/{webhook}")


@pytest.mark.slow  # a service of its own, and a launch
async def test_change_sets_and_rollouts_lead_to_their_page_of_the_console(
    databases: Databases, receiver: LoopbackServer
) -> None:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1", base_url="http://bay.example.org/") as api:
        await create(api, receiver, ["changeSet", "rollout"])
        application = await api.application("launch: {steps: []}")
        instance = await api.launch(application)
        await api.settled(instance)
        accepted(await api.put_yaml(f"applications/{application}/manifest", "launch: {steps: []} # 3"))
        root = f"organizations/{api.organization}"
        change = accepted(await api.post(f"{root}/change-sets", {"act": "destroy", "ids": [instance]}))["id"]
        rollout = accepted(await api.post(f"{root}/rollouts", {"applicationId": application, "version": 3}))["id"]
        await eventually(lambda: len({each.headers["launchbay-event"] for each in receiver.received}) == 2)
        links = {body["event"]: body["link"] for body in (json.loads(each.body) for each in receiver.received)}
    databases.drop(url)
    console = "http://bay.example.org/console"
    assert links == {
        "changeSet": f"{console}/{root}/changes/{change}",
        "rollout": f"{console}/applications/{application}/rollouts/{rollout}",
    }


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"event": "job", "job": {"name": "move", "status": "Succeeded"}}, "Job 'move' of instance 'Elsa' succeeded."),
        ({"event": "status", "status": "Running"}, "Status of instance 'Elsa': Running."),
        ({"event": "signal", "signal": {"a": 1, "b": 2}}, "The signals of instance 'Elsa' have changed: a, b."),
        (
            {"event": "approval", "approval": {"status": "pending", "text": "Go?"}},
            "An approval of instance 'Elsa' is pending.\nGo?",
        ),
        (
            {"event": "notification", "notification": {"subject": "Up", "text": "All is well."}},
            "Up (instance 'Elsa')\nAll is well.",
        ),
        (
            {"event": "changeSet", "changeSet": {"act": "destroy", "status": "Ready", "comment": "OPS-17"}},
            "A change set (destroy) is Ready.\nOPS-17",
        ),
        (
            {"event": "rollout", "rollout": {"version": 3, "status": "Running", "comment": "", "wave": 1, "waves": 2}},
            "A rollout of version 3 is Running, in wave 1 of 2.",
        ),
    ],
)
def test_every_event_has_a_sentence(about: dict[str, Any], said: str) -> None:
    event = {**about, "instanceName": "Elsa", "link": None}
    assert message("slack", event) == {"text": said}
    card = message("teams", event)["attachments"][0]["content"]
    assert "\n".join(block["text"] for block in card["body"]) == said
    assert card["actions"] == []


async def test_the_format_of_a_webhook_is_shown_and_changed(api: Api, hook: str) -> None:
    assert (await shown(api, hook))["format"] == "json"
    accepted(await api.put(f"webhooks/{hook}", {"format": "teams"}))
    accepted(await api.put(f"webhooks/{hook}", {"events": ["job"]}))
    assert (await shown(api, hook))["format"] == "teams"
    told = refused(await api.put(f"webhooks/{hook}", {"format": "irc"}), 400)
    assert "'irc'" in str(told)


async def test_a_test_reaches_the_receiver_signed_and_a_failed_delivery_is_sent_again(
    api: Api, receiver: LoopbackServer
) -> None:
    webhook = await create(api, receiver)
    sent = accepted(await api.post(f"webhooks/{webhook}/test"))["delivery"]
    await eventually(lambda: receiver.received)
    [received] = receiver.received
    assert is_signed(received)
    body = json.loads(received.body)
    assert (body["id"], body["event"], body["link"]) == (sent, "test", None)
    assert "It works." in json.dumps(message("slack", body))
    await api.delete(f"webhooks/{webhook}")
