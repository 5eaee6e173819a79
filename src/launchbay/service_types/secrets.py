"""Secret parameters that a vault keeps: `{"fromVault": "name"}` stands in a parameter's place.

It is looked up at every use, so that a changed secret counts at once. Which vault was meant is decided when
the parameter is set, by somebody who may read that vault, and is kept with it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from launchbay.auth.secret_key import SecretKey
from launchbay.clock import to_ms
from launchbay.errors import Conflict, FieldErrors
from launchbay.ids import new_id
from launchbay.limits import NAME_CHARS, SECRET_BYTES, SECRET_MIN_CHARS, VAULT_ENTRIES
from launchbay.model.types import BOOL, OBJECT, STRING, ListType
from launchbay.service_types.contract import CommandArgument, ServiceCall, ServiceCommand
from launchbay.store import services
from launchbay.store import services as store
from launchbay.store.database import Connection
from launchbay.store.services import SealedEntry

KEY_PAIR = "key-pair"
SECRET = "secret"  # noqa: S105 - a kind of entry, not one
_CALLED = {KEY_PAIR: ("key pair", "list-keypairs", "NoKeyPair"), SECRET: ("secret", "list-secrets", "NoSecret")}


def validate_entry_name(name: str) -> str:
    """Return the name. Raises FieldErrors for one that cannot be."""
    if not name.strip() or len(name) > NAME_CHARS or not name.isprintable():
        raise FieldErrors({"name": [f"A name has 1 to {NAME_CHARS} printable characters, not all of them spaces."]})
    return name


async def get_entry(connection: Connection, call: ServiceCall, kind: str, name: str) -> SealedEntry:
    """Return the entry of the vault with this name or id. Raises Conflict when there is none."""
    entry = await store.get_entry(connection, service_id=call.service_id, kind=kind, name=name)
    if entry is None:
        noun, listing, code = _CALLED[kind]
        raise Conflict(
            f"The vault has no {noun} {name[:80]!r}.", f"The command {listing} tells what it has.", code=code
        )
    return entry


async def check_room(connection: Connection, call: ServiceCall, beside: str | None = None) -> None:
    """Lock the vault for one more entry, or for one in place of the secret `beside`.

    Raises Conflict when it is full or was deleted.
    """
    if await services.lock(connection, service_id=call.service_id) is None:
        raise Conflict("The service was deleted at the same moment.")
    if (await store.count_other_entries(connection, service_id=call.service_id, name=beside) or 0) >= VAULT_ENTRIES:
        raise Conflict(
            f"The vault has {VAULT_ENTRIES} entries, which is the most.", "Delete some first.", code="VaultFull"
        )


SECRET_NAME = "fromVault"  # noqa: S105 - of a field
VAULT = "vault"


def reference(vault_id: str, name: str) -> dict[str, str]:
    """Return the stored form of a reference to a secret of a vault."""
    return {SECRET_NAME: name, VAULT: vault_id}


def is_reference(value: Any) -> bool:
    """Tell whether a parameter's value stands for a secret of a vault."""
    return isinstance(value, Mapping) and SECRET_NAME in value and set(value) <= {SECRET_NAME, VAULT}


