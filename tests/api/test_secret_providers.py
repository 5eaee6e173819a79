"""Steps read secrets from a real OpenBao: by the job's identity, never stored, revoked with the job."""

import asyncio
import base64
import html
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, LiteralString

import httpx
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from launchbay.postgres import cluster
from tests.support import bao as bao_server
from tests.support.bao import MISSING, PROGRAM, Bao
from tests.support.databases import Databases
from tests.support.network import LoopbackServer, Received, answer, loopback_server
from tests.support.servers import Process, administrator_of
from tests.support.service import EMAIL, PASSWORD, Api, Caller, accepted, running_api, served

pytestmark = [
    pytest.mark.slow,  # a server of secrets
    pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING),
]
ISSUER = "https://launchbay.example.org"
CANARY = "canary-7391-of-the-shop"
JOBS = 100
READ = """
launch: {steps: []}
read:
  parameters: [url: {default: ""}, secret: {default: bao/secret/shop#password}, times: {default: 0}]
  steps:
    - send:
        action: restcall
        secrets: {wanted: "{$.secret}"}
        parameters: {command: "{$.url}", headers: {X-Password: "{$.secrets.wanted}"}, retryCount: "{$.times}"}
        output: {said: content}
  return: {said: {value: "{$.said}"}}
account:
  parameters: [url: {default: ""}, rest: {default: 0}]
  steps:
    - use:
        action: restcall
        secrets: {db: bao/database/creds/shop}
        parameters:
          {command: "{$.url}", headers: {X-User: "{$.secrets.db.username}", X-Password: "{$.secrets.db.password}"}}
    - rest: {action: wait, precedingPhases: [use], parameters: {delay: "{$.rest}"}}
accounts:
  parameters: [url: {default: ""}]
  steps:
    - use:
        action: restcall
        secrets: {one: bao/database/creds/shop, two: bao/database/creds/shop}
        parameters:
          {command: "{$.url}", headers: {X-One: "{$.secrets.one.username}", X-Two: "{$.secrets.two.username}"}}
    - rest: {action: wait, precedingPhases: [use], parameters: {delay: 600}}
"""


def run(command: list[Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bao]:
    with bao_server.started(tmp_path_factory.mktemp("bao")) as started:
        yield started


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        yield server


@pytest.fixture(scope="module")
async def api(databases: Databases, bao: Bao) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, base_url=ISSUER, outgoing_allow="127.0.0.1") as api, served(api) as port:
        await asyncio.to_thread(_configure, bao, api, port, url)
        accepted(await api.put(f"environments/{api.environment}/audiences", {"audiences": ["vault"]}))
        await provider(api, "bao", {"configuration.address": bao.url, "configuration.role": "shop"})
        yield api
        await asyncio.to_thread(bao.ask, "DELETE", "database/config/shop")  # which holds connections
    databases.drop(url)


def _configure(bao: Bao, api: Api, port: int, url: str) -> None:
    """Trust the server; let jobs of its environment read `secret/shop` and have accounts of the database."""
    bao.ask("POST", "secret/data/shop", {"data": {"password": CANARY, "port": 5432}})
    bao.ask("POST", "secret/data/hidden", {"data": {"password": "other"}})
    bao.ask("POST", "sys/auth/jwt", {"type": "jwt"})
    keys = {"jwks_url": f"http://127.0.0.1:{port}/.well-known/jwks.json", "bound_issuer": ISSUER}
    bao.ask("POST", "auth/jwt/config", keys)
    rule = 'path "secret/data/shop" {capabilities=["read"]} path "secret/data/none" {capabilities=["read"]}'
    bao.ask("POST", "sys/policies/acl/shop", {"policy": rule + ' path "database/creds/shop" {capabilities=["read"]}'})
    role = {"role_type": "jwt", "user_claim": "sub", "bound_audiences": ["vault"], "token_policies": ["shop"]}
    role |= {"token_ttl": "60s"}
    bao.ask("POST", "auth/jwt/role/shop", role | {"bound_claims": {"environment_id": api.environment}})
    bao.ask("POST", "auth/jwt/role/elsewhere", role | {"bound_claims": {"environment_id": "5f" * 12}})
    known = conninfo_to_dict(url)
    # The superuser of the embedded PostgreSQL, which trusts whoever reaches its socket.
    at = f"host={known['host']} port={known.get('port', 5432)} dbname={known['dbname']} user=postgres"
    bao.ask("POST", "sys/mounts/database", {"type": "database"})
    connection = {"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": at}
    bao.ask("POST", "database/config/shop", connection)
    made = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"
    account = {"db_name": "shop", "creation_statements": [made], "default_ttl": "60s"}
    bao.ask("POST", "database/roles/shop", account)
    bao.ask("POST", "sys/auth/approle", {"type": "approle"})
    bao.ask("POST", "auth/approle/role/shop", {"token_policies": ["shop"], "token_ttl": "60s"})


