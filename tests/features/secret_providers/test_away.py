"""The server of secrets is away when a job ends: its account lives on, doctor says so, and it ends afterwards."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from operator import not_
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from launchbay.app.doctor import Level, check_services
from tests.support import bao as bao_server
from tests.support.bao import MISSING, PROGRAM, StoredBao
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api

pytestmark = [
    pytest.mark.slow,  # a server of secrets
    pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING),
]
ACCOUNT = """
launch: {steps: []}
use:
  parameters: [url: {default: ""}]
  steps:
    - use:
        action: restcall
        secrets: {db: bao/database/creds/shop}
        parameters: {command: "{$.url}", headers: {X-User: "{$.secrets.db.username}"}, timeout: 600}
"""


@pytest.fixture
def bao(tmp_path: Path) -> Iterator[StoredBao]:
    with bao_server.stored(tmp_path) as started:
        yield started


@pytest.fixture
async def api(databases: Databases, bao: StoredBao) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1") as api:
        given = await asyncio.to_thread(_configure, bao, url)
        body = {"name": "bao", "typeId": "builtin:openbao", "parameters": given}
        service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
        accepted(await api.put(f"environments/{api.environment}/services", {"services": [service]}))
        yield api
        await asyncio.to_thread(bao.ask, "DELETE", "database/config/shop")  # which holds connections
    databases.drop(url)


def _configure(bao: StoredBao, url: str) -> dict[str, Any]:
    """Let jobs have accounts of the database; return the parameters of the provider."""
    known = conninfo_to_dict(url)
    at = f"host={known['host']} port={known.get('port', 5432)} dbname={known['dbname']} user=postgres"
    connection = {"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": at}
    made = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"
    bao.ask("POST", "sys/mounts/database", {"type": "database"})
    bao.ask("POST", "database/config/shop", connection)
    bao.ask("POST", "database/roles/shop", {"db_name": "shop", "creation_statements": [made], "default_ttl": "1h"})
    bao.ask("POST", "sys/policies/acl/shop", {"policy": 'path "database/creds/shop" {capabilities=["read"]}'})
    bao.ask("POST", "sys/auth/approle", {"type": "approle"})
    bao.ask("POST", "auth/approle/role/shop", {"token_policies": ["shop"], "token_ttl": "1h"})
    return {
        "configuration.address": bao.url,
        "configuration.sign-in": "approle",
        "configuration.role-id": bao.ask("GET", "auth/approle/role/shop/role-id")["data"]["role_id"],
        "configuration.secret-id": bao.ask("POST", "auth/approle/role/shop/secret-id", {})["data"]["secret_id"],
    }


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    """Answer at `/held` when the test is over."""
    is_over = asyncio.Event()

    async def held(request: Any, writer: asyncio.StreamWriter) -> None:
        await is_over.wait()
        await answer(200)(request, writer)

    async with loopback_server() as server:
        server.routes["/held"] = held
        yield server
        is_over.set()


async def account_exists(api: Api, name: str) -> bool:
    async with api.database.connection() as connection:
        return (
            await (await connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name])).fetchone() is not None
        )


async def test_an_account_is_revoked_when_its_server_is_back_and_doctor_shows_it_meanwhile(
    api: Api, bao: StoredBao, receiver: LoopbackServer
) -> None:
    instance = await api.running(ACCOUNT)
    accepted(await api.post(f"instances/{instance}/use", {"url": receiver.url("/held")}))
    job = accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"]
    await eventually(lambda: receiver.received)
    user = receiver.received[0].headers["x-user"]
    await asyncio.to_thread(bao.stop)
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    found = [
        each
        for each in (
            await eventually(
                lambda: check_services(api.settings),
                lambda found: [each for each in found if each.check == "secret sessions"],
            )
        )
        if each.check == "secret sessions"
    ]
    [shown] = found
    assert (shown.level, shown.where.endswith("/bao")) == (Level.WARNING, True)
    assert (
        f"A session of job {job} is still open, because it can't be revoked: The secret provider 'bao'" in shown.found
    )
    assert "doesn't answer" in shown.found
    assert await account_exists(api, user)
    await asyncio.to_thread(bao.start)
    assert await account_exists(api, user), "it is Launchbay that ends it"
    # the pause between two attempts grows
    await eventually(lambda: account_exists(api, user), not_, within_s=90)
    await eventually(
        lambda: check_services(api.settings),
        lambda found: not [each for each in found if each.check == "secret sessions"],
    )
    assert await asyncio.to_thread(bao.leases, "database/creds/shop") == []
