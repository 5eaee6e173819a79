"""What key pairs and secrets of a vault have in common: names, and a bound on how many there are."""

from launchbay.errors import Conflict, FieldErrors
from launchbay.limits import NAME_CHARS, VAULT_ENTRIES
from launchbay.service_types.contract import ServiceCall
from launchbay.store import services
from launchbay.store import services as store
from launchbay.store.database import Connection
from launchbay.store.services import SealedEntry

KEY_PAIR = "key-pair"
SECRET = "secret"  # noqa: S105 - a kind of entry, not one

_CALLED = {KEY_PAIR: ("key pair", "list-keypairs", "NoKeyPair"), SECRET: ("secret", "list-secrets", "NoSecret")}


def checked_entry_name(name: str) -> str:
    """Return the name. Raises FieldErrors for one that cannot be."""
    if not name.strip() or len(name) > NAME_CHARS or not name.isprintable():
        raise FieldErrors({"name": [f"A name has 1 to {NAME_CHARS} printable characters, not all of them spaces."]})
    return name


async def found_entry(connection: Connection, call: ServiceCall, kind: str, name: str) -> SealedEntry:
    """Return the entry of the vault with this name or id. Raises Conflict when there is none."""
    entry = await store.find(connection, service_id=call.service_id, kind=kind, name=name)
    if entry is None:
        noun, listing, code = _CALLED[kind]
        raise Conflict(
            f"The vault has no {noun} {name[:80]!r}.", f"The command {listing} tells what it has.", code=code
        )
    return entry


async def has_room(connection: Connection, call: ServiceCall, beside: str | None = None) -> None:
    """Lock the vault for one more entry, or for one in place of the secret `beside`.

    Raises Conflict when it is full or was deleted.
    """
    if await services.lock(connection, service_id=call.service_id) is None:
        raise Conflict("The service was deleted at the same moment.")
    if (await store.count_others(connection, service_id=call.service_id, name=beside) or 0) >= VAULT_ENTRIES:
        raise Conflict(
            f"The vault has {VAULT_ENTRIES} entries, which is the most.", "Delete some first.", code="VaultFull"
        )
