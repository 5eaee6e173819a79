"""Steps read secrets from a real OpenBao: by the job's identity, never stored, revoked with the job."""

import asyncio
import base64
import gzip
import html
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from operator import not_
from pathlib import Path
from typing import Any, LiteralString

import httpx
import psycopg
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from psycopg.conninfo import conninfo_to_dict

from launchbay.auth.identity_tokens import IDENTITY_KEYS
from launchbay.auth.secret_key import read_secret_key
from launchbay.auth.tokens import KeyRing
from launchbay.clock import SystemClock
from launchbay.features.secret_providers import sessions as kept_sessions
from launchbay.features.secret_providers import usecases as provider_tests
from launchbay.ids import new_id
from launchbay.limits import IDENTITY_TOKEN_S
from launchbay.postgres import cluster
from launchbay.postgres.backup import back_up
from tests.support import bao as bao_server
from tests.support.bao import MISSING, PROGRAM, Bao
from tests.support.canaries import stored_texts
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.machines import LOGIN, Hosts, needs_sshd
from tests.support.network import LoopbackServer, Received, answer, loopback_server
from tests.support.servers import Process, administrator_of
from tests.support.service import EMAIL, PASSWORD, Api, Caller, accepted, refused, running_api, served

pytestmark = [
    pytest.mark.slow,  # a server of secrets
    pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING),
]
ISSUER = "https://launchbay.example.org"
AWS_ROLE = {"configuration.region": "eu-central-1", "configuration.role": "arn:aws:iam::123456789012:role/shop"}
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
          command: "{$.url}"
          headers: {X-User: "{$.secrets.db.username}", X-Password: "{$.secrets.db.password}"}
          timeout: 600
    - rest: {action: wait, precedingPhases: [use], parameters: {delay: "{$.rest}"}}
accounts:
  parameters: [url: {default: ""}]
  steps:
    - use:
        action: restcall
        secrets: {one: bao/database/creds/shop, two: bao/database/creds/shop}
        parameters:
          command: "{$.url}"
          headers: {X-One: "{$.secrets.one.username}", X-Two: "{$.secrets.two.username}"}
          timeout: 600
rounds:
  parameters: [url: {default: ""}, held: {default: ""}]
  steps:
    - use:
        action: restcall
        until: "{$.output.status == 200}"
        delay: 0.01
        secrets: {db: bao/database/creds/shop}
        parameters: {command: "{$.url}", headers: {X-User: "{$.secrets.db.username}"}}
    - last:
        action: restcall
        precedingPhases: [use]
        secrets: {db: bao/database/creds/shop}
        parameters: {command: "{$.held}", headers: {X-User: "{$.secrets.db.username}"}, timeout: 600}
loop:
  parameters: [url: {default: ""}]
  steps:
    - use:
        action: restcall
        each: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
        parallel: 2
        secrets: {db: bao/database/creds/shop}
        parameters: {command: "{$.url}", headers: {X-User: "{$.secrets.db.username}"}}
    - rest: {action: wait, precedingPhases: [use], parameters: {delay: 600}}
"""


def run(command: list[Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bao]:
    with bao_server.started(tmp_path_factory.mktemp("bao")) as started:
        yield started


@pytest.fixture
async def gate() -> AsyncIterator[asyncio.Event]:
    """Lets the receiver answer at `/held`."""
    event = asyncio.Event()
    yield event
    event.set()


@pytest.fixture
async def receiver(gate: asyncio.Event) -> AsyncIterator[LoopbackServer]:
    async def held(request: Received, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await answer(200)(request, writer)

    async with loopback_server() as server:
        server.routes["/held"] = held
        yield server


@pytest.fixture(scope="module")
async def collector() -> AsyncIterator[LoopbackServer]:
    """Gets the traces of the server soon after each span."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")  # milliseconds
        async with loopback_server() as server:
            server.routes["/v1/traces"] = answer()
            yield server


@pytest.fixture(scope="module")
async def api(databases: Databases, bao: Bao, collector: LoopbackServer) -> AsyncIterator[Api]:
    url = databases.create()
    settings: dict[str, Any] = {"base_url": ISSUER, "outgoing_allow": "127.0.0.1, http://plain.example"}
    settings |= {"engine_concurrency": 200, "otlp_endpoint": collector.url("")}
    async with running_api(url, **settings) as api, served(api) as port:
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
    odd = {
        "empty": "",
        "large": "x" * 70_000,
        "short": "xyz",
        "nested": {"hosts": ["alpha.example", 5432]},
        "nul": "a\0b",
    }
    bao.ask("POST", "secret/data/odd", {"data": odd})
    bao.ask("POST", "sys/auth/jwt", {"type": "jwt"})
    keys = {"jwks_url": f"http://127.0.0.1:{port}/.well-known/jwks.json", "bound_issuer": ISSUER}
    bao.ask("POST", "auth/jwt/config", keys)
    rule = 'path "secret/data/shop" {capabilities=["read"]} path "secret/data/none" {capabilities=["read"]}'
    rule += ' path "secret/data/odd" {capabilities=["read"]}'
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


async def sessions(api: Api) -> int:
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM secret_sessions")
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def until_revoked(api: Api) -> None:
    await eventually(lambda: sessions(api), not_)


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
    await eventually(lambda: account_exists(api, name), not_)


async def received(receiver: LoopbackServer) -> dict[str, str]:
    await eventually(lambda: receiver.received)
    return receiver.received[-1].headers


