"""The API that Docker and Podman share, over a Unix socket of this server.

The path of the socket comes only from the settings, because access to the socket is control of the server.
"""

import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
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
from launchbay.machines.remote_commands import OutputBuffer, file_too_large


class Address(msgspec.Struct, frozen=True):
    """The address of a container in one network, if it has one."""

    ip: str | None = msgspec.field(default=None, name="IPAddress")


class Networks(msgspec.Struct, frozen=True):
    """The addresses of a container."""

    ip: str | None = msgspec.field(default=None, name="IPAddress")
    networks: dict[str, Address] | None = msgspec.field(default=None, name="Networks")

    def address(self) -> str:
        """Return one of the addresses, or an empty string."""
        addresses = (self.ip, *(network.ip for network in (self.networks or {}).values()))
        return next(filter(None, addresses), "")


class Configuration(msgspec.Struct, frozen=True, rename="pascal"):
    """What a container was created with."""

    hostname: str = ""
    labels: dict[str, str] | None = None


class State(msgspec.Struct, frozen=True):
    """The state of a container: `created`, `running`, `exited`, or others of an engine."""

    status: str = msgspec.field(default="", name="Status")
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")
    running: bool | None = msgspec.field(default=None, name="Running")

    @property
    def has_ended(self) -> bool:
        """Return whether it runs no command now."""
        return self.running is False


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


class Image(msgspec.Struct, frozen=True):
    """One image. The ID is a digest of its content."""

    id: str = msgspec.field(name="Id")


class CreatedContainer(msgspec.Struct, frozen=True):
    """The response to a creation."""

    id: str = msgspec.field(name="Id")


class ExitStatus(msgspec.Struct, frozen=True):
    """How a container ended."""

    exit_code: int = msgspec.field(name="StatusCode")


class Execution(msgspec.Struct, frozen=True):
    """The state of a command."""

    is_running: bool = msgspec.field(default=False, name="Running")
    exit_code: int | None = msgspec.field(default=None, name="ExitCode")


class Refusal(msgspec.Struct, frozen=True):
    """The engine's error."""

    message: str


_HEADER = 8
_STDERR = 2


