"""Secret parameters of services: sealed in the database, opened only for the command that needs them (promise 10)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from launchbay.auth.secret_key import SecretKey
from launchbay.service_types.vault_references import kept_purpose, resolved
from launchbay.store import services as store
from launchbay.store.database import Connection


async def seal_parameters(key: SecretKey, connection: Connection, service_id: str, secrets: Mapping[str, Any]) -> None:
    """Store secret parameters of a service, sealed for it alone."""
    for name, value in secrets.items():
        sealed = key.seal(msgspec.json.encode(value), parameter_purpose(service_id, name))
        await store.put_secret(connection, service_id=service_id, name=name, sealed=sealed)


async def open_secrets(key: SecretKey, connection: Connection, service_id: str) -> dict[str, Any]:
    """Return the secret parameters of a service in the open, those that a vault keeps looked up.

    Raises SealBroken with another key than they had, and Conflict for a secret that the vault does not have any more.
    """
    return await resolved(key, connection, await open_stored(key, connection, service_id))


async def open_stored(key: SecretKey, connection: Connection, service_id: str) -> dict[str, Any]:
    """Return the secret parameters of a service as they are stored. Raises SealBroken with another key."""
    rows = await store.secrets(connection, service_id=service_id)
    return opened(key, service_id, {row.name: row.sealed for row in rows})


def opened(key: SecretKey, service_id: str, sealed: Mapping[str, bytes]) -> dict[str, Any]:
    """Return secret parameters of a service as they are stored. Raises SealBroken with another key than they had."""
    return {
        name: msgspec.json.decode(key.open(value, parameter_purpose(service_id, name)))
        for name, value in sealed.items()
    }


@dataclass(frozen=True, slots=True, repr=False)
class ServiceSeal:
    """Seals what a service keeps, for that service alone."""

    key: SecretKey
    service_id: str

    def seal(self, plain: bytes, name: str) -> bytes:
        """Return the sealed form; `name` says which of the service's things it is."""
        return self.key.seal(plain, kept_purpose(self.service_id, name))

    def open(self, sealed: bytes, name: str) -> bytes:
        """Return what was sealed under the name. Raises SealBroken."""
        return self.key.open(sealed, kept_purpose(self.service_id, name))


def parameter_purpose(service_id: str, name: str) -> str:
    """Return what a secret parameter of a service is sealed for."""
    return f"service {service_id} parameter {name}"


def sign_in_purpose(account_id: str) -> str:
    """Return what credentials for a cloud, which a manifest gave, are sealed for."""
    return f"cloud sign-in {account_id}"
