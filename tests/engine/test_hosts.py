"""What the database keeps for machines: pinned host keys, and who holds which host of a pool."""

import secrets
from typing import Any

import msgspec
import pytest

from launchbay.auth.secret_key import KEY_BYTES, SecretKey
from launchbay.engine.machine_ledger import EnvironmentPools, PostgresHostKeys
from launchbay.errors import ActionFailed
from launchbay.ids import new_id
from launchbay.machines.contract import ProviderContext
from launchbay.store.database import Database
from tests.machines.errands import context


class World:
    """An organization with an environment, which offers what `pool` adds."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.organization, self.environment, self.zone = new_id(), new_id(), new_id()

    async def made(self) -> "World":
        await self._run("INSERT INTO organizations (id, name) VALUES (%s, 'Acme')", self.organization)
        await self._run(
            "INSERT INTO zones (id, organization_id, name) VALUES (%s, %s, 'Z')", self.zone, self.organization
        )
        await self._run(
            "INSERT INTO environments (id, organization_id, name) VALUES (%s, %s, 'Lab')",
            self.environment,
            self.organization,
        )
        return self

    async def pool(self, name: str, resources: Any) -> str:
        service = new_id()
        parameters = msgspec.json.encode({"configuration.resources": resources}).decode()
        await self._run(
            "INSERT INTO services (id, organization_id, zone_id, name, type_id, parameters)"
            " VALUES (%s, %s, %s, %s, 'builtin:static_resource_pool', %s)",
            service,
            self.organization,
            self.zone,
            name,
            parameters,
        )
        await self._run(
            "INSERT INTO environment_services (environment_id, service_id) VALUES (%s, %s)", self.environment, service
        )
        return service

    def context(self, **more: Any) -> ProviderContext:
        return context(organization_id=self.organization, environment_id=self.environment, **more)

    async def _run(self, statement: str, *values: str) -> None:
        async with self.database.transaction() as connection:
            await connection.execute(statement, values)


@pytest.fixture
async def world(database: Database) -> World:
    return await World(database).made()


async def test_the_first_key_of_a_host_stays_until_it_is_forgotten(database: Database, world: World) -> None:
    hosts, asked = PostgresHostKeys(database), world.context()
    assert await hosts.pinned(asked, "10.0.0.5:22") is None
    assert await hosts.pin(asked, "10.0.0.5:22", "ssh-ed25519 AAAA") == "ssh-ed25519 AAAA"
    assert await hosts.pin(asked, "10.0.0.5:22", "ssh-ed25519 BBBB") == "ssh-ed25519 AAAA"
    other = await World(database).made()
    assert await hosts.pinned(other.context(), "10.0.0.5:22") is None
    await hosts.forget(asked, "10.0.0.5:22")
    assert await hosts.pinned(asked, "10.0.0.5:22") is None


async def test_hosts_of_a_pool_are_taken_once_and_given_back(database: Database, world: World) -> None:
    pools = EnvironmentPools(database, SecretKey(secrets.token_bytes(KEY_BYTES)))
    with pytest.raises(ActionFailed, match="no pool to take hosts from; it offers none"):
        await pools.acquire(world.context(), 1)
    await world.pool("racks", {"a": "10.0.0.1", "b": {"address": "10.0.0.2"}, "c": None})
    taken = await pools.acquire(world.context(tag="first"), 2)
    assert await pools.acquire(world.context(tag="first"), 2) == taken
    assert await pools.acquired(world.context()) == taken
    assert await pools.acquired(world.context(instance_id="5f00000000000000000000ff")) == {}
    for machine_id in taken:
        await pools.release(world.context(), machine_id)
        await pools.release(world.context(), machine_id)
    assert await pools.acquired(world.context()) == {}


async def test_a_pool_with_too_few_hosts_gives_none(
    database: Database, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.engine.machine_ledger._WAIT_S", 0)
    pools = EnvironmentPools(database, SecretKey(secrets.token_bytes(KEY_BYTES)))
    await world.pool("racks", ["10.0.0.1"])
    with pytest.raises(ActionFailed, match="The pool 'racks' gave 1 of 2 hosts") as error:
        await pools.acquire(world.context(), 2)
    assert error.value.retryable
    assert await pools.acquired(world.context()) == {}


async def test_of_several_pools_the_policy_names_one(database: Database, world: World) -> None:
    pools = EnvironmentPools(database, SecretKey(secrets.token_bytes(KEY_BYTES)))
    await world.pool("one", ["10.0.0.1"])
    await world.pool("two", ["10.0.0.2"])
    with pytest.raises(ActionFailed, match="several pools to take hosts from: 'one', 'two'"):
        await pools.acquire(world.context(), 1)
    [taken] = (await pools.acquire(world.context(policies={"machines.pool": "two"}), 1)).values()
    assert taken.id == "10.0.0.2"
