"""Commands and files on machines that are reached by SSH: what static hosts and those of clouds have in common.

A provider makes, adopts and releases machines, and leaves the rest to an `Ssh`:

    class Cloud:
        name = "cloud"

        def __init__(self, parts: Parts) -> None:
            self._ssh = Ssh(parts)

        async def provision(self, context, role, numbers, spec):
            made = ...  # Machine(..., login=spec.login, key_name=spec.key_name) with a public or private address
            for machine in made:
                await self._ssh.answers(context, machine, within_s=300)
            return made

        async def run(self, context, machine, command):
            return await self._ssh.run(context, machine, command)

and so for `stop`, `converge`, `way_in`, `put_file` and `get_file`. `Machine.login`, `port` and `key_name` (of a key
pair; empty is the environment's choice) say how to get in. Every connection goes to an address that the rules allow
(`Parts.reach`), with the private key that `Parts.keys` gives, to the host key that was pinned at first
(`ssh_connection.py`). A machine that is made anew under an old address has a new host key: `forget` the old one when it
is released.

Commands run once, also when this server dies meanwhile: `running.py`.
"""

import asyncio
import posixpath
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncssh

from launchbay import limits
from launchbay.backoff import Backoff
from launchbay.errors import ActionFailed
from launchbay.machines.chef import converge
from launchbay.machines.contract import OnData, ProviderContext, ProviderDeps, Shell, ShellLost
from launchbay.machines.remote_commands import RemoteRun, job_prefix, stop_runs
from launchbay.model.machine import ChefRun, CommandResult, Machine, RemoteCommand, SshAccess

# One SSH connection to a machine: an address that the rules allow, a host key that is the pinned one, a key to get in.
#
# No file of the server's user counts: no configuration, agent, known hosts or keys but what is given here.

DEFAULT_LOGIN = "root"
PINNED_POLICY = "machines.host-keys"
_KEEP_ALIVE_S = 15.0
_KEEP_ALIVES = 4  # without an answer, then the connection counts as lost
_KEY_ALGORITHMS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_RSA_ALGORITHMS = ("rsa-sha2-256", "rsa-sha2-512")


