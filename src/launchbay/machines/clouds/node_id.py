"""The id of a cloud machine: all that it takes to find the machine again, whatever became of its environment."""

from typing import NamedTuple, Self

from launchbay.errors import ActionFailed
from launchbay.model.machine import Machine

_SEPARATOR = "/"


class NodeId(NamedTuple):
    """The account that made it, the region it is in, and what the cloud calls it."""

    account_id: str
    region: str
    node: str

    @classmethod
    def of(cls, machine: Machine) -> Self:
        """Return the parts of a machine's id. Raises ActionFailed for one that no cloud machine has."""
        parts = machine.id.split(_SEPARATOR)
        if len(parts) != len(cls._fields):
            raise ActionFailed(f"{machine.id!r} is no id of a cloud machine.", retryable=False)
        return cls(*parts)

    def __str__(self) -> str:
        return _SEPARATOR.join(self)
