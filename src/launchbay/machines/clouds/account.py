"""With whose credentials machines are made, and where: what the provider knows beside a context."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext
from launchbay.model.machine import Machine

GIVEN = "of the manifest"  # the name of an account that a manifest brings


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudAccount:
    """A cloud account in the open. `id` is that of the service, or of credentials that a manifest gave."""

    id: str
    name: str
    provider: str
    identity: str
    credential: str = field(repr=False)
    endpoint_url: str = ""
    regions: tuple[str, ...] = ()
    security_group: str = ""


class Place(NamedTuple):
    """Where machines of an account may be, and on whose behalf its endpoint may be reached."""

    account_id: str
    region: str
    organization_id: str
    environment_id: str


class MachineLedger(Protocol):
    """What is written down about clouds. All servers of one database see the same."""

    async def installation(self) -> str:
        """Return what tells this installation from others that use the same accounts."""
        ...

    async def list_by_environment(self, context: ProviderContext) -> Sequence[CloudAccount]:
        """Return the cloud accounts that the context's environment offers, by name."""
        ...

    async def save_given(self, context: ProviderContext, account: CloudAccount) -> CloudAccount:
        """Keep credentials that a manifest gave, sealed, and return the account with its id: the same for the same."""
        ...

    async def get(self, account_id: str) -> CloudAccount | None:
        """Return an account, None for one that was deleted."""
        ...

    async def record_place(self, context: ProviderContext, account_id: str, region: str) -> None:
        """Write down that machines of the context's instance may be there from now on."""
        ...

    async def places(self, instance_id: str | None = None) -> Sequence[Place]:
        """Return all places where machines may be, or those where machines of an instance may be."""
        ...


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
