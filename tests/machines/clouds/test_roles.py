"""Jobs take the role of a cloud account with their identity: moto for the form, a scripted STS for refusals."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import pytest

from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.machines.clouds.account import CloudAccount
from launchbay.machines.clouds.driver import CloudCalls, CloudFailed, RoleSessions
from launchbay.machines.contract import INSTALLATION, ProviderContext
from launchbay.model.secret_reference import SecretReference, parse_secret_reference
from tests.support.aws import ROLE
from tests.support.clouds import IMAGE, REGION, SIZE, Gate, account
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import accepted, running_api

EGRESS = EgressClient(Allowlist.parse("127.0.0.1"))
TOKEN = "token-of-the-job"
KEYS = (
    "<AssumeRoleWithWebIdentityResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'>"
    "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>secret-of-sts"
    "</SecretAccessKey><SessionToken>session-of-sts</SessionToken></Credentials>"
    "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
)
_NESTED = "".join(f'<!ENTITY x{n} "{f"&x{n - 1};" * 10}">' for n in range(1, 20))
_LAUGHS = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x0 "ha">{_NESTED}]><a>&x19;</a>'


@pytest.fixture
async def sts() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/"] = answer(200, KEYS.encode())
        yield server


def with_role(url: str, sts_url: str) -> CloudAccount:
    return replace(account(url), identity="", credential="", role=ROLE, sts_url=sts_url)


def step(path: str = "launch/machines", **more: Any) -> tuple[ProviderContext, list[Any]]:
    known: list[Any] = []

    async def token(audience: str) -> str:
        assert audience == "sts.amazonaws.com"
        return TOKEN

    made: dict[str, Any] = {
        "organization_id": "o",
        "environment_id": "e",
        "instance_id": "i",
        "component": "web",
        "action": "provisionVms",
        "step": "machines",
        "path": path,
        "tag": "t",
        "job_id": "5f" * 12,
        "log": lambda _level, _text: None,
        "register_secret": known.append,
        "token": token,
    }
    return ProviderContext(**made | more), known


async def test_a_step_takes_the_role_once_and_every_value_is_masked(sts: LoopbackServer) -> None:
    url = sts.url().rstrip("/")
    sessions = RoleSessions()
    context, known = step()
    for _ in range(3):
        found = await sessions.signed_in(context, EGRESS, with_role(url, url), REGION)
        assert (found.identity, found.credential, found.token) == ("ASIA1", "secret-of-sts", "session-of-sts")
    [asked] = sts.received
    sent = parse_qs(asked.body.decode())
    assert sent["RoleArn"] == [ROLE]
    assert sent["WebIdentityToken"] == [TOKEN]
    assert sent["RoleSessionName"] == [f"launchbay-{'5f' * 12}"]
    assert known == [["secret-of-sts", "session-of-sts"]] * 3
    assert "of-sts" not in repr(found)


async def test_another_step_takes_it_with_its_own_token(sts: LoopbackServer) -> None:
    url = sts.url().rstrip("/")
    sessions = RoleSessions()
    for path in ("launch/machines", "launch/others"):
        await sessions.signed_in(step(path)[0], EGRESS, with_role(url, url), REGION)
    assert len(sts.received) == 2


@pytest.mark.parametrize(
    ("status", "body", "said", "retryable"),
    [
        (403, "<E><Code>AccessDenied</Code><Message>no</Message></E>", "Compare the trust policy of the role", False),
        (400, "<E><Code>IDPCommunicationError</Code></E>", "IDPCommunicationError", True),
        (503, "", "503", True),
        (200, "<html/>", "gave no credentials", False),
        (200, _LAUGHS, "gave no credentials", False),
    ],
)
async def test_a_refusal_names_role_and_account(
    sts: LoopbackServer, status: int, body: str, said: str, retryable: bool
) -> None:
    sts.routes["/"] = answer(status, body.encode())
    url = sts.url().rstrip("/")
    with pytest.raises(CloudFailed) as failed:
        await RoleSessions().signed_in(step()[0], EGRESS, with_role(url, url), REGION)
    assert f"can't take the role {ROLE} of the cloud account 'lab'" in str(failed.value)
    assert said in str(failed.value)
    assert failed.value.retryable is retryable


async def test_only_a_job_takes_a_role(sts: LoopbackServer) -> None:
    context, _ = step(job_id="")
    with pytest.raises(CloudFailed, match="Only a job can take the role of the cloud account 'lab'"):
        await CloudCalls(EGRESS).call(context, with_role("", ""), REGION, lambda cloud: cloud.find_tagged({}))
    without = ProviderContext(
        organization_id="", environment_id="", instance_id="", component="", action="", step="", path="", tag="",
        log=lambda _level, _text: None,
    )  # fmt: skip
    with pytest.raises(ActionFailed, match="Only a job gets a token"):
        await without.token("sts.amazonaws.com")


@pytest.mark.parametrize("region", ["evil.example/x", "evil.example#", "a@evil.example:8443/?"])
async def test_a_region_does_not_choose_who_gets_the_token(region: str) -> None:
    asked: list[str] = []

    async def token(audience: str) -> str:
        asked.append(audience)
        return TOKEN

    context, _ = step(token=token)
    with pytest.raises(CloudFailed, match="Invalid name of a region"):
        await CloudCalls(EGRESS).call(context, with_role("", ""), region, lambda cloud: cloud.find_tagged({}))
    assert asked == []


@pytest.mark.slow  # a cloud
async def test_the_cloud_is_asked_with_the_session(moto_url: str) -> None:
    asked: list[Any] = []

    def look(cloud: Any) -> Any:
        asked.append(cloud._driver.connection.token)
        return cloud.find_tagged({INSTALLATION: "nobody"})

    context, known = step()
    assert await CloudCalls(EGRESS).call(context, with_role(moto_url, moto_url), REGION, look) == []
    [[_, session]] = known
    assert asked == [session]
    assert len(session) > 100


async def test_a_job_reads_the_credential_of_an_account_from_a_provider() -> None:
    wanted = parse_secret_reference("bao/secret/cloud#key")
    asked: list[SecretReference] = []

    async def secret(reference: SecretReference) -> str:
        asked.append(reference)
        return "of-the-provider"

    def credential(cloud: Any) -> Any:
        return cloud._driver.secret

    provided = replace(account("http://127.0.0.1:9"), credential="", provided=wanted)
    calls = CloudCalls(EGRESS)
    assert await calls.call(step(secret=secret)[0], provided, REGION, credential) == "of-the-provider"
    assert asked == [wanted]
    with pytest.raises(ActionFailed, match="Only a step of a job reads the secret bao/secret/cloud#key"):
        await calls.call(step()[0], provided, REGION, lambda cloud: cloud.find_tagged({}))


LAUNCH = f"""
launch:
  steps:
    - machines:
        action: provisionVms
        parameters: {{roleName: web, targetQuantity: 1, imageId: {REGION}/{IMAGE}, hardwareId: {SIZE}}}
        output: {{hosts: ips}}
