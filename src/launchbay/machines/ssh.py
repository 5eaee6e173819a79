"""Machines that are reached by SSH: `SshMachines` is the common part of static hosts and cloud machines.

A provider inherits it, and adds how machines are created, adopted and released:

    class Lab(SshMachines):
        name = "lab"

        async def provision(self, context, role, numbers, spec):
            created = ...  # Machine(..., login=spec.login, key_name=spec.key_name) with an address
            for machine in created:
                await self.wait_until_reachable(context, machine, within_s=300)
            return created

`Machine.login`, `port` and `key_name` select the login. An empty `key_name` is the environment's key pair. A connection
dials only addresses that the rules allow (`ProviderDeps.resolver`), and accepts only the host key that was pinned at
the first connection. No configuration, agent, known hosts or keys of the server's user apply. A new machine under an
old address has a new host key: call `forget` when you release a machine.
"""

import asyncio
import posixpath
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncssh

from launchbay import limits
from launchbay.clock import Backoff
from launchbay.errors import ActionFailed
from launchbay.machines.answers import run_script, script
from launchbay.machines.contract import OnData, ProviderContext, ProviderDeps, Shell, ShellLost
from launchbay.machines.remote_commands import cannot_run, file_too_large
from launchbay.machines.shell import ShellMachines
from launchbay.model.machine import Machine, SshAccess

DEFAULT_LOGIN = "root"
PINNED_POLICY = "machines.host-keys"

_KEEP_ALIVE_S = 15.0
_KEEP_ALIVES = 4  # without an answer, then the connection counts as lost
_CLOSED = (asyncssh.ConnectionLost, ConnectionResetError)
_RSA_ALGORITHMS = ("rsa-sha2-256", "rsa-sha2-512")
_KINDS = (  # of host keys, the preferred one first
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256",),
    ("ecdsa-sha2-nistp384",),
    ("ecdsa-sha2-nistp521",),
    _RSA_ALGORITHMS,
)


@asynccontextmanager
async def connect(
    deps: ProviderDeps, context: ProviderContext, machine: Machine
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect to the machine for the duration of the block.

    Raises ShellLost if another attempt may succeed, AddressRefused, and ActionFailed if the host shows a different key
    than before or refuses the login.
    """
    name = host_name(machine)
    pinned = await _pinned(deps, context, name)
    private_key = _read_key(await deps.keys.private_key(context, machine.key_name), machine)
    client = _Client(pinned)
    async with await _connect(deps, context, machine, client, private_key) as connection:
        if pinned is None and await deps.host_keys.pin(context, name, client.presented_key) != client.presented_key:
            raise _changed(name, await deps.host_keys.pinned(context, name) or "", client.presented_key)
        yield connection


def host_name(machine: Machine) -> str:
    """Return the name under which the machine's host key is stored: its address and port."""
    host = f"[{machine.host}]" if ":" in machine.host else machine.host
    return f"{host}:{machine.port}"


class _Client(asyncssh.SSHClient):
    """Checks the host's key.

    `presented_key` is the key that the host has shown. `pinned` is a key, which also selects the algorithm, a
    fingerprint, or None for a new host.
    """

    def __init__(self, pinned: str | None) -> None:
        self.pinned = pinned
        self.presented_key = ""
        self.is_refused = False

    def algorithms(self) -> tuple[str, ...]:
        """Return the algorithms to request: that of the pinned key, or all except certificates."""
        kind = (self.pinned or "").partition(" ")[0]
        known = next((each for each in _KINDS if kind in each or (kind == "ssh-rsa" and each is _RSA_ALGORITHMS)), None)
        return known or tuple(name for each in _KINDS for name in each)

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002 - contract
        """Accept the pinned key, or any key of a new host."""
        self.presented_key = _text_of(key)
        is_right = self.pinned is None or self.pinned in (self.presented_key, key.get_fingerprint("sha256"))
        self.is_refused = not is_right
        return is_right


def _text_of(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])


