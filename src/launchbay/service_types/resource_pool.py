"""`builtin:static_resource_pool`: a fixed set of resources, at most one per holder (language §8).

Every operation holds the lock of the pool's row, so the pool is atomic and fair. Waiting holders form a queue, and get
the resource that has been free for the longest time. A holder that acquires again gets the same resource, so a request
that is repeated after a crash or a lost response takes no second one.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec

from launchbay.clock import to_ms
from launchbay.errors import BadRequest, Conflict, FieldErrors
from launchbay.limits import NAME_CHARS, POOL_RESOURCES, POOL_WAIT_LONGEST_S, POOL_WAITING
from launchbay.model.job import StepWait
from launchbay.model.machine import HOST_TEXTS
from launchbay.model.types import BOOL, INT, OBJECT, STRING, ListType
from launchbay.service_types.contract import (
    CommandArgument,
    FieldMessages,
    ParameterScope,
    ServiceCall,
    ServiceCommand,
    ServiceParameter,
    command_pins,
    lock_service,
)
from launchbay.store import services as store
from launchbay.store.database import Connection
from launchbay.store.services import PoolResourceRow

RESOURCES = "configuration.resources"
_INTERFACE = "resource-pool"
_POLL_S = 0.25
ABANDONED_AFTER_S = 5.0
_HOLDER = CommandArgument(STRING, "The holder of the resource, such as an instance's ID.", required=True)


class _Attempt(NamedTuple):
    """The result of an attempt: the resource's ID, or None.

    `ahead` is the number of earlier waiting holders, and `held` of the resources that somebody has.
    """

    resource_id: str | None
    value: Any
    ahead: int
    held: int = 0


class ResourcePool:
    """Hands out the resources in its parameter; the database stores the holders."""

    id = "builtin:static_resource_pool"
    name = "Static resource pool"
    parameters: Mapping[str, ServiceParameter] = {
        RESOURCES: ServiceParameter(
            OBJECT,
            "The resources: a map from IDs to descriptions, or a list of strings and of maps with an 'id'.",
            required=True,
            texts=HOST_TEXTS,
        )
    }
    commands: Mapping[str, ServiceCommand] = {
        "acquire": ServiceCommand(
            _INTERFACE,
            "Acquires a resource, and waits for it up to `timeout` seconds. A holder that has one gets the same one.",
            arguments={
                "holder": _HOLDER,
                "timeout": CommandArgument(INT, f"Seconds to wait, 0 to {POOL_WAIT_LONGEST_S}. Default: 0."),
            },
            intermediate={"ahead": INT},
            results={"id": STRING, "resource": OBJECT},
        ),
        "release": ServiceCommand(
            _INTERFACE,
            "Releases the holder's resource, if it has one.",
            arguments={"holder": _HOLDER},
            results={"released": BOOL},
        ),
        "list": ServiceCommand(
            _INTERFACE,
            "Lists the resources with their holders and times, and the number of waiting holders.",
            results={"resources": ListType(OBJECT), "waiting": INT},
            changes=False,
        ),
    }
    interfaces = command_pins(commands)

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:  # noqa: ARG002 - contract
        """Check the IDs. A resource that is removed while it is held stays held."""
        try:
            resources_of(parameters)
        except BadRequest as error:
            return {RESOURCES: list(error.messages)}
        return {}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        holder = call.arguments.get("holder", "")
        if command == "list":
            return await _list(call)
        if not holder.strip() or len(holder) > NAME_CHARS or "\0" in holder:
            raise FieldErrors({"holder": [f"A holder must have 1 to {NAME_CHARS} characters, not only spaces."]})
        return await (_acquire if command == "acquire" else _release)(call, holder)


def resources_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources by ID, in order. Raises BadRequest."""
    given = parameters.get(RESOURCES, {})
    if isinstance(given, Mapping):
        found = dict(given)
    elif isinstance(given, list):
        found = {}
        for position, resource in enumerate(given, 1):
            resource_id = resource.get("id") if isinstance(resource, Mapping) else resource
            if not isinstance(resource_id, str):
                raise BadRequest(f"The resource at position {position} must be a string, or a map with a string 'id'.")
            if resource_id in found:
                raise BadRequest(f"Duplicate resource {resource_id[:80]!r}. Remove one of them.")
            found[resource_id] = resource
    else:
        raise BadRequest("The resources must be a map from IDs to descriptions, or a list.")
    if len(found) > POOL_RESOURCES:
        raise BadRequest(f"The pool has {len(found)} resources. Limit: {POOL_RESOURCES}.")
    if any(not resource_id.strip() or len(resource_id) > NAME_CHARS for resource_id in found):
        raise BadRequest(f"The ID of a resource must have 1 to {NAME_CHARS} characters, not only spaces.")
    return found


