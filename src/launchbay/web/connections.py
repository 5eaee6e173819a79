"""Accepts connections, and bounds them per address and in all.

uvicorn's own acceptor has no bound that closes anything, and doesn't see connections before the end of their handshake.
"""

import asyncio
import resource
import socket
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import structlog

from launchbay.auth.throttle import address_block
from launchbay.errors import CannotStart
from launchbay.fairness.shared_counts import SharedCounts
from launchbay.limits import CONNECTIONS_DEFAULT, DESCRIPTORS_RESERVED, DESCRIPTORS_WANTED, HEADER_READ_S
from launchbay.settings import Settings
from launchbay.telemetry import metrics
from launchbay.web.proxies import TrustedProxies

_log = structlog.get_logger("launchbay.web")
_AT_ONCE = 64  # accepted before other work gets its turn
_PAUSE_S = 0.5  # when the system has no descriptor
_SEARCH_S = 0.2  # between two searches for connections to close, if the last one found nothing
_LOG_S = 10.0
_SHARE = 20  # one of so many makes room at a time, so that a search pays off
_ALL = "all"  # the key of their count
_SLOW_S = 1.0  # that a request may take to arrive before its connection makes room for others


class Connection(Protocol):
    """The protocol of an accepted connection."""

    closed: Callable[[], None]

    def quiet_s(self) -> tuple[bool, float]:
        """Return if a request has begun to arrive, and how long the client has been silent.

        0 if the server works for it.
        """
        ...

    def drop(self) -> None: ...


class Listener(Protocol):
    """Where connections come from: a listening socket, or what stands for it."""

    def listen(self, backlog: int, /) -> None: ...

    def getsockname(self) -> Any: ...

    def fileno(self) -> int: ...

    def accept(self) -> tuple[socket.socket, Any]: ...

    def close(self) -> None: ...


class _Entry:
    """An accepted connection; `connection` is None during its handshake."""

    __slots__ = ("address", "connection", "since_s", "task")

    def __init__(self, address: str) -> None:
        self.address = address
        self.since_s = time.monotonic()
        self.connection: Connection | None = None
        self.task: asyncio.Task[None] | None = None

    def rank(self, now_s: float) -> tuple[int, float] | None:
        """Return its place in the order of closing, None if it is in use.

        Idle ones go before slow ones, the longest first.
        """
        if self.connection is None:
            return (1, -(now_s - self.since_s)) if now_s - self.since_s > _SLOW_S else None
        is_arriving, waited_s = self.connection.quiet_s()
        if is_arriving:
            return (1, -waited_s) if waited_s > _SLOW_S else None
        return (0, -waited_s) if waited_s > 0 else None

    def drop(self) -> None:
        if self.connection is not None:
            self.connection.drop()
        elif self.task is not None:
            self.task.cancel()


