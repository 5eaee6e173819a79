"""Files and variables of the server's operator as secrets, and its pod's tokens.

The settings list what may be read, and by whom. Without them, nothing may.
"""

import asyncio
import base64
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from launchbay.egress.http import EgressClient
from launchbay.errors import CannotStart
from launchbay.ids import is_id
from launchbay.limits import SECRET_BYTES, SECRET_FILES_AT_ONCE, SECRET_FILES_OF_DIRECTORY, SECRET_TIMEOUT_S
from launchbay.model.types import STRING
from launchbay.service_types.builtin import is_url
from launchbay.service_types.contract import (
    FieldMessages,
    ParameterScope,
    PassiveServiceType,
    ProvidedSecret,
    SecretCall,
    SecretFailed,
    SecretProblem,
    ServiceParameter,
    SignedIn,
    provided_text,
)

T = TypeVar("T")
_DIRECTORY = "configuration.directory"
_EVERYBODY = "*"
_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
_OWN = "LAUNCHBAY_"  # settings, some of which are secrets of the server


class _Allowed(NamedTuple):
    """A directory or pattern of names, and who may read it."""

    what: str
    owner: str

    def applies_to(self, call: SecretCall) -> bool:
        return self.owner in (_EVERYBODY, call.organization_id, call.environment_id)


def _parse(setting: str, text: str, example: str) -> tuple[_Allowed, ...]:
    """Return the entries of a setting, such as `/run/credentials/shop@ID`. Raises CannotStart."""
    found: list[_Allowed] = []
    for part in filter(None, map(str.strip, text.split(","))):
        what, _, owner = part.rpartition("@")
        if not what or not (owner == _EVERYBODY or is_id(owner)):
            raise CannotStart(
                f"LAUNCHBAY_{setting.upper()} has {part!r}; an entry must end with @ and who may read it.",
                f"Write {example}@ID with the ID of an organization or environment, or {example}@* for everybody.",
            )
        found.append(_Allowed(what, owner))
    return tuple(found)


class _Session(msgspec.Struct, frozen=True):
    name: str
    allowed: list[str]  # the directory, or the patterns of names


_decode = msgspec.json.Decoder(_Session).decode


def _signed_in(call: SecretCall, allowed: list[str]) -> SignedIn:
    return SignedIn(msgspec.json.encode(_Session(call.name, allowed)).decode(), [])


class ServerFiles(PassiveServiceType):
    """Reads files below a directory; implements `SecretProvider`."""

    id = "builtin:server_files"
    name = "Server files"
    parameters: Mapping[str, ServiceParameter] = {
        _DIRECTORY: ServiceParameter(
            STRING, "The directory, one of the setting `secret_directories` or below it.", required=True
        )
    }

    def __init__(self, allowed: str = "", own: Collection[Path] = ()) -> None:
        """Take the setting, and files of the server itself, which are never read.

        Raises CannotStart.
        """
        self._own = own
        self._threads = _DiskThreads()
        self._allowed = _parse("secret_directories", allowed, "/run/credentials/shop")
        for entry in self._allowed:
            if not Path(entry.what).is_absolute():
                raise CannotStart(f"LAUNCHBAY_SECRET_DIRECTORIES has {entry.what!r}; it must be an absolute path.")

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:  # noqa: ARG002 - contract
        """Check that it is an absolute path."""
        directory = parameters[_DIRECTORY]
        if not Path(directory).is_absolute() or "\0" in directory or ".." in Path(directory).parts:
            return {_DIRECTORY: ["This must be an absolute path such as /run/credentials/shop."]}
        return {}

    async def sign_in(self, call: SecretCall) -> SignedIn:
        """Check that this environment may read the directory. Raises SecretFailed."""
        directory = call.parameters[_DIRECTORY]
        roots = [entry.what for entry in self._allowed if entry.applies_to(call)]
        try:
            async with asyncio.timeout(SECRET_TIMEOUT_S):
                is_allowed = await self._threads.run(directory, partial(_is_below_any, directory, roots))
        except (OSError, TimeoutError) as error:
            raise _disk_failure(error, f"The secret provider {call.name!r}", directory) from None
        if not is_allowed:
            raise SecretFailed(
                SecretProblem.FORBIDDEN,
                f"The secret provider {call.name!r} may not read {directory!r} for this organization.",
                "An operator of the server can allow it with the setting secret_directories.",
            )
        return _signed_in(call, [directory])

    async def read(self, egress: EgressClient, session: str, path: str) -> ProvidedSecret:  # noqa: ARG002 - contract
        """Read a file as it is now. Raises SecretFailed."""
        opened = _decode(session)
        who = f"The secret provider {opened.name!r}"
        try:
            async with asyncio.timeout(SECRET_TIMEOUT_S):
                [directory] = opened.allowed
                data = await self._threads.run(directory, partial(_content, directory, path, who, self._own))
        except (OSError, TimeoutError) as error:
            raise _disk_failure(error, who, path) from None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise SecretFailed(
                SecretProblem.UNREADABLE, f"{who} has {path!r}, which isn't text in UTF-8.", "Store it in Base64."
            ) from None
        line = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
        return provided_text(text if "\n" in line else line)


