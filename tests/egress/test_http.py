import asyncio
import base64
import gzip
import itertools
import ssl
import subprocess
import time
import tracemalloc
import zlib
from pathlib import Path

import httpx
import pytest

from launchbay import limits
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.egress.transport import CheckedTransport
from launchbay.errors import EgressFailed
from tests.support.eventually import eventually
from tests.support.network import Answer, FakeResolver, LoopbackServer, Received, answer, loopback_server, redirect

pytestmark = pytest.mark.anyio

LOOPBACK = Allowlist.parse("127.0.0.1, ::1")


def encoded(encoding: str, body: bytes) -> Answer:
    return answer(body=body, headers=[("Content-Encoding", encoding)])


async def test_a_request_arrives_as_it_was_given_and_its_answer_comes_back_whole() -> None:
    async with loopback_server() as server:
        server.routes["/x"] = answer(404, b"\x00\xff", headers=[("X-Answer", "yes")])

        result = await EgressClient(LOOPBACK).request(
            "PUT", server.url("/x?q=1&r=%20#part"), headers={"X-Token": "ü 1", "Content-Type": "a/b"}, body=b"data"
        )

        assert (result.status, result.body, result.headers["x-answer"]) == (404, b"\x00\xff", "yes")
        assert result.url == server.url("/x")
        received = server.received[0]
        assert (received.method, received.target, received.body) == ("PUT", "/x?q=1&r=%20", b"data")
        assert received.headers["x-token"].encode("latin-1").decode() == "ü 1"
        assert received.headers["host"] == f"127.0.0.1:{server.port}"
        assert received.headers["user-agent"] == "launchbay"


async def test_credentials_in_the_url_become_basic_authentication_and_are_shown_nowhere() -> None:
    async with loopback_server() as server:
        url = server.url("/", host="me:p%40ss@127.0.0.1")

        result = await EgressClient(LOOPBACK).request("GET", url)

        sent = server.received[0].headers["authorization"]
        assert base64.b64decode(sent.removeprefix("Basic ")) == b"me:p@ss"
        assert "p@ss" not in result.url
        assert "p%40ss" not in result.url


async def test_a_refused_connection_is_called_so() -> None:
    async with loopback_server() as server:
        url = server.url("/path")

    with pytest.raises(EgressFailed, match=rf"Can't reach {url}: Connection refused\.$") as failed:
        await EgressClient(LOOPBACK).request("GET", url)
    assert failed.value.retryable


async def test_a_failure_names_the_place_without_query_and_credentials() -> None:
    async with loopback_server() as server:
        server.routes["/path"] = answer(body=b"x" * 11)

        with pytest.raises(EgressFailed) as failed:
            await EgressClient(LOOPBACK).request(
                "GET", server.url("/path?token=s3cret", host="me:s3cret@127.0.0.1"), max_bytes=10
            )

        assert server.url("/path") in str(failed.value)
        assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "a b", "a\nb", "", "ä"])
async def test_a_header_that_the_client_writes_itself_or_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(EgressFailed, match=r"(?i)header") as failed:
        await EgressClient(LOOPBACK).request("GET", "http://127.0.0.1/", headers={name: "x"})

    assert not failed.value.retryable


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\x00b", "a\nb", "\x7f"])
async def test_a_header_value_cannot_smuggle_lines(value: str) -> None:
    async with loopback_server() as server:
        with pytest.raises(EgressFailed, match="Header"):
            await EgressClient(LOOPBACK).request("GET", server.url(), headers={"X-A": value})

        assert server.connections == 0


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GE T", "", "G\r\n"])
async def test_a_method_that_cannot_be_sent_is_refused(method: str) -> None:
    with pytest.raises(EgressFailed, match="method"):
        await EgressClient(LOOPBACK).request(method, "http://127.0.0.1/")


# Redirects


async def test_redirects_are_followed_within_the_origin_with_every_header() -> None:
    async with loopback_server() as server:
        server.routes["/a"] = redirect("b?x=1")
        server.routes["/b"] = redirect("/c", 307)

        result = await EgressClient(LOOPBACK).request(
            "GET", server.url("/a"), headers={"Authorization": "t", "X-Key": "k"}
        )

        assert (result.body, result.url) == (b"hello", server.url("/c"))
        assert [received.headers.get("x-key") for received in server.received] == ["k", "k", "k"]
        assert server.received[2].headers["authorization"] == "t"


async def test_credentials_are_dropped_when_a_redirect_leaves_the_origin() -> None:
    async with loopback_server() as first, loopback_server() as second:
        first.routes["/a"] = redirect(second.url("/b", host="evil:pw@127.0.0.1"))

        await EgressClient(LOOPBACK).request(
            "GET",
            first.url("/a", host="me:pw@127.0.0.1"),
            headers={"X-Api-Key": "k", "Cookie": "c=1", "Accept": "text/css"},
        )

        arrived = second.received[0].headers
        assert not {"authorization", "x-api-key", "cookie"} & set(arrived)
        assert arrived["accept"] == "text/css"
        assert arrived["host"] == f"127.0.0.1:{second.port}"


