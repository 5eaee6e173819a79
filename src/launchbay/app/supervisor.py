"""Several server processes on one port, and the supervisor that restarts them.

Each of them is an ordinary server with an engine of its own on a shared database (decision 0097). The supervisor owns
what exists once: the listening socket, the embedded PostgreSQL with its lock, the migrations, and the first
administrator. It accepts connections and passes them on in turn.
"""

import asyncio
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import structlog
from prometheus_client.multiprocess import mark_process_dead

from launchbay.clock import Backoff
from launchbay.errors import CannotStart
from launchbay.fairness.shared_counts import SharedCounts
from launchbay.settings import Settings
from launchbay.telemetry.metrics import DIRECTORY_VARIABLE, PROCESS_VARIABLE

log = structlog.get_logger(__name__)
_PROGRAM = "from launchbay.app.commands import serve_process; serve_process()"
_READY = b"ready"
_CONNECTION = b"c"
_ORDER_BYTES = 128 * 1024
_RESTARTS = Backoff(0.5, 30.0)
_SETTLED_S = 60.0  # a process that lived so long is started again at once
_STOP_MARGIN_S = 10.0  # beyond the grace period, for cleaning up
_PAUSE_S = 0.5  # when the system has no descriptor
_AT_ONCE = 64  # accepted before other work gets its turn
_PR_SET_PDEATHSIG = 1


class Order(msgspec.Struct, frozen=True):
    """What a server process needs to know. It has secrets."""

    settings: dict[str, Any]
    number: int  # from 1
    supervisor: int  # its process ID
    address: tuple[str, int]
    has_engine: bool
    counts: int  # the descriptor of the counts that the processes share


class Channel:
    """A listener in a server process: its connections come from the supervisor."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._address = ("", 0)

    def receive(self) -> tuple[Order, Settings]:
        """Return the order. From now on, this process ends with its supervisor."""
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        message = self._socket.recv(_ORDER_BYTES)
        order = msgspec.json.decode(message, type=Order) if message else None
        if order is None or os.getppid() != order.supervisor:
            sys.exit(1)  # the supervisor died before the kernel knew that this process depends on it
        self._address = order.address
        self._socket.settimeout(0)
        return order, Settings(**order.settings)

    def ready(self) -> None:
        """Tell the supervisor that this process takes connections."""
        self._socket.send(_READY)

    def listen(self, _: int) -> None:
        """The supervisor listens."""

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection and its peer. Raises OSError as sockets do."""
        message, descriptors, _, _ = socket.recv_fds(self._socket, len(_CONNECTION), 1)
        if not message:
            raise ConnectionResetError("The supervisor is gone.")
        if not descriptors:
            raise ConnectionAbortedError("This process may open no more files.")
        accepted = socket.socket(fileno=descriptors[0])
        try:
            return accepted, accepted.getpeername()
        except OSError as error:
            accepted.close()
            raise ConnectionAbortedError("The client is gone.") from error

    def close(self) -> None:
        self._socket.close()