async def provider(api: Api, name: str, parameters: dict[str, Any], kind: str = "builtin:openbao") -> str:
    """Make a service and add it to the environment."""
    body = {"name": name, "typeId": kind, "parameters": parameters}
    service: str = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    path = f"environments/{api.environment}/services"
    before = [each["id"] for each in accepted(await api.get(path))["services"]]
    accepted(await api.put(path, {"services": [*before, service]}))
    return service


async def stored_texts(api: Api) -> str:
    found: list[str] = []
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in await cursor.fetchall():
            rows = await connection.execute(sql.SQL("SELECT each::text FROM {} AS each").format(sql.Identifier(table)))
            found += (str(text) for (text,) in await rows.fetchall())
    return "\n".join(found)


async def sessions(api: Api) -> int:
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM secret_sessions")
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def until_revoked(api: Api) -> None:
    async with asyncio.timeout(30):
        while await sessions(api):
            await asyncio.sleep(0.05)


async def account_exists(api: Api, name: str) -> bool:
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name])
        return await cursor.fetchone() is not None


async def cancel(api: Api, instance: str) -> None:
    """Cancel the job under way."""
    [job] = [
        each["id"] for each in accepted(await api.get(f"instances/{instance}/jobs")) if each["status"] == "Executing"
    ]
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))


async def until_gone(api: Api, name: str) -> None:
    """Wait for the server of secrets, which ends leases of a revoked token after its answer."""
    async with asyncio.timeout(30):
        while await account_exists(api, name):
            await asyncio.sleep(0.05)


async def received(receiver: LoopbackServer) -> dict[str, str]:
    async with asyncio.timeout(30):
        while not receiver.received:
            await asyncio.sleep(0.02)
    return receiver.received[-1].headers


