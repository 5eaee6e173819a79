"""No spelling of a forbidden target gets a connection; the same spellings reach the server once they are allowed."""

import socket

import pytest

from launchbay.errors import AddressRefused, OutgoingFailed
from launchbay.outgoing.addresses import Allowlist
from launchbay.outgoing.client import OutgoingHttp
from tests.outgoing.loopback import FakeResolver, loopback_server, redirect

pytestmark = pytest.mark.anyio

# Spellings that the machine's resolver reads as the loopback address 127.0.0.1.
LOOPBACK_SPELLINGS = [
    "127.0.0.1", "2130706433", "0x7f000001", "0x7F000001", "017700000001", "0x7f.0.0.1", "0x7f.0x0.0x0.0x1",
    "127.1", "127.0.1", "127.0x1", "0x7f.1", "0177.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]", "localhost", "LOCALHOST", "LocalHost", "user@127.0.0.1", "user:pass@127.0.0.1",
    "8.8.8.8@127.0.0.1", "public.example%40@127.0.0.1",
]  # fmt: skip

# Everything else that must not be reached, as the host of a URL.
OTHER_TARGETS = [
    "0", "0.0.0.0", "0x0", "000000000", "127.0.0.2", "127.255.255.255", "10.0.0.1", "10.255.255.255",
    "167772161", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0xc0a80101", "192.168.257", "3232235777",
    "169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.43518", "169.254.170.2", "168.63.129.16",
    "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "4294967295", "0xffffffff",
    "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::127.0.0.1]", "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:5db8:d822:0:0:80ff:fffe]",
    "[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[3fff::1]",
    "[100::1]", "[5f00::1]", "metadata@169.254.169.254", "::1@169.254.169.254",
]  # fmt: skip

# What is no http URL of a host; some readers see a loopback address in several of these.
NO_URLS = [
    "ftp://127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/_x", "//127.0.0.1/", "127.0.0.1", "", "http://",
    "http:///x", "http:127.0.0.1", "unix:///run/docker.sock", "http+unix://%2Frun%2Fdocker.sock/", "javascript:1",
    "http://[::1", "http://[::1]x/", "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "http://127.0.0.1\r\nHost: x/",
    "http://１２７.０.０.１/", "http://①②⑦.0.0.1/", "http://127。0。0。1/", "http://127.0.0.1\\@public.example/",
    "http://a\x00b/", "http://%31%32%37.0.0.1/", "http://0177.0.0.1/", "http://0177.0.0.01/", "http://012.0.0.1/",
    "http://0251.0376.0251.0376/", "http://0300.0250.1.1.1/", f"http://{'a' * 300}.example/", f"http://{'x' * 9000}",
]  # fmt: skip

