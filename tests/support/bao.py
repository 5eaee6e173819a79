"""A real server of secrets on loopback: `bao server -dev`, which keeps all in memory."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

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

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask as the administrator, and return the answer, None for an empty one."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/v1/{path}", data, {"X-Vault-Token": _ROOT}, method=method)
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
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = directory / "bao.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [PROGRAM, "server", "-dev", f"-dev-root-token-id={_ROOT}", f"-dev-listen-address=127.0.0.1:{port}"],
            env={"PATH": "/usr/bin:/bin", "HOME": str(directory)},
            stdout=output,
            stderr=output,
        )
    bao = Bao(f"http://127.0.0.1:{port}", process)
    try:
        _wait(bao, log)
        yield bao
    finally:
        process.kill()
        process.wait()


def _wait(bao: Bao, log: Path) -> None:
    until = time.monotonic() + _START_S
    while True:
        try:
            bao.ask("GET", "secret/config")
        except (URLError, OSError):
            if bao.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"bao did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.1)
        else:
            found = re.search(r"Unseal Key: (\S+)\n", log.read_text())
            if found is not None:  # it is written after the first answer
                bao.unseal_key = found[1]
                return
            time.sleep(0.1)