class Supervisor:
    """Runs `settings.processes` server processes for a bound socket."""

    def __init__(self, settings: Settings, listener: socket.socket, *, has_engine: bool) -> None:
        self._settings = settings
        self._listener = listener
        self._has_engine = has_engine
        self._processes: dict[int, _ServerProcess] = {}
        self._rotation: deque[_ServerProcess] = deque()  # those that take connections, the next one first
        self._counts, self._counts_descriptor = SharedCounts.make(settings.processes)

    async def run(self, stop: asyncio.Event, *, started: Callable[[str, int], None]) -> None:
        """Run the processes until `stop`, then end them within the grace period.

        Calls `started(host, port)` when all take connections. Raises CannotStart if one ends before that.
        """
        directory = Path(tempfile.mkdtemp(prefix="launchbay-metrics-"))
        stopping: asyncio.Future[Any] = asyncio.create_task(stop.wait())
        working: asyncio.Future[Any] = asyncio.create_task(self._run(directory, started))
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.wait({working, stopping})
            self._refuse_connections()
            self._listener.close()
            await asyncio.gather(*(each.end(self._settings.stop_grace_s) for each in self._processes.values()))
            os.close(self._counts_descriptor)
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        if not working.cancelled():
            working.result()

    async def _run(self, directory: Path, started: Callable[[str, int], None]) -> None:
        # One first: what keeps it from starting would keep all of them.
        await self._start(1, directory)
        self._listener.listen()
        others = range(2, self._settings.processes + 1)
        await asyncio.gather(*(self._start(number, directory) for number in others))
        started(*self._listener.getsockname()[:2])
        async with asyncio.TaskGroup() as tasks:
            for number in self._processes:
                tasks.create_task(self._keep(number, directory))

    async def _start(self, number: int, directory: Path) -> None:
        """Start a process. Raises CannotStart if it ends before it takes connections."""
        settings = {name: getattr(self._settings, name) for name in self._settings.__dataclass_fields__}
        address, counts = self._listener.getsockname()[:2], self._counts_descriptor
        order = Order(settings, number, os.getpid(), address, self._has_engine, counts)
        process = self._processes[number] = _ServerProcess(order, directory)
        await process.until_ready()
        self._rotation.append(process)
        if len(self._rotation) == 1:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def _keep(self, number: int, directory: Path) -> None:
        """Start a process again whenever it ends."""
        failures = 0
        while True:
            process = self._processes[number]
            await process.ended()
            if process in self._rotation:
                self._rotation.remove(process)
            if not self._rotation:
                self._refuse_connections()
            # Its connections and jobs count no longer.
            mark_process_dead(number, str(directory))  # type: ignore[no-untyped-call]  # it has no types
            self._counts.forget_connections(number)
            lived_s = round(time.monotonic() - process.started_s, 1)
            failures = 0 if lived_s >= _SETTLED_S else failures + 1
            delay_s = _RESTARTS.delay_s(failures - 1) if failures > 1 else 0.0
            code = process.exit_code
            log.error("server_process.ended", process=number, exit_code=code, lived_s=lived_s, restart_in_s=delay_s)
            await asyncio.sleep(delay_s)
            try:
                await self._start(number, directory)
            except (CannotStart, OSError) as error:  # of the system: too many processes or files
                log.error("server_process.not_started", process=number, error=str(error))  # noqa: TRY400 - a trace says no more
            else:
                log.info("server_process.started", process=number)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("connections.not_accepted", error=str(error))  # noqa: TRY400 - a trace says no more
                self._refuse_connections()
                loop.call_later(_PAUSE_S, self._accept_again)
                return
            with accepted:
                self._pass_on(accepted)

    def _pass_on(self, accepted: socket.socket) -> None:
        for _ in range(len(self._rotation)):
            process = self._rotation[0]
            self._rotation.rotate(-1)
            if process.take(accepted):
                return
        log.warning("connections.not_passed_on")

    def _accept_again(self) -> None:
        if self._rotation and self._listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _refuse_connections(self) -> None:
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)


class _ServerProcess:
    """A server process. It dies with the thread that starts it."""

    def __init__(self, order: Order, metrics: Path) -> None:
        self.number = order.number
        self.started_s = time.monotonic()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._child = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), order.counts],
                start_new_session=True,  # Ctrl-C in the terminal is for the supervisor
                env={**os.environ, DIRECTORY_VARIABLE: str(metrics), PROCESS_VARIABLE: str(order.number)},
            )
        self._channel.settimeout(0)
        with suppress(OSError):  # a process that is dead already
            self._channel.send(msgspec.json.encode(order, enc_hook=str))

    @property
    def exit_code(self) -> int | None:
        return self._child.poll()

    async def until_ready(self) -> None:
        """Wait until it takes connections. Raises CannotStart if it ends before."""
        if await asyncio.get_running_loop().sock_recv(self._channel, len(_READY)) != _READY:
            await self.ended()
            raise CannotStart(f"Server process {self.number} ended with exit code {self.exit_code}.")

    def take(self, accepted: socket.socket) -> bool:
        """Give it a connection. Return False if it takes none."""
        try:
            socket.send_fds(self._channel, [_CONNECTION], [accepted.fileno()])
        except OSError:
            return False
        return True

    async def ended(self) -> None:
        """Wait until it has ended."""
        if self.exit_code is None:
            async with _readable(os.pidfd_open(self._child.pid)) as gone:
                await gone
            self._child.wait()
        self._channel.close()

    async def end(self, grace_s: float) -> None:
        """Ask it to end, and kill it if it takes too long."""
        if self.exit_code is None:
            self._child.terminate()
        try:
            async with asyncio.timeout(grace_s + _STOP_MARGIN_S):
                await self.ended()
        except TimeoutError:
            log.error("server_process.killed", process=self.number)  # noqa: TRY400 - a trace says no more
            self._child.kill()
            await self.ended()


@asynccontextmanager
async def _readable(descriptor: int) -> AsyncIterator["asyncio.Future[None]"]:
    """Yield a future of when a descriptor can be read, then close it."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _set_done, ready)
    try:
        yield ready
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _set_done(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