async def _offered_keys(address: str, port: int) -> list[str]:
    """Return all keys of a host, which shows each client only one."""
    keys: list[str] = []
    for algorithms in _KINDS:
        try:
            async with asyncio.timeout(limits.MACHINE_CONNECT_S):
                key = await asyncssh.get_server_host_key(address, port, server_host_key_algs=algorithms, config=None)
        except (asyncssh.Error, ConnectionResetError):  # it has no such key
            continue
        except (OSError, TimeoutError):
            break
        if key is not None:
            keys.append(_text_of(key))
    return keys


async def _pinned(deps: ProviderDeps, context: ProviderContext, name: str) -> str | None:
    """Return the key that the host must show, or its fingerprint. A policy of the environment precedes the pin."""
    entries = str(context.policies.get(PINNED_POLICY, "")).split(",")
    stated = dict(entry.strip().partition("=")[::2] for entry in entries).get(name)
    return stated or await deps.host_keys.pinned(context, name)


async def _connect(
    deps: ProviderDeps, context: ProviderContext, machine: Machine, client: _Client, private_key: asyncssh.SSHKey
) -> asyncssh.SSHClientConnection:
    """Dial the addresses of the machine in turn until one answers."""
    addresses = await deps.resolver.addresses(context, machine.host, machine.port)
    failure: Exception = ShellLost(f"{machine.host} has no address")
    for address in addresses:
        try:
            try:
                return await _dial(address, machine, client, private_key)
            except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed, *_CLOSED) as error:
                # OpenSSH closes the connection without a word if it has no key of the only type that is asked for.
                if isinstance(error, _CLOSED) and (client.presented_key or not client.pinned):
                    raise
                await _find_pinned_key(address, machine, client, error)
                return await _dial(address, machine, client, private_key)
        except asyncssh.PermissionDenied:
            raise _access_denied(machine) from None
        except TimeoutError:
            failure = ShellLost(f"{host_name(machine)} did not respond within {limits.MACHINE_CONNECT_S:g} s")
        except (OSError, asyncssh.Error) as error:
            failure = ShellLost(f"{host_name(machine)} is unreachable ({_describe(error)})")
    raise failure


async def _dial(
    address: str, machine: Machine, client: _Client, private_key: asyncssh.SSHKey
) -> asyncssh.SSHClientConnection:
    async with asyncio.timeout(limits.MACHINE_CONNECT_S):
        return await asyncssh.connect(
            address, machine.port, client_factory=lambda: client, **_options(machine, client, private_key)
        )


async def _find_pinned_key(address: str, machine: Machine, client: _Client, error: Exception) -> None:
    """Let the client ask for the pinned key, if the host has it.

    Raises ActionFailed, or the error if the keys don't explain it.
    """
    name, pinned = host_name(machine), client.pinned or ""
    if isinstance(error, asyncssh.HostKeyNotVerifiable) and not client.is_refused:
        raise ActionFailed(f"{name} did not prove its host key: {error.reason}.") from None
    offered = await _offered_keys(address, machine.port)
    right = next((key for key in offered if pinned in (key, fingerprint(key))), "")
    if right and right != pinned:
        client.pinned = right
        return
    if client.is_refused:
        raise _changed(name, pinned, *(offered or [client.presented_key])) from None
    if pinned and offered and not right:
        raise _gone(name, pinned, offered) from None
    if isinstance(error, _CLOSED):
        raise error
    raise ActionFailed(f"{name} has no algorithm of SSH in common with Launchbay: {error}.", retryable=False) from None


def _options(machine: Machine, client: _Client, private_key: asyncssh.SSHKey) -> dict[str, Any]:
    return {
        "username": machine.login or DEFAULT_LOGIN,
        "client_keys": [private_key],
        "preferred_auth": "publickey",
        "known_hosts": ([], [], []),  # empty, so that every key is shown to the client
        "server_host_key_algs": client.algorithms(),
        "config": None,
        "agent_path": None,
        "gss_host": None,
        "x509_trusted_certs": None,
        "login_timeout": limits.MACHINE_CONNECT_S,
        "compression_algs": ("none",),
        "keepalive_interval": _KEEP_ALIVE_S,
        "keepalive_count_max": _KEEP_ALIVES,
        "encoding": None,
    }


