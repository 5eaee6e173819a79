"""Secret parameters that a vault keeps: `{"fromVault": "name"}` stands in a parameter's place.

It is looked up at every use, so that a changed secret counts at once. Which vault was meant is decided when
the parameter is set, by somebody who may read that vault, and is kept with it.
"""

from collections.abc import Mapping
from typing import Any

from launchbay.auth.secret_key import SecretKey
from launchbay.errors import Conflict
from launchbay.service_types.vault_entries import SECRET
from launchbay.store import services as store
from launchbay.store.database import Connection

SECRET_NAME = "fromVault"  # noqa: S105 - of a field
VAULT = "vault"


def reference(vault_id: str, name: str) -> dict[str, str]:
    """Return the stored form of a reference to a secret of a vault."""
    return {SECRET_NAME: name, VAULT: vault_id}


def is_reference(value: Any) -> bool:
    """Tell whether a parameter's value stands for a secret of a vault."""
    return isinstance(value, Mapping) and SECRET_NAME in value and set(value) <= {SECRET_NAME, VAULT}


async def resolved(key: SecretKey, connection: Connection, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return secret parameters with the secrets that they stand for. Raises Conflict for one that is gone."""
    return {
        name: await _secret(key, connection, value) if is_reference(value) else value for name, value in values.items()
    }


async def _secret(key: SecretKey, connection: Connection, value: Mapping[str, str]) -> str:
    vault_id, name = value[VAULT], value[SECRET_NAME]
    entry = await store.find(connection, service_id=vault_id, kind=SECRET, name=name)
    if entry is None:
        raise Conflict(
            f"The vault has no secret {name[:80]!r} any more, which a parameter of the service stands for.",
            "Set the secret again, or give the parameter another value.",
            code="NoSecret",
        )
    return key.open(entry.sealed, kept_purpose(vault_id, entry.id)).decode()


def kept_purpose(service_id: str, name: str) -> str:
    """Return what a thing that a service keeps is sealed for."""
    return f"service {service_id} keeps {name}"
