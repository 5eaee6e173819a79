"""The API that Docker and Podman share, over a unix socket of this machine; `httpx` speaks it.

The socket's path comes from the operator's settings alone: who may talk to it rules this machine.
"""

import posixpath
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpcore
import httpx
import msgspec

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.contract import OnData, ShellLost
from launchbay.machines.remote_commands import OutputBuffer


class Address(msgspec.Struct, frozen=True):
    """The address of a container in one network; empty where it has none."""

    ip: str | None = msgspec.field(default=None, name="IPAddress")


class Networks(msgspec.Struct, frozen=True):
    """The addresses of a container."""

    ip: str | None = msgspec.field(default=None, name="IPAddress")
    networks: dict[str, Address] | None = msgspec.field(default=None, name="Networks")

    def address(self) -> str:
        """Return one of the addresses, nothing where there is none."""
        return next(filter(None, self._addresses()), "")

    def _addresses(self) -> Iterator[str | None]:
        yield self.ip
        for network in (self.networks or {}).values():
            yield network.ip


class Configuration(msgspec.Struct, frozen=True, rename="pascal"):
    """What a container was made with."""

    hostname: str = ""
    labels: dict[str, str] | None = None


class State(msgspec.Struct, frozen=True):
    """Whether a container runs: `created`, `running`, `exited`, and others that engines have."""

    status: str = msgspec.field(default="", name="Status")
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")


class Container(msgspec.Struct, frozen=True):
    """One container, in detail."""

    id: str = msgspec.field(name="Id")
    configuration: Configuration = msgspec.field(default=Configuration(), name="Config")
    networks: Networks = msgspec.field(default=Networks(), name="NetworkSettings")
    state: State = msgspec.field(default=State(), name="State")


class ListedContainer(msgspec.Struct, frozen=True):
    """One container of a list. `created` is in seconds since the epoch."""

    id: str = msgspec.field(name="Id")
    created: int = msgspec.field(name="Created")
    labels: dict[str, str] | None = msgspec.field(default=None, name="Labels")
    networks: Networks | None = msgspec.field(default=None, name="NetworkSettings")


class CreatedContainer(msgspec.Struct, frozen=True):
    """Something that was made."""

    id: str = msgspec.field(name="Id")


class ExitStatus(msgspec.Struct, frozen=True):
    """How a container ended."""

    exit_code: int = msgspec.field(name="StatusCode")


class Execution(msgspec.Struct, frozen=True):
    """How a command stands."""

    is_running: bool = msgspec.field(default=False, name="Running")
    exit_code: int | None = msgspec.field(default=None, name="ExitCode")


class Refusal(msgspec.Struct, frozen=True):
    """Why the engine says no."""

    message: str


_HEADER = 8
_STDERR = 2


class Frames:
    """Takes the stream in pieces of any size and hands the data of its frames over as it comes."""

    def __init__(self, stdout: OnData, stderr: OnData) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._header = bytearray()
        self._left = 0
        self._taker = stdout

    def feed(self, data: bytes) -> None:
        """Take a piece of the stream."""
        place = 0
        while place < len(data):
            if self._left == 0:
                wanted = _HEADER - len(self._header)
                self._header += data[place : place + wanted]
                place += wanted
                if len(self._header) < _HEADER:
                    return
                self._taker = self._stderr if self._header[0] == _STDERR else self._stdout
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()
            else:
                part = data[place : place + self._left]
                place += len(part)
                self._left -= len(part)
                self._taker(part)


T = TypeVar("T")
_VERSION = "/v1.41"  # of Docker 20.10; Podman 4 and 5 speak it
_ANY_HOST = "http://engine"
_READ_BYTES = 64 * limits.KIB
# For what takes as long as a container runs; whoever asks has a bound of their own.
_NO_READ_TIMEOUT = httpx.Timeout(limits.ENGINE_CALL_S, read=None)
_CONTENT = {"Content-Type": "application/json"}


