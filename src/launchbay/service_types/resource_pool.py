"""`builtin:static_resource_pool`: a fixed number of things that are handed out, one to a holder (language §8).

Fair and atomic: every operation happens under the lock of the pool's row. Who asks gets a place in a row, and nobody
overtakes those before; of the free resources the one that rested longest is handed out. A holder has at most one
resource: to acquire again gives the same one, so that a repeated request, after a crash or a lost answer, takes nothing
twice.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from launchbay.clock import to_ms
from launchbay.errors import Conflict, FieldErrors
from launchbay.limits import NAME_CHARS, POOL_RESOURCES, POOL_WAIT_LONGEST_S, POOL_WAITING
from launchbay.model.types import BOOL, INT, OBJECT, STRING, ListType
from launchbay.service_types.contract import (
    CommandArgument,
    FieldMessages,
    ParameterScope,
    ServiceCall,
    ServiceCommand,
    ServiceParameter,
    command_pins,
)
from launchbay.store import services
from launchbay.store import services as store
from launchbay.store.database import Connection
from launchbay.store.services import PoolResourceRow

RESOURCES = "configuration.resources"
_INTERFACE = "resource-pool"
_POLL_S = 0.25
_ABANDONED_AFTER_S = 5.0
_HOLDER = CommandArgument(STRING, "Who holds the resource, such as an instance's id.", required=True)


class InvalidPool(ValueError):
    """A pool cannot have these resources."""


class _Attempt(NamedTuple):
    """What came of asking: the resource's id, or None with how many are before this holder."""

    resource_id: str | None
    value: Any
    ahead: int


class ResourcePool:
    """Hands out what its parameter lists; who has what is in the database."""

    id = "builtin:static_resource_pool"
    name = "Static resource pool"
    parameters: Mapping[str, ServiceParameter] = {
        RESOURCES: ServiceParameter(
            OBJECT,
            "The resources: a map from id to whatever describes one, or a list of texts and of maps with an 'id'.",
            required=True,
        ),
    }
    commands: Mapping[str, ServiceCommand] = {
        "acquire": ServiceCommand(
            _INTERFACE,
            "Hands out a resource, waiting for one up to `timeout` seconds; who holds one already gets that.",
            arguments={
                "holder": _HOLDER,
                "timeout": CommandArgument(INT, f"Seconds to wait, 0 to {POOL_WAIT_LONGEST_S}; 0 if left out."),
            },
            intermediate={"ahead": INT},
            results={"id": STRING, "resource": OBJECT},
        ),
        "release": ServiceCommand(
            _INTERFACE,
            "Takes back what the holder has, if anything.",
            arguments={"holder": _HOLDER},
            results={"released": BOOL},
        ),
        "list": ServiceCommand(
            _INTERFACE,
            "Lists the resources with their holders and since when, and how many wait.",
            results={"resources": ListType(OBJECT), "waiting": INT},
            changes=False,
        ),
    }
    interfaces = command_pins(commands)

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:  # noqa: ARG002 - contract
        """Check that each resource has an id of its own. A resource that is taken out while held stays held."""
        try:
            resources_of(parameters)
        except InvalidPool as error:
            return {RESOURCES: [str(error)]}
        return {}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        """Hand out, take back or list. Raises FieldErrors, and Conflict when no resource became free in time."""
        holder = call.arguments.get("holder", "")
        if command == "list":
            return await _list(call)
        if not holder.strip() or len(holder) > NAME_CHARS or "\0" in holder:
            raise FieldErrors({"holder": [f"A holder has 1 to {NAME_CHARS} characters, not all of them spaces."]})
        return await (_acquire if command == "acquire" else _release)(call, holder)


