"""Machines that are directories on this server, for commands that need no machine of their own.

They are off unless the setting `local_environments` names the environment or its organization, because commands run as
the server's own user (decision 0165). Members can edit policies, so a policy can only turn them off
(`machines.local: false`). Commands get their own process group and nothing of the server's environment. The directory
is deleted with the machine.
"""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.contract import OnData, ProviderContext, ProviderDeps, Shell
from launchbay.machines.remote_commands import file_too_large, stop_runs
from launchbay.machines.shell import ShellMachines
from launchbay.model.machine import ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand
from launchbay.processes.run import minimal_environment

_READ_BYTES = 64 * limits.KIB


class LocalShell:
    """Implements `contract.Shell`. The directory is the home of commands, and files stay inside it.

    The environment contains only PATH, HOME, SHELL and LANG: no secret of the server.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        """Pass the text to the standard input of `sh`, in its own process group."""
        process = self._shell()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            await asyncio.gather(
                asyncio.to_thread(_send, process.stdin, text.encode("utf-8", "replace")),
                receive(process.stdout, stdout),
                receive(process.stderr, stderr),
            )
            await _ended(process)
            return process.returncode
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _shell(self) -> "subprocess.Popen[bytes]":
        # Not asyncio's subprocess: on uvloop, the child inherits its pipes a second time. Whatever a command leaves in
        # the background would keep them open, and the command would last as long.
        return subprocess.Popen(
            ("/bin/sh", "-s"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._directory,
            env=minimal_environment(self._directory, SHELL="/bin/sh"),
            start_new_session=True,
        )

    async def put(self, name: str, content: bytes) -> None:
        await asyncio.to_thread(self._put, self._path(name), content)

    async def get(self, name: str, max_bytes: int) -> bytes:
        path = self._path(name)
        try:
            content = await asyncio.to_thread(_read, path, max_bytes + 1)
        except OSError as error:
            raise ActionFailed(f"Can't read the file {name}: {error.strerror}.") from error
        if len(content) > max_bytes:
            raise file_too_large(name, "the local machine", max_bytes)
        return content

    def _path(self, name: str) -> Path:
        """Return the path of a file. Raises ActionFailed if it is outside the directory, also through links."""
        directory = self._directory.resolve()
        path = (directory / name).resolve()
        if not path.is_relative_to(directory) or path == directory:
            raise ActionFailed(f"The file {name} is not in the directory of the machine.", retryable=False)
        return path

    @staticmethod
    def _put(path: Path, content: bytes) -> None:
        """Write a draft, then rename it: no reader sees an incomplete file."""
        draft = path.with_name(f".{path.name}.launchbay")
        try:
            draft.write_bytes(content)
            draft.replace(path)
        except OSError as error:
            raise ActionFailed(f"Can't write the file {path.name}: {error.strerror}.") from error


def _send(stdin: IO[bytes], data: bytes) -> None:
    with suppress(BrokenPipeError), stdin:  # it ended before it read everything, which its code shows
        stdin.write(data)


async def receive(pipe: IO[bytes], on_data: OnData) -> None:
    """Read a pipe to its end, and close it."""
    # A transport of uvloop closes the descriptor, and then the file. In between, another thread may open a file with
    # this number, and loses it. If it belongs to an event loop, the process is aborted.
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    with pipe:
        descriptor = pipe.fileno()
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                with suppress(BlockingIOError):
                    if not (data := os.read(descriptor, _READ_BYTES)):
                        return
                    on_data(data)
        finally:
            loop.remove_reader(descriptor)


async def _ended(process: "subprocess.Popen[bytes]") -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    process.wait()


def _read(path: Path, max_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(max_bytes)


NAME = "local"
POLICY = "machines.local"
ALL_ENVIRONMENTS = "*"
_NETWORK = 250  # addresses used in each 127.1.x.0/24
_TAG_CHARS = 16
NamesOf = Callable[[str, str], Awaitable[Collection[str]]]


class LocalMachines(ShellMachines):
    """The provider; one object serves all instances.

    `allowed` are IDs of environments and organizations, names, or `*`. `names_of` returns the names by which an
    environment can be chosen, from the IDs of its organization and of itself.
    """

    name = NAME

    def __init__(self, deps: ProviderDeps, allowed: Collection[str], names_of: NamesOf) -> None:
        super().__init__(deps.egress)
        self._names_of = names_of
        self._root = deps.directory / NAME
        self._allowed = frozenset(allowed)

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Create a directory for each machine. Raises ActionFailed if the environment isn't allowed to."""
        await self._check(context)
        machines = [_machine(context, role, number, place, spec) for place, number in enumerate(numbers, 1)]
        for machine in machines:
            await asyncio.to_thread(self._directory(machine).mkdir, mode=0o700, parents=True, exist_ok=True)
        return machines

    async def adopt(
        self,
        context: ProviderContext,  # noqa: ARG002 - contract
        role: str,  # noqa: ARG002 - contract
        addresses: Mapping[int, str],
        spec: MachineSpec,  # noqa: ARG002 - contract
    ) -> Sequence[Machine]:
        raise ActionFailed(
            f"Can't adopt {', '.join(addresses.values())}: local machines are directories of this server.",
            "Remove staticIps, or choose the provider static.",
            retryable=False,
        )

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        """End what runs there and remove the directory."""
        directory = self._directory(machine)
        if await asyncio.to_thread(directory.is_dir):
            await stop_runs(context, machine, lambda: self.open(context, machine), "")
            await asyncio.to_thread(shutil.rmtree, directory)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        directories = await asyncio.to_thread(lambda: sorted(self._root.glob(f"{context.instance_id}-*")))
        return [Machine(id=f"{NAME}:{each.name}", role="", provider=NAME, number=0) for each in directories]

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        await self._check(context)
        if command.sudo:
            raise ActionFailed("A local machine has no superuser. Remove isSudo.", retryable=False)
        return await super().run(context, machine, command)

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef as the server's user, which needs `isSudo: false`."""
        await self._check(context)
        if chef.sudo:
            raise ActionFailed("A local machine has no superuser. Set isSudo to false.", retryable=False)
        return await super().converge(context, machine, chef)

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        await self._check(context)
        await super().put_file(context, machine, name, content)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        await self._check(context)
        return await super().get_file(context, machine, name)

    async def _check(self, context: ProviderContext) -> None:
        requesters = {ALL_ENVIRONMENTS, context.environment_id, context.organization_id}
        is_named = bool(requesters & self._allowed)
        if not is_named and self._allowed:
            names = await self._names_of(context.organization_id, context.environment_id)
            is_named = not self._allowed.isdisjoint(names)
        if not is_named or context.policies.get(POLICY, True) is not True:
            raise ActionFailed(
                "Local machines are not allowed in this environment: their commands run as the server's own user.",
                f"To allow them, an administrator adds {context.environment_id} to the setting LOCAL_ENVIRONMENTS.",
                retryable=False,
            )

    def _directory(self, machine: Machine) -> Path:
        name = machine.id.removeprefix(f"{NAME}:")
        assert "/" not in name, "_machine makes the name, from ids and numbers"
        return self._root / name

    @asynccontextmanager
    async def open(self, context: ProviderContext, machine: Machine) -> AsyncIterator[Shell]:  # noqa: ARG002 - contract
        directory = self._directory(machine)
        if not await asyncio.to_thread(directory.is_dir):
            raise ActionFailed(
                f"The directory of the machine {machine.id} is not on this server.",
                "After a restore, copy data_dir/machines of the former server, or destroy the instance and launch it"
                " again. If you have several servers, they must share their data_dir.",
                retryable=False,
            )
        yield LocalShell(directory)


def _machine(context: ProviderContext, role: str, number: int, place: int, spec: MachineSpec) -> Machine:
    """Return a machine. Its directory is named after the step, so that a repeated step finds it.

    Every address that starts with 127 leads to this server. Within an instance, each machine has its own.
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
