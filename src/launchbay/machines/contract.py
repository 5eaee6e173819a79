"""The contract of machine providers. A package adds one in the entry-point group `launchbay.machines`.

    class Lab:
        name = "lab"

        async def provision(self, context, role, numbers, spec):
            return [await self._boot(f"{role}-{number}", tag=context.tag) for number in numbers]
        ...

The environment's policy `machines.provider`, or else the setting `machines`, selects the provider of an instance. One
object serves all instances at the same time. It stores nothing, because another process may continue the work.

No machine is lost in a crash, because a provider tags everything that it creates with the context's tag and instance.
An interrupted `provision` is called again with the same tag and creates only what is missing; `orphans` finds the
machines that no record has.

A provider of machines with SSH inherits `launchbay.machines.ssh.SshMachines`. With another kind of `Shell`, it inherits
`launchbay.machines.shell.ShellMachines`. Both implement commands and files.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, LaunchbayError
from launchbay.model.job import StepWait
from launchbay.model.machine import (
    ChefRun,
    CommandResult,
    ImageRun,
    LoginKey,
    Machine,
    MachineSpec,
    PlannedImageRun,
    RemoteCommand,
    SshAccess,
)
from launchbay.model.redaction import REDACTED, RedactionStream, SecretEncodings
from launchbay.model.secret_reference import SecretReference

ENTRY_POINT_GROUP = "launchbay.machines"


class LogPositions(Protocol):
    """Up to where the step's log has the output of programs.

    A source is a machine and its stream.
    A position is noted together with the last log line, so a process that takes over continues exactly there.
    """

    def note(self, source: str, position: str) -> None:
        """Note a position, to be stored with the line that was logged last."""

    async def find(self, source: str) -> str:
        """Return what this attempt noted last, in any process, or an empty text."""


class NoLogPositions:
    """The positions of a context without a job."""

    def note(self, source: str, position: str) -> None:
        """Do nothing."""

    async def find(self, source: str) -> str:  # noqa: ARG002 - the contract's
        return ""


async def _no_identity(audience: str) -> str:
    raise ActionFailed(f"Only a job gets a token for {audience!r}.", retryable=False)


async def _no_secret(reference: SecretReference) -> Any:
    raise ActionFailed(f"Only a step of a job reads the secret {reference}.", retryable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """The step or component that a provider works for.

    `action` is the step's action as the manifest names it, or the component's type if no step requests the work. `path`
    is the step's path in its job. `tag` is its idempotency key, the same in every attempt and after every crash.
    `policies` are those of the environment. `log` takes a level and lines for the step's log.

    `attempt` counts from 1. With the tag it identifies the commands of one attempt: a recovery after a crash adopts
    them, and a retry runs them again. When a call is cancelled, `handed_over` returns True if another process takes
    over the job (or this one, after a restart). Commands on machines must keep running then.

    Pass every secret that you open to `register_secret`; logs and outputs no longer show it. `redaction_stream` returns
    a redactor for a text in chunks; use it before you cut the text, because a cut secret isn't recognized. `waiting`
    shows during a block what the step waits for. `token` returns a token of the job for an audience, for minutes, or
    raises ActionFailed.
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
    # The defaults are for a context without a job: cancellation ends the work, and no log can show a secret.
    handed_over: Callable[[], bool] = lambda: False
    register_secret: Callable[[Any], None] = lambda _: None
    waiting: Callable[[StepWait], AbstractContextManager[None]] = lambda _: nullcontext()
    log_positions: LogPositions = field(default_factory=NoLogPositions)
    secret: Callable[[SecretReference], Awaitable[Any]] = _no_secret  # of a provider, for this attempt alone
    token: Callable[[str], Awaitable[str]] = _no_identity
    redaction_stream: Callable[[], RedactionStream] = lambda: RedactionStream(SecretEncodings(), REDACTED)


