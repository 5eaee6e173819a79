"""The key pairs of a vault: what its commands of the interface `keypair-store` do."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from launchbay.clock import to_ms
from launchbay.errors import Conflict, FieldErrors
from launchbay.ids import new_id
from launchbay.model.types import BOOL, INT, OBJECT, STRING, ListType
from launchbay.service_types import ssh_keys
from launchbay.service_types.contract import CommandArgument, ServiceCall, ServiceCommand
from launchbay.service_types.ssh_keys import BadKey, KeyPair
from launchbay.service_types.vault_entries import KEY_PAIR, checked_entry_name, found_entry, has_room
from launchbay.store import services as store

_INTERFACE = "keypair-store"
_ID = CommandArgument(STRING, "The name of the key pair, or its id.", required=True)
_NAME = CommandArgument(STRING, "What it is to be called.", required=True)
_MADE = {"id": STRING, "name": STRING, "algorithm": STRING, "publicKey": STRING, "fingerprint": STRING}

KEY_COMMANDS: Mapping[str, ServiceCommand] = {
    "get-keypair": ServiceCommand(
        _INTERFACE,
        "Returns a private key, in OpenSSH's format; before it, its public half.",
        arguments={"id": _ID},
        intermediate=_MADE,
        results={"privateKey": OBJECT},
        secret_results=frozenset({"privateKey"}),
    ),
    "get-public-key": ServiceCommand(
        _INTERFACE,
        "Returns a public key as a line of authorized_keys.",
        arguments={"id": _ID},
        results=_MADE,
        changes=False,
    ),
    "generate-keypair": ServiceCommand(
        _INTERFACE,
        "Makes a key pair; the private key stays in the vault.",
        arguments={
            "name": _NAME,
            "algorithm": CommandArgument(STRING, "`ed25519`, the default, or `rsa`."),
            "bits": CommandArgument(INT, "Of an RSA key: 2048 to 4096, 3072 if left out."),
        },
        results=_MADE,
    ),
    "import-keypair": ServiceCommand(
        _INTERFACE,
        "Takes a private key in: ed25519, RSA or ECDSA, in OpenSSH's or a PEM format, without a passphrase.",
        arguments={
            "name": _NAME,
            "privateKey": CommandArgument(STRING, "The whole text of the private key.", required=True),
        },
        results=_MADE,
    ),
    "list-keypairs": ServiceCommand(
        _INTERFACE,
        "Lists the key pairs without their private keys, by name.",
        results={"keypairs": ListType(OBJECT)},
        changes=False,
    ),
    "delete-keypair": ServiceCommand(
        _INTERFACE, "Deletes a key pair permanently.", arguments={"id": _ID}, results={"removed": BOOL}
    ),
}


async def run_key_command(command: str, call: ServiceCall) -> Mapping[str, Any]:
    """Carry out a command of `KEY_COMMANDS`. Raises FieldErrors, and Conflict where there is no such key pair."""
    return await _WORK[command](call)


async def _get(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await found_entry(connection, call, KEY_PAIR, call.arguments["id"])
    call.report(_shown(entry.id, entry.name, entry.algorithm or "", entry.public_key or ""))
    return {"privateKey": call.seal.open(entry.sealed, entry.id).decode()}


async def _public(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await found_entry(connection, call, KEY_PAIR, call.arguments["id"])
    return _shown(entry.id, entry.name, entry.algorithm or "", entry.public_key or "")


async def _generate(call: ServiceCall) -> dict[str, Any]:
    name = checked_entry_name(call.arguments["name"])
    algorithm = call.arguments.get("algorithm", ssh_keys.ED25519)
    try:
        # In a thread: a long RSA key takes seconds.
        pair = await asyncio.to_thread(ssh_keys.generate, algorithm, call.arguments.get("bits"), name)
    except BadKey as error:
        wrong = "bits" if "bits" in str(error) else "algorithm"
        raise FieldErrors({wrong: [str(error)]}) from error
    return await _keep(call, name, pair)


async def _import(call: ServiceCall) -> dict[str, Any]:
    name = checked_entry_name(call.arguments["name"])
    try:
        pair = ssh_keys.read(call.arguments["privateKey"], name)
    except BadKey as error:
        raise FieldErrors({"privateKey": [str(error)]}) from error
    return await _keep(call, name, pair)


async def _keep(call: ServiceCall, name: str, pair: KeyPair) -> dict[str, Any]:
    entry_id = new_id()
    async with call.transaction() as connection:
        await has_room(connection, call)
        made = await store.vault_insert(
            connection,
            id=entry_id,
            service_id=call.service_id,
            kind=KEY_PAIR,
            name=name,
            sealed=call.seal.seal(pair.private.encode(), entry_id),
            algorithm=pair.algorithm,
            public_key=pair.public,
        )
        if not made:
            raise Conflict(
                f"The vault has a key pair {name!r} already.",
                "Choose another name, or delete that key pair first.",
                code="KeyPairTaken",
            )
    return _shown(entry_id, name, pair.algorithm, pair.public)


async def _list(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        rows = await store.entries(connection, service_id=call.service_id, kind=KEY_PAIR)
    return {
        "keypairs": [
            {
                **_shown(row.id, row.name, row.algorithm or "", row.public_key or ""),
                "createdAt": to_ms(row.created_at),
            }
            for row in rows
        ]
    }


async def _delete(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await store.find(connection, service_id=call.service_id, kind=KEY_PAIR, name=call.arguments["id"])
        return {"removed": entry is not None and await store.vault_delete(connection, id=entry.id) > 0}


_WORK: Mapping[str, Callable[[ServiceCall], Awaitable[dict[str, Any]]]] = {
    "get-keypair": _get,
    "get-public-key": _public,
    "generate-keypair": _generate,
    "import-keypair": _import,
    "list-keypairs": _list,
    "delete-keypair": _delete,
}


def _shown(entry_id: str, name: str, algorithm: str, public: str) -> dict[str, Any]:
    return {
        "id": entry_id,
        "name": name,
        "algorithm": algorithm,
        "publicKey": public,
        "fingerprint": ssh_keys.fingerprint(public),
    }
