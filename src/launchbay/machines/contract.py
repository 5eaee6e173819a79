"""What a machine provider is. A package of its own brings one through the entry-point group `launchbay.machines`.

    class Lab:
        name = "lab"

        async def provision(self, context, role, numbers, spec):
            return [await self._boot(f"{role}-{number}", tag=context.tag) for number in numbers]
        ...

Which provider works for an instance is said by its environment's policy `machines.provider`, or else by the setting
`machines`. One object serves all instances, at the same time: it keeps no truths, for another process may go on.

Nothing is leaked in a crash, because everything that a provider makes carries the context's tag and instance: an
interrupted `provision` is called again with the same tag and adds only what is missing, and `strays` finds what no
record tells of.

A provider whose machines are reached by SSH leaves commands and files to `launchbay.machines.ssh.Ssh`. One that has a
shell of another kind (`shell.py`) uses `running.py`.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from launchbay.egress.http import EgressClient
from launchbay.model.machine import ChefRun, CommandResult, ImageRun, Machine, MachineSpec, RemoteCommand, SshAccess
from launchbay.model.redaction import REDACTED, RedactionStream, SecretEncodings

ENTRY_POINT_GROUP = "launchbay.machines"


def _not_handed_over() -> bool:
    """Answer for a context of no job: who cancels it wants it to end."""
    return False


def _discard(_: Any) -> None:
    """Take a secret for a context of no job, which shows nothing."""


def _no_redaction() -> RedactionStream:
    return RedactionStream(SecretEncodings(), REDACTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """On whose behalf a provider works.

    `action` is the step's action as the manifest names it, or the component's type where no step asks. `path` is the
    step's place in its job, and `tag` its idempotency key: the same in every attempt and after every crash. `policies`
    are those of the environment. `log` takes a level and lines for the step's log.

    `attempt` counts from 1: with the tag it names what one attempt does, so that a recovery after a crash finds the
    command that it began, and a retry runs it again. `goes_on` is asked when a call is cancelled: True says that
    another process takes the job over (or this one, after a restart), and that what runs on the machine shall run on.

    Who opens a secret for the context tells it to `learn`; from then on nothing shows it. `covering` makes what covers
    the job's secrets in a text that comes in chunks, before it is cut into pieces that would cut a secret, too.
    """

    organization_id: str
    environment_id: str
    instance_id: str
    component: str
    action: str
    step: str
    path: str
    tag: str
    log: Callable[[str, str], None]
    policies: Mapping[str, Any] = field(default_factory=dict)
    job_id: str = ""
    attempt: int = 1
    handed_over: Callable[[], bool] = _not_handed_over
    register_secret: Callable[[Any], None] = _discard
    redaction_stream: Callable[[], RedactionStream] = _no_redaction


class KeySource(Protocol):
    """Where the keys are that let a provider into machines."""

    async def private_key(self, context: ProviderContext, name: str) -> str:
        """Return the private key of a key pair that the context's environment may use, as OpenSSH or PEM text.

        The empty name is the environment's own choice. Raises ActionFailed with what to do where there is no such key.
        """
        ...

    async def public_key(self, context: ProviderContext, name: str) -> str:
        """Return the public key of that pair, as a line for `authorized_keys`. Raises ActionFailed."""
        ...


class HostKeys(Protocol):
    """Which key every host showed at first, by organization and `address:port`; every server sees the same."""

    async def pinned(self, context: ProviderContext, host: str) -> str | None:
        """Return the key that the host must show, as a line such as `ssh-ed25519 AAAA…`; None for a new host."""
        ...

    async def pin(self, context: ProviderContext, host: str, key: str) -> str:
        """Keep the key of a new host, and return the one that counts: another server may have been first."""
        ...

    async def forget(self, context: ProviderContext, host: str) -> None:
        """Take the host for a new one from now on: its machine is gone, and another one may get its address."""
        ...


@dataclass(frozen=True, slots=True)
class PooledHost:
    """A host that a pool has handed out. `place` is whatever the pool's owner wrote about it."""

    id: str
    place: Any


class HostPools(Protocol):
    """The static resource pools of environments, as places to take hosts from."""

    async def acquire(self, context: ProviderContext, count: int) -> Mapping[str, PooledHost]:
        """Take so many hosts, or none: by the id under which each is given back. The same tag gets the same hosts.

        Raises ActionFailed where the environment has no pool, or not enough of its hosts are free.
        """
        ...

    async def release(self, context: ProviderContext, machine_id: str) -> None:
        """Give a host back. One that was given back already is a success."""
        ...

    async def acquired(self, context: ProviderContext) -> Mapping[str, PooledHost]:
        """Return all hosts that the context's instance holds, by the id under which each is given back."""
        ...


