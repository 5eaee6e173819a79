"""The audit log: who changed what, when, from where, and how it was before and after (promise 14).

A use case records a change in the transaction of the change, so there is never one without the other:

    await work.audit("update_role", role, before={"name": role.name}, after={"name": name})

The operation is the endpoint's ID, the object a path. Documents are small and contain no secret: passwords, tokens and
parameters are recorded as fingerprints, which show only whether two values are equal.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from launchbay.auth.permissions import Actor
from launchbay.auth.secret_key import SecretKey
from launchbay.ids import is_id
from launchbay.limits import AUDIT_DOCUMENT_BYTES
from launchbay.store import audit as store
from launchbay.store.database import Connection, Database

Document = Mapping[str, Any]
_PURPOSE = "audit"
_OPERATOR = "operator"


class Audit:
    """Writes entries. The fingerprints are keyed with the server's secret key: nobody can guess their way back."""

    def __init__(self, secret: SecretKey) -> None:
        self._secret = secret

    async def record(
        self,
        connection: Connection,
        actor: Actor,
        operation: str,
        changed: str,
        *,
        organization_id: str,
        before: Document | None = None,
        after: Document | None = None,
    ) -> None:
        """Record a change of an object of an organization, in the transaction of the change.

        The entry costs no round trip of its own: it goes with the commit.
        """
        columns = self._columns(actor, operation, changed, before, after)
        store.insert.later(connection, organization_id=organization_id, **columns)

    async def record_own(
        self,
        connection: Connection,
        actor: Actor,
        operation: str,
        changed: str,
        *,
        before: Document | None = None,
        after: Document | None = None,
    ) -> None:
        """Record what the actor changed about themselves, for the organization that made the account."""
        store.insert_for_actor.later(connection, **self._columns(actor, operation, changed, before, after))

    async def record_for_home(
        self, connection: Connection, actor: Actor, operation: str, changed: str, *, after: Document
    ) -> None:
        """Record what happened to the actor, for the home organization."""
        await store.insert_for_home(connection, **self._columns(actor, operation, changed, None, after))

    def fingerprint(self, value: Any) -> str:
        """Return what stands for a value that must not be shown: equal for equal values, of any JSON type."""
        return self._secret.fingerprint(msgspec.json.encode(value, order="sorted"), _PURPOSE)

    def fingerprints(self, values: Mapping[str, Any]) -> dict[str, str]:
        return {name: self.fingerprint(value) for name, value in values.items()}

    def _columns(
        self, actor: Actor, operation: str, changed: str, before: Document | None, after: Document | None
    ) -> dict[str, Any]:
        return {
            "actor_id": actor.user_id,
            "actor_email": actor.email,
            "method": actor.method.value,
            "address": actor.address,
            "token_id": actor.token_id,
            "token_name": None if actor.token is None else actor.token.name,
            "operation": operation,
            "object": changed,
            "object_id": _object_id(changed),
            "before": self._text(before),
            "after": self._text(after),
        }

    def _text(self, document: Document | None) -> str | None:
        if document is None:
            return None
        data = msgspec.json.encode(document)
        if len(data) > AUDIT_DOCUMENT_BYTES:
            # The log shows that it changed; the object itself shows the current value.
            shown = {"bytes": len(data), "fingerprint": self._secret.fingerprint(data, _PURPOSE)}
            data = msgspec.json.encode(shown)
        return data.decode()


async def record_for_operator(
    connection: Connection, operation: str, changed: str, *, organization_id: str | None, after: Document
) -> None:
    """Record what a command of the server's machine changed, which has no caller.

    It has no secret key either, so `after` must be small and without secrets.
    """
    await store.insert(
        connection,
        organization_id=organization_id,
        actor_id=_OPERATOR,
        actor_email="the server's command line",
        method=_OPERATOR,
        address="",
        operation=operation,
        object=changed,
        object_id=_object_id(changed),
        before=None,
        after=msgspec.json.encode(after).decode(),
        token_id=None,
        token_name=None,
    )


def _object_id(changed: str) -> str:
    # The last one: what is done with a workflow of an instance is done to the instance.
    return next((segment for segment in reversed(changed.split("/")) if is_id(segment)), "")


def record_once(
    database: Database, write: Callable[[Connection], Awaitable[None]]
) -> Callable[[], AbstractAsyncContextManager[Connection]]:
    """Return what opens transactions; the first one that commits holds the entry that `write` makes as well."""
    is_entered = False

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Connection]:
        nonlocal is_entered
        async with database.transaction() as connection:
            if not is_entered:
                await write(connection)
            yield connection
        is_entered = True

    return transaction
