"""A real OpenBao signs certificates: for logins at a real sshd that trusts nothing else, and of servers."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncssh
import pytest

from tests.support import bao as bao_server
from tests.support.bao import MISSING, PROGRAM, Bao
from tests.support.canaries import stored_texts
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.machines import LOGIN, Hosts, needs_sshd, trust_only
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api

pytestmark = [
    pytest.mark.slow,  # a server of secrets
    pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING),
]
HOST = """
launch:
  steps:
    - hosts: {action: provisionVms, parameters: {roleName: web, staticIps: ["HOST"], vmIdentity: LOGIN}}
run:
  steps: [{run: {action: execrun, parameters: {roles: [web], command: [id -un]}}}]
"""
SERVER = """
launch: {steps: []}
issue:
  parameters: [url: {default: ""}, role: {default: ""}, name: {default: shop.example.org}]
  steps:
    - use:
        action: restcall
        secrets: {tls: "bao/pki/issue/{$.role}?common_name={$.name}&ttl=10m"}
        parameters:
          command: "{$.url}"
          method: POST
          body:
            key: "{$.secrets.tls.private_key}"
            chain: "{$.secrets.tls.ca_chain}"
            id: "{$.secrets.tls.serial_number}"
          timeout: 600
"""


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bao]:
    with bao_server.started(tmp_path_factory.mktemp("bao")) as started:
        ask = started.ask
        ask("POST", "sys/auth/approle", {"type": "approle"})
        ask("POST", "auth/approle/role/shop", {"token_policies": ["shop"], "token_ttl": "60s"})
        rules = [f'path "{path}" {{capabilities=["update"]}}' for path in ("ssh/sign/*", "pki/issue/*")]
        ask("POST", "sys/policies/acl/shop", {"policy": " ".join([*rules, 'path "secret/*" {capabilities=["read"]}'])})
        ask("POST", "sys/mounts/ssh", {"type": "ssh"})
        ask("POST", "ssh/config/ca", {"generate_signing_key": True, "key_type": "ed25519"})
        role = {"key_type": "ca", "allow_user_certificates": True, "allowed_users": LOGIN, "ttl": "5m"}
        ask("POST", "ssh/roles/deploy", role)
        permits = {"default_extensions": {"permit-port-forwarding": ""}}
        ask("POST", "ssh/roles/forwarding", role | permits)
        ask("POST", "ssh/roles/short", role | {"ttl": "2s"})
        ask("POST", "ssh/roles/others", role | {"allowed_users": "somebody"})
        ask("POST", "sys/mounts/pki", {"type": "pki"})
        ask("POST", "pki/root/generate/internal", {"common_name": "root", "ttl": "24h", "key_type": "ec"})
        role = {"allowed_domains": "example.org", "allow_subdomains": True, "max_ttl": "1h", "key_type": "ec"}
        ask("POST", "pki/roles/leased", role | {"generate_lease": True})
        ask("POST", "pki/roles/lasting", role)
        yield started


@pytest.fixture(scope="module")
async def api(databases: Databases, bao: Bao) -> AsyncIterator[Api]:
    url = databases.create()
    role = await asyncio.to_thread(bao.ask, "GET", "auth/approle/role/shop/role-id")
    secret = await asyncio.to_thread(bao.ask, "POST", "auth/approle/role/shop/secret-id", {})
    given = {
        "configuration.address": bao.url,
        "configuration.sign-in": "approle",
        "configuration.role-id": role["data"]["role_id"],
        "configuration.secret-id": secret["data"]["secret_id"],
    }
    async with running_api(url, outgoing_allow="127.0.0.0/8", machines="static") as api:
        body = {"name": "bao", "typeId": "builtin:openbao", "parameters": given}
        service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
        accepted(await api.put(f"environments/{api.environment}/services", {"services": [service]}))
        yield api
    databases.drop(url)


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        yield server


@dataclass
class Trusting:
    """A host whose sshd knows no key, only the authority."""

    hosts: Hosts

    def log(self) -> str:
        return (self.hosts[0].directory / "sshd.log").read_text()


@pytest.fixture
def trusting(bao: Bao) -> Iterator[Trusting]:
    with Hosts.start(1, network=11) as hosts:
        trust_only(hosts[0], bao.ask("GET", "ssh/config/ca")["data"]["public_key"])
        yield Trusting(hosts)


async def launched(api: Api, trusting: Trusting, key: str) -> Any:
    policies = f"policies:\n  machines.ssh-port: {trusting.hosts[0].port}\n  machines.keyPair: {key}\n"
    accepted(await api.put_yaml(f"environments/{api.environment}", policies))
    manifest = HOST.replace("HOST", trusting.hosts[0].address).replace("LOGIN", LOGIN)
    return await api.settled(await api.launch(await api.application(manifest)), 40)


@needs_sshd
async def test_a_host_that_trusts_only_the_authority_lets_jobs_in(
    api: Api, trusting: Trusting, capfd: pytest.CaptureFixture[str]
) -> None:
    document = await launched(api, trusting, "bao/ssh/sign/deploy")
    assert document["status"] == "Running", document.get("errorMessage")
    assert (await api.ran(document["id"], "run"))["status"] == "Succeeded"
    assert re.search(rf"Accepted publickey for {LOGIN} .* ED25519-CERT ", trusting.log())
    stored = await stored_texts(api.database)
    for text in (stored, capfd.readouterr().out, (await api.get(f"instances/{document['id']}/log")).text):
        assert "PRIVATE KEY" not in text
        assert "cert-v01@openssh.com" not in text
    assert "bao/ssh/sign/deploy#signed_key" in stored, "which is what a step has read, without parameters"


@needs_sshd
@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("bao/ssh/sign/others", f"{LOGIN} is not a valid value for valid_principals"),
        ("bao/ssh/sign/short", "Set a longer ttl in the role"),
        ("bao/secret/key#private", "can't be the key of a login"),
        ("bao/ssh/sign/none", "refused 'ssh/sign/none'"),
        ("bao/secret/key", "gives no certificate of SSH"),
    ],
)
async def test_what_signs_nothing_is_named(api: Api, bao: Bao, trusting: Trusting, key: str, said: str) -> None:
    await asyncio.to_thread(bao.ask, "POST", "secret/data/key", {"data": {"private": "no key at all"}})
    document = await launched(api, trusting, key)
    assert document["status"] == "Failed"
    assert said in document["errorMessage"]
    assert "no key at all" not in document["errorMessage"]


@needs_sshd
async def test_jump_hosts_take_certificates_that_permit_forwarding(api: Api, bao: Bao) -> None:
    with Hosts.start(2, network=13) as hosts:
        for host in hosts.hosts:
            trust_only(host, (await asyncio.to_thread(bao.ask, "GET", "ssh/config/ca"))["data"]["public_key"])
        first, second = hosts.hosts
        lines = {"ssh-port": second.port, "keyPair": "bao/ssh/sign/deploy", "jump": f"{LOGIN}@{first.static_ip}"}
        for key, said in (("deploy", "doesn't forward connections"), ("forwarding", None)):
            jump = f"{lines['jump']}=bao/ssh/sign/{key}"
            stated = "".join(f"  machines.{name}: {value}\n" for name, value in (lines | {"jump": jump}).items())
            accepted(await api.put_yaml(f"environments/{api.environment}", f"policies:\n{stated}"))
            manifest = HOST.replace("HOST", second.address).replace("LOGIN", LOGIN)
            document = await api.settled(await api.launch(await api.application(manifest)), 40)
            assert (document["status"] == "Running") == (said is None), document.get("errorMessage")
            assert said is None or said in document["errorMessage"]
    accepted(await api.put_yaml(f"environments/{api.environment}", "policies: {}\n"))


@needs_sshd
async def test_a_host_that_trusts_another_authority_names_what_signed(api: Api, trusting: Trusting) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key()
    trust_only(trusting.hosts[0], other.decode())
    document = await launched(api, trusting, "bao/ssh/sign/deploy")
    assert "with a certificate of 'bao/ssh/sign/deploy'. Its sshd must trust" in document["errorMessage"]


@needs_sshd
async def test_a_private_key_may_be_a_secret_of_a_provider(api: Api, bao: Bao) -> None:
    with Hosts.start(1, network=12) as hosts:
        await asyncio.to_thread(bao.ask, "POST", "secret/data/key", {"data": {"private": hosts.private_key}})
        document = await launched(api, Trusting(hosts), "bao/secret/key#private")
        assert document["status"] == "Running", document.get("errorMessage")
        assert hosts.private_key.splitlines()[2] not in await stored_texts(api.database)


async def revoked_at(bao: Bao, serial: str) -> int:
    found = await asyncio.to_thread(bao.ask, "GET", f"pki/cert/{serial}")
    return int(found["data"]["revocation_time"])


async def test_a_certificate_of_a_server_is_revoked_with_its_step(api: Api, bao: Bao, receiver: LoopbackServer) -> None:
    receiver.routes["/"] = answer(200)
    instance = await api.running(SERVER)
    for role in ("leased", "lasting"):
        job = await api.ran(instance, "issue", url=receiver.url(), role=role)
        assert job["status"] == "Succeeded", job
        sent = json.loads(receiver.received[-1].body)
        assert sent["key"].startswith("-----BEGIN EC PRIVATE KEY-----")
        assert sent["chain"][0].startswith("-----BEGIN CERTIFICATE-----")
        if role == "leased":
            await eventually(partial(revoked_at, bao, sent["id"]))
        assert sent["key"].splitlines()[1] not in await stored_texts(api.database)
        assert sent["key"].splitlines()[1] not in (await api.get(f"instances/{instance}/log")).text
    await eventually(lambda: stored_texts(api.database), lambda found: "secret session" not in found)
    assert await revoked_at(bao, sent["id"]) == 0, "the role gives no lease: it is for a server that stays"


async def test_a_certificate_that_the_role_does_not_allow_is_named(api: Api, receiver: LoopbackServer) -> None:
    document = await api.run(
        await api.running(SERVER), "issue", url=receiver.url(), role="leased", name="shop.other.org"
    )
    assert "common name shop.other.org not allowed by this role" in document["errorMessage"]
    assert receiver.received == []


async def test_a_test_says_what_would_be_made(api: Api, bao: Bao) -> None:
    services = accepted(await api.get(f"organizations/{api.organization}/services"))
    [service] = [each["id"] for each in services if each["name"] == "bao"]
    paths = ["pki/issue/leased?common_name=shop.example.org", "pki/sign/leased?csr=x", "secret/key?version=1"]
    paths += ["pki/issue/leased?common_name", "ssh/sign/deploy", "pki/issue/leased"]
    before = await asyncio.to_thread(bao.ask, "LIST", "pki/certs")
    body = {"environmentId": api.environment, "paths": paths}
    found = accepted(await api.post(f"services/{service}/provider/test", body))
    assert [each["result"] for each in found["paths"]] == [
        *("allowed", "forbidden", "failed", "failed", "allowed", "failed")
    ]
    assert [each["mayWrite"] for each in found["paths"][:2]] == [False, False], (
        "it makes something, and changes nothing"
    )
    assert found["paths"][4]["mayWrite"] is False
    assert 'path "pki/sign/leased" { capabilities = ["update"] }' in found["paths"][1]["message"]
    assert "its parameters are missing" in found["paths"][5]["message"]
    assert "takes no parameters: 'secret' is KV version 2" in found["paths"][2]["message"]
    assert "Write them as in a URL" in found["paths"][3]["message"]
    assert await asyncio.to_thread(bao.ask, "LIST", "pki/certs") | {"request_id": ""} == before | {"request_id": ""}