async def test_a_step_reads_a_secret_by_the_identity_of_its_job(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    receiver.routes["/"] = answer(200, json.dumps({"you": CANARY}).encode(), [("Content-Type", "application/json")])
    await api.ran(instance, "read", url=receiver.url())
    assert (await received(receiver))["x-password"] == CANARY
    await until_revoked(api)
    assert (await api.document(instance))["returnValues"]["said"] == {"you": "********"}
    asked = {"name": "said", "kind": "returnValues", "reason": "To see it."}
    assert "`secrets` of a step read it from a provider" in refused(
        await api.post(f"instances/{instance}/secrets/reveal", asked), 400
    )
    assert CANARY not in await stored_texts(api.database)
    for path in (f"instances/{instance}/log", f"organizations/{api.organization}/archive"):
        assert CANARY not in (await api.get(path)).text
    assert "The step read bao/secret/shop#password." in (await api.get(f"instances/{instance}/log")).text


BY_VAULT = """
application:
  interfaces: {actions: {send: bind(main#actions.send)}}
  bindings: [[main, vault]]
  components:
    vault:
      type: reference.Service
      interfaces: {secret-store: {get-secret: receive-command(string name => string value)}}
    main:
      type: workflow.Instance
      required: [vault]
      interfaces:
        vault: {get-secret: send-command(string name => string value)}
        actions: {send: "receive-command(string url, string wanted)"}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          send:
            parameters: [url: {default: ""}, wanted: {default: ""}]
            steps:
              - get: {action: vault.get-secret, parameters: {name: "{$.wanted}"}, output: {password: value}}
              - send:
                  action: restcall
                  precedingPhases: [get]
                  parameters: {command: "{$.url}", headers: {X-Password: "{$.password}"}}
"""


async def test_get_secret_hands_on_what_lasts_and_refuses_an_account(
    api: Api, receiver: LoopbackServer, bao: Bao
) -> None:
    instance = await api.running(BY_VAULT)
    await api.ran(instance, "actions.send", url=receiver.url(), wanted="bao/secret/shop#password")
    assert (await received(receiver))["x-password"] == CANARY
    assert CANARY not in await stored_texts(api.database)
    job = await api.run(instance, "actions.send", url=receiver.url(), wanted="bao/database/creds/shop#password")
    assert "ends it with the step. Name it in `secrets` of the step" in job["errorMessage"]
    assert len(receiver.received) == 1
    await until_revoked(api)
    await eventually(lambda: asyncio.to_thread(bao.leases, "database/creds/shop"), not_)


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


def spans(collector: LoopbackServer) -> list[Any]:
    """Return all that the collector got."""
    bodies = [
        gzip.decompress(each.body) if each.headers.get("content-encoding") == "gzip" else each.body
        for each in collector.received
    ]
    return [
        span
        for body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


async def until_traced(collector: LoopbackServer, instance: str) -> None:
    """Wait for the span of the job with the secret, which ends after those of its steps."""
    await eventually(
        lambda: [each for each in spans(collector) if each.name == "job account" and instance in str(each)]
    )


def backup(api: Api, directory: Path) -> str:
    """Make a backup as `launchbay backup` does, and return it as text: the file itself is compressed."""
    file = directory / f"{new_id()}.dump"
    back_up(api.database.url, file)
    return run([cluster.binaries() / "pg_restore", "--file", "-", file]).stdout


async def test_a_secret_is_in_no_table_backup_page_export_trace_or_log_while_the_job_runs_and_after(
    api: Api,
    visitor: httpx.AsyncClient,
    receiver: LoopbackServer,
    collector: LoopbackServer,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url("/held")}))
    headers = await received(receiver)
    for is_over in (False, True):
        if is_over:
            await cancel(api, instance)
            await until_revoked(api)
            await until_traced(collector, instance)
            assert await rows_of(api, "SELECT id FROM passing_values") == []
        else:
            assert len(await rows_of(api, "SELECT id FROM passing_values")) == 1
        texts = await pages_of(api, visitor, instance)
        assert len(texts) > 8
        texts["backup"] = await asyncio.to_thread(backup, api, tmp_path)
        texts["traces"] = "\n".join(map(str, spans(collector)))
        assert instance in texts["backup"]
        assert instance in texts["traces"] or not is_over
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
        accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url("/held")}))
    await eventually(lambda: len(receiver.received) >= JOBS, within_s=120)
    users = {each.headers["x-user"] for each in receiver.received}
    assert len(users) == JOBS
    assert await sessions(api) == JOBS
    assert len(await rows_of(api, "SELECT FROM pg_roles WHERE rolname LIKE 'v-%%'")) == JOBS
    for instance in instances:
        await cancel(api, instance)
    await eventually(lambda: sessions(api), not_, within_s=120)
    await eventually(lambda: rows_of(api, "SELECT FROM pg_roles WHERE rolname LIKE 'v-%%'"), not_, within_s=120)
    assert bao.leases("database/creds/shop") == []
    assert await rows_of(api, "SELECT id FROM passing_values") == []


async def test_an_account_of_a_database_ends_with_its_step(api: Api, receiver: LoopbackServer, bao: Bao) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url(), "rest": 600}))
    headers = await received(receiver)
    await until_revoked(api)
    assert headers["x-user"].startswith("v-")
    await until_gone(api, headers["x-user"])
    assert len(await rows_of(api, "SELECT id FROM passing_values")) == 1, "which is masked until the job's end"
    await cancel(api, instance)
    assert bao.leases("database/creds/shop") == []
    stored = await stored_texts(api.database)
    assert headers["x-password"] not in stored
    assert headers["x-user"] not in stored


async def test_it_lives_as_long_as_its_step_and_ends_when_that_is_cancelled(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url("/held")}))
    user = (await received(receiver))["x-user"]
    assert await account_exists(api, user)
    assert await sessions(api) == 1
    await cancel(api, instance)
    await until_revoked(api)
    await until_gone(api, user)


async def until_received(receiver: LoopbackServer, count: int) -> list[str]:
    """Wait for so many requests; return the account of each."""
    await eventually(lambda: len(receiver.received) >= count, within_s=60)
    return [each.headers["x-user"] for each in receiver.received]


async def test_an_account_of_a_round_ends_when_the_next_one_begins(
    api: Api, receiver: LoopbackServer, gate: asyncio.Event
) -> None:
    answers = [answer(202)] * 3

    async def answer_next(request: Received, writer: asyncio.StreamWriter) -> None:
        await (answers.pop() if answers else answer(200))(request, writer)

    receiver.routes["/"] = answer_next
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/rounds", {"url": receiver.url(), "held": receiver.url("/held")}))
    *before, last = await until_received(receiver, 5)
    assert len({*before, last}) == 5
    for user in before:
        await until_gone(api, user)
    assert await sessions(api) == 1
    assert await account_exists(api, last)
    gate.set()
    await api.settled(instance)
    await until_gone(api, last)
    await until_revoked(api)


