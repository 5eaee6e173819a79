"""What is written down about clouds: accounts of environments, credentials of manifests, and places."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from launchbay.auth.secret_key import SecretKey
from launchbay.engine.machine_ledger import PostgresMachineLedger
from launchbay.errors import ActionFailed
from launchbay.ids import new_id
from launchbay.machines.clouds.account import CloudAccount, Place
from launchbay.machines.contract import ProviderContext
from launchbay.service_types.secrets import seal_parameters
from tests.engine.bay import Bay
from tests.machines.errands import context

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
    with pytest.raises(ActionFailed, match="The cloud account 'a' cannot be opened"):
        await PostgresMachineLedger(bay.database, SecretKey(b"x" * 32)).list_by_environment(asked(bay))


async def test_a_place_of_an_account_that_was_deleted_is_not_noted(bay: Bay, book: PostgresMachineLedger) -> None:
    instance_id = await bay.instance("launch: {steps: []}\n")
    with pytest.raises(ActionFailed, match="was deleted at the same moment"):
        await book.record_place(asked(bay, instance_id=instance_id), new_id(), "eu-west-1")


async def test_places_are_known_by_instance_and_altogether(bay: Bay, book: PostgresMachineLedger) -> None:
    instance_id = await bay.instance("launch: {steps: []}\n")
    other_id = await bay.instance("launch: {steps: []}\n")
    account_id = await account(bay, "a")
    for _ in range(2):
        await book.record_place(asked(bay, instance_id=instance_id), account_id, "eu-west-1")
    await book.record_place(asked(bay, instance_id=other_id), account_id, "us-east-1")
    here, there = (Place(account_id, name, bay.organization_id, bay.environment_id) for name in REGIONS)
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
