"""What is written down about clouds: accounts of environments, credentials of manifests, and places."""

import secrets
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from launchbay.auth.secret_key import KEY_BYTES, SecretKey
from launchbay.engine.machine_ledger import EnvironmentPools, PostgresHostKeys, PostgresMachineLedger
from launchbay.errors import ActionFailed
from launchbay.ids import new_id
from launchbay.machines.clouds.account import CloudAccount, CloudRegion
from launchbay.machines.contract import ProviderContext
from launchbay.service_types.secrets import seal_parameters
from launchbay.store.database import Database
from tests.support.contexts import context
from tests.support.engine import Bay

KEY = SecretKey(b"k" * 32)
REGIONS = ("eu-west-1", "us-east-1")
GIVEN = CloudAccount(id="", name="", provider="aws-ec2", identity="AKIA", credential="open sesame")


@pytest.fixture
def book(bay: Bay) -> PostgresMachineLedger:
    return PostgresMachineLedger(bay.database, KEY)


def asked(bay: Bay, **more: Any) -> ProviderContext:
    own: dict[str, Any] = {"organization_id": bay.organization_id, "environment_id": bay.environment_id}
    return context(None, **{**own, **more})


async def account(bay: Bay, name: str, type_id: str = "builtin:cloud_account") -> str:
    """Make a service and offer it in the environment; return its id."""
    service_id = new_id()
    parameters = msgspec.json.encode(
        {
            "configuration.provider": "aws-ec2",
            "configuration.identity": "AKIA",
            "configuration.legacy-regions": "eu-west-1, us-east-1",
            "configuration.legacy-security-group": "web",
        }
    ).decode()
    zone_id = new_id()
    await bay.change(
        "INSERT INTO zones (id, organization_id, name) VALUES (%s, %s, %s)", zone_id, bay.organization_id, name
    )
    await bay.change(
        "INSERT INTO services (id, organization_id, zone_id, name, type_id, parameters)"
        " VALUES (%s, %s, %s, %s, %s, %s)",
        service_id,
        bay.organization_id,
        zone_id,
        name,
        type_id,
        parameters,
    )
    await bay.change("INSERT INTO environment_services VALUES (%s, %s)", bay.environment_id, service_id)
    async with bay.database.transaction() as connection:
        await seal_parameters(KEY, connection, service_id, {"configuration.credential": "open sesame"})
    return service_id


async def test_the_accounts_of_an_environment_are_opened(bay: Bay, book: PostgresMachineLedger) -> None:
    first, second = await account(bay, "a"), await account(bay, "b")
    await account(bay, "c", "builtin:static_resource_pool")
    found = await book.list_by_environment(asked(bay))
    assert [(each.id, each.name) for each in found] == [(first, "a"), (second, "b")]
    assert (found[0].credential, found[0].regions, found[0].security_group) == (
        "open sesame",
        ("eu-west-1", "us-east-1"),
        "web",
    )
    assert "open sesame" not in repr(found)


async def test_another_organization_sees_none_of_them(bay: Bay, book: PostgresMachineLedger) -> None:
    await account(bay, "a")
    assert await book.list_by_environment(asked(bay, organization_id=new_id())) == []


async def test_an_account_is_found_until_it_is_deleted(bay: Bay, book: PostgresMachineLedger) -> None:
    service_id = await account(bay, "a")
    found = await book.get(service_id)
    assert found is not None
    assert found.credential == "open sesame"
    await bay.change("DELETE FROM environment_services WHERE service_id = %s", service_id)
    assert await book.get(service_id) == found
    await bay.change("DELETE FROM services WHERE id = %s", service_id)
    assert await book.get(service_id) is None


async def test_credentials_of_a_manifest_are_kept_once_and_sealed(bay: Bay, book: PostgresMachineLedger) -> None:
    first = await book.save_given(asked(bay), GIVEN)
    again = await book.save_given(asked(bay), GIVEN)
    other = await book.save_given(asked(bay), replace(GIVEN, credential="another"))
    assert first.id == again.id != other.id
    found = await book.get(first.id)
    assert found is not None
    assert (found.identity, found.credential) == ("AKIA", "open sesame")
    rows = await bay.rows("SELECT sealed, fingerprint FROM cloud_sign_ins")
    assert len(rows) == 2
    assert not any(b"open sesame" in bytes(sealed) or "open sesame" in fingerprint for sealed, fingerprint in rows)


async def test_an_account_that_another_key_sealed_is_told_by_its_name(bay: Bay) -> None:
    await account(bay, "a")
    with pytest.raises(ActionFailed, match="Can't decrypt the cloud account 'a'"):
        await PostgresMachineLedger(bay.database, SecretKey(b"x" * 32)).list_by_environment(asked(bay))


async def test_a_place_of_an_account_that_was_deleted_is_not_noted(bay: Bay, book: PostgresMachineLedger) -> None:
    instance_id = await bay.instance("launch: {steps: []}\n")
    with pytest.raises(ActionFailed, match="was deleted while this step ran"):
        await book.record_place(asked(bay, instance_id=instance_id), new_id(), "eu-west-1")


async def test_places_are_known_by_instance_and_altogether(bay: Bay, book: PostgresMachineLedger) -> None:
    instance_id = await bay.instance("launch: {steps: []}\n")
    other_id = await bay.instance("launch: {steps: []}\n")
    account_id = await account(bay, "a")
    for _ in range(2):
        await book.record_place(asked(bay, instance_id=instance_id), account_id, "eu-west-1")
    await book.record_place(asked(bay, instance_id=other_id), account_id, "us-east-1")
    here, there = (CloudRegion(account_id, name, bay.organization_id, bay.environment_id) for name in REGIONS)
    assert await book.places(instance_id) == [here]
    assert await book.places() == [here, there]
    await bay.change("DELETE FROM instances WHERE id = %s", instance_id)
    assert await book.places(instance_id) == []
    assert await book.places() == [here, there]


async def test_a_place_is_passed_over_when_its_account_was_deleted(bay: Bay, book: PostgresMachineLedger) -> None:
    instance_id = await bay.instance("launch: {steps: []}\n")
    service_id, given = await account(bay, "a"), await book.save_given(asked(bay), GIVEN)
    for account_id in (service_id, given.id):
        await book.record_place(asked(bay, instance_id=instance_id), account_id, "eu-west-1")
    await bay.change("DELETE FROM services WHERE id = %s", service_id)
    assert [place.account_id for place in await book.places()] == [given.id]


async def test_an_installation_is_the_same_for_all_its_processes(bay: Bay, book: PostgresMachineLedger) -> None:
    first = await book.installation()
    assert len(first) == 24
    assert await PostgresMachineLedger(bay.database, KEY).installation() == first


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
    with pytest.raises(ActionFailed, match="offers no host pool"):
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
    with pytest.raises(ActionFailed, match="The pool 'racks' provided only 1 of 2 hosts") as error:
        await pools.acquire(world.context(), 2)
    assert error.value.retryable
    assert await pools.acquired(world.context()) == {}


async def test_of_several_pools_the_policy_names_one(database: Database, world: World) -> None:
    pools = EnvironmentPools(database, SecretKey(secrets.token_bytes(KEY_BYTES)))
    await world.pool("one", ["10.0.0.1"])
    await world.pool("two", ["10.0.0.2"])
    with pytest.raises(ActionFailed, match="several host pools: 'one', 'two'"):
        await pools.acquire(world.context(), 1)
    [taken] = (await pools.acquire(world.context(policies={"machines.pool": "two"}), 1)).values()
    assert taken.id == "10.0.0.2"
