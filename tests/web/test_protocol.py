"""Broken, large, slow and rude HTTP: each gets a clean answer, and the process serves the others (promise 11)."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from launchbay.limits import HEADER_BYTES, HEADER_LINES, JSON_BODY_BYTES, KIB, MIB, PIPELINED_REQUESTS
from launchbay.web import protocol
from tests.support.eventually import eventually
from tests.support.network import GOOD, LIVE, RUN, Wire, exchange, send_all_then_read
from tests.support.routes import ID, Streams


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def is_alive(port: int) -> bool:
    return (await exchange(port, LIVE)).status == 200


def head(*lines: bytes, path: bytes = b"/health/live") -> bytes:
    return b"\r\n".join([b"GET " + path + b" HTTP/1.1", b"Host: x", *lines, b"", b""])


SLEEP = head(path=b"/api/1/sleep")

TOO_LARGE_HEADERS = {
    "one header of a megabyte": (head(b"X: " + b"a" * MIB),),
    "one header of a megabyte in small pieces": (head(b"X: ")[:-4], *[b"a" * KIB] * KIB, b"\r\n\r\n"),
    "a header that never ends": (head(b"X: ")[:-4], *[b"a" * KIB] * 200),
    "a header name that never ends": (head(b"X")[:-4], *[b"a" * KIB] * 200),
    "ten thousand headers": (head(*[b"X: a"] * 10_000),),
    "one line more than the bound": (head(*[b"X: a"] * HEADER_LINES),),
    "a long path": (head(path=b"/" + b"a" * HEADER_BYTES),),
    "a path that never ends": (b"GET /", *[b"a" * KIB] * 200),
    "a trailer of half a megabyte": (
        RUN + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ",
        *[b"a" * KIB] * 500,
    ),
    "a chunk extension of half a megabyte": (
        RUN + b"Transfer-Encoding: chunked\r\n\r\n2;",
        *[b"a" * KIB] * 500,
    ),
}


@pytest.mark.parametrize("parts", TOO_LARGE_HEADERS.values(), ids=TOO_LARGE_HEADERS)
async def test_headers_beyond_their_bounds_are_431_and_the_end(port: int, parts: tuple[bytes, ...]) -> None:
    wire = await Wire.open(port)
    await wire.send(*parts)
    answer = await wire.answer()
    assert (answer.status, answer.headers["content-type"]) == (431, "application/json")
    assert answer.json()["code"] == "HeadersTooLarge"
    assert answer.json()["requestId"] == answer.headers["x-request-id"]
    assert await wire.ended()
    assert await is_alive(port)


async def test_headers_within_their_bounds_are_read(port: int) -> None:
    lines = [b"X: a"] * (HEADER_LINES - 1)
    assert (await exchange(port, head(*lines))).status == 200
    assert (await exchange(port, head(b"X: " + b"a" * (HEADER_BYTES - 200)))).status == 200


BROKEN = {
    "not HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2 without asking": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a proxy request": b"CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes that are no URL": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\nHost: x\0y\r\n\r\n",
    "a length that is no number": RUN + b"Content-Length: two\r\n\r\n{}",
    "a negative length": RUN + b"Content-Length: -2\r\n\r\n{}",
    "an endless length": RUN + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "two lengths": RUN + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "a length and chunks": RUN + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunks and a length": RUN + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "an unknown transfer encoding": RUN + b"Transfer-Encoding: sponge\r\n\r\n{}",
    "a chunk length that is no number": RUN + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
async def test_broken_http_is_400_and_the_end(port: int, data: bytes) -> None:
    wire = await Wire.open(port)
    await wire.send(data)
    answer = await wire.answer()
    assert (answer.status, answer.json()["code"]) == (400, "MalformedRequest")
    assert answer.headers["connection"] == "close"
    assert await wire.ended()
    assert await is_alive(port)


async def test_a_body_in_chunks_is_read(port: int) -> None:
    answer = await exchange(
        port, RUN + b'Transfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4;x=y\r\n":1}\r\n0\r\nT: t\r\n\r\n'
    )
    assert answer.json()["body"] == {"a": 1}


CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


@pytest.mark.parametrize("connection", [b"", b"Connection: close\r\n"])
async def test_chunks_beyond_the_bound_are_413(port: int, connection: bytes) -> None:
    parts = [RUN + connection + b"Transfer-Encoding: chunked\r\n\r\n", *[CHUNK] * 40, b"0\r\n\r\n"]
    assert (await exchange(port, *parts)).status == 413


@pytest.mark.parametrize("connection", [b"", b"Connection: close\r\n"])
async def test_a_client_that_sends_all_of_a_body_that_is_too_large_still_reads_its_413(
    port: int, connection: bytes
) -> None:
    length = 5 * JSON_BODY_BYTES
    answer = await exchange(port, RUN + connection + b"Content-Length: %d\r\n\r\n" % length, b"x" * length)
    assert (answer.status, answer.json()["code"]) == (413, "TooLarge")


RUDE = {
    "a header that is too large": (head(b"X: " + b"a" * 5 * MIB), 431),
    "a body that is too large": (RUN + b"Connection: close\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5_000_000, 413),
    "a body that nobody wants": (
        b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5000000\r\n\r\n"
        + b"x" * 5_000_000,
        200,
    ),
    "broken HTTP and much after it": (b"\0" * 5 * MIB, 400),
}


@pytest.mark.parametrize(("data", "status"), RUDE.values(), ids=RUDE)
async def test_a_client_that_reads_only_after_it_has_sent_everything_finds_its_answer(
    port: int, data: bytes, status: int
) -> None:
    answer = await asyncio.to_thread(send_all_then_read, port, data)
    assert answer.startswith(b"HTTP/1.1 %d " % status)


async def test_the_connection_serves_on_after_a_413(port: int) -> None:
    wire = await Wire.open(port)
    length = JSON_BODY_BYTES + 1
    await wire.send(RUN + b"Content-Length: %d\r\n\r\n" % length, b"x" * length, LIVE)
    assert [(await wire.answer()).status for _ in range(2)] == [413, 200]


async def test_a_body_without_end_is_cut_off_and_takes_no_memory(port: int) -> None:
    before = resident_bytes()
    wire = await Wire.open(port)
    await wire.send(RUN + b"Transfer-Encoding: chunked\r\n\r\n")
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < 200 * MIB:
            await wire.send(CHUNK)
            sent += len(CHUNK)
    assert sent < 100 * MIB
    assert resident_bytes() - before < 30 * MIB
    assert await is_alive(port)


async def test_a_client_that_asks_first_is_told_no_before_it_sends(port: int) -> None:
    answer = await exchange(port, RUN + b"Expect: 100-continue\r\nContent-Length: 5000000\r\n\r\n")
    assert answer.status == 413


async def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    wire = await Wire.open(port)
    body = b'Content-Length: 7\r\n\r\n{"a":1}'
    await wire.send(LIVE + RUN + body + head(path=b"/nope") + LIVE)
    assert [(await wire.answer()).status for _ in range(4)] == [200, 200, 404, 200]


async def test_more_pipelined_requests_than_may_wait_are_answered_as_far_as_they_may(port: int) -> None:
    wire = await Wire.open(port)
    await wire.send(LIVE * 1000)
    answers = [await wire.answer() for _ in range(PIPELINED_REQUESTS + 1)]
    assert {answer.status for answer in answers} == {200}
    assert await wire.ended()


@pytest.mark.parametrize(
    "rest", [b"\0\0\r\n\r\n", RUN + b"Content-Length: x\r\n\r\n", RUN + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"]
)
async def test_what_breaks_after_a_good_request_does_not_spoil_its_answer(port: int, rest: bytes) -> None:
    wire = await Wire.open(port)
    await wire.send(SLEEP + LIVE + rest)
    assert [(await wire.answer()).status for _ in range(2)] == [200, 200]
    assert await wire.ended()


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
FRAMED = {
    "length": b'Content-Length: 7\r\n\r\n{"a":1}',
    "chunks": b'Transfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n0\r\n\r\n',
}


@pytest.mark.parametrize("body", FRAMED.values(), ids=FRAMED)
@pytest.mark.parametrize("cut", [None, 0, 3])
async def test_a_client_that_offers_http2_is_served_with_its_body(port: int, body: bytes, cut: int | None) -> None:
    wire = await Wire.open(port)
    headers, _, framed = (RUN + H2C + body).partition(b"\r\n\r\n")
    if cut is None:
        await wire.send((headers + b"\r\n\r\n" + framed) * 2 + head(H2C[:-2]) + LIVE)
        expected = [{"a": 1}, {"a": 1}]
    else:
        await wire.send(headers + b"\r\n\r\n" + framed[:cut])
        await asyncio.sleep(0.05)
        await wire.send(framed[cut:] + head(H2C[:-2]) + LIVE)
        expected = [{"a": 1}]
    assert [(await wire.answer()).json()["body"] for _ in expected] == expected
    assert [(await wire.answer()).status for _ in range(2)] == [200, 200]


async def test_http_1_0_and_absolute_addresses_are_served(port: int) -> None:
    assert (await exchange(port, b"GET /health/live HTTP/1.0\r\n\r\n")).status == 200
    assert (await exchange(port, head(path=b"http://x/health/live"))).status == 200
    assert (await exchange(port, b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")).status == 404


# Time. The bounds are shortened; what is tested is which clock runs when.


@pytest.fixture
def quick_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_READ_S", 0.4)
    monkeypatch.setattr(protocol, "BODY_READ_S", 0.8)
    monkeypatch.setattr(protocol, "RESPONSE_STALL_S", 0.3)


@contextlib.asynccontextmanager
async def dripping(wire: Wire, data: bytes) -> AsyncIterator[None]:
    """Send byte by byte meanwhile, each time resetting any clock that only looks at silence."""

    async def drip() -> None:
        with contextlib.suppress(ConnectionError):
            for position in range(len(data)):
                await wire.send(data[position : position + 1])
                await asyncio.sleep(0.02)

    sending = asyncio.create_task(drip())
    yield
    sending.cancel()


@pytest.mark.usefixtures("quick_clocks")
async def test_headers_that_drip_in_are_408_in_time(port: int) -> None:
    wire = await Wire.open(port)
    async with dripping(wire, head(b"X: " + b"a" * 500)), asyncio.timeout(1):
        assert (await wire.answer()).status == 408


async def another_is_late(port: int) -> None:
    """Let the time for headers pass: another client, which began after all others, gets 408."""
    wire = await Wire.open(port)
    await wire.send(LIVE[:10])
    assert (await wire.answer()).status == 408
    assert await wire.ended()


@pytest.mark.usefixtures("quick_clocks")
async def test_headers_of_a_later_request_are_watched_too(port: int) -> None:
    wire = await Wire.open(port)
    await wire.send(LIVE)
    assert (await wire.answer()).status == 200
    await another_is_late(port)
    await wire.send(LIVE + LIVE[:10])
    assert (await wire.answer()).status == 200
    assert (await wire.answer()).status == 408
    assert await wire.ended()


@pytest.mark.usefixtures("quick_clocks")
@pytest.mark.parametrize("path", ["go", "nowhere/at/all"])
async def test_a_body_that_drips_in_ends_in_time(port: int, path: str) -> None:
    wire = await Wire.open(port)
    await wire.send(RUN.replace(b"/go ", f"/{path} ".encode()) + b"Content-Length: 900\r\n\r\n")
    async with dripping(wire, b"x" * 900), asyncio.timeout(1.5):
        assert (await wire.answer()).status == 408


UPLOAD = b"POST /api/1/uploads/lines HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n"


@pytest.mark.parametrize(("piece", "status"), [(16 * KIB, 200), (100, 408)])
async def test_a_file_may_take_longer_than_other_bodies_while_enough_of_it_comes(
    port: int, monkeypatch: pytest.MonkeyPatch, piece: int, status: int
) -> None:
    monkeypatch.setattr(protocol, "BODY_READ_S", 0.5)
    wire = await Wire.open(port)
    await wire.send(UPLOAD + b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % (50 * piece))

    async def send() -> None:
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                await wire.send(b"x" * piece)
                await asyncio.sleep(0.02)

    sending = asyncio.create_task(send())
    async with asyncio.timeout(20):
        answer = await wire.answer()
    sending.cancel()
    assert answer.status == status
    if status == 200:
        assert answer.json() == {"bytes": 50 * piece}


@pytest.mark.usefixtures("quick_clocks")
@pytest.mark.parametrize("data", [b"", b"\r\n"])
async def test_a_connection_that_says_nothing_is_closed(port: int, data: bytes) -> None:
    wire = await Wire.open(port)
    await wire.send(data)
    async with asyncio.timeout(1):
        assert await wire.ended()


@pytest.mark.usefixtures("quick_clocks")
async def test_blank_lines_do_not_keep_a_connection_open(port: int) -> None:
    wire = await Wire.open(port)
    await wire.send(LIVE)
    await wire.answer()
    async with dripping(wire, b"\r\n" * 50), asyncio.timeout(1):
        assert await wire.ended()


@pytest.mark.usefixtures("quick_clocks")
async def test_a_slow_handler_is_not_taken_for_a_slow_client(port: int) -> None:
    answer = await exchange(port, SLEEP)
    assert answer.status == 200


async def test_a_body_that_waits_for_an_earlier_answer_is_not_taken_for_slow(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "BODY_READ_S", 0.1)
    wire = await Wire.open(port)
    body = b'{"a":"' + b"x" * 900_000 + b'"}'
    await wire.send(SLEEP + RUN + b"Content-Length: %d\r\n\r\n" % len(body), body)
    assert [(await wire.answer()).status for _ in range(2)] == [200, 200]


async def test_what_has_been_refused_is_not_answered_a_second_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BODY_READ_S", 0.1)
    wire = await Wire.open(port)
    with capture_logs() as logs:
        await wire.send(SLEEP[:-2] + b"Content-Length: 10\r\n\r\nx")
        assert (await wire.answer()).status == 408
        assert await wire.ended()
        await eventually(lambda: len(logs) >= 2)
    assert [line["event"] for line in logs] == ["http.rejected", "http.request"]
    assert logs[1]["client_gone"]


@pytest.mark.usefixtures("quick_clocks")
async def test_an_idle_connection_stays_open_between_requests(port: int) -> None:
    wire = await Wire.open(port)
    for _ in range(2):
        await wire.send(LIVE)
        assert (await wire.answer()).status == 200
        await another_is_late(port)


@pytest.mark.usefixtures("quick_clocks")
async def test_a_client_that_does_not_read_a_long_list_is_cut_off_and_its_cursor_given_back(port: int) -> None:
    closed, made = Streams.closed, Streams.rows_made
    wire = await Wire.open(port)
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport can read
    await wire.send(head(GOOD[:-2], path=b"/api/1/things?count=1000000"))
    await eventually(lambda: Streams.closed != closed)
    assert Streams.rows_made - made < 200_000
    wire.close()


async def test_a_list_stops_when_its_client_goes_away(port: int) -> None:
    closed, made = Streams.closed, Streams.rows_made
    wire = await Wire.open(port)
    await wire.send(head(GOOD[:-2], path=b"/api/1/things?count=1000000&slow=true"))
    await wire.reader.readexactly(1000)
    wire.close()
    await eventually(lambda: Streams.closed != closed)
    assert Streams.rows_made - made < 100_000


async def test_a_list_that_fails_midway_never_looks_complete(port: int) -> None:
    wire = await Wire.open(port)
    await wire.send(head(GOOD[:-2], path=b"/api/1/things?count=5000&fail_at=3000"))
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            data = await wire.reader.read(-1)
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["http.aborted"]
    assert data.startswith(b"HTTP/1.1 200")
    assert data.count(b'"id"') >= 2000
    assert not data.endswith(b"0\r\n\r\n")


async def test_a_long_list_takes_no_memory(port: int) -> None:
    wire = await Wire.open(port)
    await wire.send(head(GOOD[:-2], b"Connection: close", path=b"/api/1/things?count=200000"))
    before, received = resident_bytes(), 0
    async with asyncio.timeout(30):
        while data := await wire.reader.read(MIB):
            received += len(data)
    assert received > 40 * MIB
    assert resident_bytes() - before < 15 * MIB


async def test_a_hundred_rude_connections_do_not_hold_up_a_polite_one(port: int) -> None:
    rude = [await Wire.open(port) for _ in range(100)]
    for number, wire in enumerate(rude):
        await wire.send(
            (LIVE[:20], RUN + b"Content-Length: 50\r\n\r\n{", head(b"X: " + b"a" * 60_000), b"")[number % 4]
        )
    async with asyncio.timeout(1):
        assert await is_alive(port)
    for wire in rude:
        wire.close()


async def test_a_client_that_goes_away_before_its_body_is_complete_is_no_error(port: int) -> None:
    wire = await Wire.open(port)
    with capture_logs() as logs:
        await wire.send(f"PUT /api/1/things/{ID} HTTP/1.1\r\nHost: x\r\n".encode() + GOOD)
        await wire.send(b"Content-Length: 50\r\nContent-Type: application/json\r\n\r\n{")
        await asyncio.sleep(0.05)
        wire.close()
        await eventually(lambda: logs)
    [line] = logs
    assert (line["event"], line["client_gone"], line["log_level"]) == ("http.request", True, "info")


# A client that closes its sending side: everything that it has sent completely is answered.


async def sent_and_shut(port: int, *parts: bytes) -> Wire:
    wire = await Wire.open(port)
    await wire.send(*parts)
    wire.writer.write_eof()
    return wire


BODY = b'Content-Length: 7\r\n\r\n{"a":1}'


@pytest.mark.parametrize("body", FRAMED.values(), ids=FRAMED)
async def test_a_client_that_closes_its_sending_side_gets_its_answer(port: int, body: bytes) -> None:
    wire = await sent_and_shut(port, SLEEP)
    assert (await wire.answer()).status == 200
    assert await wire.ended()
    wire = await sent_and_shut(port, RUN + body)
    answer = await wire.answer()
    assert (answer.status, answer.json()["body"]) == (200, {"a": 1})
    assert await wire.ended()


async def test_pipelined_requests_are_answered_although_the_client_has_closed_its_sending_side(port: int) -> None:
    wire = await sent_and_shut(port, SLEEP + RUN + BODY + head(path=b"/nope") + LIVE)
    assert [(await wire.answer()).status for _ in range(4)] == [200, 200, 404, 200]
    assert await wire.ended()


@pytest.mark.parametrize("rest", [LIVE[:20], RUN + b"Content-Length: 50\r\n\r\n{"], ids=["headers", "body"])
async def test_what_was_sent_in_part_before_the_end_is_dropped_and_the_rest_answered(port: int, rest: bytes) -> None:
    wire = await sent_and_shut(port, SLEEP + LIVE + rest)
    assert [(await wire.answer()).status for _ in range(2)] == [200, 200]
    assert await wire.ended()


async def test_a_long_list_comes_whole_after_the_client_has_closed_its_sending_side(port: int) -> None:
    wire = await sent_and_shut(port, head(GOOD[:-2], path=b"/api/1/things?count=20000"))
    data = await wire.reader.read()
    assert data.count(b'"id"') == 20_000
    assert data.endswith(b"\r\n0\r\n\r\n")


async def test_a_client_that_has_gone_is_noticed_although_it_may_only_have_closed_its_sending_side(port: int) -> None:
    closed = Streams.closed
    wire = await sent_and_shut(port, head(GOOD[:-2], path=b"/api/1/things?count=1000000&slow=true"))
    await wire.reader.readexactly(1000)
    wire.close()
    await eventually(lambda: Streams.closed != closed)


# What RFC 9110 lets a tolerant server read.


async def test_a_client_of_http_1_0_never_gets_100_continue(port: int) -> None:
    request = (RUN + b"Expect: 100-continue\r\n" + BODY).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    wire = await Wire.open(port)
    head_only, _, body = request.partition(b"\r\n\r\n")
    await wire.send(head_only + b"\r\n\r\n")
    await asyncio.sleep(0.05)  # in which the server would ask for the body
    await wire.send(body)
    assert (await wire.reader.read(12)) == b"HTTP/1.1 200"
    wire.close()


async def test_blanks_after_the_value_of_a_header_do_not_count(port: int) -> None:
    run = RUN.replace(b"application/json", b"application/json \t")
    assert b"json \t" in run
    assert (await exchange(port, run + BODY)).status == 200
    assert (await exchange(port, LIVE.replace(b"Host: x", b"Host: x:80 "))).status == 200
