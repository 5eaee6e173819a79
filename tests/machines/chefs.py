"""Hosts with a stand-in for Chef, and a place that serves an archive of cookbooks."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.machines.hosts import Host

STAND_IN = Path(__file__).with_name("chef-solo")
PATH = "/cookbooks.tar.gz"


@dataclass
class Shelf:
    """Where the archive is, and what was asked for so far."""

    base: str
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The URL of the archive."""
        return f"{self.base}{PATH}"


@contextmanager
def served_shelf(archive: bytes) -> Iterator[Shelf]:
    """Serve an archive over HTTP; everything else is not found."""
    shelf = Shelf("")

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shelf.asked.append(self.path)
            self.send_response(200 if self.path == PATH else 404)
            self.end_headers()
            self.wfile.write(archive if self.path == PATH else b"")

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    shelf.base = f"http://127.0.0.1:{server.server_port}"
    yield shelf
    server.shutdown()
    server.server_close()


def with_chef(host: Host) -> None:
    """Install the stand-in on an isolated host, for its logins and for sudo."""
    programs = host.directory / "opt-chef"
    programs.mkdir(mode=0o755)
    (programs / "chef-solo").write_bytes(STAND_IN.read_bytes())
    (programs / "chef-solo").chmod(0o755)
    sudoers = host.directory / "sudoers"
    text = sudoers.read_text().replace('secure_path="', f'secure_path="{programs}:')
    sudoers.chmod(0o640)
    sudoers.write_text(text)
    sudoers.chmod(0o440)
    with (host.directory / "sshd_config").open("a") as config:
        config.write(f"SetEnv PATH={programs}:/usr/bin:/bin\n")
    host.restart()
