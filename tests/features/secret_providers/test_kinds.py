"""Steps read secrets of AWS and of the server itself: what they get, and what is left of it."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import aws as aws_server
from tests.support.aws import REGION, ROLE, Aws
from tests.support.canaries import stored_texts
from tests.support.clouds import MISSING, PROGRAM
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.manifests import READ_SECRET as READ
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api

AWS_CANARY = "canary-6610-of-aws"
ACCOUNT_CANARY = "canary-6611-of-the-account"
FILE_CANARY = "canary-6612-of-the-file"
VARIABLE_CANARY = "canary-6613-of-the-variable"


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mount")
    (found / "password").write_text(FILE_CANARY + "\n")
    return found


@pytest.fixture(scope="module")
async def api(databases: Databases, mount: Path) -> AsyncIterator[Api]:
    url = databases.create()
    settings: dict[str, Any] = {"secret_directories": f"{mount}@*", "secret_variables": "SHOP_*@*"}
    async with running_api(
        url, base_url="https://launchbay.example.org", outgoing_allow="127.0.0.1", **settings
    ) as api:
        accepted(await api.put(f"environments/{api.environment}/audiences", {"audiences": ["sts.amazonaws.com"]}))
        yield api
    databases.drop(url)


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/"] = answer(200)
        yield server


async def provider(api: Api, name: str, kind: str, **parameters: str) -> None:
    given = {f"configuration.{key.replace('_', '-')}": value for key, value in parameters.items()}
    body = {"name": name, "typeId": kind, "parameters": given}
    service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    accepted(await api.put(f"environments/{api.environment}/services", {"services": [service]}))


async def sent(api: Api, receiver: LoopbackServer, secret: str, canary: str) -> dict[str, str]:
    """Read a secret, send it to the receiver, which repeats it, and return its headers: nothing of it is left."""
    receiver.routes["/"] = answer(200, canary.encode(), [("Content-Type", "text/plain")])
    instance = await api.running(READ)
    job = await api.ran(instance, "read", url=receiver.url(), reference=secret)
    assert job["status"] == "Succeeded", job
    assert (await api.document(instance))["returnValues"]["said"] == "********"
    # it is written in groups
    log = (
        await eventually(
            lambda: api.get(f"instances/{instance}/log"), lambda found: f"The step read {secret}." in found.text
        )
    ).text
    assert canary not in log
    assert canary not in await stored_texts(api.database)
    return receiver.received[-1].headers


async def test_a_step_reads_a_file_of_the_server(api: Api, receiver: LoopbackServer, mount: Path) -> None:
    await provider(api, "files", "builtin:server_files", directory=str(mount))
    assert (await sent(api, receiver, "files/password", FILE_CANARY))["x-password"] == FILE_CANARY


async def test_a_step_reads_a_variable_of_the_server(
    api: Api, receiver: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API", json.dumps({"key": VARIABLE_CANARY}))
    await provider(api, "variables", "builtin:server_variables")
    assert (await sent(api, receiver, "variables/SHOP_API#key", VARIABLE_CANARY))["x-password"] == VARIABLE_CANARY


async def test_a_directory_that_no_setting_allows_is_not_read(api: Api, receiver: LoopbackServer) -> None:
    await provider(api, "files", "builtin:server_files", directory="/etc")
    document = await api.run(await api.running(READ), "read", url=receiver.url(), reference="files/hostname")
    assert "may not read '/etc' for this organization" in document["errorMessage"]
    assert receiver.received == []


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    with aws_server.started(tmp_path_factory.mktemp("aws")) as started:
        secret = {"Name": "shop/db", "SecretString": json.dumps({"password": AWS_CANARY})}
        started.ask("secretsmanager.CreateSecret", secret)
        parameter = {"Name": "/shop/key", "Type": "SecureString", "Value": AWS_CANARY}
        started.ask("AmazonSSM.PutParameter", parameter)
        yield started


@pytest.mark.slow  # a server of AWS
@pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
@pytest.mark.parametrize(
    ("kind", "secret"),
    [("builtin:aws_secrets_manager", "aws/shop/db#password"), ("builtin:aws_parameter_store", "aws/shop/key")],
)
@pytest.mark.parametrize(
    "sign_in",
    [{"role": ROLE}, {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": ACCOUNT_CANARY}],
    ids=["by-role", "by-key"],
)
async def test_a_step_reads_a_secret_of_aws(
    api: Api,
    receiver: LoopbackServer,
    aws: Aws,
    kind: str,
    secret: str,
    sign_in: dict[str, Any],
    capfd: pytest.CaptureFixture[str],
) -> None:
    await provider(api, "aws", kind, region=REGION, endpoint_url=aws.url, sts_endpoint_url=aws.url, **sign_in)
    assert (await sent(api, receiver, secret, AWS_CANARY))["x-password"] == AWS_CANARY
    assert ACCOUNT_CANARY not in await stored_texts(api.database)
    written = capfd.readouterr()
    for canary in (ACCOUNT_CANARY, AWS_CANARY):
        assert canary not in written.out + written.err
    async with api.database.connection() as connection:
        assert await (await connection.execute("SELECT FROM secret_sessions")).fetchall() == []


async def test_a_role_needs_an_audience_of_the_environment(api: Api, receiver: LoopbackServer) -> None:
    address = receiver.url().rstrip("/")
    kind = "builtin:aws_secrets_manager"
    await provider(api, "aws", kind, region=REGION, role=ROLE, audience="other", sts_endpoint_url=address)
    document = await api.run(await api.running(READ), "read", url=receiver.url(), reference="aws/shop/db")
    assert "may get no token for the audience 'other'" in document["errorMessage"]
    assert receiver.received == []