async def test_a_step_reads_a_secret_by_the_identity_of_its_job(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    receiver.routes["/"] = answer(200, json.dumps({"you": CANARY}).encode(), [("Content-Type", "application/json")])
    await api.ran(instance, "read", url=receiver.url())
    assert (await received(receiver))["x-password"] == CANARY
    await until_revoked(api)
    assert (await api.document(instance))["returnValues"]["said"] == {"you": "********"}
    assert CANARY not in await stored_texts(api)
    for path in (f"instances/{instance}/log", f"organizations/{api.organization}/archive"):
        assert CANARY not in (await api.get(path)).text
    assert "The step read bao/secret/shop#password." in (await api.get(f"instances/{instance}/log")).text


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator, signed in to the console at the address of the server."""
    transport = httpx.ASGITransport(api.parts.app)
    async with httpx.AsyncClient(transport=transport, base_url=ISSUER, timeout=30) as client:
        signed_in = await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        assert signed_in.status_code == 303, signed_in.text
        yield client


def forms(secret: str) -> list[str]:
    """Return the secret as it is, and as dumps of bytes and as exports write it."""
    data = secret.encode()
    cores = [base64.b64encode(b"\0" * before + data)[4 : 4 * ((before + len(data)) // 3)] for before in range(3)]
    return [secret, data.hex(), *(core.decode() for core in cores)]


async def pages_of(api: Api, visitor: httpx.AsyncClient, instance: str) -> dict[str, str]:
    """Return each page of the console about an instance, as far as links lead to it, and the API's texts."""
    found: dict[str, str] = {}
    waiting = [f"/console/instances/{instance}"]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        page = await visitor.get(path)
        assert page.status_code in {200, 303}, path
        found[path] = page.text
        links = re.findall(r'(?:href|hx-get|src)="(/console/[^"#?]+)', found[path])
        waiting += [
            html.unescape(link) for link in links if instance in link and not link.endswith(("/events", "/stream"))
        ]
    jobs = [each["id"] for each in accepted(await api.get(f"instances/{instance}/jobs"))]
    for path in (f"instances/{instance}", f"instances/{instance}/log", *(f"jobs/{job}" for job in jobs)):
        found[path] = (await api.get(path)).text
    found["archive"] = (await api.get(f"organizations/{api.organization}/archive")).text
    return found


async def test_a_secret_is_in_no_table_dump_page_export_or_log_while_the_job_runs_and_after(
    api: Api, visitor: httpx.AsyncClient, receiver: LoopbackServer, capfd: pytest.CaptureFixture[str]
) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url(), "rest": 600}))
    headers = await received(receiver)
    for is_over in (False, True):
        if is_over:
            await cancel(api, instance)
            await until_revoked(api)
            assert await rows_of(api, "SELECT id FROM passing_values") == []
        else:
            assert len(await rows_of(api, "SELECT id FROM passing_values")) == 1
        dump = ["--dbname", api.database.url]
        texts = await pages_of(api, visitor, instance)
        assert len(texts) > 8
        texts["dump"] = (await asyncio.to_thread(run, [cluster.binaries() / "pg_dump", *dump])).stdout
        assert instance in texts["dump"]
        texts["log of the server"] = capfd.readouterr().out
        for secret in (headers["x-password"], headers["x-user"], CANARY):
            for form in forms(secret):
                assert [where for where, text in texts.items() if form in text] == [], form


async def test_a_hundred_jobs_at_once_have_an_account_each_until_they_end(
    api: Api, receiver: LoopbackServer, bao: Bao
) -> None:
    application = await api.application(READ)
    instances = [await api.launch(application) for _ in range(JOBS)]
    for instance in instances:
        await api.settled(instance)
    for instance in instances:
        accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url(), "rest": 600}))
    async with asyncio.timeout(120):
        while len(receiver.received) < JOBS:
            await asyncio.sleep(0.1)
    users = {each.headers["x-user"] for each in receiver.received}
    assert len(users) == JOBS
    assert await sessions(api) == JOBS
    assert len(await rows_of(api, "SELECT FROM pg_roles WHERE rolname LIKE 'v-%%'")) == JOBS
    for instance in instances:
        await cancel(api, instance)
    async with asyncio.timeout(120):
        while await sessions(api) or await rows_of(api, "SELECT FROM pg_roles WHERE rolname LIKE 'v-%%'"):
            await asyncio.sleep(0.1)
    assert bao.leases("database/creds/shop") == []
    assert await rows_of(api, "SELECT id FROM passing_values") == []


async def test_an_account_of_a_database_ends_with_the_job(api: Api, receiver: LoopbackServer, bao: Bao) -> None:
    instance = await api.running(READ)
    await api.ran(instance, "account", url=receiver.url())
    headers = await received(receiver)
    await until_revoked(api)
    assert headers["x-user"].startswith("v-")
    await until_gone(api, headers["x-user"])
    assert bao.leases("database/creds/shop") == []
    stored = await stored_texts(api)
    assert headers["x-password"] not in stored
    assert headers["x-user"] not in stored


async def test_it_lives_as_long_as_the_job_and_ends_when_that_is_cancelled(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url(), "rest": 600}))
    user = (await received(receiver))["x-user"]
    assert await account_exists(api, user)
    assert await sessions(api) == 1
    await cancel(api, instance)
    await until_revoked(api)
    await until_gone(api, user)


