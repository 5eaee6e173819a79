"""A server in a pod signs in at a real OpenBao, which asks the API of Kubernetes about the token."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from launchbay.errors import CannotStart
from launchbay.service_types.server_secrets import PodTokens
from tests.support import bao as bao_server
from tests.support.bao import MISSING, PROGRAM, Bao
from tests.support.canaries import stored_texts
from tests.support.databases import Databases
from tests.support.network import LoopbackServer, Received, answer, loopback_server
from tests.support.service import Api, accepted, running_api

CANARY = "canary-6801-of-the-pod"
READ = """
launch: {steps: []}
read:
  parameters: [url: {default: ""}]
  steps:
    - send:
        action: restcall
        secrets: {wanted: bao/secret/shop#password}
        parameters: {command: "{$.url}", headers: {X-Password: "{$.secrets.wanted}"}}
"""
needs_bao = [pytest.mark.slow, pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)]


def pod_token(account: str = "server", *, lasts_s: float = 600, audience: str = "vault") -> str:
    """Return a token as Kubernetes writes it, signed by nobody: only TokenReview says whether it is one."""
    claims = {
        "iss": "https://kubernetes.default.svc",
        "sub": f"system:serviceaccount:launchbay:{account}",
        "aud": [audience],
        "iat": int(time.time()) - 60,
        "nbf": int(time.time()) - 60,
        "exp": int(time.time() + lasts_s),
        "jti": base64.b64encode(str(time.monotonic_ns()).encode()).decode(),
        "kubernetes.io": {"namespace": "launchbay", "serviceaccount": {"name": account, "uid": f"uid-of-{account}"}},
    }
    parts = [json.dumps(each).encode() for each in ({"alg": "RS256", "typ": "JWT"}, claims)] + [b"signature" * 20]
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts)


@dataclass
class Cluster:
    """Answers TokenReview as the API of Kubernetes does."""

    server: LoopbackServer
    valid: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def new_token(self, account: str = "server", **more: Any) -> str:
        token = pod_token(account, **more)
        self.valid.add(token)
        return token

    async def review(self, request: Received, writer: asyncio.StreamWriter) -> None:
        spec = json.loads(request.body)["spec"]
        self.asked.append(spec["token"])
        status: dict[str, Any] = {"authenticated": False, "error": "invalid bearer token, token has expired"}
        if spec["token"] in self.valid:
            claims = spec["token"].split(".")[1]
            said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
            uid = said["kubernetes.io"]["serviceaccount"]["uid"]
            status = {"authenticated": True, "user": {"username": said["sub"], "uid": uid}, "audiences": said["aud"]}
        body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": spec, "status": status}
        await answer(201, json.dumps(body).encode(), [("Content-Type", "application/json")])(request, writer)


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bao]:
    with bao_server.started(tmp_path_factory.mktemp("bao")) as started:
        started.ask("POST", "secret/data/shop", {"data": {"password": CANARY}})
        started.ask("POST", "sys/policies/acl/shop", {"policy": 'path "secret/data/shop" {capabilities=["read"]}'})
        started.ask("POST", "sys/auth/kubernetes", {"type": "kubernetes"})
        role = {"token_policies": ["shop"], "token_ttl": "60s", "bound_service_account_namespaces": ["launchbay"]}
        role |= {"bound_service_account_names": ["server"], "audience": "vault"}
        started.ask("POST", "auth/kubernetes/role/shop", role)
        started.ask("POST", "auth/kubernetes/role/others", role | {"bound_service_account_names": ["other"]})
        yield started


@pytest.fixture
async def cluster(bao: Bao) -> AsyncIterator[Cluster]:
    async with loopback_server() as server:
        found = Cluster(server)
        server.routes["/apis/authentication.k8s.io/v1/tokenreviews"] = found.review
        config = {"kubernetes_host": server.url().rstrip("/"), "disable_local_ca_jwt": True}
        config |= {"token_reviewer_jwt": pod_token("reviewer"), "kubernetes_ca_cert": "not needed over plain HTTP"}
        await asyncio.to_thread(bao.ask, "POST", "auth/kubernetes/config", config)
        yield found


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A projected volume: Kubernetes replaces the directory that links lead to."""
    mount = tmp_path_factory.mktemp("tokens")
    (mount / "..first").mkdir()
    (mount / "..data").symlink_to("..first")
    (mount / "vault").symlink_to("..data/vault")
    return mount / "vault"


def replace_token(file: Path, token: str) -> None:
    """Write a token as the kubelet does: beside the old one, and then by another link."""
    current = (file.parent / "..data").readlink().name
    other = file.parent / ("..second" if current == "..first" else "..first")
    other.mkdir(exist_ok=True)
    (other / "vault").write_text(token)
    (file.parent / "..new").symlink_to(other.name)
    (file.parent / "..new").rename(file.parent / "..data")


@pytest.fixture(scope="module")
async def api(databases: Databases, bao: Bao, token_file: Path) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1", kubernetes_tokens=f"{bao.url}={token_file}@*") as api:
        yield api
    databases.drop(url)


async def offered(api: Api, address: str, role: str) -> None:
    given = {"configuration.address": address, "configuration.sign-in": "kubernetes", "configuration.role": role}
    listed = accepted(await api.get(f"organizations/{api.organization}/services"))
    known = [each["id"] for each in listed if each["name"] == "bao"]
    if known:
        accepted(await api.put(f"services/{known[0]}", {"parameters": given}))
        return
    body = {"name": "bao", "typeId": "builtin:openbao", "parameters": given}
    made = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    accepted(await api.put(f"environments/{api.environment}/services", {"services": [made]}))


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/"] = answer(200)
        yield server


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
async def test_a_step_reads_with_the_token_of_the_pod_also_after_it_was_replaced(
    api: Api, bao: Bao, cluster: Cluster, receiver: LoopbackServer, token_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    await offered(api, bao.url, "shop")
    instance = await api.running(READ)
    tokens = [cluster.new_token(), cluster.new_token()]
    for token in tokens:
        replace_token(token_file, token)
        job = await api.ran(instance, "read", url=receiver.url())
        assert job["status"] == "Succeeded", job
        assert receiver.received[-1].headers["x-password"] == CANARY
        cluster.valid.remove(token)
    assert cluster.asked == tokens
    texts = [await stored_texts(api.database), (await api.get(f"instances/{instance}/log")).text]
    texts.append(capfd.readouterr().out)
    assert [secret for secret in (CANARY, *tokens) for text in texts if secret in text] == []


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
@pytest.mark.parametrize(
    ("role", "token", "said"),
    [
        ("others", "valid", "Compare the service accounts, namespaces and audience of the role"),
        ("none", "valid", "invalid role name"),
        ("shop", "unknown", "Compare the service accounts, namespaces and audience of the role"),
        ("shop", "other audience", "Compare the service accounts, namespaces and audience of the role"),
        ("shop", "expired", "that has expired. Kubernetes replaces it there"),
        ("shop", "no token", "finds no token of Kubernetes in"),
        ("shop", "missing", "doesn't exist on this server. Mount a projected volume"),
        ("shop", "elsewhere", "may send no token of this server to http://127.0.0.1:9 for this organization"),
    ],
)
async def test_what_keeps_a_pod_out_is_named(
    api: Api, bao: Bao, cluster: Cluster, receiver: LoopbackServer, token_file: Path, role: str, token: str, said: str
) -> None:
    await offered(api, "http://127.0.0.1:9" if token == "elsewhere" else bao.url, role)
    tokens = {
        "unknown": pod_token(),
        "other audience": cluster.new_token(audience="api"),
        "expired": cluster.new_token(lasts_s=-5),
        "no token": "not a token",
    }
    replace_token(token_file, tokens.get(token) or cluster.new_token())
    if token == "missing":
        token_file.resolve().unlink()
    document = await api.run(await api.running(READ), "read", url=receiver.url())
    assert said in document["errorMessage"]
    assert receiver.received == []


@pytest.mark.parametrize(
    "setting",
    ["/run/tokens/vault@*", "https://vault.example.org=run/tokens@*", "vault=/run/tokens@*", "https://v.example=/x"],
)
def test_an_entry_without_address_file_or_owner_stops_the_start(setting: str) -> None:
    with pytest.raises(CannotStart, match="LAUNCHBAY_KUBERNETES_TOKENS has"):
        PodTokens(setting)