"""


@pytest.mark.slow  # a cloud
async def test_an_instance_lives_on_machines_of_a_role(databases: Databases, gate: Gate) -> None:
    url = databases.create()
    async with running_api(url, base_url="https://launchbay.example.org", outgoing_allow="127.0.0.1") as api:
        parameters = {"provider": "aws-ec2", "role": ROLE, "endpoint-url": gate.url, "sts-endpoint-url": gate.url}
        body = {
            "name": "lab",
            "typeId": "builtin:cloud_account",
            "parameters": {f"configuration.{name}": value for name, value in parameters.items()},
        }
        service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
        path = f"environments/{api.environment}"
        accepted(await api.put(f"{path}/services", {"services": [service]}))
        accepted(await api.put_yaml(path, "policies: {machines.provider: cloud, machines.wait-for-ssh: false}"))
        application = await api.application(LAUNCH)
        refused = await api.settled(await api.launch(application))
        assert "may get no token for the audience 'sts.amazonaws.com'" in refused["errorMessage"]
        accepted(await api.put(f"{path}/audiences", {"audiences": ["sts.amazonaws.com"]}))
        instance = await api.launch(application)
        document = await api.settled(instance)
        assert document["status"] == "Running", document["errorMessage"]
        assert gate.count("AssumeRoleWithWebIdentity") == 1
        assert gate.count("RunInstances") == 1
        accepted(await api.post(f"instances/{instance}/destroy", {}))
        await eventually(lambda: gate.count("TerminateInstances") != 0)
        [checked] = accepted(await api.post(f"services/{service}/check", {}))
        assert "Only a job can take the role" in checked["regions"][0]["problem"]
    databases.drop(url)
