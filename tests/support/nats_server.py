"""NATS servers with JetStream: one, or a cluster."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PATH = f"{os.environ['PATH']}:/usr/sbin"
WITHIN_S = 30.0


@dataclass
class NatsServer:
    """One server, started again and again on the same port. `routes` are the ports of the members of its cluster."""

    name: str
    port: int
    directory: Path
    routes: list[int] = field(default_factory=list)
    route: int = 0
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it. It forgets what it had in memory."""
        cluster = ""
        if self.routes:
            listed = ", ".join(f'"nats://127.0.0.1:{route}"' for route in self.routes)
            cluster = f'cluster {{ name: tests, listen: "127.0.0.1:{self.route}", routes: [{listed}] }}'
        configuration = self.directory / f"{self.name}.conf"
        configuration.write_text(
            f"""
server_name: {self.name}
listen: "{self.address}"
log_file: "{self.directory}/{self.name}.log"
jetstream {{ store_dir: "{self.directory}/{self.name}", max_mem: 64M, max_file: 64M }}
{cluster}
"""
        )
        program = shutil.which("nats-server", path=PATH)
        assert program is not None, "the fixtures skip without it"
        self._process = subprocess.Popen([program, "-c", str(configuration)], stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """SIGKILL, and wait for the death. Harmless if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(WITHIN_S)
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def nats_servers(count: int = 1) -> Iterator[list[NatsServer]]:
    """Run one NATS server or a cluster; skip the test if the program isn't installed."""
    if shutil.which("nats-server", path=PATH) is None:
        pytest.skip("nats-server isn't installed")
    directory = Path(tempfile.mkdtemp(prefix="launchbay-nats-"))
    with ExitStack() as taken:  # until all are known
        sockets = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * count)]
        ports = [each.getsockname()[1] for each in sockets]
    routes = ports[count:] if count > 1 else []
    servers = [NatsServer(f"n{i + 1}", ports[i], directory, routes, ports[count + i]) for i in range(count)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            with suppress(ProcessLookupError, AssertionError):
                server.thaw()
            server.kill()
        shutil.rmtree(directory, ignore_errors=True)


def url_of(servers: list[NatsServer]) -> str:
    """Return the setting `dispatch_url` of these servers."""
    return "nats://" + ",".join(server.address for server in servers)


def dispatch_settings(servers: list[NatsServer]) -> dict[str, str]:
    """Return the variables of a process that is woken through these servers."""
    return {"LAUNCHBAY_DISPATCH_URL": url_of(servers), "LAUNCHBAY_DISPATCH_REPLICAS": str(len(servers))}


@dataclass(frozen=True)
class Dispatch:
    """How workers hear of jobs: the variables of all processes, and what is added to the names of campaigns."""

    suffix: str = ""
    settings: dict[str, str] = field(default_factory=dict)