class KeySource(Protocol):
    """The key pairs for access to machines."""

    async def login_key(self, context: ProviderContext, name: str, login: str) -> LoginKey:
        """Return a key that the environment may use for a login.

        It is of a vault or a provider, or has a certificate. The empty name selects the environment's key pair. Raises
        ActionFailed if there is no such key pair.
        """

    async def public_key(self, context: ProviderContext, name: str) -> str:
        """Return the public key of that pair, as a line for `authorized_keys`.

        It is "" for one with certificates. Raises ActionFailed.
        """

    async def password(self, context: ProviderContext, name: str) -> str:
        """Return the secret of a vault, or else of a provider: `provider/path#key`.

        Raises ActionFailed if the environment may use none.
        """


class HostKeys(Protocol):
    """The key that each host showed first, by organization and `address:port`, shared by all servers."""

    async def pinned(self, context: ProviderContext, host: str) -> str | None:
        """Return the key that the host must show, such as `ssh-ed25519 AAAA…`, or None for a new host."""

    async def pin(self, context: ProviderContext, host: str, key: str) -> str:
        """Store the key of a new host and return the pinned one: another server may have been first."""

    async def forget(self, context: ProviderContext, host: str) -> None:
        """Forget the pinned key of a host whose machine was released, because a new one may get its address."""


@dataclass(frozen=True, slots=True)
class PooledHost:
    """A host acquired from a pool. `place` is its description in the pool's parameters."""

    id: str
    place: Any


class HostPools(Protocol):
    """The hosts in the static resource pools of environments."""

    async def acquire(self, context: ProviderContext, count: int) -> Mapping[str, PooledHost]:
        """Acquire all of the requested hosts or none, by machine ID. The same tag gets the same hosts.

        Raises ActionFailed if the environment has no pool, or too few hosts are free.
        """

    async def release(self, context: ProviderContext, machine_id: str) -> None:
        """Return a host to its pool. Succeeds if it was returned before."""

    async def acquired(self, context: ProviderContext) -> Mapping[str, PooledHost]:
        """Return all hosts that the context's instance holds, by machine ID."""


class AddressResolver(Protocol):
    """The address rules, for connections that are not HTTP."""

    async def addresses(self, context: ProviderContext, host: str, port: int) -> Sequence[str]:
        """Return the checked addresses of a host. Connect to these and never to the name.

        Raises AddressRefused, and ActionFailed for a name without an address.
        """

    def unresolved(self, context: ProviderContext, host: str, port: int) -> str:
        """Return what another host may connect to for us.

        This is an address that is checked, or a name that it resolves. Raises AddressRefused.
        """


class MachineProvider(Protocol):
    """The contract. Every method raises `ActionFailed` with messages for the author of the manifest.

    `retryable=False` means that another attempt can't help. Cancellation may stop a call at any `await`.
    """

    @property
    def name(self) -> str:
        """The name in settings and policies."""

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Create a machine for each number, or none: after a failure, release what was created.

        Machines with the context's tag already exist after a crash; use them instead of new ones.
        """

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Return existing machines, given as number → address, with `adopted` set. They must be reachable."""

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        """Destroy a machine that this provider created. Succeeds if it doesn't exist."""

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        """Return all existing machines that were created for the context's instance, recorded or not."""

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, regardless of its exit code. Fails if it can't run or takes too long.

        A repeated call with the same tag and attempt adopts the command, running or ended.
        """

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        """End every command that the context's job left running on the machine, with all its processes."""

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the attributes of the node."""

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        """Write a file, or replace it."""

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        """Read a file."""

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return outputs in place of running a step's action. None lets it run, as most providers do."""


@runtime_checkable
class ProvidesSshAccess(Protocol):
    """A provider whose machines other programs, such as Ansible, can reach by SSH."""

    async def ssh_access(self, context: ProviderContext, machine: Machine) -> SshAccess:
        """Return what another program needs to connect; the host has just shown the right key."""


@runtime_checkable
class RunsImages(Protocol):
    """A provider that can run a command in an image to its end."""

    async def run_image(self, context: ProviderContext, run: ImageRun) -> CommandResult:
        """Run the command once per attempt of a step: a recovery after a crash adopts it."""

    async def plan_image(self, context: ProviderContext, run: ImageRun) -> PlannedImageRun:
        """Return what `run_image` would start, without starting it. Raises ActionFailed."""