@asynccontextmanager
async def connect(
    deps: ProviderDeps, context: ProviderContext, machine: Machine
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Give a connection to the machine.

    Raises ShellLost where another attempt may do better, AddressRefused, and ActionFailed where the host shows another
    key than before or does not let us in.
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
    """Return the name under which the machine's host key is kept: its address and port."""
    host = f"[{machine.host}]" if ":" in machine.host else machine.host
    return f"{host}:{machine.port}"


class _Client(asyncssh.SSHClient):
    """Judges the host's key. `shown` is what the host has shown."""

    def __init__(self, pinned: str | None) -> None:
        self._pinned = pinned
        self.presented_key = ""
        self.is_refused = False

    def algorithms(self) -> tuple[str, ...]:
        """Return what to ask the host for: a key of the pinned one's kind, or any but certificates."""
        kind = (self._pinned or "").partition(" ")[0]
        if kind == "ssh-rsa":
            return _RSA_ALGORITHMS
        return (kind,) if kind in _KEY_ALGORITHMS else _KEY_ALGORITHMS + _RSA_ALGORITHMS

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002 - contract
        """Take the pinned key, or any from a host that is new."""
        self.presented_key = " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])
        is_right = self._pinned is None or self._pinned in (self.presented_key, key.get_fingerprint("sha256"))
        self.is_refused = not is_right
        return is_right


async def _pinned(deps: ProviderDeps, context: ProviderContext, name: str) -> str | None:
    """Return what the host must show: a key or its fingerprint. A policy of the environment comes before the pin."""
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
            async with asyncio.timeout(limits.MACHINE_CONNECT_S):
                return await asyncssh.connect(
                    address, machine.port, client_factory=lambda: client, **_options(machine, client, private_key)
                )
        except asyncssh.HostKeyNotVerifiable as error:
            if not client.is_refused:
                raise ActionFailed(f"{host_name(machine)} proves no host key: {error.reason}.") from None
            pinned = await _pinned(deps, context, host_name(machine))
            raise _changed(host_name(machine), pinned or "", client.presented_key) from None
        except asyncssh.PermissionDenied:
            raise _access_denied(machine) from None
        except TimeoutError:
            failure = ShellLost(f"{host_name(machine)} did not answer within {limits.MACHINE_CONNECT_S:g} s")
        except (OSError, asyncssh.Error) as error:
            failure = ShellLost(f"{host_name(machine)} cannot be reached ({str(error) or type(error).__name__})")
    raise failure


def _options(machine: Machine, client: _Client, private_key: asyncssh.SSHKey) -> dict[str, Any]:
    return {
        "username": machine.login or DEFAULT_LOGIN,
        "client_keys": [private_key],
        "preferred_auth": "publickey",
        "known_hosts": ([], [], []),  # nothing is known: every key is put before the client
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
            f"The key pair for {machine.host} has no private key that can be read: {error}.", retryable=False
        ) from None


def _access_denied(machine: Machine) -> ActionFailed:
    pair = f"the key pair {machine.key_name!r}" if machine.key_name else "the environment's key pair"
    return ActionFailed(
        f"{host_name(machine)} does not let {machine.login or DEFAULT_LOGIN!r} in with {pair}.",
        "Check vmIdentity, and that the pair's public key is in the login's authorized_keys.",
    )


def _changed(name: str, pinned: str, presented: str) -> ActionFailed:
    return ActionFailed(
        f"The host key of {name} has changed: it shows {fingerprint(presented)}, and {fingerprint(pinned)} is pinned."
        " Nothing was sent there, for somebody may stand in between.",
        "If the host was installed anew, compare the new fingerprint on its console. Then have the pinned key forgotten"
        f" (DELETE /api/1/organizations/…/hostKeys/{name}), or set the policy {PINNED_POLICY} of the environment to"
        f" {name}={fingerprint(presented)} and reconfigure the instance.",
        retryable=False,
    )


def fingerprint(key: str) -> str:
    """Return the fingerprint of a public key as OpenSSH shows it; what is none comes back as it is."""
    try:
        return asyncssh.import_public_key(key).get_fingerprint("sha256")
    except asyncssh.KeyImportError:
        return key


_READ_BYTES = 64 * limits.KIB
_CHUNK_BYTES = 32 * limits.KIB


class SshShell:
    """Implements `shell.Shell`."""

    def __init__(self, connection: asyncssh.SSHClientConnection, host: str) -> None:
        self._connection = connection
        self._host = host

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        """Have `sh` read the text from its standard input: no shell of the login gets to see it."""
        try:
            process = await self._connection.create_process("exec sh -s", encoding=None)
            try:
                await asyncio.gather(
                    _send(process.stdin, text.encode("utf-8", "replace")),
                    _receive(process.stdout, stdout),
                    _receive(process.stderr, stderr),
                )
                await process.wait_closed()
            finally:
                process.close()  # and no waiting: a script that is cancelled does not know of it
        except (OSError, asyncssh.Error) as error:
            raise ShellLost(_described(error)) from error
        if self._connection.is_closed() and process.exit_status is None:
            raise ShellLost("the connection was closed")
        return -1 if process.exit_status is None else process.exit_status

    async def put(self, name: str, content: bytes) -> None:
        """Write a file beside its place, then move it there: nobody sees half of it."""
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
        """Read a file. Raises ActionFailed for one that is too large."""
        async with self._files(name) as files, files.open(name, "rb") as file:
            content: bytes = await file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise ActionFailed(
                f"The file {name} on {self._host} has more than {max_bytes} bytes; that is the most.", retryable=False
            )
        return content

    @asynccontextmanager
    async def _files(self, name: str) -> AsyncIterator[asyncssh.SFTPClient]:
        try:
            async with self._connection.start_sftp_client() as files:
                yield files
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection) as error:
            raise ShellLost(_described(error)) from error
        except asyncssh.SFTPError as error:
            raise ActionFailed(f"The file {name} on {self._host} cannot be used: {error.reason}.") from error
        except (OSError, asyncssh.Error) as error:
            raise ShellLost(_described(error)) from error


