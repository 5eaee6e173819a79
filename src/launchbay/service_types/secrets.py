"""Secrets of services: encrypted parameters, vault entries, and references `{"fromVault": "name"}` to them.

A reference is resolved at every use, so a changed secret takes effect immediately. The vault is chosen when the
parameter is set, by a user who can read that vault, and stored with the reference.
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
from launchbay.model.scalars import name_of
from launchbay.model.secret_reference import SecretReference, reference_in
from launchbay.model.types import BOOL, OBJECT, STRING, ListType
from launchbay.service_types.contract import CommandArgument, ServiceCall, ServiceCommand, lock_service
from launchbay.store import services as store
from launchbay.store.database import Connection
from launchbay.store.services import SealedEntry

KEY_PAIR = "key-pair"
SECRET = "secret"  # noqa: S105 - a kind of entry, not one
_CALLED = {  # noun, command that stores one, command that lists them, code
    KEY_PAIR: ("key pair", "generate-keypair", "list-keypairs", "NoKeyPair"),
    SECRET: ("secret", "set-secret", "list-secrets", "NoSecret"),
}


ONLY_IN_JOBS = "Only jobs read secrets of providers, because they sign in there with their identity."


def called(kind: str) -> tuple[str, str]:
    """Return the noun for a kind of entry, and the command that stores one."""
    return _CALLED[kind][:2]


def validate_entry_name(name: str) -> str:
    """Return the name. Raises FieldErrors if it is invalid."""
    if not name.strip() or len(name) > NAME_CHARS or not name.isprintable():
        raise FieldErrors({"name": [f"A name must have 1 to {NAME_CHARS} printable characters, not only spaces."]})
    return name


async def get_entry(connection: Connection, call: ServiceCall, kind: str, name: str) -> SealedEntry:
    """Return the vault's entry with this name or ID. Raises Conflict if it doesn't exist."""
    entry = await store.get_entry(connection, service_id=call.service_id, kind=kind, name=name)
    if entry is None:
        noun, storing, listing, code = _CALLED[kind]
        fix = f"Store it with the command {storing}, or list those there are with {listing}."
        if kind == SECRET and reference_in(name) is not None:
            fix += f" {ONLY_IN_JOBS}"
        raise Conflict(f"The vault has no {noun} {name[:80]!r}.", fix, code=code)
    return entry


async def check_room(connection: Connection, call: ServiceCall, replaced: str | None = None) -> None:
    """Lock the vault for a new entry, or for one that replaces the secret `replaced`.

    Raises Conflict if it is full or was deleted.
    """
    await lock_service(connection, call.service_id)
    if (await store.count_other_entries(connection, service_id=call.service_id, name=replaced) or 0) >= VAULT_ENTRIES:
        raise Conflict(f"The vault is full ({VAULT_ENTRIES} entries).", "Delete some entries.", code="VaultFull")


async def delete_entry(call: ServiceCall, kind: str, name: str) -> dict[str, Any]:
    """Delete an entry of the vault by name or ID; return whether it existed."""
    async with call.transaction() as connection:
        entry = await store.get_entry(connection, service_id=call.service_id, kind=kind, name=name)
        return {"removed": entry is not None and await store.delete_entry(connection, id=entry.id) > 0}


SECRET_NAME = "fromVault"  # noqa: S105 - of a field
VAULT = "vault"


def reference(vault_id: str, name: str) -> dict[str, str]:
    """Return the stored form of a reference to a secret in a vault."""
    return {SECRET_NAME: name, VAULT: vault_id}


def is_reference(value: Any) -> bool:
    """Return whether a parameter's value refers to a secret in a vault."""
    return isinstance(value, Mapping) and SECRET_NAME in value and set(value) <= {SECRET_NAME, VAULT}


def provided_reference(value: Any) -> SecretReference | None:
    """Return the secret of a provider that a stored parameter stands for, or None.

    A reference to a vault names the vault.
    """
    return reference_in(value[SECRET_NAME]) if is_reference(value) and VAULT not in value else None


def provided_references(values: Mapping[str, Any]) -> dict[str, SecretReference]:
    """Return which of these parameters stand for secrets of providers."""
    found = ((name, provided_reference(value)) for name, value in values.items())
    return {name: each for name, each in found if each is not None}


