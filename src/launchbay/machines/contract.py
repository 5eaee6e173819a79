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
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from launchbay.model.machine import ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand

ENTRY_POINT_GROUP = "launchbay.machines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """On whose behalf a provider works.

    `action` is the step's action as the manifest names it, or the component's type where no step asks. `path` is the
    step's place in its job, and `tag` its idempotency key: the same in every attempt and after every crash. `policies`
    are those of the environment. `log` takes a level and lines for the step's log.
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
        """Run a command to its end, whatever its exit code. Fails where it cannot be run at all, or takes too long."""
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
