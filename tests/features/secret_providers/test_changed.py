"""A secret that has changed marks the instances whose steps read the one before."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import RSAKey
from structlog.testing import capture_logs

from launchbay.egress.http import EgressClient
from launchbay.features.secret_providers import usecases
from launchbay.features.secret_providers.checks import VersionChecks
from launchbay.limits import CHANGED_SECRETS_SHOWN, STEP_SECRETS
from launchbay.service_types import registry
from launchbay.service_types.contract import (
    PassiveServiceType,
    ProvidedSecret,
    SecretCall,
    SecretFailed,
    SecretProblem,
    SignedIn,
)
from launchbay.telemetry import metrics
from launchbay.telemetry.metrics import exposition
from tests.support import aws as aws_server
from tests.support import bao as bao_server
from tests.support import clouds
from tests.support.aws import REGION, ROLE, Aws
from tests.support.bao import MISSING, PROGRAM, Bao
from tests.support.canaries import stored_texts
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.manifests import READ_SECRET as READ
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import EMAIL, PASSWORD, Api, accepted, running_api

ORIGIN = "https://launchbay.example.org"
SEND = """[{send: {action: restcall, secrets: {wanted: "REFERENCE"},
            parameters: {command: "URL", headers: {X-Password: "{$.secrets.wanted}"}}}}]"""
SHOP = f"""
application:
  configuration: {{input.release: 1}}
  interfaces: {{input: {{release: bind(worker#input.release)}}, actions: {{again: bind(worker#actions.again)}}}}
  components:
    worker:
      type: workflow.Instance
      interfaces: {{input: {{release: configuration(int)}}, actions: {{again: receive-command()}}}}
      configuration:
        configuration.triggers: {{input.release: update}}
        configuration.workflows:
          launch: {{steps: {SEND}}}
          update: {{steps: {SEND}}}
          again: {{steps: {SEND}}}
          destroy: {{steps: []}}
"""
FIRST, SECOND = "canary-6901-of-the-first", "canary-6902-of-the-second"


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text(FIRST)
    return tmp_path


@pytest.fixture
async def api(databases: Databases, mount: Path) -> AsyncIterator[Api]:
    """A service of one test: its instances are all that lists show."""
    url = databases.create()
    settings: dict[str, Any] = {"secret_directories": f"{mount}@*", "base_url": ORIGIN}
    async with running_api(url, outgoing_allow="127.0.0.1", **settings) as api:
        yield api
    databases.drop(url)


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/"] = answer(200)
        yield server


async def provider(api: Api, name: str, kind: str, parameters: dict[str, Any]) -> str:
    body = {"name": name, "typeId": kind, "parameters": parameters}
    made = str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])
    accepted(await api.put(f"environments/{api.environment}/services", {"services": [made]}))
    return made


async def marked(api: Api) -> set[str]:
    """Return the instances that the list marks, and that its filter finds."""
    path = f"organizations/{api.organization}/instances"
    found = {each["id"] for each in accepted(await api.get(f"{path}?secretsChanged=true"))}
    assert found == {each["id"] for each in accepted(await api.get(path)) if each["secretsChanged"]}
    return found


async def changed_secrets(api: Api, instance: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = accepted(await api.get(f"instances/{instance}/secrets/changed"))
    return found


async def read(api: Api, instance: str, receiver: LoopbackServer, reference: str) -> None:
    job = await api.ran(instance, "read", url=receiver.url(), reference=reference)
    assert job["status"] == "Succeeded", job


async def test_a_changed_file_marks_who_read_it_before_until_they_read_again(
    api: Api, mount: Path, receiver: LoopbackServer
) -> None:
    service = await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    first, second, other = [await api.running(READ) for _ in range(3)]
    (mount / "other").write_text("another secret")
    for instance, name in ((first, "password"), (second, "password"), (other, "other")):
        await read(api, instance, receiver, f"files/{name}")
    assert await marked(api) == set()
    (mount / "password").write_text(SECOND)
    assert await marked(api) == set(), "nobody has seen it"
    await read(api, first, receiver, "files/password")
    assert await marked(api) == {second}
    job = accepted(await api.get(f"instances/{second}/jobs"))[0]["id"]
    [changed] = await changed_secrets(api, second)
    assert changed.pop("readAt") > 0
    assert changed == {"secret": "files/password", "component": "workflow", "step": "send", "job": job}
    assert [await changed_secrets(api, each) for each in (first, other)] == [[], []]
    uses = accepted(await api.get(f"services/{service}/provider/use"))["reads"]
    assert {each["instance"]["id"]: each["isChanged"] for each in uses} == {first: False, second: True, other: False}
    await read(api, second, receiver, "files/password")
    assert await marked(api) == set()
    stored = await stored_texts(api.database)
    assert [secret for secret in (FIRST, SECOND) if secret in stored] == []


async def test_a_test_of_the_provider_sees_the_change_and_pages_show_it(
    api: Api, mount: Path, receiver: LoopbackServer
) -> None:
    service = await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    instance, other = await api.running(READ), await api.running(READ)
    await read(api, instance, receiver, "files/password")
    (mount / "password").write_text(SECOND)
    body = {"environmentId": api.environment, "paths": ["password"]}
    accepted(await api.post(f"services/{service}/provider/test", body))
    assert await marked(api) == {instance}
    assert "launchbay_instances_with_changed_secrets 1.0" in (await exposition(api.database)).decode()
    transport = httpx.ASGITransport(api.parts.app)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, timeout=30) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        page = (await visitor.get(f"/console/instances/{instance}")).text
        assert "Secret changed since launch" in page
        assert "files/password" in page
        assert "Secret changed since launch" not in (await visitor.get(f"/console/instances/{other}")).text
        home = f"/console/organizations/{api.organization}/instances"
        listed = (await visitor.get(home, params={"q": "secret:changed"})).text
        assert "Secret changed" in listed
        assert instance in listed
        assert other not in listed
        assert "Changed since" in (await visitor.get(f"/console/services/{service}")).text


def metric(text: bytes, name: str) -> str:
    return next(line.split()[-1] for line in text.decode().splitlines() if line.startswith(f"{name} "))


async def test_the_metric_of_changed_secrets_is_counted_once_a_minute_and_fails_alone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "SAMPLE_S", 0.5)
    name = "launchbay_instances_with_changed_secrets"
    async with api.database.transaction() as connection:
        await connection.execute("LOCK TABLE secret_reads IN ACCESS EXCLUSIVE MODE")
        text = await exposition(api.database)
        assert (metric(text, name), metric(text, "launchbay_database_up")) == ("NaN", "1.0")
        assert metric(text, "launchbay_jobs_under_way") == "0.0"
    assert metric(await exposition(api.database), name) == "NaN", "not counted again within the minute"
    metrics._counts_at_s.clear()  # a minute later
    assert metric(await exposition(api.database), name) == "0.0"


async def test_a_secret_that_many_steps_read_hides_no_other_and_the_page_says_how_many_are_left_out(
    api: Api, mount: Path, receiver: LoopbackServer
) -> None:
    service = await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    instance = await api.running(READ)
    await read(api, instance, receiver, "files/password")
    (mount / "password").write_text(SECOND)
    body = {"environmentId": api.environment, "paths": ["password"]}
    accepted(await api.post(f"services/{service}/provider/test", body))
    copied = (
        "INSERT INTO secret_reads (service_id, instance_id, component, step, secret, job_id, read_at, version) "
        "SELECT service_id, instance_id, component, {} || number, {}, job_id, read_at, version "
        "FROM secret_reads, generate_series(1, {}) AS number WHERE step = 'send' AND instance_id = %s"
    )
    async with api.database.transaction() as connection:
        for values in (("'a'", "secret", 30), ("'b'", "secret || '#' || number", CHANGED_SECRETS_SHOWN + 2)):
            await connection.execute(copied.format(*values), (instance,))
    found = await changed_secrets(api, instance)
    assert len({each["secret"] for each in found}) == CHANGED_SECRETS_SHOWN
    assert len([each for each in found if each["secret"] == "files/password"]) == 31
    transport = httpx.ASGITransport(api.parts.app)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, timeout=30) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        assert "and 3 more" in (await visitor.get(f"/console/instances/{instance}")).text


async def test_those_that_read_the_old_one_can_be_renewed_together(
    api: Api, mount: Path, receiver: LoopbackServer
) -> None:
    await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    first, second = await api.running(READ), await api.running(READ)
    for instance in (first, second):
        await read(api, instance, receiver, "files/password")
    (mount / "password").write_text(SECOND)
    await read(api, first, receiver, "files/password")
    body = {
        "act": "run",
        "workflow": "read",
        "parameters": {"url": receiver.url(), "reference": "files/password"},
        "select": {"secretsChanged": True},
    }
    run = accepted(await api.post(f"organizations/{api.organization}/bulk", body))
    await eventually(lambda: api.read(f"bulk/{run['id']}"), lambda found: found["finishedAt"] is not None)
    assert await marked(api) == set()
    assert [each["instanceId"] for each in accepted(await api.get(f"bulk/{run['id']}/instances"))] == [second]
    assert receiver.received[-1].headers["x-password"] == SECOND


async def test_a_later_read_is_not_undone_by_one_that_began_before(
    api: Api, mount: Path, receiver: LoopbackServer
) -> None:
    await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    instance = await api.running(READ)
    await read(api, instance, receiver, "files/password")
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE secret_versions SET seen_at = now() + interval '1 hour', version = 'newer'")
    await read(api, instance, receiver, "files/password")
    assert await marked(api) == {instance}


async def pass_hours(api: Api, hours: int = 2, path: str = "%") -> None:
    """Let so many hours pass since anybody looked at the secrets."""
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE secret_versions SET checked_at = now() - %s * interval '1 hour' WHERE path LIKE %s", (hours, path)
        )


async def test_once_an_hour_secrets_are_looked_at(api: Api, mount: Path, receiver: LoopbackServer) -> None:
    await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    instance = await api.running(READ)
    await read(api, instance, receiver, "files/password")
    (mount / "password").write_text(SECOND)
    await api.round_of("secret versions")
    assert await marked(api) == set(), "the hour isn't over"
    await pass_hours(api)
    await api.round_of("secret versions")
    assert await marked(api) == {instance}
    assert len(receiver.received) == 1
    assert SECOND not in await stored_texts(api.database)


async def test_a_look_that_ends_with_its_process_is_made_in_an_hour(
    api: Api, mount: Path, receiver: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it took has been taken, as that is committed before it looks."""
    await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    instance = await api.running(READ)
    await read(api, instance, receiver, "files/password")
    (mount / "password").write_text(SECOND)
    await pass_hours(api)
    looks = asyncio.Event()

    async def hangs(*_: object) -> list[str]:
        looks.set()
        return await asyncio.Future[list[str]]()

    with monkeypatch.context() as patch:
        patch.setattr(VersionChecks, "_look", hangs)
        round_of = asyncio.create_task(api.round_of("secret versions"))
        await asyncio.wait_for(looks.wait(), 20)
        round_of.cancel()
        await asyncio.wait([round_of])
    await api.round_of("secret versions")
    assert await marked(api) == set(), "nobody looks at it twice in an hour"
    await pass_hours(api)
    await api.round_of("secret versions")
    assert await marked(api) == {instance}


async def test_a_step_that_reads_a_secret_has_looked_at_it(api: Api, mount: Path, receiver: LoopbackServer) -> None:
    await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    instance = await api.running(READ)
    await read(api, instance, receiver, "files/password")
    await pass_hours(api)
    await read(api, instance, receiver, "files/password")
    (mount / "password").write_text(SECOND)
    await api.round_of("secret versions")
    assert await marked(api) == set(), "the next look is in an hour"


async def test_secrets_that_nobody_uses_are_forgotten_and_delay_no_others(
    api: Api, mount: Path, receiver: LoopbackServer
) -> None:
    service = await provider(api, "files", "builtin:server_files", {"configuration.directory": str(mount)})
    instance = await api.running(READ)
    await read(api, instance, receiver, "files/password")
    unused = [f"unused-{number}" for number in range(STEP_SECRETS)]
    for name in unused:
        (mount / name).write_text("nobody reads this")
    body = {"environmentId": api.environment, "paths": unused}
    accepted(await api.post(f"services/{service}/provider/test", body))
    (mount / "password").write_text(SECOND)
    await pass_hours(api, 2)
    await pass_hours(api, 3, "unused-%")
    while await api.round_of("secret versions"):
        pass
    assert await marked(api) == {instance}
    async with api.database.connection() as connection:
        rows = await (await connection.execute("SELECT path FROM secret_versions")).fetchall()
    assert [path for (path,) in rows] == ["password"]


class Safe(PassiveServiceType):
    """Has one secret for each application, for nobody else; a value that is an error is raised."""

    id = "example:safe"
    name = "Safe"

    def __init__(self) -> None:
        self.secrets: dict[str, str | Exception] = {}

    async def sign_in(self, call: SecretCall) -> SignedIn:
        token = await call.token("safe")
        claims = json.loads(jws.extract_compact(token.encode()).payload)
        return SignedIn(claims["application_id"], token)

    async def read(self, egress: EgressClient, session: str, path: str) -> ProvidedSecret:
        if path != session:
            raise SecretFailed(SecretProblem.FORBIDDEN, f"{session} may not read {path}.")
        secret = self.secrets[path]
        if isinstance(secret, Exception):
            raise secret
        return ProvidedSecret({}, whole=secret)


@pytest.fixture
def safe(monkeypatch: pytest.MonkeyPatch) -> Safe:
    found = Safe()
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, found))
    return found


async def readers(api: Api, safe: Safe, receiver: LoopbackServer) -> dict[str, str]:
    """Let instances of two applications read their secrets, and return the instances by application."""
    accepted(await api.put(f"environments/{api.environment}/audiences", {"audiences": ["safe"]}))
    await provider(api, "safe", safe.id, {})
    found: dict[str, str] = {}
    for _ in range(2):
        instance = await api.running(READ)
        application = (await api.document(instance))["applicationId"]
        safe.secrets[application], found[application] = FIRST, instance
        await read(api, instance, receiver, f"safe/{application}")
    await pass_hours(api)
    return found


async def test_each_secret_is_looked_at_as_the_step_that_read_it(
    safe: Safe, api: Api, receiver: LoopbackServer
) -> None:
    found = await readers(api, safe, receiver)
    safe.secrets |= dict.fromkeys(found, SECOND)
    await api.round_of("secret versions")
    assert await marked(api) == set(found.values())


async def test_a_look_that_crashes_or_is_refused_is_logged_and_others_go_on(
    safe: Safe, api: Api, receiver: LoopbackServer
) -> None:
    found = await readers(api, safe, receiver)
    (crashed, _), (other, instance) = found.items()
    safe.secrets |= {crashed: ZeroDivisionError(), other: SECOND}
    with capture_logs() as lines:
        await api.round_of("secret versions")
    assert await marked(api) == {instance}
    [line] = [line for line in lines if line["event"] == "secret_providers.crashed"]
    assert (line["provider"], line["path"], line["error"]) == ("safe", crashed, "ZeroDivisionError")
    safe.secrets[crashed] = SecretFailed(SecretProblem.FORBIDDEN, "The lock of the safe says no.")
    await pass_hours(api)
    with capture_logs() as lines:
        await api.round_of("secret versions")
    [line] = [line for line in lines if line["event"] == "secret_versions.unchecked"]
    assert line["error"] == f"{crashed}: The lock of the safe says no."


class Shelf(Safe):
    """Its secrets are for everybody. One of them keeps it waiting."""

    id = "test:shelf"
    name = "Shelf"

    async def read(self, egress: EgressClient, session: str, path: str) -> ProvidedSecret:
        if self.secrets[path] == "slow":
            await asyncio.Event().wait()
        return await super().read(egress, path, path)


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    found = Shelf()
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, found))
    return found


async def test_a_secret_that_crashes_or_is_slow_hides_no_other_of_its_step(
    shelf: Shelf, api: Api, receiver: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted(await api.put(f"environments/{api.environment}/audiences", {"audiences": ["safe"]}))
    await provider(api, "shelf", shelf.id, {})
    instance = await api.running(READ)
    for path in ("a", "b", "c", "d"):
        shelf.secrets[path] = FIRST
        await read(api, instance, receiver, f"shelf/{path}")
    await pass_hours(api)
    monkeypatch.setattr(usecases, "SECRET_TEST_S", 2.0)
    monkeypatch.setattr(random, "sample", lambda paths, _: sorted(paths))
    shelf.secrets |= {"a": "slow", "b": ZeroDivisionError(FIRST), "c": SECOND, "d": SECOND}
    with capture_logs() as lines:
        await api.round_of("secret versions")
    assert {each["secret"] for each in await changed_secrets(api, instance)} == {"shelf/c", "shelf/d"}
    problems = [line["error"] for line in lines if line["event"] == "secret_versions.unchecked"]
    assert [problem.partition(":")[0] for problem in problems] == ["a", "b"]
    assert FIRST not in str(lines)


async def test_a_provider_that_crashes_is_logged_without_what_it_says(
    safe: Safe, api: Api, receiver: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await readers(api, safe, receiver)

    async def crash(call: SecretCall) -> SignedIn:
        raise ZeroDivisionError(await call.token("safe"))

    monkeypatch.setattr(safe, "sign_in", crash)
    with capture_logs() as lines:
        await api.round_of("secret versions")
    crashed = [line for line in lines if line["event"] == "secret_versions.crashed"]
    assert {line["error"] for line in crashed} == {"ZeroDivisionError"}
    assert not any("exc_info" in line for line in crashed)


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bao]:
    with bao_server.started(tmp_path_factory.mktemp("bao")) as started:
        started.ask("POST", "sys/auth/approle", {"type": "approle"})
        started.ask("POST", "auth/approle/role/shop", {"token_policies": ["shop"], "token_ttl": "60s"})
        rules = 'path "secret/*" {capabilities=["read"]} path "old/*" {capabilities=["read"]}'
        started.ask("POST", "sys/policies/acl/shop", {"policy": rules})
        started.ask("POST", "sys/mounts/old", {"type": "kv", "options": {"version": "1"}})
        yield started


@pytest.mark.slow  # a server of secrets
@pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
async def test_kv_2_has_versions_and_other_paths_have_none(api: Api, bao: Bao, receiver: LoopbackServer) -> None:
    role = await asyncio.to_thread(bao.ask, "GET", "auth/approle/role/shop/role-id")
    secret = await asyncio.to_thread(bao.ask, "POST", "auth/approle/role/shop/secret-id", {})
    given = {
        "configuration.address": bao.url,
        "configuration.sign-in": "approle",
        "configuration.role-id": role["data"]["role_id"],
        "configuration.secret-id": secret["data"]["secret_id"],
    }
    await provider(api, "bao", "builtin:openbao", given)
    first, second, third = [await api.running(READ) for _ in range(3)]
    for value in (FIRST, SECOND):
        await asyncio.to_thread(bao.ask, "POST", "secret/data/shop", {"data": {"password": value}})
        await asyncio.to_thread(bao.ask, "POST", "old/shop", {"password": value})
        await read(api, first, receiver, "bao/secret/shop#password")
        await read(api, third, receiver, "bao/old/shop#password")
        if value == FIRST:
            await read(api, second, receiver, "bao/secret/shop#password")
    assert await marked(api) == {second}
    async with api.database.connection() as connection:
        rows = await (await connection.execute("SELECT path, version FROM secret_versions")).fetchall()
    assert json.loads(json.dumps(rows)) == [["secret/shop", "2"]]
    await read(api, second, receiver, "bao/secret/shop#password")
    await asyncio.to_thread(bao.ask, "POST", "secret/data/shop", {"data": {"password": "a third value"}})
    await pass_hours(api)
    await api.round_of("secret versions")
    assert await marked(api) == {first, second}
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT FROM secret_sessions WHERE job_id = ''")
        assert await cursor.fetchall() == [], "which the check has ended"


@pytest.mark.slow  # a server of secrets
@pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
async def test_the_hourly_look_has_the_claims_that_the_role_asks_for(
    api: Api, bao: Bao, receiver: LoopbackServer
) -> None:
    async def ask(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return await asyncio.to_thread(bao.ask, method, path, body)

    keys = [
        RSAKey.import_key(each)
        for each in accepted(await api.client.get("http://launchbay/.well-known/jwks.json"))["keys"]
    ]
    await ask("POST", "sys/auth/jwt", {"type": "jwt"})
    texts = [each.as_pem(private=False).decode() for each in keys]
    await ask("POST", "auth/jwt/config", {"jwt_validation_pubkeys": texts, "bound_issuer": ORIGIN})
    alias = (await ask("GET", "sys/auth"))["data"]["jwt/"]["accessor"]
    own = f"secret/data/{{{{identity.entity.aliases.{alias}.metadata.application_id}}}}"
    await ask("POST", "sys/policies/acl/own", {"policy": f'path "{own}" {{capabilities=["read"]}}'})
    claims = {"environment_id": api.environment, "workflow": "read", "step": "send"}
    role = {"role_type": "jwt", "user_claim": "application_id", "bound_audiences": ["vault"], "bound_claims": claims}
    role |= {"claim_mappings": {"application_id": "application_id"}, "token_policies": ["own"]}
    await ask("POST", "auth/jwt/role/shop", role)
    accepted(await api.put(f"environments/{api.environment}/audiences", {"audiences": ["vault"]}))
    await provider(api, "bao", "builtin:openbao", {"configuration.address": bao.url, "configuration.role": "shop"})
    found: set[str] = set()
    for _ in range(2):
        instance = await api.running(READ)
        application = (await api.document(instance))["applicationId"]
        found.add(instance)
        for value in (FIRST, SECOND):
            await ask("POST", f"secret/data/{application}", {"data": {"password": value}})
            if value == FIRST:
                await read(api, instance, receiver, f"bao/secret/{application}#password")
    await pass_hours(api)
    with capture_logs() as lines:
        await api.round_of("secret versions")
    assert await marked(api) == found, lines


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    with aws_server.started(tmp_path_factory.mktemp("aws")) as started:
        yield started


@pytest.mark.slow  # a server of AWS
@pytest.mark.skipif(not clouds.PROGRAM.exists(), reason=clouds.MISSING)
@pytest.mark.parametrize(
    ("kind", "reference", "ask", "body"),
    [
        (
            "builtin:aws_secrets_manager",
            "aws/shop/db#password",
            ("secretsmanager.CreateSecret", "secretsmanager.PutSecretValue"),
            lambda text, is_first: {
                "Name" if is_first else "SecretId": "shop/db",
                "SecretString": json.dumps({"password": text}),
            },
        ),
        (
            "builtin:aws_parameter_store",
            "aws/shop/key",
            ("AmazonSSM.PutParameter", "AmazonSSM.PutParameter"),
            lambda text, is_first: {
                "Name": "/shop/key",
                "Type": "SecureString",
                "Value": text,
                "Overwrite": not is_first,
            },
        ),
    ],
)
async def test_a_rollout_renews_exactly_those_that_read_an_older_version_of_aws(
    api: Api,
    receiver: LoopbackServer,
    aws: Aws,
    kind: str,
    reference: str,
    ask: tuple[str, str],
    body: Callable[[str, bool], dict[str, Any]],
) -> None:
    await asyncio.to_thread(aws.ask, ask[0], body(FIRST, True))
    given = {f"configuration.{name}": aws.url for name in ("endpoint-url", "sts-endpoint-url")}
    accepted(await api.put(f"environments/{api.environment}/audiences", {"audiences": ["sts.amazonaws.com"]}))
    await provider(api, "aws", kind, given | {"configuration.region": REGION, "configuration.role": ROLE})
    manifest = SHOP.replace("URL", receiver.url()).replace("REFERENCE", reference)
    application = await api.application(manifest)
    old, other = [await api.launch(application) for _ in range(2)]
    for each in (old, other):
        await api.until(each, "Running")
    assert await marked(api) == set()
    await asyncio.to_thread(aws.ask, ask[1], body(SECOND, False))
    assert (await api.ran(other, "actions.again"))["status"] == "Succeeded"
    assert await marked(api) == {old}
    [changed] = await changed_secrets(api, old)
    assert changed["secret"] == reference
    before = len(receiver.received)
    next_one = manifest.replace("release: 1", "release: 2")
    version = accepted(await api.put_yaml(f"applications/{application}/manifest", next_one))["version"]
    wanted = {"applicationId": application, "version": version, "select": {"secretsChanged": True}}
    rollout = accepted(await api.post(f"organizations/{api.organization}/rollouts", wanted))["id"]
    found = await eventually(
        lambda: api.read(f"rollouts/{rollout}"), lambda found: found["status"] != "Running", within_s=60
    )
    assert found["status"] == "Finished", found
    assert [each.headers["x-password"] for each in receiver.received[before:]] == [SECOND]
    versions = {each: (await api.document(each))["version"] for each in (old, other)}
    assert versions == {old: version, other: version - 1}
    assert await marked(api) == set()
    stored = await stored_texts(api.database)
    assert [secret for secret in (FIRST, SECOND) if secret in stored] == []