class Frames:
    """Splits the engine's stream, in pieces of any size, into stdout and stderr."""

    def __init__(self, stdout: OnData, stderr: OnData) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._header = bytearray()
        self._left = 0
        self._receiver = stdout

    def feed(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            if self._left == 0:
                missing = _HEADER - len(self._header)
                self._header += data[position : position + missing]
                position += missing
                if len(self._header) < _HEADER:
                    return
                self._receiver = self._stderr if self._header[0] == _STDERR else self._stdout
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()
            else:
                part = data[position : position + self._left]
                position += len(part)
                self._left -= len(part)
                self._receiver(part)


T = TypeVar("T")
_VERSION = "/v1.41"  # of Docker 20.10; Podman 4 and 5 support it
_ANY_HOST = "http://engine"
_READ_BYTES = 64 * limits.KIB
# For calls that last as long as a container runs; the callers have their own timeouts.
_NO_READ_TIMEOUT = httpx.Timeout(limits.ENGINE_CALL_S, read=None)
_CONTENT = {"Content-Type": "application/json"}


class EngineRefused(ActionFailed):
    """The engine refused a call. `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, retryable=status >= 500 or status in (409, 429))
        self.status = status


class EngineApi:
    """One engine. Its methods raise EngineRefused, and ActionFailed if it doesn't respond."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=socket_path, limits=httpx.Limits(max_keepalive_connections=4)),
            base_url=f"{_ANY_HOST}{_VERSION}",
            timeout=httpx.Timeout(limits.ENGINE_CALL_S, connect=limits.EGRESS_CONNECT_S),
            trust_env=False,
        )

    async def aclose(self) -> None:
        await self._client.aclose()

    async def create(self, name: str, body: Mapping[str, Any]) -> str:
        """Create a container without starting it, and return its ID."""
        return (await self._read(CreatedContainer, "POST", "/containers/create", params={"name": name}, json=body)).id

    async def start(self, container: str) -> None:
        """Start a container. Succeeds if it runs."""
        await self._ask("POST", f"/containers/{_segment(container)}/start", also=(304,))

    async def inspect(self, container: str) -> Container:
        return await self._read(Container, "GET", f"/containers/{_segment(container)}/json")

    async def image_id(self, name: str) -> str:
        """Return the ID of an image that the engine has."""
        return (await self._read(Image, "GET", f"/images/{_segment(name)}/json")).id

    async def labelled(self, labels: Mapping[str, str]) -> Sequence[ListedContainer]:
        """Return the containers with all of these labels, running or not."""
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        text = msgspec.json.encode(filters).decode()
        params = {"all": "true", "filters": text}
        return await self._read(list[ListedContainer], "GET", "/containers/json", params=params)

    async def remove(self, container: str) -> None:
        """Kill and remove a container with its volumes. Succeeds if it doesn't exist."""
        await self._ask(
            "DELETE", f"/containers/{_segment(container)}", params={"force": "true", "v": "true"}, also=(404,)
        )

    async def logs(self, container: str, stdout: OnData, stderr: OnData) -> None:
        """Pass on all output of a container, until it ends."""
        frames = Frames(stdout, stderr)
        params = {"follow": "true", "stdout": "true", "stderr": "true"}
        path = f"/containers/{_segment(container)}/logs"
        async with self._stream("GET", path, params=params, timeout=_NO_READ_TIMEOUT) as response:
            async for part in response.aiter_raw():  # without a size: it would wait for a full piece
                frames.feed(part)

    async def wait(self, container: str) -> int:
        """Wait for the end of a container and return its exit code."""
        path = f"/containers/{_segment(container)}/wait"
        return (await self._read(ExitStatus, "POST", path, timeout=_NO_READ_TIMEOUT)).exit_code

    async def execute(
        self, container: str, command: Sequence[str], stdin: bytes, stdout: OnData, stderr: OnData, user: str = ""
    ) -> int:
        """Run a command in a container and return its exit code.

        Its standard input stays open after the bytes of `stdin`. A cancelled command may keep running. Also raises
        ShellLost.
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
            await self._attach(execution, stdin, Frames(stdout, stderr))
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise ShellLost(f"the container engine closed the connection ({type(error).__name__})") from error
        ended = await self._read(Execution, "GET", f"/exec/{_segment(execution)}/json")
        if ended.is_running or ended.exit_code is None:
            raise ShellLost("the container engine closed the connection before the command ended")
        return ended.exit_code

    async def _attach(self, execution: str, stdin: bytes, frames: Frames) -> None:
        """Start an execution, send the bytes and read until it ends."""
        headers = {**_CONTENT, "Connection": "Upgrade", "Upgrade": "tcp"}
        content = msgspec.json.encode({"Detach": False, "Tty": False})
        path = f"/exec/{_segment(execution)}/start"
        # After the upgrade the response isn't HTTP, so the network stream below it is read.
        timeout = httpx.Timeout(limits.ENGINE_CALL_S, read=limits.ENGINE_CALL_S)
        async with self._stream("POST", path, content=content, headers=headers, timeout=timeout) as response:
            if response.status_code != httpx.codes.SWITCHING_PROTOCOLS:
                raise ShellLost(f"the container engine didn't attach to the command ({response.status_code})")
            stream: httpcore.AsyncNetworkStream = response.extensions["network_stream"]
            await stream.write(stdin, limits.ENGINE_CALL_S)
            while data := await stream.read(_READ_BYTES):
                frames.feed(data)

    async def _read(self, kind: type[T], method: str, path: str, **more: Any) -> T:
        body = await self._ask(method, path, **more)
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise ActionFailed(f"Invalid response of the container engine: {error}.") from None

    async def _ask(self, method: str, path: str, *, also: Sequence[int] = (), **more: Any) -> bytes:
        data = bytearray()
        async with self._stream(method, path, also=also, **more) as response:
            async for part in response.aiter_bytes(_READ_BYTES):
                data += part
                if len(data) > limits.ENGINE_RESPONSE_BYTES:
                    raise ActionFailed("The response of the container engine is too long.")
        return bytes(data)

    @asynccontextmanager
    async def _stream(
        self, method: str, path: str, *, also: Sequence[int] = (), **more: Any
    ) -> AsyncIterator[httpx.Response]:
        try:
            async with self._client.stream(method, path, **more) as response:
                if response.status_code >= 300 and response.status_code not in also:
                    await response.aread()
                    raise EngineRefused(f"The container engine refused: {_message(response)}", response.status_code)
                yield response
        except httpx.ConnectError as error:
            raise ActionFailed(
                f"Can't connect to the container engine at {self._socket_path}: {error}",
                "An administrator can start it, or correct the setting container_socket.",
            ) from None
        except httpx.HTTPError as error:
            raise ActionFailed(f"The container engine didn't respond: {str(error) or type(error).__name__}") from None


def _segment(text: str) -> str:
    return quote(text, safe="")


def _message(response: httpx.Response) -> str:
    try:
        return msgspec.json.decode(response.content, type=Refusal).message[:500]
    except msgspec.DecodeError:
        return f"status {response.status_code}"


# Files go through the shell too: the engine's own archives read and write as the superuser, even where the login can't.

_REPORTED_BYTES = 4 * limits.KIB
# No such container, or it doesn't run. Podman 4 has 500 for the latter, as for its own faults: then its state decides.
_GONE = (404, 409)
_NO_FILE = 66
_HOME = 'cd "${HOME:-/}" 2>/dev/null || cd /\n'
# The draft is renamed at the end: no reader sees an incomplete file.
_PUT = _HOME + 'head -c "$1" >"$2" && chmod 644 "$2" && mv -f "$2" "$3"'
_GET = _HOME + f'[ -f "$2" ] || exit {_NO_FILE}\nhead -c "$1" <"$2"'


@dataclass(frozen=True, slots=True)
class ContainerShell:
    """Implements `contract.Shell`. `login` is the user in the container. Default: the image's own."""

    engine: EngineApi
    container: str
    host: str
    login: str = ""

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        stdin = text.encode("utf-8", "replace")
        # An engine's connection can't be closed in one direction: `head` ends the input after the text.
        command = ("sh", "-c", f"head -c {len(stdin)} | sh -s")
        return await self._run(command, stdin, stdout, stderr)

    async def put(self, name: str, content: bytes) -> None:
        directory, base = posixpath.split(name)
        draft = posixpath.join(directory, f".{base}.launchbay")
        command = ("sh", "-c", _PUT, "sh", str(len(content)), draft, name)
        stderr = OutputBuffer(_REPORTED_BYTES)
        if await self._run(command, content, OutputBuffer(0), stderr) != 0:
            raise ActionFailed(f"Can't write the file {name} on {self.host}: {stderr.text.strip()}")

    async def get(self, name: str, max_bytes: int) -> bytes:
        content, stderr = OutputBuffer(max_bytes + 1), OutputBuffer(_REPORTED_BYTES)
        code = await self._run(("sh", "-c", _GET, "sh", str(max_bytes + 1), name), b"", content, stderr)
        if code == _NO_FILE:
            raise ActionFailed(f"File not found on {self.host}: {name}.")
        if code != 0:
            raise ActionFailed(f"Can't read the file {name} on {self.host}: {stderr.text.strip()}")
        if len(content.data) > max_bytes:
            raise file_too_large(name, self.host, max_bytes)
        return content.data

    async def _run(self, command: tuple[str, ...], stdin: bytes, stdout: OnData, stderr: OnData) -> int:
        try:
            return await self.engine.execute(self.container, command, stdin, stdout, stderr, self.login)
        except EngineRefused as error:
            if error.status in _GONE or await self._has_ended():
                raise ActionFailed(f"The container {self.host} doesn't run: {error}") from error
            raise ShellLost(str(error)) from error

    async def _has_ended(self) -> bool:
        """Return whether the engine knows that the container doesn't run, whatever else it answers."""
        try:
            return (await self.engine.inspect(self.container)).state.has_ended
        except EngineRefused as error:
            return error.status in _GONE
        except ActionFailed:  # no answer: it may run
            return False
