"""What plans may take: bytes, room in the database, and the time of others."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from launchbay import limits
from launchbay.auth.secret_key import KeyFile, SecretKey
from launchbay.features.plans.rows import request_purpose
from launchbay.usecases import leases
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.external_services import needs_tofu, tofu_manifest
from tests.support.service import Api, accepted, fresh_name, running_api

CALL = 'launch:\n  steps:\n    - call: {action: restcall, parameters: {url: "http://127.0.0.1:1/"}}\n'
SLOW = """
variable "place" {}
variable "size" {}
data "terraform_remote_state" "slow" {
  backend = "http"
  config  = { address = "http://127.0.0.1:PORT/" }
}
"""


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


async def planned(api: Api, manifest: str) -> Any:
    """Plan a launch of this manifest, and return the plan when it has ended."""
    body = {"act": "launch", "applicationId": await api.application(manifest), "launch": {}}
    plan = accepted(await api.post(f"organizations/{api.organization}/plans", body))
    plan = await eventually(
        lambda: api.read(f"plans/{plan['id']}"), lambda plan: plan["status"] in {"Planned", "Failed"}
    )
    return plan


class Hanging:
    """A server that answers nobody, and knows who waits."""

    def __init__(self) -> None:
        self.waiting = 0

    async def hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.waiting += 1
        try:
            while await reader.read(1_000):
                pass
        finally:
            self.waiting -= 1
            writer.close()

    async def until(self, number: int) -> None:
        await eventually(lambda: self.waiting == number)


@asynccontextmanager
async def hanging() -> AsyncIterator[tuple[Hanging, int]]:
    found = Hanging()
    server = await asyncio.start_server(found.hold, "127.0.0.1", 0)
    try:
        yield found, server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_a_plan_with_too_many_bytes_of_effects_fails(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLAN_RESULT_BYTES", 100)
    plan = await planned(api, CALL)
    assert (plan["status"], plan["steps"]) == ("Failed", [])
    assert plan["problem"] == (
        "The effects of the plan have more than 100 bytes. Plan a part of it, such as fewer steps."
    )


async def test_the_plans_of_a_change_set_have_a_limit_together(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLANS_RESULT_BYTES", 100)
    body = {"act": "launch", "applicationId": await api.application(CALL), "launch": {}, "plan": True}
    found = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
    found = await eventually(
        lambda: api.read(f"change-sets/{found['id']}"),
        lambda found: found["plan"][0]["effects"]["status"] in {"Planned", "Failed"},
    )
    effects = found["plan"][0]["effects"]
    assert effects["status"] == "Failed"
    assert "The plans of the change set have more than 100 bytes." in effects["problem"]


async def test_what_was_asked_is_not_kept_once_the_plan_is_made(api: Api) -> None:
    plan = await planned(api, CALL)
    key = SecretKey(KeyFile(api.settings.key_file()).lines()[0][1])
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT request FROM plans WHERE id = %s", [plan["id"]])
        [[request]] = await cursor.fetchall()
    kept = json.loads(key.open(bytes(request), request_purpose(plan["id"])))
    assert "body" not in kept, "only what says who may read the plan"


async def test_who_asks_for_a_plan_holds_up_nobody_in_the_organization(api: Api) -> None:
    application = await api.application(CALL)
    body = {"act": "launch", "applicationId": application, "launch": {}}
    async with api.database.transaction() as outer:
        with api.database.joined(outer):
            accepted(await api.post(f"organizations/{api.organization}/plans", body))
        async with await psycopg.AsyncConnection.connect(api.settings.database_url) as other:
            # The lock that an insert takes which refers to the organization.
            statement = "SELECT id FROM organizations WHERE id = %s FOR KEY SHARE NOWAIT"
            assert await (await other.execute(statement, [api.organization])).fetchall()


async def test_nobody_makes_the_plans_of_a_rejected_change_set(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        body = {"act": "launch", "applicationId": await api.application(CALL), "launch": {}, "plan": True}
        path = f"organizations/{api.organization}/change-sets"
        found = accepted(await api.post(path, {**body, "confirm": True}))
        accepted(await api.post(f"change-sets/{found['id']}/reject"))
        async with api.database.connection() as connection:
            rows = await (await connection.execute("SELECT id FROM plans WHERE status = 'Waiting'")).fetchall()
        assert rows == []
        assert accepted(await api.get(f"change-sets/{found['id']}"))["plan"][0]["effects"] is None
    databases.drop(url)


@needs_tofu
@pytest.mark.slow  # the real program
async def test_plans_of_one_organization_leave_room_for_another_and_stop_when_deleted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_RENEW_S", 0.2)
    monkeypatch.setattr(limits, "TOFU_GRACE_S", 0.2)  # the program waits for its request when it is asked to end
    other = accepted(await api.post("organizations", {"name": fresh_name("other")}))["id"]
    theirs = accepted(await api.post(f"organizations/{other}/applications", {"name": "calls"}))["id"]
    accepted(await api.put_yaml(f"applications/{theirs}/manifest", CALL))
    async with hanging() as (server, port):
        slow = await api.application(tofu_manifest("x", SLOW.replace("PORT", str(port))))
        body = {"act": "launch", "applicationId": slow, "launch": {}}
        path = f"organizations/{api.organization}/plans"
        plans = [accepted(await api.post(path, body))["id"] for _ in range(3)]
        await server.until(2)

        plan = accepted(await api.post(f"organizations/{other}/plans", {**body, "applicationId": theirs}))
        plan = await eventually(lambda: api.read(f"plans/{plan['id']}"), lambda plan: plan["status"] == "Planned")
        assert server.waiting == 2

        for each in plans:
            await api.delete(f"plans/{each}")
        await server.until(0)
