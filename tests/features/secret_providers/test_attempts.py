"""The error of a read says whether another attempt of its step may succeed, and that is what `retryCount` goes by."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api

READ = """
launch: {steps: []}
read:
  parameters: [secret: {default: bao/secret/shop#password}]
  steps:
    - send:
        action: restcall
        secrets: {wanted: "{$.secret}"}
        parameters: {command: "http://127.0.0.1:1/", headers: {X-Password: "{$.secrets.wanted}"}, retryCount: 1}
"""
SIGN_IN, SECRET = "/v1/auth/approle/login", "/v1/secret/data/shop"
AGAIN, NEVER = "Another attempt may succeed (`retryCount`).", "Another attempt would fail too."


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[LoopbackServer]:
    """Answers as OpenBao does."""
    async with loopback_server() as server:
        yield server


@pytest.fixture(scope="module")
async def reader(databases: Databases, server: LoopbackServer) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1") as api:
        given = {"configuration.address": server.url().rstrip("/"), "configuration.sign-in": "approle"}
        given |= {"configuration.role-id": "shop", "configuration.secret-id": "of-the-shop"}
        jwt = {"configuration.address": server.url().rstrip("/"), "configuration.role": "shop"}
        services = []
        for name, parameters in (("bao", given), ("by-identity", jwt)):
            body = {"name": name, "typeId": "builtin:openbao", "parameters": parameters}
            services.append(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])
        accepted(await api.put(f"environments/{api.environment}/services", {"services": services}))
        yield api
    databases.drop(url)


def said(status: int, *errors: str) -> Any:
    return answer(status, json.dumps({"errors": errors}).encode())


@pytest.mark.parametrize(
    ("failing", "secret", "verdict"),
    [
        ({SECRET: said(503, "Vault is sealed")}, "bao/secret/shop#password", AGAIN),
        ({SECRET: said(500, "internal error")}, "bao/secret/shop#password", AGAIN),
        ({SECRET: said(429, "request path is rate limited")}, "bao/secret/shop#password", AGAIN),
        ({SIGN_IN: said(503, "Vault is sealed")}, "bao/secret/shop#password", AGAIN),
        ({SIGN_IN: said(400, "invalid role or secret ID")}, "bao/secret/shop#password", NEVER),
        ({SIGN_IN: answer(200, b"[]")}, "bao/secret/shop#password", NEVER),
        ({SECRET: said(403, "permission denied")}, "bao/secret/shop#password", NEVER),
        ({SECRET: said(404)}, "bao/secret/shop#password", NEVER),
        ({SECRET: said(400, "unsupported path")}, "bao/secret/shop#password", NEVER),
        ({SECRET: answer(200, b"<html>")}, "bao/secret/shop#password", NEVER),
        ({}, "bao/secret/shop#user", NEVER),
        ({}, "bao/secret/shop#empty", NEVER),
        ({}, "bao/secret/shop#large", NEVER),
        ({}, "bao/secret/../shop", NEVER),
        ({}, "by-identity/secret/shop", NEVER),
        ({}, "nobody/secret/shop", NEVER),
    ],
)
async def test_an_error_says_whether_another_attempt_may_succeed(
    reader: Api, server: LoopbackServer, failing: dict[str, Any], secret: str, verdict: str
) -> None:
    granted = {"auth": {"client_token": "s.1", "lease_duration": 60, "renewable": True}}
    kept = {"password": "hush-hush", "empty": "", "large": "x" * 70_000}
    server.routes = {
        SIGN_IN: answer(200, json.dumps(granted).encode()),
        SECRET: answer(200, json.dumps({"data": {"data": kept}}).encode()),
        "/v1/auth/token/revoke-self": answer(204),
        **failing,
    }
    instance = await reader.running(READ)
    message = (await reader.run(instance, "read", secret=secret))["errorMessage"]
    assert [each for each in (AGAIN, NEVER) if each in message] == [verdict]
    assert message.count("Another attempt") == 1
    log = (await reader.get(f"instances/{instance}/log")).text
    assert ("attempt 2" in log.lower()) == (verdict == AGAIN), log