def _disk_failure(error: OSError | TimeoutError, who: str, path: str) -> SecretFailed:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SecretFailed(
            SecretProblem.MISSING,
            f"{who} has no file {path!r} on this server.",
            "Mount it on all servers and workers, or correct the reference.",
        )
    if isinstance(error, PermissionError):
        fix = "The server's account needs the right to read the file."
        return SecretFailed(SecretProblem.FORBIDDEN, f"{who} can't read {path!r}.", fix)
    if error.errno == errno.ENAMETOOLONG:
        return SecretFailed(SecretProblem.INVALID, f"{who} has no file with a name as long as {path[:80]!r}.")
    reason = error.strerror or "the disk doesn't answer"
    return SecretFailed(SecretProblem.UNREACHABLE, f"{who} can't read {path!r} now: {reason}.")


def _is_below_any(directory: str, roots: list[str]) -> bool:
    real = _real(directory)
    # The others last: the disk of one of them may hang.
    likely = sorted(roots, key=lambda root: not Path(directory).is_relative_to(root))
    return any(real.is_relative_to(_real(root)) for root in likely)


def _real(*parts: str | Path) -> Path:
    """Return where a path leads, also in a cycle of links."""
    return Path(os.path.realpath(Path(*parts)))


def _content(directory: str, path: str, who: str, own: Collection[Path]) -> bytes:
    """Return what a file has. Raises SecretFailed for one outside, and OSError."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise SecretFailed(SecretProblem.INVALID, f"{who} has no path such as {path[:80]!r}.")
    try:
        return _open_within(directory, parts, path, who, own)
    except FileNotFoundError:  # Kubernetes replaces the directory that links lead to
        return _open_within(directory, parts, path, who, own)


def _open_within(directory: str, parts: list[str], path: str, who: str, own: Collection[Path]) -> bytes:
    root = _real(directory)
    real = _real(root, *parts)  # links within the directory are how Kubernetes mounts
    if not real.is_relative_to(root):
        raise SecretFailed(SecretProblem.FORBIDDEN, f"{who} doesn't read {path!r}: a link leads out of its directory.")
    if real in map(_real, own):  # such as the key that opens all secrets of all organizations
        raise SecretFailed(SecretProblem.FORBIDDEN, f"{who} doesn't read {path!r}: it is a file of Launchbay itself.")
    descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SecretFailed(SecretProblem.INVALID, f"{who} has {path!r}, which isn't a file.")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(SECRET_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > SECRET_BYTES:
        raise SecretFailed(SecretProblem.UNREADABLE, f"{who} has {path!r}, which is longer than {SECRET_BYTES} bytes.")
    return data


@dataclass
class _Place:
    """A directory that threads read: who waits or reads, and the turns there."""

    users: int = 0
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SECRET_FILES_OF_DIRECTORY))


class _DiskThreads:
    """Reads files in threads of its own.

    A network file system may hold a thread permanently. Nobody waits for such a thread, nor does the end of the
    process: it is a daemon. It keeps its turn.
    """

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._running = 0

    async def run(self, directory: str, work: Callable[[], T]) -> T:
        """Return what the work returns. Raises TimeoutError if all threads hang."""
        place = self._places.setdefault(directory, _Place())
        place.users += 1
        try:
            await place.turns.acquire()
        except asyncio.CancelledError:
            self._leave(directory, place)
            raise
        if self._running >= SECRET_FILES_AT_ONCE:
            place.turns.release()
            self._leave(directory, place)
            raise TimeoutError
        self._running += 1
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def end(result: T | None, error: BaseException | None) -> None:
            self._running -= 1
            place.turns.release()
            self._leave(directory, place)
            if done.done():
                return
            if error is None:
                done.set_result(cast("T", result))
            else:
                done.set_exception(error)

        def body() -> None:
            result, error = None, None
            try:
                result = work()
            except Exception as failure:  # noqa: BLE001 - it is raised where it was asked for
                error = failure
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end, result, error)

        Thread(target=body, name="secret file", daemon=True).start()
        return await done

    def _leave(self, directory: str, place: _Place) -> None:
        place.users -= 1
        if not place.users:
            self._places.pop(directory, None)


class PodTokens:
    """Tokens of the pod of this server, which Kubernetes renews in files (decision 0227)."""

    def __init__(self, allowed: str = "") -> None:
        """Take the setting. Raises CannotStart."""
        self._allowed = _parse("kubernetes_tokens", allowed, "https://vault.example.org:8200=/run/tokens/vault")
        self._threads = _DiskThreads()
        for entry in self._allowed:
            address, _, file = entry.what.partition("=")
            if not is_url(address) or not Path(file).is_absolute():
                raise CannotStart(
                    f"LAUNCHBAY_KUBERNETES_TOKENS has {entry.what!r}; it must be the URL of a server, = and a file.",
                    "Write it as https://vault.example.org:8200=/run/tokens/vault@ID.",
                )

    async def read(self, call: SecretCall, address: str) -> str:
        """Return the token for an address, as its file is now. Raises SecretFailed."""
        who = f"The secret provider {call.name!r}"
        entries = (entry.what.partition("=") for entry in self._allowed if entry.applies_to(call))
        file = next((file for url, _, file in entries if url.rstrip("/") == address), None)
        if file is None:
            raise SecretFailed(
                SecretProblem.FORBIDDEN,
                f"{who} may send no token of this server to {address} for this organization.",
                "An operator of the server can allow it with the setting kubernetes_tokens.",
            )
        directory, name = os.path.split(file)
        try:
            async with asyncio.timeout(SECRET_TIMEOUT_S):
                data = await self._threads.run(directory, partial(_content, directory, name, who, ()))
        except FileNotFoundError:
            raise SecretFailed(
                SecretProblem.MISSING,
                f"{who} finds no token of Kubernetes: the file {file!r} doesn't exist on this server.",
                "Mount a projected volume with a serviceAccountToken there, in the pods of servers and workers.",
            ) from None
        except (OSError, TimeoutError) as error:
            raise _disk_failure(error, who, file) from None
        token = data.decode("ascii", "replace").strip()
        ends_at = _end_of(token)
        if ends_at is None:
            raise SecretFailed(
                SecretProblem.UNREADABLE,
                f"{who} finds no token of Kubernetes in {file!r}.",
                "The file must be that of a serviceAccountToken in a projected volume.",
            )
        if ends_at and ends_at <= time.time():
            raise SecretFailed(
                SecretProblem.EXPIRED,
                f"{who} has a token of Kubernetes in {file!r} that has expired.",
                "Kubernetes replaces it there, unless it is mounted with subPath or copied.",
            )
        return token


def _end_of(token: str) -> float | None:
    """Return when a token ends, 0 if never, None for other texts."""
    try:
        _, claims, _ = token.split(".")
        found = msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return float(found.get("exp", 0))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


class ServerVariables(PassiveServiceType):
    """Reads environment variables of the server; implements `SecretProvider`."""

    id = "builtin:server_variables"
    name = "Server variables"

    def __init__(self, allowed: str = "") -> None:
        self._allowed = _parse("secret_variables", allowed, "SHOP_PASSWORD")
        for entry in self._allowed:
            if not _PATTERN.fullmatch(entry.what) or entry.what.startswith(_OWN):
                raise CannotStart(
                    f"LAUNCHBAY_SECRET_VARIABLES has {entry.what!r}; it must be the name of a variable.",
                    f"A * at its end means all that begin with it. Settings, {_OWN}*, can't be read.",
                )

    async def sign_in(self, call: SecretCall) -> SignedIn:
        """Return what this environment may read."""
        return _signed_in(call, [entry.what for entry in self._allowed if entry.applies_to(call)])

    async def read(self, egress: EgressClient, session: str, path: str) -> ProvidedSecret:  # noqa: ARG002 - contract
        """Read a variable. Raises SecretFailed."""
        opened = _decode(session)
        is_allowed = not path.startswith(_OWN) and any(_matches(path, pattern) for pattern in opened.allowed)
        text = os.environ.get(path) if is_allowed else None
        if text is None:
            raise SecretFailed(
                SecretProblem.MISSING if is_allowed else SecretProblem.FORBIDDEN,
                f"The secret provider {opened.name!r} has no variable {path[:80]!r} for this organization.",
                "An operator of the server sets it, and allows it with the setting secret_variables.",
            )
        if len(text.encode(errors="surrogateescape")) > SECRET_BYTES:
            raise SecretFailed(SecretProblem.UNREADABLE, f"The variable {path!r} is longer than {SECRET_BYTES} bytes.")
        if not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text):
            raise SecretFailed(SecretProblem.UNREADABLE, f"The variable {path!r} isn't text in UTF-8.")
        return provided_text(text)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
