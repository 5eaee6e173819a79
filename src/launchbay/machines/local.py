"""Machines that are directories on this server, for commands that need no machine of their own.

Off unless the operator names the environment, or its organization, in the setting `local_environments`: what runs there
runs as the server's own user. A policy that members may edit only narrows that (`machines.local: false`). Commands get
a process group of their own and an environment without anything of the server's; the directory goes with the machine.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.chef import converge
from launchbay.machines.contract import OnData, ProviderContext, ProviderDeps, Shell
from launchbay.machines.remote_commands import RemoteRun, job_prefix, stop_runs
from launchbay.model.machine import ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand
from launchbay.processes.run import minimal_environment

_READ_BYTES = 64 * limits.KIB


class LocalShell:
    """Implements `shell.Shell`. The directory is the home of what runs in it, and files are put and got inside of it.

    The environment is PATH, HOME, SHELL, LANG and nothing else: no secret of the server is in it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        """Have `sh` read the text from its standard input, in a process group of its own."""
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-s",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._directory,
            env=minimal_environment(self._directory, SHELL="/bin/sh"),
            start_new_session=True,
            close_fds=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            await asyncio.gather(
                _send(process.stdin, text.encode("utf-8", "replace")),
                _receive(process.stdout, stdout),
                _receive(process.stderr, stderr),
            )
            return await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    async def put(self, name: str, content: bytes) -> None:
        """Write a file beside its place, then move it there."""
        await asyncio.to_thread(self._put, self._place(name), content)

    async def get(self, name: str, max_bytes: int) -> bytes:
        """Read a file. Raises ActionFailed for one that is too large, or not there."""
        place = self._place(name)
        try:
            content = await asyncio.to_thread(_read, place, max_bytes + 1)
        except OSError as error:
            raise ActionFailed(f"The file {name} cannot be used: {error.strerror}.") from error
        if len(content) > max_bytes:
            raise ActionFailed(f"The file {name} has more than {max_bytes} bytes; that is the most.", retryable=False)
        return content

    def _place(self, name: str) -> Path:
        """Return where a file is. Raises ActionFailed for one outside of the directory, links included."""
        directory = self._directory.resolve()
        place = (directory / name).resolve()
        if not place.is_relative_to(directory) or place == directory:
            raise ActionFailed(f"The file {name} is not in the directory of the machine.", retryable=False)
        return place

    @staticmethod
    def _put(place: Path, content: bytes) -> None:
        draft = place.with_name(f".{place.name}.launchbay")
        try:
            draft.write_bytes(content)
            draft.replace(place)
        except OSError as error:
            raise ActionFailed(f"The file {place.name} cannot be used: {error.strerror}.") from error