def resources_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources by id, in their order. Raises BadPool with a sentence for a pool that cannot be."""
    given = parameters.get(RESOURCES, {})
    if isinstance(given, Mapping):
        found = dict(given)
    elif isinstance(given, list):
        found = {}
        for position, resource in enumerate(given, 1):
            resource_id = resource.get("id") if isinstance(resource, Mapping) else resource
            if not isinstance(resource_id, str):
                raise InvalidPool(f"The resource at place {position} must be a text, or a map with a text as its 'id'.")
            if resource_id in found:
                raise InvalidPool(f"The resource {resource_id[:80]!r} stands twice; keep one of them.")
            found[resource_id] = resource
    else:
        raise InvalidPool("The resources must be a map from id to description, or a list.")
    if len(found) > POOL_RESOURCES:
        raise InvalidPool(f"There are {len(found)} resources; a pool has at most {POOL_RESOURCES}.")
    if any(not resource_id.strip() or len(resource_id) > NAME_CHARS for resource_id in found):
        raise InvalidPool(f"The id of a resource has 1 to {NAME_CHARS} characters, not all of them spaces.")
    return found


async def _acquire(call: ServiceCall, holder: str) -> dict[str, Any]:
    wait_s = call.arguments.get("timeout", 0)
    if not 0 <= wait_s <= POOL_WAIT_LONGEST_S:
        raise FieldErrors({"timeout": [f"The timeout is 0 to {POOL_WAIT_LONGEST_S} seconds."]})
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait_s
    reported: int | None = None
    while True:
        remaining_s = deadline - clock()
        async with call.transaction() as connection:
            attempt = await _attempt(connection, call.service_id, holder, stays=remaining_s > 0)
        if attempt.ahead != reported:
            call.report({"ahead": attempt.ahead})
            reported = attempt.ahead
        if attempt.resource_id is not None:
            return {"id": attempt.resource_id, "resource": attempt.value}
        if remaining_s <= 0:
            raise Conflict(
                f"No resource became free within {wait_s} seconds; {attempt.ahead} others asked before.",
                "Release one, or wait longer with `timeout`.",
                code="PoolExhausted",
            )
        await asyncio.sleep(min(_POLL_S, remaining_s))


async def _attempt(connection: Connection, service_id: str, holder: str, *, stays: bool) -> _Attempt:
    """Take a resource if it is the holder's turn; otherwise the holder keeps a place in the row if it `stays`."""
    resources, rows = await _state(connection, service_id)
    held = next((row.resource_id for row in rows if row.holder == holder), None)
    if held is not None:
        return _Attempt(held, resources.get(held), 0)
    await store.delete_silent_waiters(connection, service_id=service_id, silent_s=_ABANDONED_AFTER_S)
    ticket = await store.enqueue_waiter(connection, service_id=service_id, holder=holder)
    ahead = await store.count_ahead(connection, service_id=service_id, ticket=ticket) or 0
    free = _free(resources, rows)
    if ahead < len(free):
        await store.acquire_resource(connection, service_id=service_id, resource_id=free[0], holder=holder)
        await store.dequeue_waiter(connection, service_id=service_id, holder=holder)
        return _Attempt(free[0], resources[free[0]], ahead)
    if ahead >= POOL_WAITING:
        raise Conflict(f"{ahead} are waiting already, which is the most; try again later.", code="PoolExhausted")
    if not stays:
        await store.dequeue_waiter(connection, service_id=service_id, holder=holder)
    return _Attempt(None, None, ahead)


async def _release(call: ServiceCall, holder: str) -> dict[str, Any]:
    async with call.transaction() as connection:
        await _state(connection, call.service_id)
        await store.dequeue_waiter(connection, service_id=call.service_id, holder=holder)
        released = await store.release_resource(connection, service_id=call.service_id, holder=holder)
    return {"released": released is not None}


async def _list(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        resources, rows = await _state(connection, call.service_id)
        await store.delete_silent_waiters(connection, service_id=call.service_id, silent_s=_ABANDONED_AFTER_S)
        waiting = await store.count_waiting(connection, service_id=call.service_id) or 0
    holders = {row.resource_id: row for row in rows if row.holder is not None}
    entries = [
        {
            "id": resource_id,
            "resource": resources.get(resource_id),
            "holder": holders[resource_id].holder if resource_id in holders else None,
            "since": to_ms(holders[resource_id].changed_at) if resource_id in holders else None,
        }
        for resource_id in dict.fromkeys([*resources, *holders])
    ]
    return {"resources": entries, "waiting": waiting}


async def _state(connection: Connection, service_id: str) -> tuple[dict[str, Any], list[PoolResourceRow]]:
    """Lock the pool and return its resources, and what became of those that were handed out."""
    row = await services.lock(connection, service_id=service_id)
    if row is None:
        raise Conflict("The service was deleted at the same moment.")
    return resources_of(msgspec.json.decode(row.parameters)), await store.list_acquired(
        connection, service_id=service_id
    )


def _free(resources: Mapping[str, Any], rows: list[PoolResourceRow]) -> list[str]:
    """Return the free resources, the one that rested longest first; those never used are the most rested."""
    known = {row.resource_id: row for row in rows}
    free = [resource_id for resource_id in resources if resource_id not in known or known[resource_id].holder is None]
    rested = {row.resource_id: row.changed_at.timestamp() for row in rows}
    return sorted(free, key=lambda resource_id: rested.get(resource_id, 0.0))
