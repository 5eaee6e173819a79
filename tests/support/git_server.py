"""Repositories that real servers serve: `git http-backend` over HTTP, and `git-upload-pack` behind sshd."""

import base64
import getpass
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.support.eventually import eventually, until_listening
from tests.support.machines import SSHD, free_port, make_key
from tests.support.service import Api, accepted, fresh_name

BACKEND = Path("/usr/lib/git-core/git-http-backend")
needs_git = pytest.mark.skipif(
    shutil.which("git") is None or not BACKEND.exists(), reason="git is not installed (Debian: git)"
)
_AUTHOR = {
    "GIT_AUTHOR_NAME": "Author",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_COMMITTER_NAME": "Author",
    "GIT_COMMITTER_EMAIL": "author@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(directory: Path, *arguments: str, data: bytes | None = None) -> str:
    """Run git there and return what it prints."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        input=data,
        env={**os.environ, **_AUTHOR},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "replace").strip()


class Repository:
    """A bare repository, into which tests commit without a working tree, so that it can hold anything."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        git(directory, "init", "-q", "--bare", "--initial-branch=main")

    def commit(self, files: Mapping[str, str | bytes], *, branch: str = "main", more: str = "") -> str:
        """Make a commit with exactly these files on a branch and return its ID.

        `more` are further lines of `git fast-import`, such as `M 120000 inline link`.
        """
        parent = subprocess.run(
            ["git", "rev-parse", "-q", "--verify", f"refs/heads/{branch}"],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        lines = [f"commit refs/heads/{branch}\n", "committer Author <author@example.org> now\n", _data(b"A commit")]
        lines += [f"from {parent}\n"] if parent else []
        lines.append("deleteall\n")
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            lines += [f"M 100644 inline {path}\n", _data(data)]
        script = "".join(lines).encode("latin-1") + more.encode()
        git(self.directory, "fast-import", "--quiet", "--date-format=now", "--force", data=script)
        return self.head(branch)

    def head(self, branch: str = "main") -> str:
        """Return the commit of a branch."""
        return git(self.directory, "rev-parse", f"refs/heads/{branch}")

    def delete_branch(self, branch: str) -> None:
        git(self.directory, "update-ref", "-d", f"refs/heads/{branch}")


def _data(content: bytes) -> str:
    return f"data {len(content)}\n{content.decode('latin-1')}\n"


def symbolic_link(path: str, target: str) -> str:
    """Return what makes a symbolic link in a commit."""
    return f"M 120000 inline {path}\ndata {len(target)}\n{target}\n"


class _Backend(BaseHTTPRequestHandler):
    """Runs `git http-backend` for each request."""

    root: ClassVar[Path]
    token: ClassVar[str] = ""
    requests: ClassVar[list[str]]
    stalled: ClassVar[threading.Event | None] = None

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        self.requests.append(self.path)
        if self.stalled is not None:
            self.stalled.wait(60)
        if self.token and not self._knows_token():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else self._chunks()
        environment = {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH": os.environ["PATH"],
            **_AUTHOR,
        }
        done = subprocess.run([str(BACKEND)], input=body, env=environment, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _knows_token(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        return base64.b64decode(given).decode().partition(":")[2] == self.token

    def _chunks(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return b""
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        return found


class GitServer:
    """Repositories of a directory over HTTP. With a token, it is the password that requests need.

    With a certificate and its key, it speaks HTTPS.
    """

    def __init__(self, root: Path, certificate: tuple[Path, Path] | None = None) -> None:
        self.root = root
        self.requests: list[str] = []
        self._handler: type[_Backend] = type("Backend", (_Backend,), {"root": root, "requests": self.requests})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler)
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            self._scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            # The thread of a connection shakes hands: a client that breaks it off must not end the server.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    def set_token(self, token: str) -> None:
        """Demand a token from now on."""
        self._handler.token = token

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Let requests wait during the block."""
        event = threading.Event()
        self._handler.stalled = event
        try:
            yield
        finally:
            self._handler.stalled = None
            event.set()

    def repository(self, name: str) -> Repository:
        return Repository(self.root / f"{name}.git")

    def url(self, name: str) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/{name}.git"

    def __enter__(self) -> "GitServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@dataclass
class Follower:
    """Makes sources on behalf of a service account, and waits for what comes of them."""

    api: Api
    server: GitServer
    account: str

    async def make(self, repository: str, **body: Any) -> str:
        body = {"name": fresh_name("source"), "accountId": self.account, "url": self.server.url(repository), **body}
        made = await self.api.post(f"organizations/{self.api.organization}/git-sources", body)
        return str(accepted(made)["id"])

    async def outcome(self, source: str, count: int = 1) -> Any:
        """Wait until so many outcomes are noted, and return the newest."""
        found = await eventually(
            lambda: self.api.read(f"git-sources/{source}/syncs"),
            lambda found: len(found) >= count or (found and found[0]["attempts"] + len(found) > count),
        )
        return found[0]

    async def sync(self, source: str) -> Any:
        """Look now, and return the outcome."""
        before = accepted(await self.api.get(f"git-sources/{source}/syncs"))
        accepted(await self.api.post(f"git-sources/{source}/sync"))
        return await self.outcome(source, len(before) + (before[0]["attempts"] if before else 1))

    async def read(self, source: str) -> Any:
        return accepted(await self.api.get(f"git-sources/{source}"))


async def account(api: Api, *roles: str) -> str:
    body = {"name": fresh_name("follower"), "roles": list(roles)}
    return str(accepted(await api.post(f"organizations/{api.organization}/serviceAccounts", body))["id"])


@dataclass
class SshServer:
    """A real sshd whose only login may read the repositories of a directory."""

    port: int
    private_key: str
    host_key: str

    def url(self, repository: Repository) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repository.directory}"


@contextmanager
def ssh_server(directory: Path) -> Iterator[SshServer]:
    """Run sshd on a loopback port, with its keys in an empty directory. A login can only read repositories."""
    directory.mkdir(parents=True, exist_ok=True)
    make_key(directory / "key")
    make_key(directory / "host_key")
    restricted = 'restrict,command="exec git-shell -c \\"$SSH_ORIGINAL_COMMAND\\""'
    (directory / "authorized_keys").write_text(f"{restricted} {(directory / 'key.pub').read_text()}")
    port = free_port()
    lines = (
        "ListenAddress 127.0.0.1",
        f"Port {port}",
        f"HostKey {directory / 'host_key'}",
        f"AuthorizedKeysFile {directory / 'authorized_keys'}",
        "PidFile none",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "AcceptEnv GIT_PROTOCOL",
    )
    (directory / "sshd_config").write_text("\n".join((*lines, "")))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    assert SSHD is not None
    with (directory / "sshd.log").open("wb") as log:
        server = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(directory / "sshd_config")], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        until_listening(port, server, directory / "sshd.log")
        host_key = " ".join((directory / "host_key.pub").read_text().split()[:2])
        yield SshServer(port, (directory / "key").read_text(), host_key)
    finally:
        server.kill()
        server.wait(10)
