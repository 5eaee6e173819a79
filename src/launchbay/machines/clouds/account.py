"""Accounts and places of clouds, and the ledger that stores them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext
from launchbay.model.machine import Machine
from launchbay.model.secret_reference import SecretReference

GIVEN = "of the manifest"  # the name of an account whose credentials are in a manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudAccount:
    """A cloud account, decrypted.

    `id` is that of the service, or of credentials in a manifest. One with a `role` has no identity and credential until
    a job takes the role: then they are those of a session, with its `token`. A job reads the credential that is
    `provided`.
    """

    id: str
    name: str
    provider: str
    identity: str
    credential: str = field(repr=False)
    endpoint_url: str = ""
    regions: tuple[str, ...] = ()
    security_group: str = ""
    role: str = ""
    audience: str = ""
    sts_url: str = ""
    provided: SecretReference | None = None
    token: str = field(default="", repr=False)


class CloudRegion(NamedTuple):
    """A region where machines of an account may exist, and the environment that may connect to its endpoint."""

    account_id: str
    region: str
    organization_id: str
    environment_id: str


class MachineLedger(Protocol):
    """Records about clouds in the database, shared by all servers."""

    async def installation(self) -> str:
        """Return the ID of this installation, which differs from others in the same accounts."""

    async def list_by_environment(self, context: ProviderContext) -> Sequence[CloudAccount]:
        """Return the cloud accounts that the context's environment offers, by name."""

    async def save_given(self, context: ProviderContext, account: CloudAccount) -> CloudAccount:
        """Store credentials of a manifest, encrypted, and return the account with its ID. Idempotent."""

    async def get(self, account_id: str) -> CloudAccount | None:
        """Return an account, or None if it was deleted."""

    async def record_place(self, context: ProviderContext, account_id: str, region: str) -> None:
        """Record that machines of the context's instance may exist in a region."""

    async def places(self, instance_id: str | None = None) -> Sequence[CloudRegion]:
        """Return the places where machines may exist: of one instance, or all."""


_SEPARATOR = "/"


class NodeId(NamedTuple):
    """The ID of a cloud machine: its account, its region, and its ID in the cloud."""

    account_id: str
    region: str
    node: str

    @classmethod
    def of(cls, machine: Machine) -> Self:
        """Return the parts of a machine's ID. Raises ActionFailed for other machines."""
        parts = machine.id.split(_SEPARATOR)
        if len(parts) != len(cls._fields):
            raise ActionFailed(f"{machine.id!r} isn't the ID of a cloud machine.", retryable=False)
        return cls(*parts)

    def __str__(self) -> str:
        return _SEPARATOR.join(self)
