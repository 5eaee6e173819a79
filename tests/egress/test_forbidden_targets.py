"""No spelling of a forbidden target gets a connection; the same spellings reach the server once they are allowed."""

import socket

import pytest

from launchbay.actions.restcall import RestCall
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, AddressRefused, EgressFailed
from tests.support.contexts import RecordingContext, run
from tests.support.network import (
    LOOPBACK_SPELLINGS,
    NAMES,
    NO_URLS,
    OTHER_TARGETS,
    FakeResolver,
    loopback_server,
    redirect,
)

pytestmark = pytest.mark.anyio


def test_there_are_enough_targets() -> None:
    assert len(set(LOOPBACK_SPELLINGS + OTHER_TARGETS)) + len(NAMES) >= 70


async def test_no_spelling_of_a_forbidden_address_gets_a_connection() -> None:
    async with loopback_server() as server:
        outgoing = EgressClient()

        for host in LOOPBACK_SPELLINGS + OTHER_TARGETS:
            with pytest.raises(EgressFailed) as failed:
                await outgoing.request("GET", server.url(host=host), timeout_s=5)
            assert isinstance(failed.value, AddressRefused), f"{host}: {failed.value}"

        assert server.connections == 0


async def test_no_restcall_of_a_forbidden_target_gets_a_connection() -> None:
    async with loopback_server() as server:
        for host in LOOPBACK_SPELLINGS + OTHER_TARGETS:
            with pytest.raises(ActionFailed, match="is refused: it is") as failed:
                await run(RestCall(), RecordingContext(egress=EgressClient()), command=server.url(host=host))
            assert not failed.value.retryable, host
        for name, addresses in NAMES.items():
            context = RecordingContext(egress=EgressClient(resolver=FakeResolver(addresses)))
            with pytest.raises(ActionFailed, match="is refused: it is"):
                await run(RestCall(), context, command=server.url(host=name))

        assert server.connections == 0


async def test_the_same_spellings_reach_the_server_when_its_address_is_allowed() -> None:
    async with loopback_server() as server:
        outgoing = EgressClient(Allowlist.parse("127.0.0.1, ::1"))

        for host in LOOPBACK_SPELLINGS:
            answer = await outgoing.request("GET", server.url(host=host), timeout_s=5)
            assert answer.body == b"hello", host

        assert server.connections == len(LOOPBACK_SPELLINGS)


async def test_a_name_is_refused_when_any_of_its_addresses_is_forbidden() -> None:
    async with loopback_server() as server:
        for name, addresses in NAMES.items():
            with pytest.raises(AddressRefused):
                await EgressClient(resolver=FakeResolver(addresses)).request("GET", server.url(host=name), timeout_s=5)

        assert server.connections == 0


@pytest.mark.parametrize("url", NO_URLS)
async def test_what_is_no_http_url_of_a_host_fails_cleanly(url: str) -> None:
    with pytest.raises(EgressFailed):
        await EgressClient().request("GET", url, timeout_s=5)


async def test_a_second_answer_of_the_resolver_is_never_asked_for() -> None:
    resolver = FakeResolver(["127.0.0.1"], ["127.0.0.66"])
    async with loopback_server() as server:
        answer = await EgressClient(Allowlist.parse("127.0.0.1"), resolver=resolver).request(
            "GET", server.url(host="rebinding.example")
        )

        assert answer.body == b"hello"
        assert resolver.questions == ["rebinding.example"]
        assert server.received[0].headers["host"] == f"rebinding.example:{server.port}"


async def test_a_name_that_changes_its_address_is_judged_anew_for_the_next_request() -> None:
    resolver = FakeResolver(["127.0.0.1"], ["10.0.0.1"])
    async with loopback_server() as server:
        outgoing = EgressClient(Allowlist.parse("127.0.0.1"), resolver=resolver)
        await outgoing.request("GET", server.url(host="rebinding.example"))

        with pytest.raises(AddressRefused, match=r"10\.0\.0\.1"):
            await outgoing.request("GET", server.url(host="rebinding.example"))

        assert server.connections == 1


@pytest.mark.parametrize("host", ["127.0.0.2", "169.254.169.254", "[::1]", "2130706434", "10.0.0.1", "user@0x7f000002"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_forbidden_target_is_refused(host: str, status: int) -> None:
    async with loopback_server() as server:
        server.routes["/start"] = redirect(server.url("/inside", host=host), status)

        with pytest.raises(AddressRefused):
            await EgressClient(Allowlist.parse("127.0.0.1")).request("GET", server.url("/start"), timeout_s=5)

        assert [received.target for received in server.received] == ["/start"]


async def test_a_host_that_is_allowed_by_name_is_reached_and_its_neighbour_is_not() -> None:
    resolver = FakeResolver(["127.0.0.1"])
    async with loopback_server() as server:
        outgoing = EgressClient(Allowlist.parse(f"build.internal:{server.port}"), resolver=resolver)

        assert (await outgoing.request("GET", server.url(host="BUILD.internal."))).status == 200
        with pytest.raises(AddressRefused):
            await outgoing.request("GET", server.url(host="other.internal"))


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback_server() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())

        with pytest.raises(AddressRefused):
            await EgressClient().request("GET", "http://10.0.0.1/", timeout_s=5)

        assert proxy.connections == 0


async def test_another_address_of_the_host_is_tried_when_the_first_does_not_answer(server_port: int) -> None:
    async with loopback_server() as server:
        resolver = FakeResolver(["127.0.0.3", "127.0.0.1"])

        answer = await EgressClient(Allowlist.parse("127.0.0.0/8"), resolver=resolver).request(
            "GET", server.url(host="two.example"), timeout_s=5
        )

        assert answer.status == 200
        with pytest.raises(EgressFailed, match="Can't reach") as failed:
            await EgressClient(Allowlist.parse("127.0.0.1")).request("GET", f"http://127.0.0.1:{server_port}/")
        assert failed.value.retryable


async def test_a_name_without_an_address_is_a_failure_that_may_be_retried() -> None:
    with pytest.raises(EgressFailed, match=r"nowhere\.example") as failed:
        await EgressClient(resolver=FakeResolver([])).request("GET", "http://nowhere.example/")

    assert failed.value.retryable


@pytest.fixture
def server_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
