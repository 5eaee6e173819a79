"""Commands and files on machines that are reached by SSH: what static hosts and those of clouds have in common.

A provider makes, adopts and releases machines, and leaves the rest to an `Ssh`:

    class Cloud:
        name = "cloud"

        def __init__(self, parts: Parts) -> None:
            self._ssh = Ssh(parts)

        async def provision(self, errand, role, numbers, spec):
            made = ...  # Machine(..., login=spec.login, key_name=spec.key_name) with a public or private address
            for machine in made:
                await self._ssh.answers(errand, machine, within_s=300)
            return made

        async def run(self, errand, machine, command):
            return await self._ssh.run(errand, machine, command)

and so for `stop`, `converge`, `way_in`, `put_file` and `get_file`. `Machine.login`, `port` and `key_name` (of a key
pair; empty is the environment's choice) say how to get in. Every connection goes to an address that the rules allow
(`Parts.reach`), with the private key that `Parts.keys` gives, to the host key that was pinned at first
(`ssh_connection.py`). A machine that is made anew under an old address has a new host key: `forget` the old one when it
is released.

Commands run once, also when this server dies meanwhile: `running.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.chef_solo import converge
from launchbay.machines.contract import Errand
from launchbay.machines.parts import Parts
from launchbay.machines.running import Run, job_prefix, stop_runs
from launchbay.machines.shell import Shell, ShellLost
from launchbay.machines.ssh_connection import DEFAULT_LOGIN, connected, host_name
from launchbay.machines.ssh_shell import SshShell
from launchbay.model.machine import ChefRun, CommandResult, Machine, RemoteCommand, WayIn

_AGAIN_FIRST_S = 0.5
_AGAIN_LONGEST_S = 5.0


class Ssh:
    """One object serves all machines, at the same time; it keeps nothing."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def open(self, errand: Errand, machine: Machine) -> AbstractAsyncContextManager[Shell]:
        """Open a way into the machine. Raises ShellLost, AddressRefused, ActionFailed."""
        return self._open(errand, machine)

    async def answers(self, errand: Errand, machine: Machine, within_s: float = 0.0) -> None:
        """Return when the machine lets us in and runs a command; one that still starts is asked again and again.

        Raises ActionFailed with the last reason after `within_s` seconds, and at once for a host key that has changed.
        """
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + within_s, _AGAIN_FIRST_S
        while True:
            try:
                async with self.open(errand, machine) as shell, asyncio.timeout(limits.MACHINE_CONNECT_S):
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
            await asyncio.sleep(pause_s)
            pause_s = min(_AGAIN_LONGEST_S, pause_s * 2)

    async def run(self, errand: Errand, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, or go on with the one that this attempt of the step began."""
        return await Run(errand, machine, lambda: self.open(errand, machine)).command(command)

    async def converge(self, errand: Errand, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the attributes of the node."""
        return await converge(errand, machine, chef, lambda: self.open(errand, machine), self._parts.outgoing)

    async def way_in(self, errand: Errand, machine: Machine) -> WayIn:
        """Return what another program needs to get in; the host shows its key first, and it must be the pinned one."""
        private_key = await self._parts.keys.private_key(errand, machine.key_name)
        try:
            async with connected(self._parts, errand, machine) as connection:
                shown = connection.get_server_host_key()
                address, port, *_ = connection.get_extra_info("peername")
        except ShellLost as error:
            raise ActionFailed(f"{error}.") from error
        assert shown is not None, "the connection is up"
        return WayIn(
            address=address,
            port=port,
            login=machine.login or DEFAULT_LOGIN,
            private_key=private_key,
            host_key=" ".join(shown.export_public_key("openssh").decode("ascii").split()[:2]),
        )

    async def stop(self, errand: Errand, machine: Machine) -> None:
        """End every command that the errand's job left running on the machine."""
        await stop_runs(errand, machine, lambda: self.open(errand, machine), job_prefix(errand))

    async def forget(self, errand: Errand, machine: Machine) -> None:
        """Forget the host key of a machine that is gone."""
        await self._parts.host_keys.forget(errand, host_name(machine))

    async def put_file(self, errand: Errand, machine: Machine, name: str, content: bytes) -> None:
        """Write a file, over one that is there. Raises ActionFailed."""
        if len(content) > limits.MACHINE_FILE_BYTES:
            raise ActionFailed(f"A file may have {limits.MACHINE_FILE_BYTES} bytes at most.", retryable=False)
        async with self._once(errand, machine) as shell:
            await shell.put(name, content)

    async def get_file(self, errand: Errand, machine: Machine, name: str) -> bytes:
        """Read a file. Raises ActionFailed."""
        async with self._once(errand, machine) as shell:
            return await shell.get(name, limits.MACHINE_FILE_BYTES)

    @asynccontextmanager
    async def _open(self, errand: Errand, machine: Machine) -> AsyncIterator[Shell]:
        async with connected(self._parts, errand, machine) as connection:
            yield SshShell(connection, machine.host)

    @asynccontextmanager
    async def _once(self, errand: Errand, machine: Machine) -> AsyncIterator[Shell]:
        """Open a way for something that is tried once."""
        try:
            async with asyncio.timeout(limits.MACHINE_FILE_S), self.open(errand, machine) as shell:
                yield shell
        except ShellLost as error:
            raise ActionFailed(f"The way to {machine.host} broke: {error}.") from error
        except TimeoutError:
            text = f"{machine.host} did not take or give the file within {limits.MACHINE_FILE_S:g} s."
            raise ActionFailed(text) from None


def _drop(data: bytes) -> None:
    """Take output that nobody wants."""
