"""The way of machines to the key pairs in vaults: an environment may use those of the vaults that it offers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from launchbay.auth.secret_key import SecretKey
from launchbay.errors import ActionFailed
from launchbay.service_types.sealed import ServiceSeal
from launchbay.service_types.vault_entries import KEY_PAIR
from launchbay.store import services as store
from launchbay.store.database import Database
from launchbay.store.services import OfferedEntry

POLICY = "machines.keyPair"
_SHOWN = 10


class OnBehalf(Protocol):
    """For which environment a key is wanted; an errand of `launchbay.machines` is one."""

    @property
    def organization_id(self) -> str:
        """The organization of the environment."""
        ...

    @property
    def environment_id(self) -> str:
        """The environment."""
        ...

    @property
    def policies(self) -> Mapping[str, Any]:
        """The policies of the environment, as the job sees them."""
        ...

    @property
    def learn(self) -> Callable[[Any], None]:
        """What is told of a secret that was opened, so that nothing shows it."""
        ...


class KeyPairs:
    """Key pairs by name or id; implements `machines.contract.KeySource`.

    The empty name means the key pair that the environment's policy `machines.keyPair` names, or else its only one.
    """

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key

    async def private_key(self, errand: OnBehalf, name: str) -> str:
        """Return a private key in OpenSSH's format. Raises ActionFailed when there is not exactly one that is meant."""
        entry = await self._found(errand, name)
        key = ServiceSeal(self._secret_key, entry.service_id).open(entry.sealed, entry.id).decode()
        errand.learn(key)
        return key

    async def public_key(self, errand: OnBehalf, name: str) -> str:
        """Return the public key of that pair as a line of authorized_keys. Raises ActionFailed."""
        return (await self._found(errand, name)).public_key or ""

    async def _found(self, errand: OnBehalf, name: str) -> OfferedEntry:
        wanted = name or str(errand.policies.get(POLICY, ""))
        async with self._database.connection() as connection:
            found = await store.in_environment(
                connection,
                organization_id=errand.organization_id,
                environment_id=errand.environment_id,
                kind=KEY_PAIR,
                name=wanted or None,
            )
        if not found:
            raise ActionFailed(
                f"No vault of the environment has a key pair{f' {wanted[:80]!r}' if wanted else ''}.",
                "Make one with the command generate-keypair of the credentials service, or let the environment offer "
                "the vault that has it.",
                retryable=False,
            )
        if len(found) > 1:
            _only_if_it_is_clear(found, wanted)
        return found[0]


def _only_if_it_is_clear(found: Sequence[OfferedEntry], wanted: str) -> None:
    """Raise ActionFailed when several key pairs may be meant. One whose name fits goes before one whose id does."""
    if not wanted:
        names = ", ".join(dict.fromkeys(entry.name for entry in found[:_SHOWN]))
        raise ActionFailed(
            f"The vaults of the environment have several key pairs ({names}), and nothing says which to use.",
            f"Name one in the step, or in the environment's policy {POLICY}.",
            retryable=False,
        )
    if found[1].name == wanted:
        owners = " and ".join(repr(entry.service_name) for entry in found[:2])
        raise ActionFailed(
            f"Several vaults of the environment have a key pair {wanted[:80]!r}: {owners}.",
            "Give the id of the key pair in place of its name.",
            retryable=False,
        )