@pytest.mark.parametrize(("status", "method", "body"), [(301, "GET", b""), (303, "GET", b""), (307, "POST", b"data")])
async def test_a_redirected_post_keeps_its_body_only_where_the_status_says_so(
    status: int, method: str, body: bytes
) -> None:
    async with loopback_server() as server:
        server.routes["/a"] = redirect("/b", status)

        await EgressClient(LOOPBACK).request("POST", server.url("/a"), headers={"Content-Type": "a/b"}, body=b"data")

        second = server.received[1]
        assert (second.method, second.body) == (method, body)
        assert ("content-type" in second.headers) == bool(body)


async def test_a_body_is_not_sent_on_to_another_origin() -> None:
    async with loopback_server() as first, loopback_server() as second:
        first.routes["/a"] = redirect(second.url("/b"), 308)

        with pytest.raises(EgressFailed, match="another origin"):
            await EgressClient(LOOPBACK).request("POST", first.url("/a"), body=b"secret")

        assert second.connections == 0


async def test_more_redirects_than_allowed_fail() -> None:
    async with loopback_server() as server:
        server.routes["/loop"] = redirect("/loop")

        with pytest.raises(EgressFailed, match="more than 5 times"):
            await EgressClient(LOOPBACK).request("GET", server.url("/loop"))

        assert server.connections == limits.EGRESS_REDIRECTS + 1


@pytest.mark.parametrize(
    "location",
    ["ftp://x/", "file:///etc/passwd", "http://[::1", "http://a:b:c/", "javascript:1", "http://127.1.1.1.1.0x/"],
)
async def test_a_redirect_to_what_is_no_http_url_fails(location: str) -> None:
    async with loopback_server() as server:
        server.routes["/a"] = redirect(location)

        with pytest.raises(EgressFailed):
            await EgressClient(LOOPBACK).request("GET", server.url("/a"), timeout_s=5)


async def test_cookies_of_an_answer_are_not_sent_again() -> None:
    async with loopback_server() as server:
        server.routes["/set"] = answer(302, headers=[("Set-Cookie", "c=1; Path=/"), ("Location", "/next")])
        outgoing = EgressClient(LOOPBACK)

        await outgoing.request("GET", server.url("/set"))
        await outgoing.request("GET", server.url("/next"))

        assert not any("cookie" in received.headers for received in server.received)


# Bytes and time