def parse_reference(given: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the secret and the vault that a given reference names, as texts.

    A number is the text that its author wrote. Without a vault, it is the only one with that secret. Raises
    `ValueError` with a sentence.
    """
    secret, vault = given[SECRET_NAME], given.get(VAULT)
    return name_of(SECRET_NAME, secret), None if vault is None else name_of(VAULT, vault)


async def resolve_references(key: SecretKey, connection: Connection, values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace references to vaults with their secrets. Raises Conflict if a vault lacks one.

    Those to providers stay: only jobs read them.
    """
    return {
        name: await _secret(key, connection, value) if is_reference(value) and VAULT in value else value
        for name, value in values.items()
    }


async def _secret(key: SecretKey, connection: Connection, value: Mapping[str, str]) -> str:
    vault_id, name = value[VAULT], value[SECRET_NAME]
    entry = await store.get_entry(connection, service_id=vault_id, kind=SECRET, name=name)
    if entry is None:
        raise Conflict(
            f"A parameter of the service refers to the secret {name[:80]!r}, which its vault doesn't have.",
            "Set the secret in the vault, or change the parameter.",
            code="NoSecret",
        )
    return key.open(entry.sealed, stored_secret_purpose(vault_id, entry.id)).decode()


def stored_secret_purpose(service_id: str, name: str) -> str:
    """Return the encryption context of a vault entry or other secret of a service."""
    return f"service {service_id} keeps {name}"


async def seal_parameters(key: SecretKey, connection: Connection, service_id: str, secrets: Mapping[str, Any]) -> None:
    """Store secret parameters of a service, encrypted for this service."""
    for name, value in secrets.items():
        sealed = key.seal(msgspec.json.encode(value), parameter_purpose(service_id, name))
        await store.put_secret(connection, service_id=service_id, name=name, sealed=sealed)


async def open_secrets(key: SecretKey, connection: Connection, service_id: str) -> dict[str, Any]:
    """Return the decrypted secret parameters of a service, with references to vaults resolved.

    Raises UnsealFailed with the wrong key, and Conflict for a reference to a secret that its vault lacks.
    """
    return await resolve_references(key, connection, await open_stored(key, connection, service_id))


def require_stored(values: Mapping[str, Any]) -> None:
    """Raise Conflict if a parameter stands for a secret of a provider."""
    for each in provided_references(values).values():
        raise Conflict(
            f"A parameter of the service refers to the secret {str(each)[:80]!r}.", ONLY_IN_JOBS, code="NoSecret"
        )


async def open_stored(key: SecretKey, connection: Connection, service_id: str) -> dict[str, Any]:
    """Return the decrypted secret parameters of a service. Raises UnsealFailed with the wrong key."""
    rows = await store.list_secrets(connection, service_id=service_id)
    return open_values(key, service_id, {row.name: row.sealed for row in rows})


def open_values(key: SecretKey, service_id: str, sealed: Mapping[str, bytes]) -> dict[str, Any]:
    """Decrypt secret parameters of a service. Raises UnsealFailed with the wrong key."""
    return {
        name: msgspec.json.decode(key.open(value, parameter_purpose(service_id, name)))
        for name, value in sealed.items()
    }


@dataclass(frozen=True, slots=True, repr=False)
class ServiceSeal:
    """Encrypts secrets for one service; implements `contract.Seal`."""

    key: SecretKey
    service_id: str

    def seal(self, plain: bytes, name: str) -> bytes:
        return self.key.seal(plain, stored_secret_purpose(self.service_id, name))

    def open(self, sealed: bytes, name: str) -> bytes:
        return self.key.open(sealed, stored_secret_purpose(self.service_id, name))


def parameter_purpose(service_id: str, name: str) -> str:
    """Return the encryption context of a secret parameter."""
    return f"service {service_id} parameter {name}"


def sign_in_purpose(account_id: str) -> str:
    """Return the encryption context of cloud credentials from a manifest."""
    return f"cloud sign-in {account_id}"


_INTERFACE = "secret-store"
_NAME = CommandArgument(STRING, "The name of the secret, or its ID.", required=True)
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
        "Stores a secret under a name, or replaces it.",
        arguments={
            "name": CommandArgument(STRING, "The name of the secret.", required=True),
            "value": CommandArgument(STRING, "The secret.", required=True),
        },
        results={"id": STRING, "name": STRING, "replaced": BOOL},
    ),
    "list-secrets": ServiceCommand(
        _INTERFACE,
        "Lists the secrets by name, without values, with the times of creation and change.",
        results={"secrets": ListType(OBJECT)},
        changes=False,
    ),
    "delete-secret": ServiceCommand(
        _INTERFACE, "Deletes a secret permanently.", arguments={"name": _NAME}, results={"removed": BOOL}
    ),
}


async def _get(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await get_entry(connection, call, SECRET, call.arguments["name"])
    return {"value": call.seal.open(entry.sealed, entry.id).decode()}


async def _set(call: ServiceCall) -> dict[str, Any]:
    name = validate_entry_name(call.arguments["name"])
    value = _validate_secret(call.arguments["value"])
    async with call.transaction() as connection:
        await check_room(connection, call, replaced=name)
        former = await store.get_entry(connection, service_id=call.service_id, kind=SECRET, name=name)
        if former is not None and former.name == name:
            sealed = call.seal.seal(value, former.id)
            if not await store.update_entry(connection, id=former.id, sealed=sealed):
                raise Conflict("The secret was deleted while this request ran.")
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


# What runs the commands. Raises FieldErrors, and Conflict if the secret doesn't exist.
SECRET_WORK: Mapping[str, Callable[[ServiceCall], Awaitable[dict[str, Any]]]] = {
    "get-secret": _get,
    "set-secret": _set,
    "list-secrets": _list,
    "delete-secret": lambda call: delete_entry(call, SECRET, call.arguments["name"]),
}


def _validate_secret(value: str) -> bytes:
    """Return a secret's bytes. Raises FieldErrors if it is too long, or too short to be redacted."""
    data = value.encode()
    if len(value) < SECRET_MIN_CHARS or len(data) > SECRET_BYTES:
        rule = (
            f"A secret must have {SECRET_MIN_CHARS} characters to {SECRET_BYTES} bytes. Redacting a shorter one would"
            " also hide parts of ordinary words."
        )
        raise FieldErrors({"value": [rule]})
    return data