async def test_accounts_of_a_loop_end_with_their_items(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/loop", {"url": receiver.url()}))
    users = await until_received(receiver, 12)
    assert len(set(users)) == 12
    await until_revoked(api)
    for user in users:
        await until_gone(api, user)
    assert len(await rows_of(api, "SELECT id FROM passing_values")) == 12
    await cancel(api, instance)


async def test_sessions_are_renewed_while_their_step_runs(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url("/held")}))
    user = (await received(receiver))["x-user"]
    async with api.database.connection() as connection:
        cursor = await connection.execute("UPDATE secret_sessions SET renew_at = now() RETURNING expires_at")
        row = await cursor.fetchone()
    assert row is not None
    asked: LiteralString = "SELECT expires_at FROM secret_sessions WHERE renew_at > now()"
    [(expires_at,)] = await eventually(lambda: rows_of(api, asked))
    assert expires_at > row[0]
    assert await account_exists(api, user)
    await cancel(api, instance)
    await until_revoked(api)


async def renewed_session(api: Api) -> tuple[list[str], str | None]:
    """Wait for the next renewal of the only session; return its leases and what went wrong."""
    await rows_of(api, "UPDATE secret_sessions SET renew_at = now() - interval '1 second' RETURNING id")
    asked: LiteralString = "SELECT leases, message FROM secret_sessions WHERE renew_at > now()"
    [(leases, message)] = await eventually(lambda: rows_of(api, asked))
    return json.loads(leases), message


async def rows_of(api: Api, statement: LiteralString, *parameters: str) -> list[tuple[Any, ...]]:
    async with api.database.connection() as connection:
        return await (await connection.execute(statement, parameters)).fetchall()


async def test_a_lease_that_is_gone_ends_neither_other_leases_nor_the_session(
    api: Api, receiver: LoopbackServer, bao: Bao
) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/accounts", {"url": receiver.url("/held")}))
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
    found = await eventually(lambda: rows_of(api, "SELECT message FROM secret_sessions WHERE failures > 0"))
    assert "The role needs the policy default" in found[0][0]
    await rows_of(api, "DELETE FROM secret_sessions RETURNING id")


async def test_a_session_that_cannot_be_opened_holds_up_no_other(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url("/held")}))
    user = (await received(receiver))["x-user"]
    copied: LiteralString = "id, organization_id, environment_id, job_id, provider, type_id, sealed, lease_s, renew_at"
    copied += ", expires_at, next_at"
    values = copied.replace("id,", "'broken',", 1).replace("job_id", "'ended'")
    await rows_of(api, f"INSERT INTO secret_sessions ({copied}) SELECT {values} FROM secret_sessions RETURNING id")
    found = await eventually(lambda: rows_of(api, "SELECT message FROM secret_sessions WHERE failures > 0"))
    assert "cannot be opened with this server's secret key" in found[0][0]
    await cancel(api, instance)
    await until_gone(api, user)
    assert await rows_of(api, "SELECT id FROM secret_sessions") == [("broken",)]
    await rows_of(api, "DELETE FROM secret_sessions RETURNING id")


SLOW = """
launch: {steps: []}
read:
  parameters: [url: {default: ""}]
  steps:
    - use:
        action: restcall
        each: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
        parallel: 12
        secrets: {wanted: slow/secret/shop#password}
        parameters: {command: "{$.url}", headers: {X-Password: "{$.secrets.wanted}"}, timeout: 600}
"""


