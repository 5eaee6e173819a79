"""What a provider gives to the sweep beside the contract: all machines that carry this installation's marks."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from launchbay.machines.contract import Errand
from launchbay.machines.marks import Marks
from launchbay.model.machine import Machine


@dataclass(frozen=True, slots=True)
class Found:
    """A machine that is there, and what it says of itself. `made_at` is None where nobody knows."""

    machine: Machine
    marks: Marks
    made_at: datetime | None


@runtime_checkable
class Sweepable(Protocol):
    """A provider whose machines outlive the process that makes them. It is a `MachineProvider` too."""

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    def found(self, errand: Errand) -> AsyncIterator[Found]:
        """Return every machine of this installation, of all organizations.

        A place that does not answer is told with `errand.log` and passed over.
        """
        ...

    async def stands(self, errand: Errand, machine: Machine) -> bool:
        """Tell whether a machine that was found still is there. Raises ActionFailed where nobody knows."""
        ...

    async def release(self, errand: Errand, machine: Machine) -> None:
        """Take a machine down. Raises ActionFailed."""
        ...
