"""Hosts out of the static resource pools of environments: implements `machines.contract.HostPools`.

A host is held under a name that begins with the instance's id and goes on with the step's tag, so that an interrupted
step finds what it took, and the end of an instance what nobody recorded.
"""

from collections.abc import Mapping
from typing import Any

from launchbay.auth.secret_key import SecretKey
from launchbay.errors import ActionFailed, BadRequest, Conflict
from launchbay.machines.contract import Errand, Pooled
from launchbay.service_types.contract import ServiceCall
from launchbay.service_types.resource_pool import ResourcePool
from launchbay.service_types.secrets import ServiceSeal
from launchbay.store import services
from launchbay.store.database import Database
from launchbay.store.services import OfferedOfType

POLICY = "machines.pool"
_TAG_CHARS = 16
_WAIT_S = 30


class EnvironmentPools:
    """One object serves all providers."""

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key
        self._type = ResourcePool()

    async def take(self, errand: Errand, count: int) -> Mapping[str, Pooled]:
        """Take so many hosts, or none, by the id under which each is given back. Raises ActionFailed."""
        pool = await self._chosen(errand)
        taken: dict[str, Pooled] = {}
        try:
            for number in range(1, count + 1):
                holder = f"{errand.instance_id}:{errand.tag[:_TAG_CHARS]}:{number}"
                given = await self._run(pool.id, errand, "acquire", {"holder": holder, "timeout": _WAIT_S})
                taken[f"{pool.id}/{holder}"] = Pooled(given["id"], given["resource"])
        except (BadRequest, Conflict) as error:
            for machine_id in taken:
                await self.give_back(errand, machine_id)
            text = f"The pool {pool.name!r} gave {len(taken)} of {count} hosts: {error}"
            raise ActionFailed(text, retryable=isinstance(error, Conflict)) from error
        return taken

    async def give_back(self, errand: Errand, machine_id: str) -> None:
        """Give a host back; of a pool that is gone, it is free already."""
        pool_id, _, holder = machine_id.partition("/")
        async with self._database.connection() as connection:
            is_there = await services.exists(connection, service_id=pool_id)
        if is_there:
            await self._run(pool_id, errand, "release", {"holder": holder})

    async def taken(self, errand: Errand) -> Mapping[str, Pooled]:
        """Return all hosts that the errand's instance holds in the pools of its environment."""
        found: dict[str, Pooled] = {}
        for pool in await self._offered(errand):
            listed = await self._run(pool.id, errand, "list", {})
            for entry in listed["resources"]:
                holder = entry["holder"] or ""
                if holder.startswith(f"{errand.instance_id}:"):
                    found[f"{pool.id}/{holder}"] = Pooled(entry["id"], entry["resource"])
        return found

    async def _offered(self, errand: Errand) -> list[OfferedOfType]:
        async with self._database.connection() as connection:
            return await services.offered_of_type(
                connection,
                environment_id=errand.environment_id,
                organization_id=errand.organization_id,
                type_id=self._type.id,
            )

    async def _chosen(self, errand: Errand) -> OfferedOfType:
        """Return the pool to take from: the one that the policy names, or the only one."""
        offered = await self._offered(errand)
        wanted = errand.policies.get(POLICY)
        fitting = [pool for pool in offered if wanted in (None, pool.name, pool.id)]
        if len(fitting) == 1:
            return fitting[0]
        known = ", ".join(repr(pool.name) for pool in offered) or "none"
        if fitting:
            raise ActionFailed(
                f"The environment has several pools to take hosts from: {known}.",
                f"Name one in its policy {POLICY}.",
                retryable=False,
            )
        raise ActionFailed(
            f"The environment has no pool to take hosts from{'' if wanted is None else f' called {wanted!r}'}; "
            f"it offers {known}.",
            "Name hosts in staticIps, or let the environment offer a service of the type builtin:static_resource_pool.",
            retryable=False,
        )

    async def _run(self, pool_id: str, errand: Errand, command: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        call = ServiceCall(
            service_id=pool_id,
            organization_id=errand.organization_id,
            parameters={},  # the pool reads its own, under its lock
            arguments=arguments,
            transaction=self._database.transaction,
            report=_ignore,
            seal=ServiceSeal(self._secret_key, pool_id),
        )
        return await self._type.run(command, call)


def _ignore(report: Mapping[str, Any]) -> None:
    """Take what is told while one waits."""
