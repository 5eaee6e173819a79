"""Machines that are reached by SSH: `SshMachines` is the common part of static hosts and cloud machines.

A provider inherits it, and adds how machines are created, adopted and released:

    class Lab(SshMachines):
        name = "lab"

        async def provision(self, context, role, numbers, spec):
            created = ...  # Machine(..., login=spec.login, key_name=spec.key_name) with an address
            for machine in created:
                await self.wait_until_reachable(context, machine, within_s=300)
            return created

`Machine.login`, `port` and `key_name` select the login. An empty `key_name` is the environment's key pair.
`Machine.jump` are the jump hosts on the way; None are those of the environment's policy. A new machine under an old
address has a new host key: call `forget` when you release a machine.
"""

import asyncio
import posixpath
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import asyncssh

from launchbay import limits
from launchbay.clock import Backoff
from launchbay.errors import ActionFailed
from launchbay.machines.answers import run_script, script
from launchbay.machines.contract import (
    SUDO_POLICY,
    OnData,
    ProviderContext,
    ProviderDeps,
    Shell,
    ShellLost,
    invalid_policy,
)
from launchbay.machines.jump_hosts import JumpHosts
from launchbay.machines.remote_commands import cannot_run, file_too_large
from launchbay.machines.shell import ShellMachines
from launchbay.machines.ssh_connection import SshHost, connect, describe, public_text
from launchbay.model.machine import JUMP_FORM, JUMP_POLICY, JumpHost, Machine, SshAccess, host_and_port, read_jump

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
            raise ShellLost(describe(error)) from error
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
            raise ShellLost(describe(error)) from error
        except asyncssh.SFTPError as error:
            raise ActionFailed(f"Can't access the file {name} on {self._host}: {error.reason}.") from error
        except (OSError, asyncssh.Error) as error:
            raise ShellLost(describe(error)) from error


async def _send(stdin: asyncssh.SSHWriter[bytes], data: bytes) -> None:
    # A command may end before it has read everything, which its code shows. After a lost connection there is none.
    with suppress(BrokenPipeError):
        for begin in range(0, len(data), _CHUNK_BYTES):
            stdin.write(data[begin : begin + _CHUNK_BYTES])
            await stdin.drain()
        stdin.write_eof()


async def _receive(stream: asyncssh.SSHReader[bytes], on_data: OnData) -> None:
    while data := await stream.read(_READ_BYTES):
        on_data(data)


_RETRY = Backoff(0.5, 5.0)


class SshMachines(ShellMachines):
    """One object serves all machines; it stores only connections to jump hosts."""

    def __init__(self, deps: ProviderDeps) -> None:
        super().__init__(deps.egress)
        self._deps = deps
        self._jump_hosts = JumpHosts(deps)

    @asynccontextmanager
    async def open(self, context: ProviderContext, machine: Machine) -> AsyncIterator[Shell]:
        async with self._connected(context, machine) as connection:
            yield SshShell(connection, machine.host)

    @asynccontextmanager
    async def _connected(
        self, context: ProviderContext, machine: Machine
    ) -> AsyncIterator[asyncssh.SSHClientConnection]:
        jump = jump_of(context, machine)
        host = SshHost.of_machine(machine, jump)
        async with (
            self._jump_hosts.through(context, jump) as tunnel,
            connect(self._deps, context, host, tunnel) as connection,
        ):
            yield connection

    async def wait_until_reachable(self, context: ProviderContext, machine: Machine, within_s: float = 0.0) -> None:
        """Wait until the machine accepts the login and runs a command.

        Raises ActionFailed with the last reason after `within_s` seconds, and immediately for a changed host key.
        """
        loop = asyncio.get_running_loop()
        until, delays = loop.time() + within_s, _RETRY.delays()
        place = host_and_port(machine.host, machine.port)
        while True:
            try:
                async with self.open(context, machine) as shell, asyncio.timeout(limits.MACHINE_CONNECT_S):
                    answer = await run_script(shell, script("place", key=""), place)
                    if answer.code == 0:
                        return
                    reason = str(cannot_run(place, answer))
            except ShellLost as error:
                reason = str(error)
            except TimeoutError:
                reason = f"{place} accepted the login but ran no command within {limits.MACHINE_CONNECT_S:g} s"
            except ActionFailed as error:  # a machine that starts may get its keys after its SSH server
                if not error.retryable:
                    raise
                reason = str(error)
            if loop.time() >= until:
                raise ActionFailed(f"{reason}.".replace("..", "."))
            await asyncio.sleep(next(delays))

    async def ssh_access(self, context: ProviderContext, machine: Machine) -> SshAccess:
        """Connect once to check the host keys, and return the access."""
        jump = jump_of(context, machine)
        try:
            async with AsyncExitStack() as stack:
                hops = []
                for number, host in enumerate(SshHost.of_jump(jump)):
                    way = self._jump_hosts.through(context, jump[: number + 1])
                    hop = await stack.enter_async_context(way)
                    assert hop is not None, "the way has jump hosts"
                    hops.append(await self._access(context, host, hop))
                connection = await stack.enter_async_context(self._connected(context, machine))
                host = SshHost.of_machine(machine, jump)
                return await self._access(
                    context, host, connection, tuple(hops), await self.sudo_password(context, machine)
                )
        except ShellLost as error:
            raise ActionFailed(f"{error}.") from error

    async def _access(
        self,
        context: ProviderContext,
        host: SshHost,
        connection: asyncssh.SSHClientConnection,
        jump: tuple[SshAccess, ...] = (),
        sudo_password: str = "",
    ) -> SshAccess:
        key = await self._deps.keys.login_key(context, host.key_name, host.login)
        shown = connection.get_server_host_key()
        assert shown is not None, "the connection is up"
        # Behind a jump host, only that one knows the address of a name.
        address = host.address if host.behind else connection.get_extra_info("peername")[0]
        return SshAccess(
            address=address,
            port=host.port,
            login=host.login,
            private_key=key.private,
            certificate=key.certificate,
            host_key=public_text(shown),
            jump=jump,
            sudo_password=sudo_password,
        )

    async def sudo_password(self, context: ProviderContext, machine: Machine) -> str:
        name = machine.sudo_secret or str(context.policies.get(SUDO_POLICY, ""))
        return await self._deps.keys.password(context, name) if name else ""

    async def forget(self, context: ProviderContext, machine: Machine) -> None:
        host = SshHost.of_machine(machine, jump_of(context, machine))
        await self._deps.host_keys.forget(context, host.name)


def jump_of(context: ProviderContext, machine: Machine) -> tuple[JumpHost, ...]:
    """Return the jump hosts on the way to a machine.

    They are its own, or those of the environment's policy. The policy is read at each connection, so a jump host can be
    replaced while instances run. Raises ActionFailed.
    """
    if machine.jump is not None:
        return machine.jump
    value = context.policies.get(JUMP_POLICY)
    try:
        return read_jump(value)
    except ValueError:
        raise invalid_policy(JUMP_POLICY, value, JUMP_FORM) from None
