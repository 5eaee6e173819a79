"""Machines with a POSIX shell: commands and files, for any provider that can open one."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from launchbay import limits
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.machines.chef import converge
from launchbay.machines.contract import ProviderContext, Shell, ShellLost
from launchbay.machines.remote_commands import RemoteRun, job_prefix, stop_runs
from launchbay.model.machine import ChefRun, CommandResult, Machine, RemoteCommand


class ShellMachines(ABC):
    """The part of a `MachineProvider` that needs nothing but an open shell."""

    file_timeout_s = limits.MACHINE_FILE_S

    def __init__(self, egress: EgressClient) -> None:
        self._egress = egress

    @abstractmethod
    def open(self, context: ProviderContext, machine: Machine) -> AbstractAsyncContextManager[Shell]:
        """Open a shell on the machine. Raises ShellLost, AddressRefused, ActionFailed."""

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        run = RemoteRun(
            context,
            machine,
            lambda: self.open(context, machine),
            command.purpose,
            sudo_password=lambda: self.sudo_password(context, machine),
        )
        return await run.command(command)

    async def sudo_password(self, context: ProviderContext, machine: Machine) -> str:  # noqa: ARG002 - overridden
        """Return the password that sudo asks for, or nothing.

        Raises ActionFailed if a named secret is missing.
        """
        return ""

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        await stop_runs(
            context,
            machine,
            lambda: self.open(context, machine),
            job_prefix(context),
            lambda: self.sudo_password(context, machine),
        )

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        return await converge(
            context,
            machine,
            chef,
            lambda: self.open(context, machine),
            self._egress,
            sudo_password=lambda: self.sudo_password(context, machine),
        )

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        if len(content) > limits.MACHINE_FILE_BYTES:
            raise ActionFailed(f"A file can have at most {limits.MACHINE_FILE_BYTES} bytes.", retryable=False)
        async with self._open_once(context, machine) as shell:
            await shell.put(name, content)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        async with self._open_once(context, machine) as shell:
            return await shell.get(name, limits.MACHINE_FILE_BYTES)

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:  # noqa: ARG002 - contract
        return None

    @asynccontextmanager
    async def _open_once(self, context: ProviderContext, machine: Machine) -> AsyncIterator[Shell]:
        """Open a shell for work that is tried once, within `file_timeout_s`."""
        try:
            async with asyncio.timeout(self.file_timeout_s), self.open(context, machine) as shell:
                yield shell
        except ShellLost as error:
            raise ActionFailed(f"The connection to {machine.host} was lost: {error}.") from error
        except TimeoutError:
            raise ActionFailed(f"{machine.host} did not respond within {self.file_timeout_s:g} s.") from None