async def test_sessions_are_renewed_while_the_job_runs(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url(), "rest": 600}))
    user = (await received(receiver))["x-user"]
    async with api.database.connection() as connection:
        cursor = await connection.execute("UPDATE secret_sessions SET renew_at = now() RETURNING expires_at")
        row = await cursor.fetchone()
    assert row is not None
    async with asyncio.timeout(30):
        while True:
            async with api.database.connection() as connection:
                cursor = await connection.execute("SELECT renew_at > now(), expires_at FROM secret_sessions")
                [(is_renewed, expires_at)] = await cursor.fetchall()
            if is_renewed:
                break
            await asyncio.sleep(0.05)
    assert expires_at > row[0]
    assert await account_exists(api, user)
    await cancel(api, instance)
    await until_revoked(api)


async def renewed_session(api: Api) -> tuple[list[str], str | None]:
    """Wait for the next renewal of the only session; return its leases and what went wrong."""
    await rows_of(api, "UPDATE secret_sessions SET renew_at = now() - interval '1 second' RETURNING id")
    async with asyncio.timeout(30):
        while True:
            found = await rows_of(api, "SELECT renew_at > now(), leases, message FROM secret_sessions")
            [(is_renewed, leases, message)] = found
            if is_renewed:
                return json.loads(leases), message
            await asyncio.sleep(0.05)


async def rows_of(api: Api, statement: LiteralString, *parameters: str) -> list[tuple[Any, ...]]:
    async with api.database.connection() as connection:
        return await (await connection.execute(statement, parameters)).fetchall()


async def test_a_lease_that_is_gone_ends_neither_other_leases_nor_the_session(
    api: Api, receiver: LoopbackServer, bao: Bao
) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/accounts", {"url": receiver.url()}))
    headers = await received(receiver)
    [[first, second]] = [json.loads(leases) for (leases,) in await rows_of(api, "SELECT leases FROM secret_sessions")]
    await asyncio.to_thread(bao.ask, "POST", "sys/leases/revoke", {"lease_id": first, "sync": True})
    leases, message = await renewed_session(api)
    assert leases == [second]
    assert message is not None
    assert "lease not found" in message
    assert await renewed_session(api) == ([second], None)
    left = [name for name in (headers["x-one"], headers["x-two"]) if await account_exists(api, name)]
    assert len(left) == 1
    await cancel(api, instance)
    await until_revoked(api)
    await until_gone(api, left[0])


async def test_a_session_that_its_policies_keep_from_ending_is_not_taken_for_gone(
    api: Api, receiver: LoopbackServer, bao: Bao
) -> None:
    role: dict[str, Any] = {"role_type": "jwt", "user_claim": "sub", "bound_audiences": ["vault"]}
    role |= {"token_policies": ["shop"], "token_ttl": "60s"}
    role |= {"token_no_default_policy": True, "bound_claims": {"environment_id": api.environment}}
    await asyncio.to_thread(bao.ask, "POST", "auth/jwt/role/bare", role)
    await provider(api, "bare", {"configuration.address": bao.url, "configuration.role": "bare"})
    await api.ran(await api.running(READ), "read", url=receiver.url(), secret="bare/secret/shop#password")
    async with asyncio.timeout(30):
        while not (found := await rows_of(api, "SELECT message FROM secret_sessions WHERE failures > 0")):
            await asyncio.sleep(0.05)
    assert "The role needs the policy default" in found[0][0]
    await rows_of(api, "DELETE FROM secret_sessions RETURNING id")


async def test_a_session_that_cannot_be_opened_holds_up_no_other(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url(), "rest": 600}))
    user = (await received(receiver))["x-user"]
    copied: LiteralString = "id, organization_id, environment_id, job_id, provider, type_id, sealed, lease_s, renew_at"
    copied += ", expires_at, next_at"
    values = copied.replace("id,", "'broken',", 1).replace("job_id", "'ended'")
    await rows_of(api, f"INSERT INTO secret_sessions ({copied}) SELECT {values} FROM secret_sessions RETURNING id")
    async with asyncio.timeout(30):
        while not (found := await rows_of(api, "SELECT message FROM secret_sessions WHERE failures > 0")):
            await asyncio.sleep(0.05)
    assert "cannot be opened with this server's secret key" in found[0][0]
    await cancel(api, instance)
    await until_gone(api, user)
    assert await rows_of(api, "SELECT id FROM secret_sessions") == [("broken",)]
    await rows_of(api, "DELETE FROM secret_sessions RETURNING id")