async def _send(stdin: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it ended before it read everything; its exit code tells
        stdin.write(data)
        await stdin.drain()
    stdin.close()


async def _receive(stream: asyncio.StreamReader, on_data: OnData) -> None:
    while data := await stream.read(_READ_BYTES):
        on_data(data)


def _read(place: Path, max_bytes: int) -> bytes:
    with place.open("rb") as file:
        return file.read(max_bytes)


NAME = "local"
POLICY = "machines.local"
ALL_ENVIRONMENTS = "*"
_NETWORK = 250  # addresses that are used of each 127.1.x.0/24
_TAG_CHARS = 16


class LocalMachines:
    """The provider; one object serves all instances. `allowed` are ids of environments and organizations, or `*`."""

    name = NAME

    def __init__(self, deps: ProviderDeps, allowed: Collection[str]) -> None:
        self._root = deps.directory / NAME
        self._egress = deps.egress
        self._allowed = frozenset(allowed)

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Make a directory for each machine. Raises ActionFailed where the environment may not."""
        self._check(context)
        machines = [_machine(context, role, number, place, spec) for place, number in enumerate(numbers, 1)]
        for machine in machines:
            await asyncio.to_thread(self._place(machine).mkdir, mode=0o700, parents=True, exist_ok=True)
        return machines

    async def adopt(
        self,
        context: ProviderContext,  # noqa: ARG002 - contract
        role: str,  # noqa: ARG002 - contract
        addresses: Mapping[int, str],
        spec: MachineSpec,  # noqa: ARG002 - contract
    ) -> Sequence[Machine]:
        """Refuse: there is nothing to adopt."""
        raise ActionFailed(
            f"Local machines are directories of this server, and {', '.join(addresses.values())} is none.",
            "Leave staticIps out, or choose the provider static.",
            retryable=False,
        )

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        """End what runs there and remove the directory."""
        place = self._place(machine)
        if await asyncio.to_thread(place.is_dir):
            await stop_runs(context, machine, lambda: self._open(machine), "")
            await asyncio.to_thread(shutil.rmtree, place)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        """Return the directories of the instance."""
        places = await asyncio.to_thread(lambda: sorted(self._root.glob(f"{context.instance_id}-*")))
        return [Machine(id=f"{NAME}:{place.name}", role="", provider=NAME, number=0) for place in places]

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end. Raises ActionFailed where the environment may not, or it asks for sudo."""
        self._check(context)
        if command.sudo:
            raise ActionFailed("A local machine has no superuser; leave isSudo out.", retryable=False)
        return await RemoteRun(context, machine, lambda: self._open(machine)).command(command)

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        """End every command that the context's job left running."""
        await stop_runs(context, machine, lambda: self._open(machine), job_prefix(context))

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef as the server's user, which needs `isSudo: false`, and return the node's attributes."""
        self._check(context)
        if chef.sudo:
            raise ActionFailed("A local machine has no superuser; set isSudo to false.", retryable=False)
        return await converge(context, machine, chef, lambda: self._open(machine), self._egress)

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        """Write a file inside of the directory."""
        self._check(context)
        if len(content) > limits.MACHINE_FILE_BYTES:
            raise ActionFailed(f"A file may have {limits.MACHINE_FILE_BYTES} bytes at most.", retryable=False)
        async with self._open(machine) as shell:
            await shell.put(name, content)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        """Read a file inside of the directory."""
        self._check(context)
        async with self._open(machine) as shell:
            return await shell.get(name, limits.MACHINE_FILE_BYTES)

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:  # noqa: ARG002 - contract
        """Let every action run."""
        return None

    def _check(self, context: ProviderContext) -> None:
        who = {ALL_ENVIRONMENTS, context.environment_id, context.organization_id}
        if not who & self._allowed or context.policies.get(POLICY, True) is not True:
            raise ActionFailed(
                "Local machines are not allowed in this environment: what runs there runs as the server's own user.",
                f"The operator may add {context.environment_id} to the setting LOCAL_ENVIRONMENTS.",
                retryable=False,
            )

    def _place(self, machine: Machine) -> Path:
        name = machine.id.removeprefix(f"{NAME}:")
        assert "/" not in name, "names are made here, of ids and numbers"
        return self._root / name

    def _open(self, machine: Machine) -> AbstractAsyncContextManager[Shell]:
        return self._shell(machine)

    @asynccontextmanager
    async def _shell(self, machine: Machine) -> AsyncIterator[Shell]:
        place = self._place(machine)
        if not await asyncio.to_thread(place.is_dir):
            raise ActionFailed(
                f"The directory of the machine {machine.id} is not on this server: with several servers, local machines"
                " need a data_dir that they share.",
                retryable=False,
            )
        yield LocalShell(place)


def _machine(context: ProviderContext, role: str, number: int, place: int, spec: MachineSpec) -> Machine:
    """Return a machine. Its directory is named after the step, so that an interrupted one finds what it made.

    Every address that begins with 127 leads to this server, so each machine has one that no other of its instance has.
    """
    block, rest = divmod(number - 1, _NETWORK)
    address = f"127.1.{block}.{rest + 1}"
    return Machine(
        id=f"{NAME}:{context.instance_id}-{context.tag[:_TAG_CHARS]}-{place}",
        role=role,
        provider=NAME,
        number=number,
        public_ip=address,
        private_ip=address,
        host_name="localhost",
        login=spec.login,
    )