class EngineRefused(ActionFailed):
    """The engine said no. `status` is its HTTP status."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence, retryable=status >= 500 or status in (409, 429))
        self.status = status


class EngineApi:
    """One engine. Its methods raise EngineRefused, and ActionFailed where it does not answer."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=socket_path, limits=httpx.Limits(max_keepalive_connections=4)),
            base_url=f"{_ANY_HOST}{_VERSION}",
            timeout=httpx.Timeout(limits.ENGINE_CALL_S, connect=limits.EGRESS_CONNECT_S),
            trust_env=False,
        )

    async def aclose(self) -> None:
        """Close what is open."""
        await self._client.aclose()

    async def create(self, name: str, body: Mapping[str, Any]) -> str:
        """Create a container and return its id; it does not run yet."""
        return (await self._read(CreatedContainer, "POST", "/containers/create", params={"name": name}, json=body)).id

    async def start(self, container: str) -> None:
        """Start a container; one that runs is a success."""
        await self._ask("POST", f"/containers/{_segment(container)}/start", also=(304,))

    async def inspect(self, container: str) -> Container:
        """Return what the engine knows of a container."""
        return await self._read(Container, "GET", f"/containers/{_segment(container)}/json")

    async def labelled(self, labels: Mapping[str, str]) -> Sequence[ListedContainer]:
        """Return the containers with all of these labels, those too that do not run."""
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        text = msgspec.json.encode(filters).decode()
        params = {"all": "true", "filters": text}
        return await self._read(list[ListedContainer], "GET", "/containers/json", params=params)

    async def remove(self, container: str) -> None:
        """End and remove a container with its volumes; one that is gone is a success."""
        await self._ask(
            "DELETE", f"/containers/{_segment(container)}", params={"force": "true", "v": "true"}, also=(404,)
        )

    async def logs(self, container: str, stdout: OnData, stderr: OnData) -> None:
        """Hand over what a container writes, from its first byte on; returns when it has ended."""
        frames = Frames(stdout, stderr)
        params = {"follow": "true", "stdout": "true", "stderr": "true"}
        path = f"/containers/{_segment(container)}/logs"
        async with self._stream("GET", path, params=params, timeout=_NO_READ_TIMEOUT) as answer:
            async for part in answer.aiter_raw():  # as it comes; pieces of a given size would be waited for
                frames.feed(part)

    async def wait(self, container: str) -> int:
        """Return the exit code of a container when it has ended."""
        path = f"/containers/{_segment(container)}/wait"
        return (await self._read(ExitStatus, "POST", path, timeout=_NO_READ_TIMEOUT)).exit_code

    async def execute(
        self, container: str, command: Sequence[str], given: bytes, stdout: OnData, stderr: OnData, user: str = ""
    ) -> int:
        """Run a command in a container with bytes on its standard input, and return its exit code.

        Its standard input stays open after these bytes. The command may run on when this is cancelled. Raises ShellLost
        too, where the way to it broke.
        """
        body = {
            "Cmd": list(command),
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
            "User": user,
        }
        execution = (
            await self._read(CreatedContainer, "POST", f"/containers/{_segment(container)}/exec", json=body)
        ).id
        try:
            await self._attached(execution, given, Frames(stdout, stderr))
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise ShellLost(f"the container engine broke the connection ({type(error).__name__})") from error
        ended = await self._read(Execution, "GET", f"/exec/{_segment(execution)}/json")
        if ended.is_running or ended.exit_code is None:
            raise ShellLost("the container engine ended the connection before the command")
        return ended.exit_code

    async def _attached(self, execution: str, given: bytes, frames: Frames) -> None:
        """Start an execution, hand the bytes over and read until it ends."""
        headers = {**_CONTENT, "Connection": "Upgrade", "Upgrade": "tcp"}
        content = msgspec.json.encode({"Detach": False, "Tty": False})
        path = f"/exec/{_segment(execution)}/start"
        # The answer has no end that HTTP knows of; the stream below it is read as it is.
        timeout = httpx.Timeout(limits.ENGINE_CALL_S, read=limits.ENGINE_CALL_S)
        async with self._stream("POST", path, content=content, headers=headers, timeout=timeout) as answer:
            if answer.status_code != httpx.codes.SWITCHING_PROTOCOLS:
                raise ShellLost(f"the container engine does not attach to the command ({answer.status_code})")
            stream: httpcore.AsyncNetworkStream = answer.extensions["network_stream"]
            await stream.write(given, limits.ENGINE_CALL_S)
            while data := await stream.read(_READ_BYTES):
                frames.feed(data)

    async def _read(self, kind: type[T], method: str, path: str, **more: Any) -> T:
        answer = await self._ask(method, path, **more)
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.DecodeError as error:
            raise ActionFailed(f"The container engine's answer cannot be read: {error}.") from None

    async def _ask(self, method: str, path: str, *, also: Sequence[int] = (), **more: Any) -> bytes:
        data = bytearray()
        async with self._stream(method, path, also=also, **more) as answer:
            async for part in answer.aiter_bytes(_READ_BYTES):
                data += part
                if len(data) > limits.ENGINE_RESPONSE_BYTES:
                    raise ActionFailed("The container engine's answer is too long.")
        return bytes(data)

    @asynccontextmanager
    async def _stream(
        self, method: str, path: str, *, also: Sequence[int] = (), **more: Any
    ) -> AsyncIterator[httpx.Response]:
        try:
            async with self._client.stream(method, path, **more) as answer:
                if answer.status_code >= 300 and answer.status_code not in also:
                    await answer.aread()
                    raise EngineRefused(f"The container engine refused: {_message(answer)}", answer.status_code)
                yield answer
        except httpx.ConnectError as error:
            raise ActionFailed(
                f"The container engine does not answer at {self._socket_path}: {error}",
                "An administrator starts it, or corrects the setting container_socket.",
            ) from None
        except httpx.HTTPError as error:
            raise ActionFailed(f"The container engine did not answer: {str(error) or type(error).__name__}") from None