def _read_key(text: str, machine: Machine) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(text)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise ActionFailed(
            f"The private key of the key pair for {machine.host} is invalid: {error}.", retryable=False
        ) from None


def _access_denied(machine: Machine) -> ActionFailed:
    pair = f"the key pair {machine.key_name!r}" if machine.key_name else "the environment's key pair"
    return ActionFailed(
        f"{host_name(machine)} refused the login {machine.login or DEFAULT_LOGIN!r} with {pair}.",
        "Check vmIdentity, and add the pair's public key to authorized_keys of the login.",
    )


def _changed(name: str, pinned: str, *presented: str) -> ActionFailed:
    return ActionFailed(
        f"The host key of {name} has changed: it shows {_described(presented)}, and {fingerprint(pinned)} is pinned."
        " Nothing was sent, because the host may be an impostor.",
        _how_to_accept(name, presented[0]),
        retryable=False,
    )


def _gone(name: str, pinned: str, offered: Sequence[str]) -> ActionFailed:
    kind = pinned.partition(" ")[0]
    return ActionFailed(
        f"{name} no longer has a host key of the pinned type {kind}: it has {_described(offered, with_types=True)}."
        " Nothing was sent, because the host may be an impostor.",
        _how_to_accept(name, offered[0]),
        retryable=False,
    )


def _how_to_accept(name: str, presented: str) -> str:
    return (
        "If you reinstalled the host, compare the new fingerprint on its console. Then forget the pinned key"
        f" (launchbay organization forget-host-key {name}), or set the policy {PINNED_POLICY} of the environment to"
        f" {name}={fingerprint(presented)} and reconfigure the instance."
    )


def _described(keys: Sequence[str], *, with_types: bool = False) -> str:
    if len(keys) == 1 and not with_types:
        return fingerprint(keys[0])
    return " and ".join(f"{fingerprint(key)} ({key.partition(' ')[0]})" for key in keys)


def fingerprint(key: str) -> str:
    """Return the fingerprint of a public key as OpenSSH shows it; any other text is returned unchanged."""
    try:
        return asyncssh.import_public_key(key).get_fingerprint("sha256")
    except asyncssh.KeyImportError:
        return key


_READ_BYTES = 64 * limits.KIB
_CHUNK_BYTES = 32 * limits.KIB
# All shells that a login may have read this alike. The path passes by aliases and a changed PATH, and with `exec` the
# parent of `sh` is the server's end of the connection, whose end it notices.
_SHELL = "exec /bin/sh -s"


class SshShell:
    """Implements `contract.Shell`."""

    def __init__(self, connection: asyncssh.SSHClientConnection, host: str) -> None:
        self._connection = connection
        self._host = host

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        """Pass the text to the standard input of `sh`: the shell of the login never reads it."""
        try:
            process = await self._connection.create_process(_SHELL, encoding=None)
            try:
                await asyncio.gather(
                    _send(process.stdin, text.encode("utf-8", "replace")),
                    _receive(process.stdout, stdout),
                    _receive(process.stderr, stderr),
                )
                await process.wait_closed()
            finally:
                process.close()  # without waiting: a cancelled script does not notice
        except (OSError, asyncssh.Error) as error:
            raise ShellLost(_describe(error)) from error
        if self._connection.is_closed() and process.exit_status is None:
            raise ShellLost("the connection was closed")
        return -1 if process.exit_status is None else process.exit_status

    async def put(self, name: str, content: bytes) -> None:
        """Write a draft, then rename it: no reader sees an incomplete file."""
        directory, base = posixpath.split(name)
        draft = posixpath.join(directory, f".{base}.launchbay")
        async with self._files(name) as files:
            try:
                async with files.open(draft, "wb") as file:
                    await file.write(content)
                await files.posix_rename(draft, name)
            except asyncssh.SFTPOpUnsupported:
                await files.rename(draft, name)

    async def get(self, name: str, max_bytes: int) -> bytes:
        async with self._files(name) as files, files.open(name, "rb") as file:
            content: bytes = await file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise file_too_large(name, self._host, max_bytes)
        return content

    @asynccontextmanager
    async def _files(self, name: str) -> AsyncIterator[asyncssh.SFTPClient]:
        try:
            async with self._connection.start_sftp_client() as files:
                yield files
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection) as error:
            raise ShellLost(_describe(error)) from error
        except asyncssh.SFTPError as error:
            raise ActionFailed(f"Can't access the file {name} on {self._host}: {error.reason}.") from error
        except (OSError, asyncssh.Error) as error:
            raise ShellLost(_describe(error)) from error