async def endless(_received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(100_000):
        writer.write(b"x" * 65_536)
        await writer.drain()


async def trickle(_received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def trickled_headers(_received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for n in itertools.count():
        writer.write(f"X-{n}: 1\r\n".encode())
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless_headers(_received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for n in range(1_000_000):
        writer.write(f"X-{n}: {'y' * 1000}\r\n".encode())
        await writer.drain()


async def silent(_received: Received, _writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(5)


async def informational(_received: Received, writer: asyncio.StreamWriter) -> None:
    for _ in range(1_000_000):
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0)


async def test_an_answer_of_exactly_the_bound_is_whole_and_one_byte_more_fails() -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(body=b"x" * 100)
        outgoing = EgressClient(LOOPBACK)

        assert len((await outgoing.request("GET", server.url(), max_bytes=100)).body) == 100
        with pytest.raises(EgressFailed, match="more than 99 bytes") as failed:
            await outgoing.request("GET", server.url(), max_bytes=99)
        assert not failed.value.retryable


async def test_an_endless_body_is_cut_at_the_bound() -> None:
    async with loopback_server() as server:
        server.routes["/"] = endless

        with pytest.raises(EgressFailed, match=f"more than {limits.EGRESS_BODY_BYTES} bytes"):
            await EgressClient(LOOPBACK).request("GET", server.url(), timeout_s=30)


@pytest.mark.parametrize("slow", [trickle, trickled_headers, silent, informational])
async def test_one_time_limit_bounds_the_whole_exchange(slow: Answer) -> None:
    async with loopback_server() as server:
        server.routes["/"] = slow
        begin = time.monotonic()

        with pytest.raises(EgressFailed, match=r"after 0\.4 s") as failed:
            await EgressClient(LOOPBACK).request("GET", server.url(), timeout_s=0.4)

        assert 0.3 < time.monotonic() - begin < 10
        assert failed.value.retryable


async def test_endless_headers_are_cut() -> None:
    async with loopback_server() as server:
        server.routes["/"] = endless_headers

        with pytest.raises(EgressFailed, match="Can't reach"):
            await EgressClient(LOOPBACK).request("GET", server.url(), timeout_s=30)


def gzip_bomb(mebibytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(mebibytes)) + packer.flush()


@pytest.mark.slow
@pytest.mark.parametrize(("encoding", "shift"), [("gzip", 0), ("deflate", 10)])
async def test_a_bomb_is_stopped_at_the_bound_and_costs_no_memory(encoding: str, shift: int) -> None:
    bomb = gzip_bomb(300)[shift:]  # without its ten bytes of header, gzip is raw deflate
    async with loopback_server() as server:
        server.routes["/"] = encoded(encoding, bomb)
        tracemalloc.start()
        try:
            with pytest.raises(EgressFailed, match="more than 1000000 bytes"):
                await EgressClient(LOOPBACK).request("GET", server.url(), max_bytes=1_000_000)
            _now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert len(bomb) < 400_000
        assert peak < 16 * limits.MIB


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("x-gzip", gzip.compress(b"hello", mtime=0)),
        ("gzip", gzip.compress(b"he", mtime=0) + gzip.compress(b"llo", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")[2:-4]),
        ("identity", b"hello"),
        ("", b"hello"),
    ],
)
async def test_encoded_bodies_are_decoded(encoding: str, body: bytes) -> None:
    async with loopback_server() as server:
        server.routes["/"] = encoded(encoding, body)

        assert (await EgressClient(LOOPBACK).request("GET", server.url())).body == b"hello"


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [
        ("br", b"x", "unknown encoding"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "unknown encoding"),
        ("gzip", b"hello", "damaged"),
        ("gzip", gzip.compress(b"hello" * 100, mtime=0)[:-12], "incomplete"),
        ("deflate", b"\xff\xff\xff\xff", "damaged"),
    ],
)
async def test_a_body_that_cannot_be_decoded_fails(encoding: str, body: bytes, message: str) -> None:
    async with loopback_server() as server:
        server.routes["/"] = encoded(encoding, body)

        with pytest.raises(EgressFailed, match=message):
            await EgressClient(LOOPBACK).request("GET", server.url())


async def test_many_small_members_of_gzip_count_by_their_bytes_on_the_wire() -> None:
    async with loopback_server() as server:
        server.routes["/"] = encoded("gzip", gzip.compress(b"") * 10_000)

        with pytest.raises(EgressFailed, match="more than 1000 bytes"):
            await EgressClient(LOOPBACK).request("GET", server.url(), max_bytes=1000)


@pytest.mark.parametrize("raw", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
async def test_an_answer_that_is_no_http_is_a_failure_that_may_be_retried(raw: bytes) -> None:
    async def write(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)

    async with loopback_server() as server:
        server.routes["/"] = write

        with pytest.raises(EgressFailed, match="Can't reach") as failed:
            await EgressClient(LOOPBACK).request("GET", server.url())
        assert failed.value.retryable


async def test_a_cancelled_request_closes_its_connection() -> None:
    closed = asyncio.Event()

    async def hold(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(200):
            await asyncio.sleep(0.01)
            writer.write(b"x")
            if writer.transport.is_closing():
                closed.set()

    async with loopback_server() as server:
        server.routes["/"] = hold
        request = asyncio.create_task(EgressClient(LOOPBACK).request("GET", server.url()))
        await eventually(lambda: server.received)

        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

        await asyncio.wait_for(closed.wait(), 2)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=service.test", "-addext", "subjectAltName=DNS:service.test"]
    subprocess.run(
        [*command, *names, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True
    )
    return folder


def tls_server(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


async def over_tls(server: LoopbackServer, certificate: Path, host: str, *, trusted: bool = True) -> bytes:
    context = ssl.create_default_context(cafile=certificate / "cert.pem") if trusted else None
    outgoing = EgressClient(LOOPBACK, resolver=FakeResolver(["127.0.0.1"]), ssl_context=context)
    return (await outgoing.request("GET", f"https://{host}:{server.port}/", timeout_s=5)).body


async def test_tls_asks_for_and_verifies_the_hosts_name_although_an_address_is_dialled(certificate: Path) -> None:
    async with loopback_server(tls_server(certificate)) as server:
        assert await over_tls(server, certificate, "service.test") == b"hello"
        assert server.sni_names == ["service.test"]
        assert server.received[0].headers["host"] == f"service.test:{server.port}"


@pytest.mark.parametrize(("host", "trusted"), [("other.test", True), ("service.test", False)])
async def test_a_certificate_of_another_name_or_of_nobody_known_is_refused(
    certificate: Path, host: str, *, trusted: bool
) -> None:
    async with loopback_server(tls_server(certificate)) as server:
        with pytest.raises(EgressFailed, match="certificate"):
            await over_tls(server, certificate, host, trusted=trusted)

        assert server.received == []


async def test_the_transport_serves_any_httpx_client() -> None:
    async with (
        loopback_server() as server,
        httpx.AsyncClient(transport=CheckedTransport(LOOPBACK), trust_env=False) as client,
    ):
        assert (await client.get(server.url())).text == "hello"
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:1/")