async def test_a_cancellation_during_the_sign_in_leaves_no_session_behind(api: Api, receiver: LoopbackServer) -> None:
    may_answer = asyncio.Event()
    token = {"auth": {"client_token": "s.of-the-slow", "lease_duration": 60, "renewable": True}}

    async def slow(request: Received, writer: asyncio.StreamWriter) -> None:
        await may_answer.wait()
        await answer(200, json.dumps(token).encode())(request, writer)

    receiver.routes |= {"/v1/auth/jwt/login": slow, "/v1/auth/token/revoke-self": answer(204)}
    await provider(api, "slow", {"configuration.address": receiver.url().rstrip("/"), "configuration.role": "x"})
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/read", {"url": receiver.url(), "secret": "slow/secret/shop"}))
    await received(receiver)
    await cancel(api, instance)
    may_answer.set()
    async with asyncio.timeout(30):
        while "/v1/auth/token/revoke-self" not in [each.target for each in receiver.received]:
            await asyncio.sleep(0.05)
    assert receiver.received[-1].headers["x-vault-token"] == "s.of-the-slow"
    await until_revoked(api)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("bao/secret/hidden#password", "refuses 'secret/hidden' (permission denied). Its policies must allow"),
        ("bao/secret/none#password", "has no secret at 'secret/none'. Write it there"),
        ("bao/secret/shop#user", "has no key 'user' in 'secret/shop'. Write it there"),
        ("elsewhere/secret/shop#password", "no secret provider with the name 'elsewhere'"),
        ("bao/secret/../shop", "can't be a path of 'bao'"),
        ("bao", "a secret is provider/path#key"),
    ],
)
async def test_what_cannot_be_read_is_named_with_its_remedy(
    api: Api, receiver: LoopbackServer, secret: str, said: str
) -> None:
    instance = await api.running(READ)
    document = await api.run(instance, "read", url=receiver.url(), secret=secret, times=1)
    assert said in document["errorMessage"]
    assert CANARY not in document["errorMessage"]
    assert receiver.received == [], "and a repetition can't help"
    await until_revoked(api)


async def test_a_wrong_claim_is_refused_by_the_server_of_secrets(api: Api, receiver: LoopbackServer, bao: Bao) -> None:
    await provider(api, "other", {"configuration.address": bao.url, "configuration.role": "elsewhere"})
    document = await api.run(await api.running(READ), "read", url=receiver.url(), secret="other/secret/shop#password")
    assert 'claim "environment_id" does not match' in document["errorMessage"]
    assert "Compare its role with the claims of the job." in document["errorMessage"]
    assert receiver.received == []


async def test_approle_signs_in_with_a_sealed_secret(api: Api, receiver: LoopbackServer, bao: Bao) -> None:
    role = await asyncio.to_thread(bao.ask, "GET", "auth/approle/role/shop/role-id")
    secret = await asyncio.to_thread(bao.ask, "POST", "auth/approle/role/shop/secret-id", {})
    given = {
        "configuration.address": bao.url,
        "configuration.sign-in": "approle",
        "configuration.role-id": role["data"]["role_id"],
        "configuration.secret-id": secret["data"]["secret_id"],
    }
    await provider(api, "by-role", {}, "builtin:cobalt_secure_store")  # another one of the same name, first
    service = await provider(api, "by-role", given)
    await api.ran(await api.running(READ), "read", url=receiver.url(), secret="by-role/secret/shop#port")
    assert (await received(receiver))["x-password"] == "5432"
    assert secret["data"]["secret_id"] not in (await api.get(f"services/{service}")).text
    assert secret["data"]["secret_id"] not in await stored_texts(api)
    await until_revoked(api)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"configuration.address": "vault", "configuration.role": "x"}, "configuration.address"),
        ({"configuration.address": "https://v.example"}, "configuration.role"),
        ({"configuration.address": "https://v.example", "configuration.sign-in": "ldap"}, "configuration.sign-in"),
        ({"configuration.address": "https://v.example", "configuration.sign-in": "approle"}, "configuration.role-id"),
    ],
)
async def test_a_provider_that_cannot_work_is_refused(api: Api, parameters: dict[str, Any], field: str) -> None:
    body = {"name": "bad", "typeId": "builtin:openbao", "parameters": parameters}
    response = await api.post(f"organizations/{api.organization}/services", body)
    assert response.status_code == 400
    assert field in response.text


