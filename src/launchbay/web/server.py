"""Serves the application with uvicorn, in the event loop that the engine uses too."""

import asyncio
import errno
import math
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog
from starlette.types import ASGIApp
from uvicorn import Config, Server

from launchbay.errors import CannotStart
from launchbay.fairness.shared_counts import SharedCounts
from launchbay.limits import KEEP_ALIVE_IDLE_S
from launchbay.settings import Settings
from launchbay.web.connections import Acceptor, Listener, bounds
from launchbay.web.protocol import BoundedHttpProtocol
from launchbay.web.tls import Certificate

_log = structlog.get_logger("launchbay.web")
_BACKLOG = 2048
_TICK_S = 1.0


class _EmbeddedServer(Server):
    """uvicorn's server, embedded in a larger program."""

    def __init__(self, config: Config, settings: Settings, listener: Listener, counts: SharedCounts) -> None:
        super().__init__(config)
        self._counts = counts
        self.accepting = asyncio.Event()
        self._ending = asyncio.Event()
        self._settings = settings
        self._listener = listener
        self._acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Accept connections with our own acceptor instead of uvicorn's, which has no bounds."""
        self.servers = []
        self._acceptor = Acceptor(self._listener, self._protocol, self.config.ssl, self._settings, self._counts)
        self.started = True
        self.accepting.set()

    async def main_loop(self) -> None:
        """Renew the date of responses each second until the end.

        uvicorn's own loop wakes up ten times as often.
        """
        while not self.should_exit:
            await self.on_tick(0)
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._ending.wait()

    def end(self) -> None:
        """Let `run_here` finish the running requests and return."""
        self.should_exit = True
        self._ending.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        self._listener.close()
        await super().shutdown(sockets)

    def _protocol(self) -> BoundedHttpProtocol:
        return BoundedHttpProtocol(self.config, self.server_state, self.lifespan.state)

    async def run_here(self) -> None:
        """Serve until `end`, without the signal handlers that uvicorn's `serve` installs."""
        await self._serve()


async def serve(
    app: ASGIApp,
    settings: Settings,
    stop: asyncio.Event,
    counts: SharedCounts | None = None,
    started: Callable[[str, int], None] | None = None,
    listener: Listener | None = None,
) -> None:
    """Serve until `stop` is set, then finish running requests within `stop_grace_s` and close all connections.

    Installs no signal handlers: the owner of the event loop sets `stop`. Calls `started(host, port)` when connections
    are accepted, with the actual port if the setting is 0. `listener` is a socket from `bind`. `counts` has the
    connections of all processes. Raises CannotStart if the address can't be bound.
    """
    bounds(settings)  # refuses what can't be, before anything starts
    certificate = _certificate(settings)
    listener = listener or bind(settings.host, settings.port)
    try:
        listener.listen(_BACKLOG)  # another process may have bound the address too, and listen first
    except OSError as error:
        listener.close()
        raise _cannot_listen(settings.host, settings.port, error) from error
    server = _EmbeddedServer(_config(app, settings, certificate), settings, listener, counts or SharedCounts())
    reloading = asyncio.create_task(certificate.keep_current()) if certificate is not None else None
    running = asyncio.create_task(server.run_here())
    accepting = asyncio.create_task(server.accepting.wait())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, accepting}, return_when=asyncio.FIRST_COMPLETED)
        if accepting.done() and started is not None:
            host, port = listener.getsockname()[:2]
            started(host, port)
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for helper in (accepting, stopping, reloading):
            if helper is not None:
                helper.cancel()
        server.end()
        await running
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        listener.close()
    _log.info("server.stopped")


def _certificate(settings: Settings) -> Certificate | None:
    if not settings.tls_certificate:
        return None
    return Certificate(Path(settings.tls_certificate), Path(settings.tls_key))


def _config(app: ASGIApp, settings: Settings, certificate: Certificate | None) -> Config:
    return Config(
        app,
        http=BoundedHttpProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        # ClientAddress reads them, of trusted proxies only.
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_IDLE_S,
        timeout_graceful_shutdown=math.ceil(settings.stop_grace_s),
        backlog=_BACKLOG,
        ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
    )


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that doesn't listen yet. Raises CannotStart if that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.settimeout(0)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise _cannot_listen(host, port, error) from error
    return listener


def _cannot_listen(host: str, port: int, error: OSError) -> CannotStart:
    remedy = "Change LAUNCHBAY_HOST or LAUNCHBAY_PORT."
    if error.errno == errno.EADDRINUSE:
        remedy = "Stop the program that uses it (ss -ltnp), or select another port with --port or LAUNCHBAY_PORT."
    return CannotStart(f"Can't listen on {host}:{port}: {error.strerror or error}. {remedy}")
