"""What a machine provider is. A package of its own brings one through the entry-point group `launchbay.machines`.

    class Lab:
        name = "lab"

        async def provision(self, errand, role, numbers, spec):
            return [await self._boot(f"{role}-{number}", tag=errand.tag) for number in numbers]
        ...

Which provider works for an instance is said by its environment's policy `machines.provider`, or else by the setting
`machines`. One object serves all instances, at the same time: it keeps no truths, for another process may go on.

Nothing is leaked in a crash, because everything that a provider makes carries the errand's tag and instance: an
interrupted `provision` is called again with the same tag and adds only what is missing, and `strays` finds what no
record tells of.

A provider whose machines are reached by SSH leaves commands and files to `launchbay.machines.ssh.Ssh`. One that has a
shell of another kind (`shell.py`) uses `running.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from launchbay.model.machine import ChefRun, CommandResult, ImageRun, Machine, MachineSpec, RemoteCommand, WayIn
from launchbay.model.redaction import MASK, Disguises, Stream

ENTRY_POINT_GROUP = "launchbay.machines"


def _means_it() -> bool:
    """Answer for an errand of no job: who cancels it wants it to end."""
    return False


def _forget(_: Any) -> None:
    """Take a secret for an errand of no job, which shows nothing."""


def _cover_nothing() -> Stream:
    return Stream(Disguises(), MASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """On whose behalf a provider works.

    `action` is the step's action as the manifest names it, or the component's type where no step asks. `path` is the
    step's place in its job, and `tag` its idempotency key: the same in every attempt and after every crash. `policies`
    are those of the environment. `log` takes a level and lines for the step's log.

    `attempt` counts from 1: with the tag it names what one attempt does, so that a recovery after a crash finds the
    command that it began, and a retry runs it again. `goes_on` is asked when a call is cancelled: True says that
    another process takes the job over (or this one, after a restart), and that what runs on the machine shall run on.

    Who opens a secret for the errand tells it to `learn`; from then on nothing shows it. `covering` makes what covers
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
    goes_on: Callable[[], bool] = _means_it
    learn: Callable[[Any], None] = _forget
    covering: Callable[[], Stream] = _cover_nothing


class KeySource(Protocol):
    """Where the keys are that let a provider into machines."""

    async def private_key(self, errand: Errand, name: str) -> str:
        """Return the private key of a key pair that the errand's environment may use, as OpenSSH or PEM text.

        The empty name is the environment's own choice. Raises ActionFailed with what to do where there is no such key.
        """
        ...

    async def public_key(self, errand: Errand, name: str) -> str:
        """Return the public key of that pair, as a line for `authorized_keys`. Raises ActionFailed."""
        ...


class HostKeys(Protocol):
    """Which key every host showed at first, by organization and `address:port`; every server sees the same."""

    async def pinned(self, errand: Errand, host: str) -> str | None:
        """Return the key that the host must show, as a line such as `ssh-ed25519 AAAA…`; None for a new host."""
        ...

    async def pin(self, errand: Errand, host: str, key: str) -> str:
        """Keep the key of a new host, and return the one that counts: another server may have been first."""
        ...

    async def forget(self, errand: Errand, host: str) -> None:
        """Take the host for a new one from now on: its machine is gone, and another one may get its address."""
        ...


@dataclass(frozen=True, slots=True)
class Pooled:
    """A host that a pool has handed out. `place` is whatever the pool's owner wrote about it."""

    id: str
    place: Any


class HostPools(Protocol):
    """The static resource pools of environments, as places to take hosts from."""

    async def take(self, errand: Errand, count: int) -> Mapping[str, Pooled]:
        """Take so many hosts, or none: by the id under which each is given back. The same tag gets the same hosts.

        Raises ActionFailed where the environment has no pool, or not enough of its hosts are free.
        """
        ...

    async def give_back(self, errand: Errand, machine_id: str) -> None:
        """Give a host back. One that was given back already is a success."""
        ...

    async def taken(self, errand: Errand) -> Mapping[str, Pooled]:
        """Return all hosts that the errand's instance holds, by the id under which each is given back."""
        ...


class Reach(Protocol):
    """The address rules, for connections that are not HTTP."""

    async def addresses(self, errand: Errand, host: str, port: int) -> Sequence[str]:
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
        self, errand: Errand, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Make a machine for each of the numbers, or none: what was made before a failure is taken down again.

        Machines that carry the errand's tag already are taken in place of new ones.
        """
        ...

    async def adopt(
        self, errand: Errand, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take machines that are there: number → address. They must answer. `adopted` is set on what is returned."""
        ...

    async def release(self, errand: Errand, machine: Machine) -> None:
        """Take a machine down that this provider made. One that is gone already is a success."""
        ...

    async def strays(self, errand: Errand) -> Sequence[Machine]:
        """Return all machines that were made for the errand's instance and still are there, recorded or not."""
        ...

    async def run(self, errand: Errand, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, whatever its exit code. Fails where it cannot be run at all, or takes too long.

        Called again with the same tag and attempt it goes on with the command that it began, running or ended.
        """
        ...

    async def stop(self, errand: Errand, machine: Machine) -> None:
        """End every command that the errand's job left running on the machine, with all its processes."""
        ...

    async def converge(self, errand: Errand, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the attributes that the node has then."""
        ...

    async def put_file(self, errand: Errand, machine: Machine, name: str, content: bytes) -> None:
        """Write a file, over one that is there."""
        ...

    async def get_file(self, errand: Errand, machine: Machine, name: str) -> bytes:
        """Read a file."""
        ...

    def stand_in(self, errand: Errand, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the outputs of a step's action in its place. None, the answer of most providers, lets it run."""
        ...


@runtime_checkable
class GivesWayIn(Protocol):
    """A provider whose machines other programs may reach by SSH, such as Ansible."""

    async def way_in(self, errand: Errand, machine: Machine) -> WayIn:
        """Return what gets into the machine; it has just answered, with the host key that it must show."""
        ...


@runtime_checkable
class RunsImages(Protocol):
    """A provider that can run a command in an image to its end."""

    async def run_image(self, errand: Errand, run: ImageRun) -> CommandResult:
        """Run it once for each attempt of a step: a recovery after a crash goes on with what is there."""
        ...
