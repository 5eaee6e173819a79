"""Each kind of caller reaches its target through a real proxy, within the address rules; a refusal says who can help.

`NAMES` are known to squid alone. So an answer proves that the request went through it, and its log has the request.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from launchbay.actions.kubernetes_client import KubeAccess, KubeApi
from launchbay.actions.restcall import RestCall
from launchbay.auth.openid import ProviderMetadata
from launchbay.egress.addresses import Allowlist
from launchbay.egress.git import Git, Remote
from launchbay.egress.http import EgressClient
from launchbay.egress.proxy import OutgoingProxy, ProxyFailed
from launchbay.egress.transport import SystemResolver
from launchbay.errors import ActionFailed, AddressRefused, EgressFailed
from launchbay.machines.clouds.driver import CloudCalls, CloudFailed
from launchbay.processes.run import Programs
from launchbay.telemetry.tracing import http_session
from tests.support.clock import HandClock
from tests.support.clouds import REGION, account
from tests.support.contexts import RecordingContext, context, run
from tests.support.git_server import GitServer, needs_git
from tests.support.network import FakeResolver, LoopbackServer, answer, loopback_server, redirect
from tests.support.outgoing_proxies import (
    PROXIES,
    Configuration,
    RunningProxy,
    named_certificate,
    outgoing_proxy,
    squid,
    tinyproxy,
)
from tests.support.servers import free_ports

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # starts real proxies
CREDENTIALS = "ops:pass-w0rd"
NOTHING_KNOWN = FakeResolver([])


@pytest.fixture(scope="module")
def proxy() -> Iterator[RunningProxy]:
    with outgoing_proxy(squid, credentials=CREDENTIALS, refused=["refused.launchbay.test"]) as running:
        yield running


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return named_certificate(tmp_path_factory.mktemp("names"))


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as started:
        yield started


@pytest.fixture
async def secure(certificate: tuple[Path, Path]) -> AsyncIterator[LoopbackServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with loopback_server(context) as started:
        yield started


def client(setting: OutgoingProxy, certificate: Path | None = None, allow: Allowlist | None = None) -> EgressClient:
    trusted = None if certificate is None else ssl.create_default_context(cafile=str(certificate))
    return EgressClient(allow, resolver=NOTHING_KNOWN, ssl_context=trusted, proxy=setting)


async def test_a_request_goes_through_with_the_credentials(
    proxy: RunningProxy, server: LoopbackServer, secure: LoopbackServer, certificate: tuple[Path, Path]
) -> None:
    outgoing = client(proxy.setting(), certificate[0])
    rest = partial(run, RestCall(), RecordingContext(egress=outgoing))

    plain = await rest(command=server.url("/plain", host="api.launchbay.test"))
    private = await rest(command=f"https://api.launchbay.test:{secure.port}/private")

    assert (plain["content"], private["content"]) == ("hello", "hello")
    assert server.received[0].target == "/plain", "the server gets a path, not an address"
    assert "proxy-authorization" not in server.received[0].headers | secure.received[0].headers
    assert secure.sni_names == ["api.launchbay.test"]
    carried = proxy.carried()
    assert f"GET http://api.launchbay.test:{server.port}/plain ops" in carried
    assert f"CONNECT api.launchbay.test:{secure.port} ops" in carried
    assert "/private" not in carried


@pytest.mark.parametrize("configuration", PROXIES)
async def test_an_ipv6_address_is_written_as_a_url_has_it(
    configuration: Configuration,
    secure: LoopbackServer,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # This machine is never reached through the proxy, and no other one has an address here.
    monkeypatch.setattr(OutgoingProxy, "carries", lambda *_: True)
    with outgoing_proxy(configuration) as running:
        outgoing = client(running.setting(), certificate[0], Allowlist.parse("::1"))
        found = await outgoing.request("GET", f"https://[::1]:{secure.port}/")
        assert found.body == b"hello"
        assert f"CONNECT [::1]:{secure.port}" in running.carried()


@pytest.mark.parametrize(
    ("configuration", "credentials", "message"),
    [
        (squid, "", r"asks for credentials \(407\)"),
        (squid, "ops:wrong", r"refuses the credentials \(407\)"),
        (tinyproxy, "", r"asks for credentials \(407\)"),
        (tinyproxy, "ops:wrong", r"refuses the credentials \(401\)"),
    ],
)
async def test_wrong_credentials_are_for_the_administrator_of_the_server(
    configuration: Configuration, credentials: str, message: str
) -> None:
    with outgoing_proxy(configuration, credentials=CREDENTIALS) as running:
        outgoing = client(running.setting(credentials=credentials))
        with pytest.raises(ProxyFailed, match=message) as failed:
            await outgoing.request("GET", "https://api.launchbay.test/")
        assert "outgoing_proxy_credentials_file" in failed.value.messages[1]
        assert not failed.value.retryable
        assert "wrong" not in str(failed.value)


async def test_wrong_credentials_are_told_from_a_servers_answer_over_plain_http(proxy: RunningProxy) -> None:
    with pytest.raises(ProxyFailed, match="407"):
        await client(proxy.setting(credentials="ops:wrong")).request("GET", "http://api.launchbay.test/")


async def test_an_answer_from_inside_a_tunnel_is_never_the_proxys(
    proxy: RunningProxy, secure: LoopbackServer, certificate: tuple[Path, Path]
) -> None:
    secure.routes["/"] = answer(407)
    found = await client(proxy.setting(), certificate[0]).request("GET", f"https://api.launchbay.test:{secure.port}/")
    assert found.status == 407


async def test_a_host_that_the_proxy_refuses_is_named(proxy: RunningProxy) -> None:
    context = RecordingContext(egress=client(proxy.setting()))
    with pytest.raises(ActionFailed, match=r"refuses refused.launchbay.test:443 \(403 Forbidden\)") as failed:
        await run(RestCall(), context, command="https://refused.launchbay.test/")
    assert "outgoing_no_proxy" in failed.value.messages[1]
    assert not failed.value.retryable


async def test_a_proxy_that_is_away_is_named_and_tried_again() -> None:
    [port] = free_ports(1)
    away = OutgoingProxy(scheme="http", host="127.0.0.1", port=port)
    for url in ("http://api.launchbay.test/", "https://api.launchbay.test/"):
        with pytest.raises(ProxyFailed, match=rf"http://127.0.0.1:{port}: Connection refused") as failed:
            await client(away).request("GET", url)
        assert failed.value.retryable
        assert "outgoing_proxy" in failed.value.messages[1]
    unknown = OutgoingProxy(scheme="http", host="proxy.launchbay.test", port=port)
    with pytest.raises(ProxyFailed, match=r"Name or service not known|No address|failure in name resolution"):
        await client(unknown).request("GET", "https://api.launchbay.test/")


@pytest.mark.parametrize(
    ("answered", "reason"),
    [
        (b"", "Server disconnected without sending a response"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "the connection was closed"),
    ],
)
async def test_a_proxy_that_breaks_off_is_named(answered: bytes, reason: str) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answered)
        writer.close()

    async with await asyncio.start_server(break_off, "127.0.0.1", 0) as listening:
        setting = OutgoingProxy.load(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        assert setting is not None
        with pytest.raises(EgressFailed) as caught:
            await client(setting).request("GET", "https://api.launchbay.test/")
    assert str(caught.value) == f"Can't reach https://api.launchbay.test/ through {setting.url}: {reason}."


async def test_a_proxy_speaks_tls_and_its_certificate_is_checked(secure: LoopbackServer) -> None:
    untrusted = OutgoingProxy(scheme="https", host="127.0.0.1", port=secure.port)
    with pytest.raises(ProxyFailed, match=r"Can't reach the proxy https://127.0.0.1.*CERTIFICATE_VERIFY_FAILED"):
        await client(untrusted).request("GET", "https://api.launchbay.test/")
    assert secure.received == []


async def test_addresses_are_checked_before_the_proxy_is_asked(proxy: RunningProxy) -> None:
    before = proxy.carried()
    outgoing = EgressClient(proxy=proxy.setting())
    for host in ("10.0.0.1", "0xa9fea9fe", "[fd00::1]", "169.254.169.254", "localhost", "127.0.0.1"):
        with pytest.raises(AddressRefused):
            await outgoing.request("GET", f"http://{host}/")
    named = EgressClient(resolver=FakeResolver(["93.184.216.34", "10.0.0.1"]), proxy=proxy.setting())
    for url in ("http://api.launchbay.test/", "https://api.launchbay.test/"):
        with pytest.raises(AddressRefused, match=r"10\.0\.0\.1 \(of api.launchbay.test\)"):
            await named.request("GET", url)
    assert proxy.carried() == before


async def test_a_name_that_resolves_too_slowly_is_left_to_the_proxy(
    proxy: RunningProxy, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        async def resolve(self, host: str, port: int) -> list[str]:
            await asyncio.sleep(60)
            return ["10.0.0.1"]

    monkeypatch.setattr("launchbay.limits.EGRESS_NAME_S", 0.05)
    outgoing = EgressClient(resolver=Slow(), proxy=proxy.setting())
    assert (await outgoing.request("GET", server.url(host="api.launchbay.test"), timeout_s=20)).status == 200


async def test_a_redirect_through_the_proxy_meets_the_same_rules(proxy: RunningProxy, server: LoopbackServer) -> None:
    server.routes["/start"] = redirect("http://169.254.169.254/latest")
    server.routes["/on"] = redirect(f"http://hooks.launchbay.test:{server.port}/end")
    outgoing = client(proxy.setting())
    assert (await outgoing.request("GET", server.url("/on", host="api.launchbay.test"))).body == b"hello"
    with pytest.raises(AddressRefused):
        await outgoing.request("GET", server.url("/start", host="api.launchbay.test"))


async def test_what_the_list_names_is_reached_directly(proxy: RunningProxy, server: LoopbackServer) -> None:
    before = proxy.carried()
    outgoing = EgressClient(
        Allowlist.parse("127.0.0.1"), resolver=FakeResolver(["127.0.0.1"]), proxy=proxy.setting("launchbay.test")
    )
    assert (await outgoing.request("GET", server.url(host="api.launchbay.test"))).body == b"hello"
    assert (await outgoing.request("GET", server.url(host="localhost"))).body == b"hello"
    assert proxy.carried() == before


@needs_git
async def test_git_reads_through_the_proxy(
    proxy: RunningProxy, certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with GitServer(tmp_path, certificate) as repositories:
        repository = repositories.repository("shop")
        repository.commit({"shop.yaml": "a: 1\n"})
        repositories.set_token("token-1")
        remote = Remote(url=f"https://git.launchbay.test:{repositories.port}/shop.git", secret="token-1")
        reader = Git(client(proxy.setting()), Programs(["git"]))
        commit = await reader.fetch("", remote, "refs/heads/main", "")
        assert commit.files == {"shop.yaml": b"a: 1\n"}
        assert f"CONNECT git.launchbay.test:{repositories.port} ops" in proxy.carried()

        refused = Git(client(proxy.setting(credentials="ops:wrong")), Programs(["git"]))
        with pytest.raises(EgressFailed, match=r"407.*outgoing_proxy_credentials_file") as failed:
            await refused.head("", remote, "refs/heads/main")
        assert "wrong" not in str(failed.value)
    [port] = free_ports(1)
    away = Git(client(OutgoingProxy(scheme="http", host="127.0.0.1", port=port)), Programs(["git"]))
    with pytest.raises(EgressFailed, match=r"outgoing_proxy\."):
        await away.head("", remote, "refs/heads/main")
    with pytest.raises(EgressFailed, match=r"403.*outgoing_no_proxy"):
        await reader.head("", Remote(url="https://refused.launchbay.test/shop.git"), "refs/heads/main")


async def test_the_api_of_a_cluster_is_reached_through_the_proxy(
    proxy: RunningProxy, secure: LoopbackServer, certificate: tuple[Path, Path]
) -> None:
    resources = {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}]}
    secure.routes["/api/v1"] = answer(body=json.dumps(resources).encode())
    access = KubeAccess(f"https://cluster.launchbay.test:{secure.port}", "token-1", certificate[0].read_text())
    outgoing = client(proxy.setting())
    api = KubeApi(outgoing.with_ssl_context(access.ssl_context()), access)
    found = await api.resource_ref({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "shop")
    assert str(found) == "ConfigMap shop/a"
    assert f"CONNECT cluster.launchbay.test:{secure.port} ops" in proxy.carried()


async def test_a_cloud_is_reached_through_the_proxy(proxy: RunningProxy, server: LoopbackServer) -> None:
    document = b'<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/>'
    server.routes["/"] = answer(body=document + b"</DescribeInstancesResponse>")
    cloud = account(f"http://cloud.launchbay.test:{server.port}/")

    async def list_with(setting: OutgoingProxy, url: str = cloud.endpoint_url) -> object:
        calls = CloudCalls(client(setting))
        return await calls.call(context(), replace(cloud, endpoint_url=url), REGION, lambda ec2: ec2.find_tagged({}))

    assert await list_with(proxy.setting()) == []
    assert f"http://cloud.launchbay.test:{server.port}/" in proxy.carried()
    assert "proxy-authorization" not in server.received[0].headers

    with pytest.raises(CloudFailed, match="refuses the credentials") as failed:
        await list_with(proxy.setting(credentials="ops:wrong"))
    assert "outgoing_proxy_credentials_file" in failed.value.messages[1]
    with pytest.raises(CloudFailed, match="refuses the credentials"):
        await list_with(proxy.setting(credentials="ops:wrong"), "https://cloud.launchbay.test/")
    with pytest.raises(CloudFailed, match=r"refuses refused.launchbay.test.*403") as failed:
        await list_with(proxy.setting(), "https://refused.launchbay.test/")
    assert "outgoing_no_proxy" in failed.value.messages[1]
    [port] = free_ports(1)
    with pytest.raises(CloudFailed, match=f"Can't reach the proxy http://127.0.0.1:{port}"):
        await list_with(OutgoingProxy(scheme="http", host="127.0.0.1", port=port))


async def test_the_openid_provider_is_reached_through_the_proxy(proxy: RunningProxy, server: LoopbackServer) -> None:
    issuer = f"http://login.launchbay.test:{server.port}"
    endpoints = {name: f"{issuer}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
    server.routes["/.well-known/openid-configuration"] = answer(
        body=json.dumps({"issuer": issuer, **endpoints}).encode()
    )
    metadata = ProviderMetadata(issuer, client(proxy.setting()), HandClock())
    assert (await metadata.endpoints()).token == endpoints["token_endpoint"]
    assert f"GET {issuer}/.well-known/openid-configuration ops" in proxy.carried()


async def test_the_collector_is_reached_as_the_settings_say(
    proxy: RunningProxy, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    url = server.url("/v1/traces", host="collector.launchbay.test")
    sent = await asyncio.to_thread(http_session(url, proxy.setting()).post, url, data=b"x", timeout=20)
    assert sent.status_code == 200
    assert f"POST {url} ops" in proxy.carried()
    near = server.url("/v1/traces")
    assert http_session(near, proxy.setting()).proxies == {}
    assert (await asyncio.to_thread(http_session(near, None).post, near, data=b"x", timeout=20)).status_code == 200


async def test_names_of_a_slow_resolver_take_no_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy, often no name resolves: this must not hold up what else needs a thread."""
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*_: object, **__: object) -> list[object]:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(30)
        return []

    monkeypatch.setattr("socket.getaddrinfo", slow)
    count = (os.cpu_count() or 1) + 40
    waiting = [asyncio.create_task(SystemResolver().resolve("api.launchbay.test", 443)) for _ in range(count)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 20) == 1
    release.set()
    await asyncio.gather(*waiting)
