"""What OpenBao and Vault answer, read with care. The API's tests ask a real one."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.service_types.contract import Renewed, SecretCall, SignedIn
from launchbay.service_types.openbao import OpenBao
from tests.support.network import FakeResolver, LoopbackServer, answer, loopback_server

ALLOWED = EgressClient(Allowlist.parse("127.0.0.1"))
BAO = OpenBao()


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        yield server


def answers(server: LoopbackServer, path: str, body: Any, status: int = 200) -> None:
    server.routes[f"/v1/{path}"] = answer(status, json.dumps(body).encode())


async def token(_: str) -> str:
    return "of-the-job"


async def signed_in(
    server: LoopbackServer, *, egress: EgressClient = ALLOWED, auth: Any = None, **parameters: Any
) -> SignedIn:
    given = {"configuration.address": server.url(), "configuration.role": "shop"}
    given |= {f"configuration.{name.replace('_', '-')}": value for name, value in parameters.items()}
    granted = {"client_token": "s.1", "lease_duration": 60, "renewable": True}
    mount = parameters.get("sign_in_mount", "jwt").strip("/")
    answers(server, f"auth/{mount}/login", {"auth": granted if auth is None else auth})
    return await BAO.sign_in(SecretCall(name="bao", parameters=given, egress=egress, token=token))


async def test_nothing_secret_goes_over_plain_http_unless_an_administrator_allows_the_host(
    server: LoopbackServer,
) -> None:
    address = server.url(host="vault.internal")
    resolver = FakeResolver(["127.0.0.1"])
    with pytest.raises(ActionFailed, match="over plain HTTP") as refused:
        await signed_in(
            server, address=address, egress=EgressClient(Allowlist.parse("vault.internal"), resolver=resolver)
        )
    assert not refused.value.retryable
    assert server.received == []
    allowed = EgressClient(Allowlist.parse("http://vault.internal"), resolver=resolver)
    assert (await signed_in(server, address=address, egress=allowed)).secret == "s.1"


async def test_slashes_around_mounts_and_paths_mean_nothing(server: LoopbackServer) -> None:
    session = (await signed_in(server, sign_in_mount="/teams/jwt/", kv_mounts=["secret/", "secret/team/"])).session
    answers(server, "secret/team/data/shop/db", {"data": {"data": {"password": "x"}}})
    assert (await BAO.read(ALLOWED, session, "/secret/team/shop/db/")).values == {"password": "x"}


async def test_a_batch_token_is_refused_because_nobody_can_revoke_it(server: LoopbackServer) -> None:
    with pytest.raises(ActionFailed, match="Set token_type of the role to service"):
        await signed_in(server, auth={"client_token": "b.1", "lease_duration": 60, "token_type": "batch"})


@pytest.mark.parametrize("auth", [["s.1"], "s.1", {"client_token": 5}, {"client_token": ""}, None, 7])
async def test_a_sign_in_without_a_token_names_the_address(server: LoopbackServer, auth: Any) -> None:
    with pytest.raises(ActionFailed, match="gave no token at auth/jwt/login"):
        await signed_in(server, auth={} if auth is None else auth)


@pytest.mark.parametrize(
    ("duration", "lease_s"), [("60", 0), (-5, 0), (1.5, 0), (None, 0), (10**30, 315_360_000), (60, 60)]
)
async def test_a_duration_is_a_number_of_seconds_or_none(server: LoopbackServer, duration: Any, lease_s: int) -> None:
    found = await signed_in(server, auth={"client_token": "s.1", "lease_duration": duration, "renewable": True})
    assert found.lease_s == lease_s


@pytest.mark.parametrize(("renewable", "lease"), [(True, "db/1"), (False, ""), ("yes", ""), (None, "")])
async def test_only_a_renewable_lease_is_renewed(server: LoopbackServer, renewable: Any, lease: str) -> None:
    session = (await signed_in(server)).session
    answers(
        server,
        "db/creds",
        {"data": {"user": "x"}, "lease_id": "db/1", "lease_duration": 60, "renewable": renewable},
    )
    assert (await BAO.read(ALLOWED, session, "db/creds")).lease == lease


async def test_token_and_leases_have_durations_of_their_own(server: LoopbackServer) -> None:
    session = (await signed_in(server)).session
    answers(server, "auth/token/renew-self", {"auth": {"lease_duration": 600}})
    answers(server, "sys/leases/renew", {"lease_duration": 30})
    assert await BAO.renew(ALLOWED, session, ["db/1", "db/2"]) == Renewed(600, 30)
    answers(server, "sys/leases/renew", {"lease_duration": 0})
    assert await BAO.renew(ALLOWED, session, ["db/1"]) == Renewed(600, 0)


async def test_a_lease_that_fails_keeps_no_other_from_its_renewal(server: LoopbackServer) -> None:
    session = (await signed_in(server)).session
    answers(server, "auth/token/renew-self", {"auth": {"lease_duration": 600}})
    answers(server, "sys/leases/renew", {"errors": ["Vault is sealed"]}, 503)
    renewed = await BAO.renew(ALLOWED, session, ["db/1", "db/2"])
    assert (renewed.session_s, list(renewed.failed), renewed.lost) == (600, ["db/1", "db/2"], {})
    answers(server, "sys/leases/renew", {"errors": ["lease not found"]}, 400)
    assert list((await BAO.renew(ALLOWED, session, ["db/1", "db/2"])).lost) == ["db/1", "db/2"]


async def test_a_token_that_cannot_be_renewed_is_not_asked_about(server: LoopbackServer) -> None:
    session = (await signed_in(server, auth={"client_token": "s.1", "lease_duration": 60, "renewable": False})).session
    server.received.clear()
    assert await BAO.renew(ALLOWED, session, []) == Renewed(None)
    assert server.received == []


@pytest.mark.parametrize(
    ("body", "is_gone"),
    [
        ({"errors": ["permission denied"]}, True),
        ({"errors": ["2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"]}, True),
        ({"errors": ["1 error occurred:\n\t* permission denied\n\n"]}, False),
        ({"errors": "Forbidden by the gateway"}, False),
        ("<html>", False),
    ],
)
async def test_only_an_unknown_token_has_been_revoked(server: LoopbackServer, body: Any, is_gone: bool) -> None:
    session = (await signed_in(server)).session
    answers(server, "auth/token/revoke-self", body, 403)
    if is_gone:
        await BAO.revoke(ALLOWED, session)
    else:
        with pytest.raises(ActionFailed, match="refuses 'auth/token/revoke-self'"):
            await BAO.revoke(ALLOWED, session)


async def test_an_answer_that_is_no_map_is_refused(server: LoopbackServer) -> None:
    session = (await signed_in(server)).session
    server.routes["/v1/secret/data/shop"] = answer(200, b"[" * 5_000)
    with pytest.raises(ActionFailed, match="something other than a JSON object"):
        await BAO.read(ALLOWED, session, "secret/shop")


@pytest.mark.parametrize(
    ("status", "said", "fix"),
    [
        (400, 'claim "environment_id" does not match', "Compare its role with the claims of the job."),
        (403, "permission denied", "Enable jwt there (bao auth enable -path=teams/jwt jwt), or correct"),
        (404, 'no handler for route "auth/teams/jwt/login"', "Enable jwt there"),
        (400, "could not load configuration", "Configure the mount: bao write auth/teams/jwt/config."),
        (400, 'role "shop" could not be found', "Make the role (bao write auth/teams/jwt/role/NAME), or correct"),
    ],
)
async def test_a_refused_sign_in_says_what_is_wrong_with_it(
    server: LoopbackServer, status: int, said: str, fix: str
) -> None:
    given = {"configuration.address": server.url(), "configuration.role": "shop"}
    given |= {"configuration.sign-in-mount": "teams/jwt"}
    answers(server, "auth/teams/jwt/login", {"errors": [said]}, status)
    with pytest.raises(ActionFailed) as refused:
        await BAO.sign_in(SecretCall(name="bao", parameters=given, egress=ALLOWED, token=token))
    assert f"refused the sign-in of the job at 'auth/teams/jwt/login': {said}. {fix}" in str(refused.value)
    assert ("claims" in str(refused.value)) == (said.startswith("claim"))


async def test_a_server_that_is_away_is_named_once_with_the_secret_and_what_to_do() -> None:
    async with loopback_server() as away:
        session = (await signed_in(away)).session
    with pytest.raises(ActionFailed) as failed:
        await BAO.read(ALLOWED, session, "secret/shop")
    said = str(failed.value)
    assert said.startswith("The secret provider 'bao' doesn't answer for 'secret/shop': Can't reach http://127.0.0.1:")
    assert said.endswith("Start it, or correct configuration.address of 'bao'.")
    assert said.count("an't") == 1


@pytest.mark.parametrize("first", ["data", "metadata"])
async def test_the_policy_for_a_path_with_data_is_that_of_the_corrected_path(
    server: LoopbackServer, first: str
) -> None:
    session = (await signed_in(server)).session
    path = f"secret/{first}/shop"
    answers(server, "sys/capabilities-self", {f"secret/data/{first}/shop": ["deny"]})
    fix = f"Leave out {first!r}: bao/secret/shop. A policy of its role needs: path"
    fix += ' "secret/data/shop" { capabilities = ["read"] }.'
    assert (await BAO.look(ALLOWED, session, path)).fix == fix
    answers(server, f"secret/data/{first}/shop", {"errors": ["permission denied"]}, 403)
    with pytest.raises(ActionFailed) as refused:
        await BAO.read(ALLOWED, session, path)
    assert str(refused.value).endswith(fix)


async def test_a_role_that_an_engine_lacks_is_not_taken_for_that_of_the_sign_in(server: LoopbackServer) -> None:
    session = (await signed_in(server)).session
    answers(server, "database/creds/shop", {"errors": ["unknown role: shop"]}, 400)
    with pytest.raises(ActionFailed, match=r"unknown role: shop\. Make the role in this engine"):
        await BAO.read(ALLOWED, session, "database/creds/shop")