PREFIX = "launchbay."
INSTALLATION = f"{PREFIX}installation"
ORGANIZATION = f"{PREFIX}organization"
INSTANCE = f"{PREFIX}instance"
TAG = f"{PREFIX}tag"
_VALUE_CHARS = 255  # the limit of EC2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """The owner of a machine.

    `installation` separates the machines of installations that share an account. `tag` is the context's, and `number`
    the machine's number within its instance.
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
        return cls(
            installation=installation,
            organization=context.organization_id,
            environment=context.environment_id,
            instance=context.instance_id,
            component=context.component[:_VALUE_CHARS],
            role=role[:_VALUE_CHARS],
            number=number,
            tag=context.tag,
        )

    @classmethod
    def parse(cls, tags: Mapping[str, str]) -> Self | None:
        """Return Launchbay's tags among those of a machine, or None if any is missing or changed."""
        values = {name: tags.get(f"{PREFIX}{name}") for name in cls.__slots__}
        number = values.pop("number") or ""
        texts = {name: value for name, value in values.items() if value is not None}
        if len(texts) < len(values) or not (number.isascii() and number.isdigit()):
            return None
        return cls(**texts, number=int(number))

    def to_dict(self) -> dict[str, str]:
        return {f"{PREFIX}{name}": str(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDeps:
    """What Launchbay gives to a provider. `directory` is on this server, for files of machines."""

    keys: KeySource
    host_keys: HostKeys
    pools: HostPools
    resolver: AddressResolver
    egress: EgressClient
    directory: Path


OnData = Callable[[bytes], None]


class ShellLost(LaunchbayError):
    """The connection to the machine was lost. Commands keep running there, and a retry may reconnect."""


class Shell(Protocol):
    """A connection to a machine that runs scripts in its POSIX shell, and transfers files.

    The methods raise ShellLost, and `ActionFailed` if another attempt can't help.
    """

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        """Run the text with `sh`, pass on its output live, and return its exit code.

        A cancelled script may keep running on the machine.
        """

    async def put(self, name: str, content: bytes) -> None:
        """Write a file, or replace it. Relative names start in the directory where commands start."""

    async def get(self, name: str, max_bytes: int) -> bytes:
        """Read a file. Raises ActionFailed if it is larger than `max_bytes`."""


OpenShell = Callable[[], AbstractAsyncContextManager[Shell]]
"""Opens a connection: the first one, and again after a loss. Raises as the methods of a `Shell` do."""

PORT_POLICY = "machines.ssh-port"
SUDO_POLICY = "machines.sudo-password"  # the name of a secret, not the secret


def policy_number(context: ProviderContext, name: str, default: int, maximum: int) -> int:
    """Return a policy of the environment. Raises ActionFailed unless it is an integer from 1 to `maximum`."""
    value = context.policies.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
        raise invalid_policy(name, value, f"a whole number from 1 to {maximum}")
    return value


def invalid_policy(name: str, value: Any, expected: str) -> ActionFailed:
    return ActionFailed(
        f"Invalid policy {name} of the environment: {str(value)[:80]!r}. Expected {expected}.", retryable=False
    )


def invalid_setting(name: str, expected: str) -> ActionFailed:
    """Return the error for a wrong or missing parameter. It omits the value, which may be secret."""
    return ActionFailed(f"The parameter '{name}' is invalid or missing. Expected {expected}.", retryable=False)


@dataclass(frozen=True, slots=True)
class TaggedMachine:
    """An existing machine with its tags. `created_at` is None if it isn't known."""

    machine: Machine
    tags: Tags
    created_at: datetime | None


@runtime_checkable
class Sweepable(Protocol):
    """A `MachineProvider` whose machines outlive the process that creates them."""

    @property
    def name(self) -> str:
        """The name in settings and policies."""

    def list_tagged(self, context: ProviderContext) -> AsyncIterator[TaggedMachine]:
        """Yield every machine of this installation, of all organizations.

        Log a place that doesn't respond with `context.log`, and skip it.
        """

    async def exists(self, context: ProviderContext, machine: Machine) -> bool:
        """Return whether a machine still exists. Raises ActionFailed if that can't be determined."""

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        """Destroy a machine. Raises ActionFailed."""