def _segment(text: str) -> str:
    return quote(text, safe="")


def _message(answer: httpx.Response) -> str:
    try:
        return msgspec.json.decode(answer.content, type=Refusal).message[:500]
    except msgspec.DecodeError:
        return f"status {answer.status_code}"


# A shell and files in a container, through its engine.
#
# Files go through the shell as well: what the engine's own archives write and read, it writes and reads as the
# superuser, wherever the login may not.

_REPORTED_BYTES = 4 * limits.KIB
_GONE = (404, 409)  # no such container, or it does not run
_NO_FILE = 66
_HOME = 'cd "${HOME:-/}" 2>/dev/null || cd /\n'
# The draft is moved into its place: nobody sees half of it.
_PUT = _HOME + 'head -c "$1" >"$2" && chmod 644 "$2" && mv -f "$2" "$3"'
_GET = _HOME + f'[ -f "$2" ] || exit {_NO_FILE}\nhead -c "$1" <"$2"'


@dataclass(frozen=True, slots=True)
class ContainerShell:
    """Implements `shell.Shell`. `login` is the user inside; the image's own where it is empty."""

    engine: EngineApi
    container: str
    host: str
    login: str = ""

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        """Have `sh` read the text from its standard input, and return its exit code."""
        given = text.encode("utf-8", "replace")
        # An engine's connection cannot be closed on one side: `head` ends the input where the text ends.
        command = ("sh", "-c", f"head -c {len(given)} | sh -s")
        return await self._run(command, given, stdout, stderr)

    async def put(self, name: str, content: bytes) -> None:
        """Write a file beside its place, then move it there."""
        directory, base = posixpath.split(name)
        draft = posixpath.join(directory, f".{base}.launchbay")
        command = ("sh", "-c", _PUT, "sh", str(len(content)), draft, name)
        stderr = OutputBuffer(_REPORTED_BYTES)
        if await self._run(command, content, OutputBuffer(0), stderr) != 0:
            raise ActionFailed(f"The file {name} on {self.host} cannot be written: {_text(stderr)}")

    async def get(self, name: str, max_bytes: int) -> bytes:
        """Read a file. Raises ActionFailed for one that is too large, and for what is none."""
        content, stderr = OutputBuffer(max_bytes + 1), OutputBuffer(_REPORTED_BYTES)
        code = await self._run(("sh", "-c", _GET, "sh", str(max_bytes + 1), name), b"", content, stderr)
        if code == _NO_FILE:
            raise ActionFailed(f"There is no file {name} on {self.host}.")
        if code != 0:
            raise ActionFailed(f"The file {name} on {self.host} cannot be read: {_text(stderr)}")
        if len(content.data) > max_bytes:
            raise ActionFailed(
                f"The file {name} on {self.host} has more than {max_bytes} bytes; that is the most.", retryable=False
            )
        return content.data

    async def _run(self, command: tuple[str, ...], given: bytes, stdout: OnData, stderr: OnData) -> int:
        try:
            return await self.engine.execute(self.container, command, given, stdout, stderr, self.login)
        except EngineRefused as error:
            raise self._lost(error) from error

    def _lost(self, error: EngineRefused) -> Exception:
        if error.status in _GONE:
            return ActionFailed(f"The container {self.host} is gone or does not run: {error}")
        return ShellLost(str(error))


def _text(kept: OutputBuffer) -> str:
    return kept.data.decode("utf-8", "replace").strip()
