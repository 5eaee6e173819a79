"""Manifest sources, webhooks and steps connect to no forbidden target, however it is spelled."""

from collections.abc import AsyncIterator, Sequence

import pytest

from launchbay.egress.transport import SystemResolver
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import LOOPBACK_SPELLINGS, NAMES, OTHER_TARGETS, LoopbackServer, loopback_server, redirect
from tests.support.service import Api, accepted, refused, running_api

PER_ORGANIZATION = 50
CALLER = """
launch:
  parameters: [{url: {default: ""}}]
  steps: []
call:
  parameters: [{url: {}}]
  steps: [{ask: {action: restcall, parameters: {command: "{$.url}"}}}]
destroy: {steps: []}
"""

real_resolve = SystemResolver.resolve


async def resolve(self: SystemResolver, host: str, port: int) -> Sequence[str]:
    """Answer for the names of `NAMES` as who controls them would; ask the machine about the others."""
    name = host.rstrip(".") if host not in NAMES else host
    return NAMES.get(name) or await real_resolve(self, host, port)


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemResolver, "resolve", resolve)
        async with running_api(url) as api:
            yield api
    databases.drop(url)


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        yield server


def targets(server: LoopbackServer) -> list[str]:
    found = [server.url("/x", host=host) for host in (*LOOPBACK_SPELLINGS, *OTHER_TARGETS, *NAMES)]
    assert len(set(found)) >= 70
    return found


@pytest.mark.slow
async def test_no_manifest_is_loaded_from_a_forbidden_target(api: Api, server: LoopbackServer) -> None:
    application = await api.application()
    for url in targets(server):
        answer = await api.put(f"applications/{application}/manifestSource", {"url": url})
        code = answer.json()["code"]
        # With a user or password in it, it is refused before it is looked at.
        assert (answer.status_code, code) == (400, "CredentialsInUrl" if "@" in url else "AddressRefused"), url
    assert server.connections == 0


async def test_no_step_calls_a_forbidden_target(api: Api, server: LoopbackServer) -> None:
    instance = await api.running(CALLER)
    for url in [*targets(server)][::12]:  # each spelling is tried on the client itself (`tests/egress`)
        document = await api.run(instance, "call", url=url)
        assert "is refused: it is" in document["errorMessage"], url
    assert server.connections == 0


def names(server: LoopbackServer) -> list[str]:
    return [server.url("/x", host=host) for host in NAMES if host.rstrip(".") != "localhost"]


@pytest.mark.features("webhooks")
async def test_no_webhook_has_a_forbidden_address(api: Api, server: LoopbackServer) -> None:
    path = f"organizations/{api.organization}/webhooks"
    allowed = accepted(await api.post(path, {"url": "https://hooks.example/", "events": ["job"]}))["id"]
    spelled = [url for url in targets(server) if "@" not in url and url not in names(server)]
    assert len(spelled) >= 60
    for url in spelled:
        for answer in (
            await api.post(path, {"url": url, "events": ["job"]}),
            await api.put(f"webhooks/{allowed}", {"url": url}),
        ):
            assert "is refused: it is" in refused(answer, 400, "AddressRefused"), url
    for port in ("0", "65536"):
        answer = await api.post(path, {"url": f"https://hooks.example:{port}/", "events": ["job"]})
        assert f"Port {port} doesn't exist" in refused(answer, 400, "InvalidUrl")
    [row] = accepted(await api.get(path))
    assert row["url"].startswith("https://hooks.example/")
    accepted(await api.delete(f"webhooks/{allowed}"))
    assert server.connections == 0


@pytest.mark.features("webhooks")
async def test_no_webhook_tells_a_name_with_a_forbidden_address(api: Api, server: LoopbackServer) -> None:
    assert len(names(server)) <= PER_ORGANIZATION
    for url in names(server):
        body = {"url": url.replace("http://", "https://"), "events": ["job"]}
        accepted(await api.post(f"organizations/{api.organization}/webhooks", body))
    await api.launch(await api.application())
    told = await eventually(lambda: attempts(api), lambda told: len(told) >= len(names(server)), within_s=60)
    assert [error for error in told if "is refused: it is" not in error] == []
    assert server.connections == 0


async def attempts(api: Api) -> list[str]:
    """Return what went wrong with the deliveries that were tried."""
    async with api.database.connection() as connection:
        found = await connection.execute("SELECT last_error FROM webhook_deliveries WHERE last_error IS NOT NULL")
        return [error for (error,) in await found.fetchall()]


async def test_a_redirect_leads_no_manifest_and_no_step_to_a_forbidden_target(databases: Databases) -> None:
    url = databases.create()
    async with loopback_server() as inside, loopback_server() as server:
        server.routes["/go"] = redirect(f"http://127.0.0.1:{inside.port}/secret")
        async with running_api(url, outgoing_allow=f"127.0.0.1:{server.port}") as api:
            application = await api.application()
            answer = await api.put(f"applications/{application}/manifestSource", {"url": server.url("/go")})
            assert "is refused: it is a loopback address" in refused(answer, 400, "AddressRefused")
            instance = await api.running(CALLER)
            document = await api.run(instance, "call", url=server.url("/go"))
            assert "is refused: it is a loopback address" in document["errorMessage"]
        assert (server.connections, inside.connections) == (2, 0)
    databases.drop(url)


@pytest.mark.slow
async def test_an_environment_narrows_what_the_operator_allowed_and_cannot_widen_it(databases: Databases) -> None:
    url = databases.create()
    async with loopback_server() as server, loopback_server() as other:
        async with running_api(url, outgoing_allow=f"127.0.0.1:{server.port}") as api:
            path = f"environments/{api.environment}"
            for policy, reached in ((f"127.0.0.1:{other.port}", False), (f"127.0.0.1:{server.port}", True)):
                accepted(await api.put_yaml(path, f"policies: {{outgoing.allow: '{policy}'}}"))
                instance = await api.running(CALLER)
                for asked in (server, other):
                    document = await api.run(instance, "call", url=asked.url())
                    ended = document["workflowHistory"][0]["status"]
                    assert ended == ("Succeeded" if reached and asked is server else "Failed"), document["errorMessage"]
            answer = await api.put_yaml(path, "policies: {outgoing.allow: '127.0.0.1/99'}")
            assert "outgoing.allow" in refused(answer, 400, "InvalidPolicies")
        assert (server.connections, other.connections) == (1, 0)
    databases.drop(url)