class Acceptor:
    """Accepts the connections of one listening socket.

    Trusted proxies have no bound per address. Beyond a bound, idle connections are closed first, then those whose
    request arrives slowly. If all are in use, the new one is closed.
    """

    def __init__(
        self,
        listener: Listener,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
        settings: Settings,
        counts: SharedCounts,
    ) -> None:
        self._listener = listener
        self._make = make
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._counts = counts
        self._bounds = bounds(settings)
        self._proxies = TrustedProxies(settings.proxy_networks())
        self._open: set[_Entry] = set()
        self._by_address: defaultdict[str, set[_Entry]] = defaultdict(set)
        self._searched_s: dict[str, float] = {}
        self._logged_s = -_LOG_S
        self._resuming: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._loop.add_reader(listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more, and give up handshakes."""
        self._is_closed = True
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._listener.fileno())
        for entry in list(self._open):
            if entry.connection is None:
                entry.drop()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("connections.not_accepted", error=str(error))
                self._loop.remove_reader(self._listener.fileno())
                self._resuming = self._loop.call_later(_PAUSE_S, self._resume)
                return
            accepted.settimeout(0)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            entry = _Entry(address_block(peer[0]))
            # Connections of a proxy are those of many; ClientAddress bounds what each of them does.
            if self._has_room(entry.address, is_bounded=peer[0] not in self._proxies):
                self._open.add(entry)
                self._by_address[entry.address].add(entry)
                self._count(entry, 1)
                entry.task = self._loop.create_task(self._establish(entry, accepted))
            else:
                metrics.connections_closed.labels("refused").inc()
                accepted.close()

    def _resume(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)

    async def _establish(self, entry: _Entry, accepted: socket.socket) -> None:
        timeout_s = None if self._context is None else HEADER_READ_S
        protocol = self._make()
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._context, ssl_handshake_timeout=timeout_s
            )
        except (OSError, TimeoutError):
            self._forget(entry)  # a failed handshake, or a client that went away
        except BaseException:
            self._forget(entry)
            raise
        else:
            connection: Connection = protocol  # type: ignore[assignment]  # made by our own factory
            entry.connection, entry.task = connection, None
            connection.closed = lambda: self._forget(entry)
            if self._is_closed:
                connection.drop()

    def _count(self, entry: _Entry, change: int) -> None:
        self._counts.add_connections(_ALL, change)
        self._counts.add_connections(f"from {entry.address}", change)

    def _forget(self, entry: _Entry) -> None:
        if entry in self._open:
            self._open.remove(entry)
            self._count(entry, -1)
        same = self._by_address.get(entry.address)
        if same is not None:
            same.discard(entry)
            if not same:
                del self._by_address[entry.address]

    def _has_room(self, address: str, *, is_bounded: bool) -> bool:
        # Other processes keep theirs: who has too many there loses some of those here.
        if is_bounded and self._counts.connections(f"from {address}") >= self._bounds.per_address:
            return self._close_some(address, self._by_address.get(address, ()))
        is_full = len(self._open) >= self._bounds.here or self._counts.connections(_ALL) >= self._bounds.total
        return not is_full or self._close_some("", self._open)

    def _close_some(self, whose: str, entries: Iterable[_Entry]) -> bool:
        now_s = time.monotonic()
        if now_s - self._searched_s.get(whose, -_SEARCH_S) < _SEARCH_S:
            return False
        ranked = [(rank, entry) for entry in entries if (rank := entry.rank(now_s)) is not None]
        ranked.sort(key=lambda each: each[0])
        chosen = ranked[: max(1, (self._bounds.per_address if whose else self._bounds.here) // _SHARE)]
        for _, entry in chosen:
            self._forget(entry)
            entry.drop()
        metrics.connections_closed.labels("made room").inc(len(chosen))
        if not chosen:
            if len(self._searched_s) > self._bounds.here:
                self._searched_s.clear()
            self._searched_s[whose] = now_s
        if now_s - self._logged_s >= _LOG_S:
            self._logged_s = now_s
            _log.warning("connections.full", address=whose or "all", open=len(self._open), closed=len(chosen))
        return bool(chosen)


def raise_descriptor_limit() -> None:
    """Let this process open as many descriptors as it needs and the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Bounds(NamedTuple):
    """How many connections may be open: in all, per address, in this process."""

    total: int
    per_address: int
    here: int


def bounds(settings: Settings) -> Bounds:
    """Return the bounds of connections. Raises CannotStart if the processes can't open so many."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = DESCRIPTORS_WANTED
    # The rest is for PostgreSQL, for calls of workflows, and for files.
    possible = max(soft // 4, soft - DESCRIPTORS_RESERVED - settings.database_connections)
    if settings.connections > possible * settings.processes:
        raise CannotStart(
            f"LAUNCHBAY_CONNECTIONS is {settings.connections}, but each server process may open {soft} files, which"
            f" leaves {possible} for connections.",
            "Raise the limit (`ulimit -n`, or LimitNOFILE= in systemd), or set fewer connections.",
        )
    total = settings.connections or min(possible, CONNECTIONS_DEFAULT) * settings.processes
    return Bounds(total, min(settings.connections_per_address or max(1, total // 2), total), min(possible, total))