async def neighbor(api: Api, receiver: LoopbackServer, gate: asyncio.Event) -> Api:
    """Return another organization. Its provider answers neither renewals nor revocations before the gate opens."""

    async def held(request: Received, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await answer(204)(request, writer)

    token = {"auth": {"client_token": "s.of-the-neighbor", "lease_duration": 60, "renewable": True}}
    secret = {"data": {"data": {"password": "of-the-neighbor"}}}
    receiver.routes |= {
        "/v1/auth/jwt/login": answer(200, json.dumps(token).encode()),
        "/v1/secret/data/shop": answer(200, json.dumps(secret).encode()),
        "/v1/auth/token/renew-self": held,
        "/v1/auth/token/revoke-self": held,
    }
    caller, organization, environment = await api.outsider()
    other = replace(api, client=caller.client, organization=organization, environment=environment)
    accepted(await other.put(f"environments/{environment}/audiences", {"audiences": ["vault"]}))
    address = receiver.url().rstrip("/")
    await provider(other, "slow", {"configuration.address": address, "configuration.role": "x"})
    return other


async def test_a_provider_that_never_answers_delays_no_other_tenant(
    api: Api, receiver: LoopbackServer, gate: asyncio.Event
) -> None:
    other = await neighbor(api, receiver, gate)
    theirs = await other.running(SLOW)
    accepted(await other.post(f"instances/{theirs}/read", {"url": receiver.url("/held")}))
    ours = await api.running(READ)
    accepted(await api.post(f"instances/{ours}/account", {"url": receiver.url("/held")}))
    await eventually(lambda: len([each for each in receiver.received if each.target == "/held"]) >= 13, within_s=60)
    # All are due, and those of the neighbor have waited longest.
    await rows_of(
        api,
        "UPDATE secret_sessions SET renew_at = now() - interval '1 second',"
        " next_at = next_at - CASE provider WHEN 'slow' THEN interval '1 hour' ELSE interval '0' END RETURNING id",
    )
    await eventually(
        lambda: rows_of(api, "SELECT id FROM secret_sessions WHERE provider = 'bao' AND renew_at <= now()"), not_
    )
    waiting = [each for each in receiver.received if each.target == "/v1/auth/token/renew-self"]
    assert len(waiting) >= 8, "they were asked, and have not answered"
    assert await rows_of(api, "SELECT id FROM secret_sessions WHERE failures > 0") == [], "nor run out of time"
    await cancel(api, ours)
    await eventually(lambda: rows_of(api, "SELECT id FROM secret_sessions WHERE provider = 'bao'"), not_)
    assert await rows_of(api, "SELECT id FROM secret_sessions WHERE failures > 0") == []
    gate.set()
    await other.settled(theirs)
    await until_revoked(api)


async def test_a_session_that_takes_too_long_is_tried_again_later(
    api: Api, receiver: LoopbackServer, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await neighbor(api, receiver, gate)
    with monkeypatch.context() as hurry:
        hurry.setattr(kept_sessions, "SECRET_SESSION_S", 0.05)
        await other.run(await other.running(SLOW), "read", url=receiver.url())
        found = await eventually(lambda: rows_of(api, "SELECT message FROM secret_sessions WHERE failures > 0"))
    assert "The secret provider 'slow' took longer than 0.05 s." in found[0][0]
    gate.set()
    await until_revoked(api)


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
    await eventually(lambda: "/v1/auth/token/revoke-self" in [each.target for each in receiver.received])
    assert receiver.received[-1].headers["x-vault-token"] == "s.of-the-slow"
    await until_revoked(api)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("bao/secret/data/shop#password", "Leave out 'data': bao/secret/shop."),
        ("bao/cubbyhole/shop#password", "Each sign-in has a cubbyhole of its own"),
        ("bao/pki/issue/web#certificate", "its parameters are missing. Write them as in a URL: bao/pki/issue/web?"),
        ("bao/secret/hidden#password", "refuses 'secret/hidden' (permission denied). A policy of its role needs: path"),
        ("bao/secret/none#password", "has no secret at 'secret/none'. Write it there"),
        ("bao/secret/shop#user", "has no key 'user' in 'secret/shop'. Write it there"),
        ("bao/secret/odd#empty", "has nothing at the key 'empty' in 'secret/odd'. Write a value"),
        ("bao/secret/odd#nul", "at 'nul' a value with a NUL character"),
        ("bao/secret/odd#large", "at 'large' a value of 70000 bytes (limit: 65536)"),
        ("bao/secret/odd", "at 'large' a value of 70000 bytes (limit: 65536)"),
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
    assert document["errorMessage"].count("Another attempt would fail too.") == ("/" in secret)
    assert CANARY not in document["errorMessage"]
    assert receiver.received == [], "and a repetition can't help"
    await until_revoked(api)


async def test_a_list_or_map_is_given_with_its_texts_masked(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(
        READ.replace('"{$.secrets.wanted}"', '"{$.secrets.wanted.hosts[0]}:{$.secrets.wanted.hosts[1]}"')
    )
    receiver.routes["/"] = answer(200, b'{"at": "alpha.example", "is": 5432}', [("Content-Type", "application/json")])
    await api.ran(instance, "read", url=receiver.url(), secret="bao/secret/odd#nested")
    assert (await received(receiver))["x-password"] == "alpha.example:5432"
    assert (await api.document(instance))["returnValues"]["said"] == {"at": "********", "is": "********"}
    await until_revoked(api)


async def test_a_text_that_is_too_short_to_be_masked_is_given_with_a_warning(
    api: Api, receiver: LoopbackServer
) -> None:
    instance = await api.running(READ)
    receiver.routes["/"] = answer(200, b'{"you": "xyz"}', [("Content-Type", "application/json")])
    await api.ran(instance, "read", url=receiver.url(), secret="bao/secret/odd#short")
    assert (await received(receiver))["x-password"] == "xyz"
    assert (await api.document(instance))["returnValues"]["said"] == {"you": "xyz"}
    lines = accepted(await api.get(f"instances/{instance}/log"))
    [warning] = [each["text"] for each in lines if each["level"] == "warning"]
    assert warning.endswith(" is too short to be masked.")
    await until_revoked(api)


async def test_each_text_of_a_map_that_is_too_short_to_be_masked_is_named(
    api: Api, receiver: LoopbackServer, bao: Bao
) -> None:
    values = {"pin": "123", "ready": True, "password": CANARY, "at": ["abc"], "none": ""}
    await asyncio.to_thread(bao.ask, "POST", "secret/data/none", {"data": values})
    instance = await api.running(
        READ.replace("{$.secrets.wanted}", "{$.secrets.wanted.pin}").replace("shop#password", "none", 1)
    )
    await api.ran(instance, "read", url=receiver.url())
    await asyncio.to_thread(bao.ask, "DELETE", "secret/metadata/none")
    lines = accepted(await api.get(f"instances/{instance}/log"))
    [warning] = [each["text"] for each in lines if each["level"] == "warning"]
    assert warning.endswith("bao/secret/none#at[0], bao/secret/none#pin is too short to be masked.")
    await until_revoked(api)


async def test_an_answer_that_is_not_text_in_utf_8_is_no_missing_secret(api: Api, receiver: LoopbackServer) -> None:
    token = {"auth": {"client_token": "s.of-the-odd", "lease_duration": 60, "renewable": True}}
    receiver.routes |= {
        "/v1/auth/jwt/login": answer(200, json.dumps(token).encode()),
        "/v1/secret/data/shop": answer(200, b'{"data": {"data": {"password": "\xff\xfe"}}}'),
        "/v1/auth/token/revoke-self": answer(204),
    }
    await provider(api, "odd", {"configuration.address": receiver.url().rstrip("/"), "configuration.role": "x"})
    document = await api.run(await api.running(READ), "read", url=receiver.url(), secret="odd/secret/shop#password")
    assert "answers 'secret/shop' with something other than a JSON object" in document["errorMessage"]
    await until_revoked(api)


async def test_a_wrong_claim_is_refused_by_the_server_of_secrets(api: Api, receiver: LoopbackServer, bao: Bao) -> None:
    await provider(api, "other", {"configuration.address": bao.url, "configuration.role": "elsewhere"})
    document = await api.run(await api.running(READ), "read", url=receiver.url(), secret="other/secret/shop#password")
    assert 'claim "environment_id" does not match' in document["errorMessage"]
    assert "Compare its role with the claims of the job." in document["errorMessage"]
    assert receiver.received == []


SIGNED = """
launch: {steps: []}
read:
  parameters: [url: {default: ""}]
  steps:
    - send:
        action: restcall
        identity: {audience: vault}
        secrets: {wanted: bao/secret/shop#password}
        parameters: {command: "{$.url}", headers: {X-Token: "{$.identity.token}", X-Password: "{$.secrets.wanted}"}}
"""
SIGN_INS_AT_ONCE = 4


async def test_jobs_sign_in_while_the_key_of_the_issuer_is_rotated_three_times(
    api: Api, receiver: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.auth.tokens._READ_AGAIN_S", 0.0)  # as if minutes had passed between two tokens
    other_server = KeyRing(
        api.database, read_secret_key(api.settings.key_file()), SystemClock(), IDENTITY_TOKEN_S, IDENTITY_KEYS
    )
    statuses: list[str] = []
    is_over = asyncio.Event()

    async def sign_in(instance: str) -> None:
        while not is_over.is_set():
            job = await api.ran(instance, "read", url=receiver.url())
            statuses.append(job["status"])

    async def signed_with_another_than(known: set[str]) -> str:
        """Wait until each worker has signed in again, and with a new key."""
        until = len(statuses) + 2 * SIGN_INS_AT_ONCE
        await eventually(
            lambda: len(statuses) >= until and {key_of(each) for each in receiver.received[-SIGN_INS_AT_ONCE:]} - known
        )
        return key_of(receiver.received[-1])

    instances = [await api.running(SIGNED) for _ in range(SIGN_INS_AT_ONCE)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for instance in instances:
            tasks.create_task(sign_in(instance))
        used = [await signed_with_another_than(set())]
        for _ in range(3):
            await other_server.rotate()
            published = {
                each["kid"] for each in (await api.client.get("http://launchbay/.well-known/jwks.json")).json()["keys"]
            }
            assert set(used[-1:]) < published, "the new key is there before it signs"
            await rows_of(
                api, "UPDATE identity_keys SET created_at = created_at - interval '3601 seconds' RETURNING id"
            )
            used.append(await signed_with_another_than(set(used)))
        is_over.set()
    assert len(set(used)) == 4
    assert set(statuses) == {"Succeeded"}
    assert len(statuses) >= 8 * SIGN_INS_AT_ONCE
    await until_revoked(api)


def key_of(request: Received) -> str:
    """Return the ID of the key that signed the token of a request."""
    header = request.headers["x-token"].partition(".")[0]
    return str(json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"])


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
    assert secret["data"]["secret_id"] not in await stored_texts(api.database)
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


@pytest.mark.parametrize(
    ("kind", "field", "others"),
    [
        ("builtin:openbao", "configuration.address", {"configuration.role": "x"}),
        ("builtin:aws_secrets_manager", "configuration.endpoint-url", AWS_ROLE),
        ("builtin:aws_parameter_store", "configuration.sts-endpoint-url", AWS_ROLE),
    ],
)
async def test_an_address_to_which_secrets_would_go_over_plain_http_is_refused(
    api: Api, kind: str, field: str, others: dict[str, Any]
) -> None:
    path = f"organizations/{api.organization}/services"
    for address in ("http://127.0.0.1:8200", "http://localhost:8200", "https://vault.example", "http://plain.example"):
        accepted(await api.post(path, {"name": address, "typeId": kind, "parameters": {field: address, **others}}))
    body = {"name": "bad", "typeId": kind, "parameters": {field: "http://vault.example:8200", **others}}
    said = refused(await api.post(path, body), 400)
    assert field in said
    assert "would go to vault.example over plain HTTP" in said
    assert "Use https://, or let an administrator add http://vault.example to the setting outgoing_allow." in said
    assert "bad" not in [each["name"] for each in accepted(await api.get(path))]


async def test_an_address_over_plain_http_that_is_stored_stays_until_it_is_changed(api: Api) -> None:
    given = {"configuration.address": "http://127.0.0.1:8200", "configuration.role": "x"}
    body = {"name": "stored", "typeId": "builtin:openbao", "parameters": given}
    service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    old = {**given, "configuration.address": "http://old.example:8200"}
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE services SET parameters = %s WHERE id = %s", [json.dumps(old), service])
    accepted(await api.put(f"services/{service}", {"parameters": {**old, "configuration.role": "y"}}))
    other = {"parameters": {**old, "configuration.address": "http://other.example:8200"}}
    answer = await api.put(f"services/{service}", other)
    assert (answer.status_code, "over plain HTTP" in answer.text) == (400, True), answer.text


async def test_a_sealed_server_fails_the_step_and_revocation_waits_for_it(
    api: Api, receiver: LoopbackServer, bao: Bao
) -> None:
    instance = await api.running(READ)
    accepted(await api.post(f"instances/{instance}/account", {"url": receiver.url("/held")}))
    user = (await received(receiver))["x-user"]
    await asyncio.to_thread(bao.ask, "PUT", "sys/seal", {})
    try:
        await cancel(api, instance)
        document = await api.run(await api.running(READ), "read", url=receiver.url())
        assert "Vault is sealed. Its operator must unseal it." in document["errorMessage"]
        asked: LiteralString = "SELECT failures, message FROM secret_sessions WHERE failures > 0"
        [(failures, message)] = await eventually(lambda: rows_of(api, asked))
        assert "sealed" in message
        assert await account_exists(api, user)
        # The session may last longer than what is known of it: only the server's word ends it.
        await rows_of(api, "UPDATE secret_sessions SET expires_at = now(), next_at = now() RETURNING id")
        await eventually(
            lambda: rows_of(api, "SELECT id FROM secret_sessions WHERE failures = %s", str(failures)), not_
        )
        assert await sessions(api) == 1
    finally:
        await asyncio.to_thread(bao.ask, "PUT", "sys/unseal", {"key": bao.unseal_key})
    await until_revoked(api)
    await until_gone(api, user)


@dataclass
class Killable:
    """A server of its own, whose environment has the provider by AppRole."""

    server: Process
    database: str
    organization: str = ""
    environment: str = ""
    services: tuple[str, ...] = ()

    @asynccontextmanager
    async def caller(self) -> AsyncIterator[Caller]:
        async with administrator_of(self.server) as client:
            yield Caller(client)

    async def add_service(self, caller: Caller, name: str, kind: str, parameters: dict[str, Any]) -> str:
        body = {"name": name, "typeId": kind, "parameters": parameters}
        made: str = accepted(await caller.post(f"organizations/{self.organization}/services", body))["id"]
        self.services += (made,)
        body = {"services": self.services}
        accepted(await caller.put(f"environments/{self.environment}/services", body))
        return made

    async def start(self, caller: Caller, manifest: str) -> str:
        """Launch an instance."""
        body = {"name": "shop"}
        application = accepted(await caller.post(f"organizations/{self.organization}/applications", body))["id"]
        accepted(await caller.put_yaml(f"applications/{application}/manifest", manifest))
        return str(accepted(await caller.post(f"applications/{application}/launch", {}))["id"])

    def sessions(self) -> int:
        with psycopg.connect(self.database) as connection:
            row = connection.execute("SELECT count(*) FROM secret_sessions").fetchone()
        assert row is not None
        return int(row[0])

    async def until_sessions(self, count: int) -> None:
        await eventually(lambda: asyncio.to_thread(self.sessions), lambda found: found == count, within_s=60)


@pytest.fixture
async def killable(api: Api, databases: Databases, bao: Bao, tmp_path: Path) -> AsyncIterator[Killable]:
    assert api.organization, "which has prepared the server of secrets"
    role = await asyncio.to_thread(bao.ask, "GET", "auth/approle/role/shop/role-id")
    secret = await asyncio.to_thread(bao.ask, "POST", "auth/approle/role/shop/secret-id", {})
    url = databases.create()
    settings = {
        "LAUNCHBAY_DATABASE_URL": url,
        "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.0/8",
        "LAUNCHBAY_MACHINES": "static",
    }
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path, settings=settings)
    await asyncio.to_thread(server.start)
    found = Killable(server, url)
    try:
        async with found.caller() as caller:
            [organization] = accepted(await caller.get("organizations"))
            found.organization = organization["id"]
            [environment] = accepted(await caller.get(f"organizations/{found.organization}/environments"))
            found.environment = environment["id"]
            given = {
                "configuration.address": bao.url,
                "configuration.sign-in": "approle",
                "configuration.role-id": role["data"]["role_id"],
                "configuration.secret-id": secret["data"]["secret_id"],
            }
            await found.add_service(caller, "bao", "builtin:openbao", given)
        yield found
    finally:
        await asyncio.to_thread(server.end)
        databases.drop(url)


async def test_accounts_live_on_when_the_server_is_killed_and_end_with_their_step(
    api: Api, killable: Killable, receiver: LoopbackServer, gate: asyncio.Event
) -> None:
    async with killable.caller() as caller:
        instance = await killable.start(caller, READ)
        await eventually(lambda: caller.read(f"instances/{instance}"), lambda found: found["status"] == "Running")
        accepted(await caller.post(f"instances/{instance}/account", {"url": receiver.url("/held"), "rest": 600}))
    await until_received(receiver, 1)
    killable.server.kill()
    await asyncio.to_thread(killable.server.start)
    users = await until_received(receiver, 2)  # an interrupted attempt is repeated, with another
    assert len(set(users)) == 2
    async with killable.caller() as caller:
        await renewals(killable.database)
        assert killable.sessions() == 2
        for user in users:
            assert await account_exists(api, user), "the roles of a cluster are those of all its databases"
        gate.set()
        await killable.until_sessions(0)
        for user in users:
            await until_gone(api, user)
        assert accepted(await caller.get(f"instances/{instance}"))["status"] == "Executing"


async def renewals(database: str) -> None:
    """Wait until the server has renewed each session."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE secret_sessions SET renew_at = now() - interval '1 second'")
        await eventually(
            lambda: connection.execute("SELECT FROM secret_sessions WHERE renew_at <= now()").fetchone() is None,
            within_s=60,
        )


COMMAND = """
launch:
  steps:
    - hosts: {action: provisionVms, parameters: {roleName: web, staticIps: [HOST]}}
    - run:
        action: execrun
        precedingPhases: [hosts]
        secrets: {db: bao/database/creds/shop}
        parameters:
          roles: [web]
          command:
            - "echo {$.secrets.db.username} > LEDGER.new; mv LEDGER.new LEDGER;
              until [ -e LEDGER.go ]; do sleep 0.1; done"
    - rest: {action: wait, precedingPhases: [run], parameters: {delay: 600}}
"""


@needs_sshd
async def test_a_command_that_another_process_adopts_keeps_its_account_until_it_ends(
    api: Api, killable: Killable
) -> None:
    with Hosts.start(1, network=6) as hosts:
        ledger = hosts[0].work / "ledger-account"
        async with killable.caller() as caller:
            keys = await killable.add_service(caller, "keys", "builtin:cobalt_secure_store", {})
            pair = {"arguments": {"name": "deploy", "privateKey": hosts.private_key}}
            accepted(await caller.post(f"services/{keys}/import-keypair", pair))
            policies = f"policies:\n  machines.login: {LOGIN}\n  machines.ssh-port: {hosts[0].port}\n"
            accepted(await caller.put_yaml(f"environments/{killable.environment}", policies))
            manifest = COMMAND.replace("LEDGER", str(ledger)).replace("HOST", f'"{hosts[0].address}"')
            instance = await killable.start(caller, manifest)
        await eventually(ledger.exists, within_s=60)
        user = ledger.read_text().strip()
        killable.server.kill()
        await asyncio.to_thread(killable.server.start)
        async with killable.caller() as caller:
            await eventually(
                lambda: caller.get(f"instances/{instance}/log"),
                lambda found: "started before" in found.text,
                within_s=60,
            )
            assert ledger.read_text().strip() == user, "it runs once, and has the first account"
            await renewals(killable.database)
            assert await account_exists(api, user)
            ledger.with_name(f"{ledger.name}.go").touch()
            await killable.until_sessions(0)
            await until_gone(api, user)
            assert accepted(await caller.get(f"instances/{instance}"))["status"] == "Executing"


async def outcome(api: Api, service: str, *paths: str, **more: Any) -> Any:
    body = {"environmentId": api.environment, "paths": list(paths), **more}
    return accepted(await api.post(f"services/{service}/provider/test", body))


async def service_named(api: Api, name: str) -> str:
    found = accepted(await api.get(f"organizations/{api.organization}/services"))
    [service] = [each["id"] for each in found if each["name"] == name]
    return str(service)


async def test_a_test_says_of_each_path_what_a_job_could_do_and_shows_no_value(api: Api, bao: Bao) -> None:
    service = await service_named(api, "bao")
    paths = ["secret/shop", "secret/shop#password", "secret/shop#user", "secret/none", "secret/hidden"]
    paths += ["secret/odd#large", "database/creds/shop"]
    found = await outcome(api, service, *paths)
    assert found["problem"] is None
    said = {each["path"]: (each["result"], each["mayWrite"]) for each in found["paths"]}
    assert said == {
        "secret/shop": ("readable", False),
        "secret/shop#password": ("readable", False),
        "secret/shop#user": ("missing", False),
        "secret/none": ("missing", False),
        "secret/hidden": ("forbidden", False),
        "secret/odd#large": ("failed", False),
        "database/creds/shop": ("allowed", False),
    }
    assert CANARY not in json.dumps(found)
    assert "has no key 'user' in 'secret/shop'" in found["paths"][2]["message"]
    assert 'path "secret/data/hidden" { capabilities = ["read"] }' in found["paths"][4]["message"]
    assert bao.leases("database/creds/shop") == [], "nobody has made an account"
    assert await sessions(api) == 0
    texts = await stored_texts(api.database)
    assert CANARY not in texts
    assert "test_secret_provider" in texts


async def test_a_test_says_if_the_role_may_write(api: Api, bao: Bao) -> None:
    rule = (
        'path "secret/data/shop" {capabilities=["read", "update"]} path "secret/metadata/odd" {capabilities=["delete"]}'
    )
    rule += ' path "secret/data/odd" {capabilities=["read"]}'
    await asyncio.to_thread(bao.ask, "POST", "sys/policies/acl/writer", {"policy": rule})
    role = {"role_type": "jwt", "user_claim": "sub", "bound_audiences": ["vault"], "token_policies": ["writer"]}
    await asyncio.to_thread(bao.ask, "POST", "auth/jwt/role/writer", role)
    service = await provider(api, "writing", {"configuration.address": bao.url, "configuration.role": "writer"})
    found = await outcome(api, service, "secret/shop", "secret/odd#short", "secret/hidden")
    assert [each["mayWrite"] for each in found["paths"]] == [True, True, False]


async def test_a_test_signs_in_as_a_launch_of_the_application(api: Api, bao: Bao) -> None:
    application = await api.application("launch: {steps: []}")
    role: dict[str, Any] = {"role_type": "jwt", "user_claim": "sub", "bound_audiences": ["vault"]}
    role |= {"token_policies": ["shop"], "bound_claims": {"application_id": application, "workflow": "launch"}}
    await asyncio.to_thread(bao.ask, "POST", "auth/jwt/role/of-one", role)
    service = await provider(api, "of-one", {"configuration.address": bao.url, "configuration.role": "of-one"})
    assert (await outcome(api, service, "secret/shop", applicationId=application))["paths"][0]["result"] == "readable"
    found = await outcome(api, service, "secret/shop")
    assert "refused the sign-in of the job" in found["problem"]
    assert found["paths"] == []


async def test_a_test_masks_what_a_server_of_secrets_says_of_the_sign_in(api: Api, receiver: LoopbackServer) -> None:
    async def repeat(request: Received, writer: asyncio.StreamWriter) -> None:
        await answer(400, json.dumps({"errors": [request.body.decode()]}).encode())(request, writer)

    receiver.routes["/v1/auth/approle/login"] = repeat
    given = {"configuration.address": receiver.url().rstrip("/"), "configuration.sign-in": "approle"}
    given |= {"configuration.role-id": "the-role", "configuration.secret-id": "canary-of-the-secret-id"}
    service = await provider(api, "repeating", given)
    found = await outcome(api, service, "secret/shop")
    assert "the-role" in found["problem"]
    assert "canary-of-the-secret-id" not in json.dumps(found)


async def test_a_test_that_cannot_revoke_its_session_leaves_it_to_the_keeper(
    api: Api, receiver: LoopbackServer
) -> None:
    token = {"auth": {"client_token": "s.of-a-test", "lease_duration": 60, "renewable": True}}
    receiver.routes |= {
        "/v1/auth/jwt/login": answer(200, json.dumps(token).encode()),
        "/v1/sys/capabilities-self": answer(200, b'{"secret/data/shop": ["read"]}'),
        "/v1/secret/data/shop": answer(200, b'{"data": {"data": {"password": "canary-1"}}}'),
        "/v1/auth/token/revoke-self": answer(503, b'{"errors": ["Vault is sealed"]}'),
    }
    service = await provider(api, "sealed", {"configuration.address": receiver.url(), "configuration.role": "x"})
    assert (await outcome(api, service, "secret/shop"))["paths"][0]["result"] == "readable"
    [session] = accepted(await api.get(f"services/{service}/provider/use"))["openSessions"]
    assert session["job"] is None
    assert "Vault is sealed" in session["message"]
    receiver.routes["/v1/auth/token/revoke-self"] = answer(204)
    await rows_of(api, "UPDATE secret_sessions SET next_at = now() RETURNING id")
    await until_revoked(api)


async def test_a_test_whose_sign_in_takes_too_long_ends_the_session_that_it_gets(
    api: Api, receiver: LoopbackServer, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_tests, "SECRET_TEST_S", 0.2)
    token = {"auth": {"client_token": "s.of-a-test", "lease_duration": 60, "renewable": True}}

    async def late(request: Received, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await answer(200, json.dumps(token).encode())(request, writer)

    receiver.routes |= {"/v1/auth/jwt/login": late, "/v1/auth/token/revoke-self": answer(204)}
    service = await provider(api, "late", {"configuration.address": receiver.url(), "configuration.role": "x"})
    running = asyncio.create_task(outcome(api, service, "secret/shop"))
    await eventually(lambda: receiver.received)
    asyncio.get_running_loop().call_later(0.4, gate.set)  # when its time is over
    assert "took longer than" in (await running)["problem"]
    assert [each.target for each in receiver.received] == ["/v1/auth/jwt/login", "/v1/auth/token/revoke-self"]
    assert await sessions(api) == 0


async def test_a_test_keeps_to_the_rules_of_the_environment(api: Api, bao: Bao) -> None:
    caller, organization, environment = await api.outsider()
    other = replace(api, client=caller.client, organization=organization, environment=environment)
    policies = "policies:\n  outgoing.allow: 10.0.0.0/8\n"
    accepted(await other.put_yaml(f"environments/{environment}", policies))
    accepted(await other.put(f"environments/{environment}/audiences", {"audiences": ["vault"]}))
    service = await provider(other, "bao", {"configuration.address": bao.url, "configuration.role": "shop"})
    assert "127.0.0.1" in (found := await outcome(other, service, "secret/shop"))["problem"]
    assert found["paths"] == []


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"paths": []}, 400, "name 1 to 20 paths"),
        ({"paths": ["secret"]}, 200, ""),
        ({"paths": [""]}, 400, "isn't a path of the provider"),
        ({"paths": ["a/b"] * 21}, 400, "name 1 to 20 paths"),
        ({"environmentId": "5f" * 12}, 404, ""),
        ({"applicationId": "5f" * 12}, 404, ""),
    ],
)
async def test_a_test_refuses_what_it_cannot_do(api: Api, change: dict[str, Any], status: int, said: str) -> None:
    body = {"environmentId": api.environment, "paths": ["secret/shop"], **change}
    answered = await api.post(f"services/{await service_named(api, 'bao')}/provider/test", body)
    assert (answered.status_code, said in answered.text) == (status, True)


async def test_a_test_needs_the_rights_to_edit_the_service_and_the_environment(api: Api) -> None:
    service = await service_named(api, "bao")
    body = {"environmentId": api.environment, "paths": ["secret/shop"]}
    for missing in ("EditService", "EditEnvironment"):
        rest = {"EditService", "EditEnvironment", "Read"} - {missing}
        member = await api.member(*(f"{each}: [/*]" for each in rest))
        assert missing in refused(await member.post(f"services/{service}/provider/test", body), 403)
    editor = await api.member("EditService: [/*]", "EditEnvironment: [/*]")
    assert accepted(await editor.post(f"services/{service}/provider/test", body))["problem"] is None
    application = await api.application("launch: {steps: []}")
    named = {**body, "applicationId": application}
    assert "CreateInstance" in refused(await editor.post(f"services/{service}/provider/test", named), 403)


async def test_reads_are_shown_by_step_without_values_to_who_may_read_the_instance(
    api: Api, receiver: LoopbackServer
) -> None:
    service = await service_named(api, "bao")
    instance = await api.running(READ)
    job = await api.ran(instance, "read", url=receiver.url())
    await api.ran(instance, "read", url=receiver.url(), secret="bao/secret/shop#port")
    again = await api.ran(instance, "read", url=receiver.url())
    found = accepted(await api.get(f"services/{service}/provider/use"))
    mine = [each for each in found["reads"] if each["instance"]["id"] == instance]
    newest = mine[0]
    assert (newest["step"], newest["secret"], newest["job"]) == ("send", "secret/shop#password", again["id"])
    assert {each["secret"] for each in mine} == {"secret/shop#password", "secret/shop#port"}
    assert job["id"] != again["id"]
    assert CANARY not in json.dumps(found)
    stranger = await api.member(f"Read: [/services/{service}]")
    assert accepted(await stranger.get(f"services/{service}/provider/use"))["reads"] == []
    await until_revoked(api)


async def test_the_page_of_a_provider_tests_it_and_shows_who_has_read(
    api: Api, visitor: httpx.AsyncClient, receiver: LoopbackServer
) -> None:
    service = await service_named(api, "bao")
    instance = await api.running(READ)
    await api.ran(instance, "read", url=receiver.url())
    page = await visitor.get(f"/console/services/{service}")
    assert "secret/shop#password" in page.text
    assert f"/console/instances/{instance}" in page.text
    token = re.search(r'name="formToken" value="([^"]+)"', page.text)
    assert token is not None
    fields = {"formToken": token[1], "environment": api.environment, "application": ""}
    shown = await visitor.post(
        f"/console/services/{service}/test", data={**fields, "paths": "secret/shop#password\nsecret/hidden\n"}
    )
    assert shown.status_code == 200
    assert "Readable" in shown.text
    assert "Forbidden" in shown.text
    assert CANARY not in shown.text
    wrong = await visitor.post(f"/console/services/{service}/test", data={**fields, "paths": "#"})
    assert wrong.status_code == 400
    assert "isn&#39;t a path of the provider" in wrong.text
    await until_revoked(api)


async def test_readers_and_referring_services_count_as_users_and_keep_a_provider(
    api: Api, visitor: httpx.AsyncClient, receiver: LoopbackServer, bao: Bao
) -> None:
    given = {"configuration.address": bao.url, "configuration.role": "shop"}
    service = await provider(api, "used", given)
    lists, page = f"/console/organizations/{api.organization}/services", f"/console/services/{service}"
    impact = f"services/{service}/parameters/impact"
    assert accepted(await api.get(impact))["warnings"] == []
    instance = await api.running(READ.replace("bao/", "used/"))
    await api.ran(instance, "read", url=receiver.url())
    assert "1 instance uses it" in (await visitor.get(page)).text
    row = (await visitor.get(lists)).text.partition(f"/console/services/{service}")[2].partition("</tr>")[0]
    assert "nobody" not in row
    [warning] = accepted(await api.get(impact))["warnings"]
    assert "1 instance reads secrets from it" in warning
    said = refused(await api.delete(f"services/{service}"), 400, "ServiceInUse")
    assert f"used by instance '{(await api.document(instance))['name']}'" in said
    assert "Remove it from the services" in said

    account: dict[str, Any] = {"configuration.provider": "test", "configuration.identity": "x"}
    account["configuration.credential"] = {"fromVault": "used/secret/shop#password"}
    referring = await provider(api, "referring", account, "builtin:cloud_account")
    assert accepted(await api.get(f"services/{service}/provider/use"))["services"] == [
        {"id": referring, "name": "referring"}
    ]
    assert f"/console/services/{referring}" in (await visitor.get(page)).text
    assert "service 'referring'" in refused(await api.delete(f"services/{service}"), 400, "ServiceInUse")
    places = f"environments/{api.environment}/services"
    offered = [each["id"] for each in accepted(await api.get(places))["services"]]
    accepted(await api.put(places, {"services": [each for each in offered if each not in (service, referring)]}))
    accepted(await api.delete(f"services/{service}"))
