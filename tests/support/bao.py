"""A real server of secrets on loopback, which keeps all in memory (`bao server -dev`) or on the disk."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.support.eventually import eventually_blocking, until_listening
from tests.support.servers import free_ports

PROGRAM = Path(__file__).resolve().parents[2] / ".venv" / "bao" / "bin" / "bao"
MISSING = "bao is not installed: run requirements/bao, which needs the package registry"
_ROOT = "root"
_START_S = 60.0


@dataclass
class Bao:
    """A running server, and its administrator."""

    url: str
    process: subprocess.Popen[bytes]
    unseal_key: str = ""
    token: str = _ROOT

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask as the administrator, and return the answer, None for an empty one."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/v1/{path}", data, {"X-Vault-Token": self.token}, method=method)
        with urlopen(request, timeout=30) as response:
            content = response.read()
        return json.loads(content) if content else None

    def leases(self, prefix: str) -> list[str]:
        try:
            found: list[str] = self.ask("LIST", f"sys/leases/lookup/{prefix}")["data"]["keys"]
        except HTTPError as error:
            if error.code != 404:
                raise
            return []
        return found


@contextmanager
def started(directory: Path) -> Iterator[Bao]:
    """Run a server with KV 2 at `secret`, and give it."""
    [port] = free_ports(1)
    log = directory / "bao.log"
    process = _run(directory, "-dev", f"-dev-root-token-id={_ROOT}", f"-dev-listen-address=127.0.0.1:{port}")
    bao = Bao(f"http://127.0.0.1:{port}", process)
    try:
        _wait(bao, log)
        yield bao
    finally:
        process.kill()
        process.wait()


@dataclass
class StoredBao(Bao):
    """A server that can be stopped, and started again on its port with what it had."""

    directory: Path = Path()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        self.process = _run(self.directory, "-config", str(self.directory / "bao.json"))
        self.prepare()

    def prepare(self) -> None:
        """Wait for it, and unseal it; the first time, make its keys."""
        self._until_answered("GET", "sys/seal-status")
        if not self.unseal_key:
            made = self.ask("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})
            self.unseal_key, self.token = made["keys"][0], made["root_token"]
        self.ask("PUT", "sys/unseal", {"key": self.unseal_key})
        self._until_answered("GET", "sys/auth")

    def _until_answered(self, method: str, path: str) -> None:
        until_listening(int(self.url.rpartition(":")[2]), self.process, self.directory / "bao.log")
        eventually_blocking(lambda: (self.ask(method, path),), within_s=_START_S, despite=OSError)


@contextmanager
def stored(directory: Path) -> Iterator[StoredBao]:
    """Run an empty server that keeps its data in the directory, and give it."""
    port, cluster = free_ports(2)
    data = directory / "data"
    data.mkdir()
    at = f"http://127.0.0.1:{port}"
    settings = {
        "storage": {"raft": {"path": str(data), "node_id": "one", "performance_multiplier": 1}},
        "listener": {
            "tcp": {
                "address": f"127.0.0.1:{port}",
                "cluster_address": f"127.0.0.1:{cluster}",
                "tls_disable": True,
            }
        },
        "api_addr": at,
        "cluster_addr": f"http://127.0.0.1:{cluster}",
    }
    (directory / "bao.json").write_text(json.dumps(settings))
    bao = StoredBao(at, _run(directory, "-config", str(directory / "bao.json")), directory=directory)
    try:
        bao.prepare()
        yield bao
    finally:
        bao.stop()


def _run(directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with (directory / "bao.log").open("wb") as output:
        return subprocess.Popen(
            [PROGRAM, "server", *arguments],
            env={"PATH": "/usr/bin:/bin", "HOME": str(directory)},
            stdout=output,
            stderr=output,
        )


def _wait(bao: Bao, log: Path) -> None:
    until_listening(int(bao.url.rpartition(":")[2]), bao.process, log)
    eventually_blocking(lambda: (bao.ask("GET", "secret/config"),), within_s=_START_S, despite=OSError)
    # It is written after the first answer.
    found = eventually_blocking(lambda: re.search(r"Unseal Key: (\S+)\n", log.read_text()))
    assert found is not None
    bao.unseal_key = found[1]