# Names, with what a resolver that an attacker controls would answer.
NAMES = {
    "loopback.example": ["127.0.0.1"],
    "loopback.example.": ["127.0.0.1"],
    "localhost.": ["127.0.0.1", "::1"],
    "metadata.google.internal": ["169.254.169.254"],
    "half.example": ["93.184.216.34", "127.0.0.1"],
    "other-half.example": ["127.0.0.1", "93.184.216.34"],
    "six.example": ["2606:4700:4700::1111", "::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "zone.example": ["fe80::1%lo"],
    "bücher.example": ["127.0.0.1"],
    "xn--bcher-kva.example": ["10.1.2.3"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
    "1.1.1.1.nip.example": ["10.0.0.1"],
    "last-of-many.example": [f"93.184.216.{n}" for n in range(40)] + ["192.168.0.1"],
}


def test_there_are_enough_targets() -> None:
    assert len(set(LOOPBACK_SPELLINGS + OTHER_TARGETS)) + len(NAMES) >= 70


async def test_no_spelling_of_a_forbidden_address_gets_a_connection() -> None:
    async with loopback_server() as server:
        outgoing = OutgoingHttp()

        for host in LOOPBACK_SPELLINGS + OTHER_TARGETS:
            with pytest.raises(OutgoingFailed) as failed:
                await outgoing.request("GET", server.url(host=host), timeout_s=5)
            assert isinstance(failed.value, AddressRefused), f"{host}: {failed.value}"

        assert server.connections == 0


async def test_the_same_spellings_reach_the_server_when_its_address_is_allowed() -> None:
    async with loopback_server() as server:
        outgoing = OutgoingHttp(Allowlist.parse("127.0.0.1, ::1"))

        for host in LOOPBACK_SPELLINGS:
            answer = await outgoing.request("GET", server.url(host=host), timeout_s=5)
            assert answer.body == b"hello", host

        assert server.connections == len(LOOPBACK_SPELLINGS)


async def test_a_name_is_refused_when_any_of_its_addresses_is_forbidden() -> None:
    async with loopback_server() as server:
        for name, addresses in NAMES.items():
            with pytest.raises(AddressRefused):
                await OutgoingHttp(resolver=FakeResolver(addresses)).request("GET", server.url(host=name), timeout_s=5)

        assert server.connections == 0


@pytest.mark.parametrize("url", NO_URLS)
async def test_what_is_no_http_url_of_a_host_fails_cleanly(url: str) -> None:
    with pytest.raises(OutgoingFailed):
        await OutgoingHttp().request("GET", url, timeout_s=5)


async def test_a_second_answer_of_the_resolver_is_never_asked_for() -> None:
    resolver = FakeResolver(["127.0.0.1"], ["127.0.0.66"])
    async with loopback_server() as server:
        answer = await OutgoingHttp(Allowlist.parse("127.0.0.1"), resolver=resolver).request(
            "GET", server.url(host="rebinding.example")
        )

        assert answer.body == b"hello"
        assert resolver.questions == ["rebinding.example"]
        assert server.received[0].headers["host"] == f"rebinding.example:{server.port}"


async def test_a_name_that_changes_its_address_is_judged_anew_for_the_next_request() -> None:
    resolver = FakeResolver(["127.0.0.1"], ["10.0.0.1"])
    async with loopback_server() as server:
        outgoing = OutgoingHttp(Allowlist.parse("127.0.0.1"), resolver=resolver)
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
            await OutgoingHttp(Allowlist.parse("127.0.0.1")).request("GET", server.url("/start"), timeout_s=5)

        assert [received.target for received in server.received] == ["/start"]


async def test_a_host_that_is_allowed_by_name_is_reached_and_its_neighbour_is_not() -> None:
    resolver = FakeResolver(["127.0.0.1"])
    async with loopback_server() as server:
        outgoing = OutgoingHttp(Allowlist.parse(f"build.internal:{server.port}"), resolver=resolver)

        assert (await outgoing.request("GET", server.url(host="BUILD.internal."))).status == 200
        with pytest.raises(AddressRefused):
            await outgoing.request("GET", server.url(host="other.internal"))


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback_server() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())

        with pytest.raises(AddressRefused):
            await OutgoingHttp().request("GET", "http://10.0.0.1/", timeout_s=5)

        assert proxy.connections == 0


async def test_another_address_of_the_host_is_tried_when_the_first_does_not_answer(server_port: int) -> None:
    async with loopback_server() as server:
        resolver = FakeResolver(["127.0.0.3", "127.0.0.1"])

        answer = await OutgoingHttp(Allowlist.parse("127.0.0.0/8"), resolver=resolver).request(
            "GET", server.url(host="two.example"), timeout_s=5
        )

        assert answer.status == 200
        with pytest.raises(OutgoingFailed, match="cannot be reached") as failed:
            await OutgoingHttp(Allowlist.parse("127.0.0.1")).request("GET", f"http://127.0.0.1:{server_port}/")
        assert failed.value.retryable


async def test_a_name_without_an_address_is_a_failure_that_may_be_retried() -> None:
    with pytest.raises(OutgoingFailed, match=r"nowhere\.example") as failed:
        await OutgoingHttp(resolver=FakeResolver([])).request("GET", "http://nowhere.example/")

    assert failed.value.retryable


@pytest.fixture
def server_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
