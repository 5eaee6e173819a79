"""The named secrets of a vault: what its commands of the interface `secret-store` do."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from launchbay.clock import to_ms
from launchbay.errors import Conflict, FieldErrors
from launchbay.ids import new_id
from launchbay.limits import SECRET_BYTES, SECRET_LEAST_CHARS
from launchbay.model.types import BOOL, OBJECT, STRING, ListType
from launchbay.service_types.contract import CommandArgument, ServiceCall, ServiceCommand
from launchbay.service_types.vault_entries import SECRET, checked_entry_name, found_entry, has_room
from launchbay.store import services as store

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
        entry = await found_entry(connection, call, SECRET, call.arguments["name"])
    return {"value": call.seal.open(entry.sealed, entry.id).decode()}


async def _set(call: ServiceCall) -> dict[str, Any]:
    name = checked_entry_name(call.arguments["name"])
    value = _checked_secret(call.arguments["value"])
    async with call.transaction() as connection:
        await has_room(connection, call, beside=name)
        former = await store.find(connection, service_id=call.service_id, kind=SECRET, name=name)
        if former is not None and former.name == name:
            sealed = call.seal.seal(value, former.id)
            if not await store.replace(connection, id=former.id, sealed=sealed):
                raise Conflict("The secret was deleted at the same moment.")
            return {"id": former.id, "name": name, "replaced": True}
        entry_id = new_id()
        await store.vault_insert(
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
        rows = await store.entries(connection, service_id=call.service_id, kind=SECRET)
    return {
        "secrets": [
            {"id": row.id, "name": row.name, "createdAt": to_ms(row.created_at), "changedAt": to_ms(row.changed_at)}
            for row in rows
        ]
    }


async def _delete(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await store.find(connection, service_id=call.service_id, kind=SECRET, name=call.arguments["name"])
        return {"removed": entry is not None and await store.vault_delete(connection, id=entry.id) > 0}


_WORK: Mapping[str, Callable[[ServiceCall], Awaitable[dict[str, Any]]]] = {
    "get-secret": _get,
    "set-secret": _set,
    "list-secrets": _list,
    "delete-secret": _delete,
}


def _checked_secret(value: str) -> bytes:
    """Return a secret's bytes. Raises FieldErrors for one that is too long, or too short to be covered anywhere."""
    data = value.encode()
    if len(value) < SECRET_LEAST_CHARS or len(data) > SECRET_BYTES:
        rule = (
            f"A secret has {SECRET_LEAST_CHARS} characters to {SECRET_BYTES} bytes. A shorter one could not be covered"
            " in logs and outputs without covering parts of ordinary words."
        )
        raise FieldErrors({"value": [rule]})
    return data