async def _acquire(call: ServiceCall, holder: str) -> dict[str, Any]:
    wait_s = call.arguments.get("timeout", 0)
    if not 0 <= wait_s <= POOL_WAIT_LONGEST_S:
        raise FieldErrors({"timeout": [f"The timeout must be 0 to {POOL_WAIT_LONGEST_S} seconds."]})
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait_s
    reported: int | None = None
    with ExitStack() as shown:
        while True:
            remaining_s = deadline - clock()
            async with call.transaction() as connection:
                attempt = await _attempt(connection, call.service_id, holder, stays=remaining_s > 0)
            if attempt.resource_id is not None:
                if attempt.ahead != reported:
                    call.report({"ahead": attempt.ahead})
                return {"id": attempt.resource_id, "resource": attempt.value}
            if attempt.ahead != reported:
                call.report({"ahead": attempt.ahead})
                reported = attempt.ahead
                shown.close()
                shown.enter_context(call.waiting(_wait(call, attempt, remaining_s)))
            if remaining_s <= 0:
                raise Conflict(
                    f"No resource became free within {wait_s} seconds. {attempt.ahead} others are ahead in the queue.",
                    "Release one, or increase `timeout`.",
                    code="PoolExhausted",
                )
            await asyncio.sleep(min(_POLL_S, remaining_s))


def _wait(call: ServiceCall, attempt: _Attempt, remaining_s: float) -> StepWait:
    # No names: all who may read the waiting instance read this, and not all of them may read the holders.
    held = f"all {attempt.held} are held" if attempt.held else "it has none"
    return StepWait(
        kind="resource",
        text=f"Waiting for a free resource of the pool {call.name!r}: {held}.",
        ends_when="A holder releases its resource, or the time to wait is over.",
        until=int((time.time() + remaining_s) * 1000),
        position=attempt.ahead + 1,
    )


async def _attempt(connection: Connection, service_id: str, holder: str, *, stays: bool) -> _Attempt:
    """Acquire a resource if it is the holder's turn. Otherwise the holder stays in the queue if it `stays`."""
    resources, rows = await _state(connection, service_id)
    held = next((row.resource_id for row in rows if row.holder == holder), None)
    if held is not None:
        return _Attempt(held, resources.get(held), 0)
    await store.delete_silent_waiters(connection, service_id=service_id, silent_s=ABANDONED_AFTER_S)
    ticket = await store.enqueue_waiter(connection, service_id=service_id, holder=holder)
    ahead = await store.count_ahead(connection, service_id=service_id, ticket=ticket) or 0
    free = _free(resources, rows)
    if ahead < len(free):
        await store.acquire_resource(connection, service_id=service_id, resource_id=free[0], holder=holder)
        await store.dequeue_waiter(connection, service_id=service_id, holder=holder)
        return _Attempt(free[0], resources[free[0]], ahead)
    if ahead >= POOL_WAITING:
        raise Conflict(f"The pool's queue is full ({ahead} requests). Retry later.", code="PoolExhausted")
    if not stays:
        await store.dequeue_waiter(connection, service_id=service_id, holder=holder)
    return _Attempt(None, None, ahead, sum(row.holder is not None for row in rows))


async def _release(call: ServiceCall, holder: str) -> dict[str, Any]:
    async with call.transaction() as connection:
        await _state(connection, call.service_id)
        await store.dequeue_waiter(connection, service_id=call.service_id, holder=holder)
        released = await store.release_resource(connection, service_id=call.service_id, holder=holder)
    return {"released": released is not None}


async def _list(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        resources, rows = await _state(connection, call.service_id)
        await store.delete_silent_waiters(connection, service_id=call.service_id, silent_s=ABANDONED_AFTER_S)
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
    """Lock the pool and return its resources, and the rows of those that were ever acquired."""
    row = await lock_service(connection, service_id)
    acquired = await store.list_acquired(connection, service_id=service_id)
    return resources_of(msgspec.json.decode(row.parameters)), acquired


def _free(resources: Mapping[str, Any], rows: list[PoolResourceRow]) -> list[str]:
    """Return the free resources: never used ones first, then those that have been free for the longest time."""
    known = {row.resource_id: row for row in rows}
    free = [resource_id for resource_id in resources if resource_id not in known or known[resource_id].holder is None]
    released = {row.resource_id: row.changed_at.timestamp() for row in rows}
    return sorted(free, key=lambda resource_id: released.get(resource_id, 0.0))