async def _send(stdin: asyncssh.SSHWriter[bytes], data: bytes) -> None:
    for begin in range(0, len(data), _CHUNK_BYTES):
        stdin.write(data[begin : begin + _CHUNK_BYTES])
        await stdin.drain()
    stdin.write_eof()


async def _receive(stream: asyncssh.SSHReader[bytes], on_data: OnData) -> None:
    while data := await stream.read(_READ_BYTES):
        on_data(data)


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__


_RETRY = Backoff(0.5, 5.0)


class SshMachines(ShellMachines):
    """One object serves all machines, at the same time; it stores nothing."""

    def __init__(self, deps: ProviderDeps) -> None:
        super().__init__(deps.egress)
        self._deps = deps

    @asynccontextmanager
    async def open(self, context: ProviderContext, machine: Machine) -> AsyncIterator[Shell]:
        async with connect(self._deps, context, machine) as connection:
            yield SshShell(connection, machine.host)

    async def wait_until_reachable(self, context: ProviderContext, machine: Machine, within_s: float = 0.0) -> None:
        """Wait until the machine accepts the login and runs a command.

        Raises ActionFailed with the last reason after `within_s` seconds, and immediately for a changed host key.
        """
        loop = asyncio.get_running_loop()
        until, delays = loop.time() + within_s, _RETRY.delays()
        while True:
            try:
                async with self.open(context, machine) as shell, asyncio.timeout(limits.MACHINE_CONNECT_S):
                    answer = await run_script(shell, script("place", key=""), host_name(machine))
                    if answer.code == 0:
                        return
                    reason = str(cannot_run(host_name(machine), answer))
            except ShellLost as error:
                reason = str(error)
            except TimeoutError:
                reason = (
                    f"{host_name(machine)} accepted the login but ran no command within {limits.MACHINE_CONNECT_S:g} s"
                )
            except ActionFailed as error:  # a machine that starts may get its keys after its SSH server
                if not error.retryable:
                    raise
                reason = str(error)
            if loop.time() >= until:
                raise ActionFailed(f"{reason}.".replace("..", "."))
            await asyncio.sleep(next(delays))

    async def ssh_access(self, context: ProviderContext, machine: Machine) -> SshAccess:
        """Connect once, which checks the host key, and return what another program needs to connect."""
        private_key = await self._deps.keys.private_key(context, machine.key_name)
        try:
            async with connect(self._deps, context, machine) as connection:
                shown = connection.get_server_host_key()
                address, port, *_ = connection.get_extra_info("peername")
        except ShellLost as error:
            raise ActionFailed(f"{error}.") from error
        assert shown is not None, "the connection is up"
        return SshAccess(
            address=address,
            port=port,
            login=machine.login or DEFAULT_LOGIN,
            private_key=private_key,
            host_key=" ".join(shown.export_public_key("openssh").decode("ascii").split()[:2]),
        )

    async def forget(self, context: ProviderContext, machine: Machine) -> None:
        await self._deps.host_keys.forget(context, host_name(machine))