async def test_a_sealed_server_fails_the_step_and_revocation_waits_for_it(
    api: Api, receiver: LoopbackServer, bao: Bao
) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url(), "rest": 600}))
    user = (await received(receiver))["x-user"]
    await asyncio.to_thread(bao.ask, "PUT", "sys/seal", {})
    try:
        await cancel(api, instance)
        document = await api.run(await api.running(READ), "read", url=receiver.url())
        assert "Vault is sealed. Its operator must unseal it." in document["errorMessage"]
        async with asyncio.timeout(30):
            while True:
                async with api.database.connection() as connection:
                    cursor = await connection.execute("SELECT failures, message FROM secret_sessions")
                    [(failures, message)] = await cursor.fetchall()
                if failures:
                    break
                await asyncio.sleep(0.05)
        assert "sealed" in message
        assert await account_exists(api, user)
        # The session may last longer than what is known of it: only the server's word ends it.
        await rows_of(api, "UPDATE secret_sessions SET expires_at = now(), next_at = now() RETURNING id")
        async with asyncio.timeout(30):
            while await rows_of(api, "SELECT id FROM secret_sessions WHERE failures = %s", str(failures)):
                await asyncio.sleep(0.05)
        assert await sessions(api) == 1
    finally:
        await asyncio.to_thread(bao.ask, "PUT", "sys/unseal", {"key": bao.unseal_key})
    await until_revoked(api)
    await until_gone(api, user)


async def test_an_account_ends_though_the_server_was_killed(
    api: Api, databases: Databases, receiver: LoopbackServer, bao: Bao, tmp_path: Path
) -> None:
    role = await asyncio.to_thread(bao.ask, "GET", "auth/approle/role/shop/role-id")
    secret = await asyncio.to_thread(bao.ask, "POST", "auth/approle/role/shop/secret-id", {})
    url = databases.create()
    settings = {"LAUNCHBAY_DATABASE_URL": url, "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.1"}
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path, settings=settings)
    await asyncio.to_thread(server.start)
    try:
        async with administrator_of(server) as client:
            caller = Caller(client)
            [organization] = accepted(await caller.get("organizations"))
            path = f"organizations/{organization['id']}"
            [environment] = accepted(await caller.get(f"{path}/environments"))
            given = {
                "configuration.address": bao.url,
                "configuration.sign-in": "approle",
                "configuration.role-id": role["data"]["role_id"],
                "configuration.secret-id": secret["data"]["secret_id"],
            }
            body = {"name": "bao", "typeId": "builtin:openbao", "parameters": given}
            service = accepted(await caller.post(f"{path}/services", body))["id"]
            accepted(await caller.put(f"environments/{environment['id']}/services", {"services": [service]}))
            application = accepted(await caller.post(f"{path}/applications", {"name": "shop"}))["id"]
            accepted(await caller.put_yaml(f"applications/{application}/manifest", READ))
            instance = accepted(await caller.post(f"applications/{application}/launch", {}))["id"]
            async with asyncio.timeout(30):
                while accepted(await caller.get(f"instances/{instance}"))["status"] != "Running":
                    await asyncio.sleep(0.1)
            accepted(await caller.post(f"instances/{instance}/account", {"url": receiver.url(), "rest": 4}))
        user = (await received(receiver))["x-user"]
        server.kill()
        assert await account_exists(api, user), "the roles of a cluster are those of all its databases"
        await asyncio.to_thread(server.start)
        for headers in [each.headers for each in receiver.received]:  # an interrupted attempt is repeated, with another
            await until_gone(api, headers["x-user"])
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM secret_sessions").fetchone() == (0,)
    finally:
        await asyncio.to_thread(server.end)
    databases.drop(url)
