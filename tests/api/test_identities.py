"""Steps say who they are: tokens that this installation signs, as an OpenID Connect issuer."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from launchbay.limits import IDENTITY_TOKEN_S
from tests.support.canaries import stored_texts
from tests.support.databases import Databases
from tests.support.network import LoopbackServer, Received, answer, loopback_server
from tests.support.service import Api, accepted, refused, running_api

pytestmark = pytest.mark.features("identities")
ROOT = "http://launchbay"
ISSUER = "https://launchbay.example.org"
ASK = """
launch: {steps: []}
ask:
  parameters: [url: {default: ""}, audience: {default: vault}, times: {default: 0}]
  steps:
    - call:
        action: restcall
        identity: {audience: "{$.audience}"}
        parameters:
          command: "{$.url}"
          headers: {X-Identity: "{$.identity.token}"}
          retryCount: "{$.times}"
        output: {said: content}
  return: {said: {value: "{$.said}"}}
"""
WITH_MACHINE = """
launch:
  steps: [{made: {action: provisionVms, parameters: {roleName: web, quantity: 1}}}]
show:
  steps:
    - run:
        action: execrun
        identity: {audience: vault}
        parameters:
          command: ['cp "$LAUNCHBAY_IDENTITY_TOKEN_FILE" kept; printf %s "$LAUNCHBAY_IDENTITY_TOKEN" >named;
            stat -c %a "$LAUNCHBAY_IDENTITY_TOKEN_FILE"; echo "$LAUNCHBAY_IDENTITY_TOKEN_FILE" >where;
            echo "said $LAUNCHBAY_IDENTITY_TOKEN"; env | base64 -w 0']
        output: {out: stdout}
  return: {out: {value: "{$.out}"}}
"""


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url) as made:
        named = made.environment
    given: dict[str, Any] = {"base_url": ISSUER, "outgoing_allow": "127.0.0.1", "local_environments": named}
    async with running_api(url, **given) as api:
        accepted(await api.put(f"environments/{api.environment}/audiences", {"audiences": ["vault"]}))
        yield api
    databases.drop(url)


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        yield server


async def claims_of(api: Api, token: str) -> dict[str, Any]:
    """Return the claims, checked with nothing but what the issuer publishes."""
    metadata = (await api.client.get(ROOT + "/.well-known/openid-configuration")).json()
    keys = (await api.client.get(ROOT + metadata["jwks_uri"].removeprefix(metadata["issuer"]))).json()
    claims: dict[str, Any] = jwt.decode(token, KeySet.import_key_set(keys), algorithms=["RS256"]).claims
    assert claims["iss"] == metadata["issuer"] == ISSUER
    return claims


async def test_a_step_sends_a_token_that_says_which_job_asks(api: Api, receiver: LoopbackServer) -> None:
    application = await api.application(ASK)
    instance = await api.launch(application)
    await api.settled(instance)
    await api.ran(instance, "ask", url=receiver.url())
    claims = await claims_of(api, receiver.received[0].headers["x-identity"])
    environment = api.environment
    assert claims["sub"] == f"organization:{api.organization}:environment:{environment}:application:{application}"
    assert (claims["aud"], claims["exp"] - claims["iat"]) == ("vault", IDENTITY_TOKEN_S)
    assert {name: claims[name] for name in ("application_id", "environment_id", "instance_id", "workflow", "step")} == {
        "application_id": application,
        "environment_id": environment,
        "instance_id": instance,
        "workflow": "ask",
        "step": "call",
    }
    assert claims["credential"] == "person"
    assert claims["manifest_version"] == "2"
    assert "revision_id" not in claims


async def test_it_is_in_nothing_that_is_kept(api: Api, receiver: LoopbackServer) -> None:
    async def echo(received: Received, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"you": received.headers["x-identity"]}).encode()
        await answer(200, body, [("Content-Type", "application/json")])(received, writer)

    receiver.routes["/echo"] = echo
    instance = await api.running(ASK)
    await api.ran(instance, "ask", url=receiver.url("/echo"))
    document = await api.document(instance)
    token = receiver.received[0].headers["x-identity"]
    assert document["returnValues"]["said"] == {"you": "********"}
    signature = token.rpartition(".")[2]
    assert signature not in await stored_texts(api.database)
    log = (await api.get(f"instances/{instance}/log")).text
    assert "got a token for 'vault'" in log
    assert signature not in log


@pytest.mark.slow  # starts a command of its own
async def test_a_command_has_it_in_a_file_and_a_variable_that_end_with_it(api: Api) -> None:
    accepted(await api.put_yaml(f"environments/{api.environment}", "policies: {machines.provider: local}"))
    try:
        instance = await api.running(WITH_MACHINE)
        await api.ran(instance, "show")
        document = await api.document(instance)
    finally:
        accepted(await api.put_yaml(f"environments/{api.environment}", "policies: {}"))
    [machine] = (api.settings.data_dir / "machines" / "local").rglob("kept")
    token = machine.read_text()
    assert (await claims_of(api, token))["instance_id"] == instance
    assert machine.with_name("named").read_text() == token
    assert not await asyncio.to_thread((machine.parent / machine.with_name("where").read_text().strip()).exists)
    [out] = document["returnValues"]["out"].values()
    assert out.startswith("600\nsaid ********\n")
    assert "********" in out.rpartition("\n")[2], "also in base64"
    assert token.rpartition(".")[2] not in await stored_texts(api.database)


async def test_an_audience_that_the_environment_does_not_name_gets_none(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(ASK)
    document = await api.run(instance, "ask", url=receiver.url(), audience="sts.amazonaws.com")
    assert "may get no token for the audience 'sts.amazonaws.com'. Whoever edits" in document["errorMessage"]
    path = f"environments/{api.environment}/audiences"
    accepted(await api.put(path, {"audiences": ["vault", "sts.amazonaws.com"]}))
    await api.ran(instance, "ask", url=receiver.url(), audience="sts.amazonaws.com")
    accepted(await api.put(path, {"audiences": ["vault"]}))
    await api.run(instance, "ask", url=receiver.url(), audience="sts.amazonaws.com")
    assert len(receiver.received) == 1, "a removed audience counts at once"


async def test_each_attempt_has_a_token_of_its_own(api: Api, receiver: LoopbackServer) -> None:
    receiver.routes["/"] = answer(503)
    instance = await api.running(ASK)
    await api.run(instance, "ask", url=receiver.url(), times=1)
    found = [(await claims_of(api, each.headers["x-identity"]))["jti"] for each in receiver.received]
    assert len(set(found)) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["two words"], "printable ASCII characters without spaces, not 'two words'"),
        ([""], "1 to 200 printable"),
        ([f"a{number}" for number in range(51)], "at most 50 audiences"),
    ],
)
async def test_wrong_audiences_are_refused_and_change_nothing(api: Api, wrong: list[str], said: str) -> None:
    path = f"environments/{api.environment}/audiences"
    assert said in refused(await api.put(path, {"audiences": wrong}), 400, "InvalidAudience")
    assert accepted(await api.get(path)) == {"audiences": ["vault"]}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{action: .inner, identity: {audience: vault}}", "'identity' has no effect on '.inner'"),
        ("{action: getSignals, identity: {audience: vault}}", "'identity' has no effect on 'getSignals'"),
        ("{action: restcall, identity: vault, parameters: {command: 'http://x/'}}", "expected a map with the key"),
        ("{action: restcall, identity: {audience: a b}, parameters: {command: 'http://x/'}}", "without spaces"),
        ("{action: restcall, identity: {audience: a, for: b}, parameters: {command: 'http://x/'}}", "alone"),
    ],
)
async def test_where_it_makes_no_sense_the_manifest_is_refused(api: Api, step: str, said: str) -> None:
    manifest = f"launch: {{steps: [{{one: {step}}}]}}\n.inner: {{steps: []}}\n"
    response = await api.put_yaml(f"applications/{await api.application(ASK)}/manifest", manifest)
    assert said in refused(response, 400)


async def test_the_issuer_answers_everybody_and_may_be_cached(api: Api) -> None:
    stranger = api.caller(None).client
    for path in ("/.well-known/openid-configuration", "/.well-known/jwks.json"):
        response = await stranger.get(ROOT + path)
        assert response.status_code == 200
        assert response.headers["cache-control"] == "public, max-age=300"
        assert '"d"' not in response.text, "no private key"


async def test_without_an_address_there_is_no_issuer(databases: Databases, receiver: LoopbackServer) -> None:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1") as api:
        accepted(await api.put(f"environments/{api.environment}/audiences", {"audiences": ["vault"]}))
        assert (await api.client.get(ROOT + "/.well-known/openid-configuration")).status_code == 404
        document = await api.run(await api.running(ASK), "ask", url=receiver.url())
        assert "must set LAUNCHBAY_BASE_URL" in document["errorMessage"]
        assert receiver.received == []
    databases.drop(url)


async def test_only_who_edits_the_environment_decides(api: Api) -> None:
    reader = await api.member("Read", "EditApplication")
    refused(await reader.put(f"environments/{api.environment}/audiences", {"audiences": ["mine"]}), 403)