async def resolve_references(key: SecretKey, connection: Connection, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return secret parameters with the secrets that they stand for. Raises Conflict for one that is gone."""
    return {
        name: await _secret(key, connection, value) if is_reference(value) else value for name, value in values.items()
    }


async def _secret(key: SecretKey, connection: Connection, value: Mapping[str, str]) -> str:
    vault_id, name = value[VAULT], value[SECRET_NAME]
    entry = await store.get_entry(connection, service_id=vault_id, kind=SECRET, name=name)
    if entry is None:
        raise Conflict(
            f"The vault has no secret {name[:80]!r} any more, which a parameter of the service stands for.",
            "Set the secret again, or give the parameter another value.",
            code="NoSecret",
        )
    return key.open(entry.sealed, stored_secret_purpose(vault_id, entry.id)).decode()


def stored_secret_purpose(service_id: str, name: str) -> str:
    """Return what a thing that a service keeps is sealed for."""
    return f"service {service_id} keeps {name}"


async def seal_parameters(key: SecretKey, connection: Connection, service_id: str, secrets: Mapping[str, Any]) -> None:
    """Store secret parameters of a service, sealed for it alone."""
    for name, value in secrets.items():
        sealed = key.seal(msgspec.json.encode(value), parameter_purpose(service_id, name))
        await store.put_secret(connection, service_id=service_id, name=name, sealed=sealed)


async def open_secrets(key: SecretKey, connection: Connection, service_id: str) -> dict[str, Any]:
    """Return the secret parameters of a service in the open, those that a vault keeps looked up.

    Raises SealBroken with another key than they had, and Conflict for a secret that the vault does not have any more.
    """
    return await resolve_references(key, connection, await open_stored(key, connection, service_id))


async def open_stored(key: SecretKey, connection: Connection, service_id: str) -> dict[str, Any]:
    """Return the secret parameters of a service as they are stored. Raises SealBroken with another key."""
    rows = await store.list_secrets(connection, service_id=service_id)
    return open_values(key, service_id, {row.name: row.sealed for row in rows})


def open_values(key: SecretKey, service_id: str, sealed: Mapping[str, bytes]) -> dict[str, Any]:
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
        return self.key.seal(plain, stored_secret_purpose(self.service_id, name))

    def open(self, sealed: bytes, name: str) -> bytes:
        """Return what was sealed under the name. Raises SealBroken."""
        return self.key.open(sealed, stored_secret_purpose(self.service_id, name))


def parameter_purpose(service_id: str, name: str) -> str:
    """Return what a secret parameter of a service is sealed for."""
    return f"service {service_id} parameter {name}"


def sign_in_purpose(account_id: str) -> str:
    """Return what credentials for a cloud, which a manifest gave, are sealed for."""
    return f"cloud sign-in {account_id}"


_INTERFACE = "secret-store"
_NAME = CommandArgument(STRING, "The name of the secret, or its id.", required=True)
SECRET_COMMANDS: Mapping[str, ServiceCommand] = {
    "get-secret": ServiceCommand(
        _INTERFACE,
        "Returns a secret.",
        arguments={"name": _NAME},
        results={"value": STRING},
        secret_results=frozenset({"value"}),
    ),
    "set-secret": ServiceCommand(
        _INTERFACE,
        "Keeps a secret under a name, in place of the one that was there before.",
        arguments={
            "name": CommandArgument(STRING, "What it is to be called.", required=True),
            "value": CommandArgument(STRING, "The secret.", required=True),
        },
        results={"id": STRING, "name": STRING, "replaced": BOOL},
    ),
    "list-secrets": ServiceCommand(
        _INTERFACE,
        "Lists the secrets by name, without their values, and when each was made and changed.",
        results={"secrets": ListType(OBJECT)},
        changes=False,
    ),
    "delete-secret": ServiceCommand(
        _INTERFACE, "Deletes a secret permanently.", arguments={"name": _NAME}, results={"removed": BOOL}
    ),
}


async def run_secret_command(command: str, call: ServiceCall) -> Mapping[str, Any]:
    """Carry out a command of `SECRET_COMMANDS`. Raises FieldErrors, and Conflict where there is no such secret."""
    return await _WORK[command](call)


async def _get(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await get_entry(connection, call, SECRET, call.arguments["name"])
    return {"value": call.seal.open(entry.sealed, entry.id).decode()}


async def _set(call: ServiceCall) -> dict[str, Any]:
    name = validate_entry_name(call.arguments["name"])
    value = _validate_secret(call.arguments["value"])
    async with call.transaction() as connection:
        await check_room(connection, call, beside=name)
        former = await store.get_entry(connection, service_id=call.service_id, kind=SECRET, name=name)
        if former is not None and former.name == name:
            sealed = call.seal.seal(value, former.id)
            if not await store.update_entry(connection, id=former.id, sealed=sealed):
                raise Conflict("The secret was deleted at the same moment.")
            return {"id": former.id, "name": name, "replaced": True}
        entry_id = new_id()
        await store.insert_entry(
            connection,
            id=entry_id,
            service_id=call.service_id,
            kind=SECRET,
            name=name,
            sealed=call.seal.seal(value, entry_id),
            algorithm=None,
            public_key=None,
        )
    return {"id": entry_id, "name": name, "replaced": False}


async def _list(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        rows = await store.list_entries(connection, service_id=call.service_id, kind=SECRET)
    return {
        "secrets": [
            {"id": row.id, "name": row.name, "createdAt": to_ms(row.created_at), "changedAt": to_ms(row.changed_at)}
            for row in rows
        ]
    }


async def _delete(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await store.get_entry(connection, service_id=call.service_id, kind=SECRET, name=call.arguments["name"])
        return {"removed": entry is not None and await store.delete_entry(connection, id=entry.id) > 0}


_WORK: Mapping[str, Callable[[ServiceCall], Awaitable[dict[str, Any]]]] = {
    "get-secret": _get,
    "set-secret": _set,
    "list-secrets": _list,
    "delete-secret": _delete,
}


def _validate_secret(value: str) -> bytes:
    """Return a secret's bytes. Raises FieldErrors for one that is too long, or too short to be covered anywhere."""
    data = value.encode()
    if len(value) < SECRET_MIN_CHARS or len(data) > SECRET_BYTES:
        rule = (
            f"A secret has {SECRET_MIN_CHARS} characters to {SECRET_BYTES} bytes. A shorter one could not be covered"
            " in logs and outputs without covering parts of ordinary words."
        )
        raise FieldErrors({"value": [rule]})
    return data