async def _send(stdin: asyncssh.SSHWriter[bytes], data: bytes) -> None:
    for begin in range(0, len(data), _CHUNK_BYTES):
        stdin.write(data[begin : begin + _CHUNK_BYTES])
        await stdin.drain()
    stdin.write_eof()


async def _receive(stream: asyncssh.SSHReader[bytes], on_data: OnData) -> None:
    while data := await stream.read(_READ_BYTES):
        on_data(data)


def _described(error: Exception) -> str:
    return str(error) or type(error).__name__


_RETRY = Backoff(0.5, 5.0)


class Ssh:
    """One object serves all machines, at the same time; it keeps nothing."""

    def __init__(self, deps: ProviderDeps) -> None:
        self._deps = deps

    def open(self, context: ProviderContext, machine: Machine) -> AbstractAsyncContextManager[Shell]:
        """Open a way into the machine. Raises ShellLost, AddressRefused, ActionFailed."""
        return self._open(context, machine)

    async def wait_until_reachable(self, context: ProviderContext, machine: Machine, within_s: float = 0.0) -> None:
        """Return when the machine lets us in and runs a command; one that still starts is asked again and again.

        Raises ActionFailed with the last reason after `within_s` seconds, and at once for a host key that has changed.
        """
        loop = asyncio.get_running_loop()
        until, delays = loop.time() + within_s, _RETRY.delays()
        while True:
            try:
                async with self.open(context, machine) as shell, asyncio.timeout(limits.MACHINE_CONNECT_S):
                    if await shell.script("exit 0", _drop, _drop) == 0:
                        return
                    reason = f"{host_name(machine)} has no POSIX shell 'sh' for {machine.login!r}"
            except ShellLost as error:
                reason = str(error)
            except TimeoutError:
                reason = f"{host_name(machine)} lets us in and runs nothing within {limits.MACHINE_CONNECT_S:g} s"
            except ActionFailed as error:  # not let in: a machine that starts may get its keys after its SSH server
                if not error.retryable:
                    raise
                reason = str(error)
            if loop.time() >= until:
                raise ActionFailed(f"{reason}.".replace("..", "."))
            await asyncio.sleep(next(delays))

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, or go on with the one that this attempt of the step began."""
        return await RemoteRun(context, machine, lambda: self.open(context, machine)).command(command)

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the attributes of the node."""
        return await converge(context, machine, chef, lambda: self.open(context, machine), self._deps.egress)

    async def ssh_access(self, context: ProviderContext, machine: Machine) -> SshAccess:
        """Return what another program needs to get in; the host shows its key first, and it must be the pinned one."""
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

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        """End every command that the context's job left running on the machine."""
        await stop_runs(context, machine, lambda: self.open(context, machine), job_prefix(context))

    async def forget(self, context: ProviderContext, machine: Machine) -> None:
        """Forget the host key of a machine that is gone."""
        await self._deps.host_keys.forget(context, host_name(machine))

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        """Write a file, over one that is there. Raises ActionFailed."""
        if len(content) > limits.MACHINE_FILE_BYTES:
            raise ActionFailed(f"A file may have {limits.MACHINE_FILE_BYTES} bytes at most.", retryable=False)
        async with self._once(context, machine) as shell:
            await shell.put(name, content)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        """Read a file. Raises ActionFailed."""
        async with self._once(context, machine) as shell:
            return await shell.get(name, limits.MACHINE_FILE_BYTES)

    @asynccontextmanager
    async def _open(self, context: ProviderContext, machine: Machine) -> AsyncIterator[Shell]:
        async with connect(self._deps, context, machine) as connection:
            yield SshShell(connection, machine.host)

    @asynccontextmanager
    async def _once(self, context: ProviderContext, machine: Machine) -> AsyncIterator[Shell]:
        """Open a way for something that is tried once."""
        try:
            async with asyncio.timeout(limits.MACHINE_FILE_S), self.open(context, machine) as shell:
                yield shell
        except ShellLost as error:
            raise ActionFailed(f"The way to {machine.host} broke: {error}.") from error
        except TimeoutError:
            text = f"{machine.host} did not take or give the file within {limits.MACHINE_FILE_S:g} s."
            raise ActionFailed(text) from None


def _drop(data: bytes) -> None:
    """Take output that nobody wants."""