class AddressResolver(Protocol):
    """The address rules, for connections that are not HTTP."""

    async def addresses(self, context: ProviderContext, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, all of them checked; dial these and never the name.

        Raises AddressRefused, and ActionFailed for a name without an address.
        """
        ...


class MachineProvider(Protocol):
    """The contract. Every method raises `ActionFailed` with sentences for the author of the manifest.

    `retryable=False` says that another attempt would fare no better. A call may be stopped by cancellation at any
    `await`.
    """

    @property
    def name(self) -> str:
        """The name that settings and policies choose it by."""
        ...

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Make a machine for each of the numbers, or none: what was made before a failure is taken down again.

        Machines that carry the context's tag already are taken in place of new ones.
        """
        ...

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take machines that are there: number → address. They must answer. `adopted` is set on what is returned."""
        ...

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        """Take a machine down that this provider made. One that is gone already is a success."""
        ...

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        """Return all machines that were made for the context's instance and still are there, recorded or not."""
        ...

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, whatever its exit code. Fails where it cannot be run at all, or takes too long.

        Called again with the same tag and attempt it goes on with the command that it began, running or ended.
        """
        ...

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        """End every command that the context's job left running on the machine, with all its processes."""
        ...

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the attributes that the node has then."""
        ...

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        """Write a file, over one that is there."""
        ...

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        """Read a file."""
        ...

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the outputs of a step's action in its place. None, the answer of most providers, lets it run."""
        ...


@runtime_checkable
class ProvidesSshAccess(Protocol):
    """A provider whose machines other programs may reach by SSH, such as Ansible."""

    async def ssh_access(self, context: ProviderContext, machine: Machine) -> SshAccess:
        """Return what gets into the machine; it has just answered, with the host key that it must show."""
        ...


@runtime_checkable
class RunsImages(Protocol):
    """A provider that can run a command in an image to its end."""

    async def run_image(self, context: ProviderContext, run: ImageRun) -> CommandResult:
        """Run it once for each attempt of a step: a recovery after a crash goes on with what is there."""
        ...


PREFIX = "launchbay."
INSTALLATION = f"{PREFIX}installation"
ORGANIZATION = f"{PREFIX}organization"
INSTANCE = f"{PREFIX}instance"
TAG = f"{PREFIX}tag"
_VALUE_CHARS = 255  # that a tag of EC2 may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """Whose machine it is.

    `installation` tells machines of one installation from those of another that works in the same account. `tag` is the
    context's, and `number` the machine's place among all of its instance.
    """

    installation: str
    organization: str
    environment: str
    instance: str
    component: str
    role: str
    number: int
    tag: str

    @classmethod
    def of(cls, installation: str, context: ProviderContext, role: str, number: int) -> Self:
        """Return the marks of a machine that is about to be made."""
        return cls(
            installation=installation,
            organization=context.organization_id,
            environment=context.environment_id,
            instance=context.instance_id,
            component=_cut(context.component),
            role=_cut(role),
            number=number,
            tag=context.tag,
        )

    @classmethod
    def parse(cls, tags: Mapping[str, str]) -> Self | None:
        """Return the marks among a machine's tags, None where it has none of ours or they were changed."""
        values = {name: tags.get(f"{PREFIX}{name}") for name in cls.__slots__}
        number = values.pop("number") or ""
        texts = {name: value for name, value in values.items() if value is not None}
        if len(texts) < len(values) or not (number.isascii() and number.isdigit()):
            return None
        return cls(**texts, number=int(number))

    def to_dict(self) -> dict[str, str]:
        """Return the tags."""
        return {f"{PREFIX}{name}": str(getattr(self, name)) for name in self.__slots__}


def _cut(text: str) -> str:
    return text[:_VALUE_CHARS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDeps:
    """`directory` is a place on this server for what belongs to machines."""

    keys: KeySource
    host_keys: HostKeys
    pools: HostPools
    resolver: AddressResolver
    egress: EgressClient
    directory: Path


# A way into a machine: something that has a POSIX shell there run a script, and puts and gets files.
#
# `running.py` builds commands with live output, time-outs and adoption after a crash on it, so a provider that can
# offer a `Shell` has all of that. `ssh.py` and `local.py` are two of them.

OnData = Callable[[bytes], None]


class ShellLost(Exception):
    """The way into the machine broke; what was begun there goes on. Another attempt may reach it again."""


class Shell(Protocol):
    """An open way into a machine. Its methods raise ShellLost, and `ActionFailed` where no other attempt would help."""

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        """Have `sh` run the text and return its exit code; what it writes is handed over as it comes.

        A script that is cancelled may still run to its end there.
        """
        ...

    async def put(self, name: str, content: bytes) -> None:
        """Write a file, over one that is there; a relative name begins where commands begin."""
        ...

    async def get(self, name: str, max_bytes: int) -> bytes:
        """Read a file of at most so many bytes."""
        ...


OpenShell = Callable[[], AbstractAsyncContextManager[Shell]]
"""Opens the way anew: at first, and after it was lost. Raises as the methods of a `Shell` do."""


@dataclass(frozen=True, slots=True)
class TaggedMachine:
    """A machine that is there, and what it says of itself. `made_at` is None where nobody knows."""

    machine: Machine
    tags: Tags
    created_at: datetime | None


@runtime_checkable
class Sweepable(Protocol):
    """A provider whose machines outlive the process that makes them. It is a `MachineProvider` too."""

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    def list_tagged(self, context: ProviderContext) -> AsyncIterator[TaggedMachine]:
        """Return every machine of this installation, of all organizations.

        A place that does not answer is told with `context.log` and passed over.
        """
        ...

    async def exists(self, context: ProviderContext, machine: Machine) -> bool:
        """Tell whether a machine that was found still is there. Raises ActionFailed where nobody knows."""
        ...

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        """Take a machine down. Raises ActionFailed."""
        ...
