"""Starting, stopping, and leaving the rest of the process alone."""

import asyncio
import signal
import socket

import pytest

from launchbay.errors import CannotStart
from launchbay.settings import Settings
from launchbay.web.server import serve
from tests.support.network import LIVE, Wire, exchange
from tests.support.routes import sample_app


class Running:
    """A server of its own, to be stopped inside the test."""

    def __init__(self, stop_grace_s: float = 1.0) -> None:
        self.stop = asyncio.Event()
        self.address: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
        settings = Settings(port=0, stop_grace_s=stop_grace_s)
        self.task = asyncio.create_task(
            serve(sample_app(), settings, self.stop, started=lambda host, port: self.address.set_result((host, port)))
        )


async def test_the_bound_port_is_told_once_requests_are_answered() -> None:
    running = Running()
    host, port = await running.address
    assert host == "127.0.0.1"
    assert (await exchange(port, LIVE)).status == 200
    running.stop.set()
    await running.task


async def test_no_signal_handler_is_touched() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    running = Running()
    await running.address
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    running.stop.set()
    await running.task
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_a_request_under_way_is_finished_and_new_ones_are_not_taken() -> None:
    running = Running(stop_grace_s=5)
    _, port = await running.address
    idle, busy = await Wire.open(port), await Wire.open(port)
    await busy.send(b"GET /api/1/sleep HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.1)
    running.stop.set()
    answer = await busy.answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert await idle.ended()
    await asyncio.wait_for(running.task, 2)
    with pytest.raises(OSError, match=r"refused|Connect"):
        await Wire.open(port)


async def test_what_does_not_finish_within_the_grace_time_is_cut_off() -> None:
    running = Running(stop_grace_s=1)
    _, port = await running.address
    wire = await Wire.open(port)
    await wire.send(
        b"GET /api/1/things?count=100000&slow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n"
    )
    await wire.reader.readexactly(100)
    running.stop.set()
    await asyncio.wait_for(running.task, 4)


async def test_a_port_that_is_taken_is_said_plainly() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotStart, match=f"127.0.0.1:{port}"):
            await serve(sample_app(), Settings(port=port), asyncio.Event())


async def test_a_server_that_is_cancelled_leaves_nothing_behind() -> None:
    running = Running()
    _, port = await running.address
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    with pytest.raises(OSError, match=r"refused|Connect"):
        await Wire.open(port)
