"""A whole manifest on a cloud, through the API: launched, grown, shrunk, destroyed; and the sweep beside it."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.auth.secret_key import SecretKey
from launchbay.engine.machine_ledger import PostgresMachineLedger
from launchbay.machines.clouds.driver import Cloud
from launchbay.machines.clouds.order import Order
from launchbay.machines.contract import Tags
from tests.support.clouds import IMAGE, MANIFEST, REGION, SIZE, Bay, Gate, bay, cloud_environment, loopback_subnet
from tests.support.contexts import context
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.machines import Hosts, needs_sshd
from tests.support.service import Api, accepted, refused, running_api

NETWORK = 78
FIRST = 4  # the first address of a subnet that is a machine's
pytestmark = [pytest.mark.slow, needs_sshd]  # whole lives on a simulated cloud


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(FIRST + 3, network=NETWORK) as started:
        yield started


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    settings: dict[str, Any] = {
        "outgoing_allow": "127.0.0.0/8",
        "machines_sweep_interval_s": 0.3,
        "machines_sweep_grace_s": 0.1,
    }
    async with running_api(url, **settings) as running:
        yield running
    databases.drop(url)


@pytest.fixture
def lab(gate: Gate, tmp_path: Path) -> Bay:
    """A way to look into the cloud past the service."""
    return bay(gate.url, tmp_path)


async def installation(api: Api) -> str:
    async with api.database.connection() as connection:
        [found] = await (await connection.execute("SELECT id FROM installation")).fetchone() or [""]
    return str(found)


async def launched(api: Api, gate: Gate, hosts: Hosts) -> str:
    environment = await cloud_environment(api, gate.url, hosts)
    manifest = MANIFEST.replace("SUBNET", loopback_subnet(gate.upstream, REGION, NETWORK))
    return await api.launch(await api.application(manifest), environmentId=environment)


async def test_a_manifest_launches_grows_shrinks_and_is_destroyed(api: Api, gate: Gate, hosts: Hosts, lab: Bay) -> None:
    instance = await launched(api, gate, hosts)
    document = await api.settled(instance, 90)
    assert document["status"] == "Running", document["errorMessage"]
    own = await installation(api)
    first = document["returnValues"]["result.hosts"]
    assert sorted(document["returnValues"]["result.names"]) == sorted(first)
    assert len(await lab.standing(own)) == 2

    document = await api.run(instance, "actions.grow", size="4")
    grown = document["returnValues"]["result.hosts"]
    assert grown[:2] == first
    assert len(set(grown)) == len(await lab.standing(own)) == 4

    document = await api.run(instance, "actions.shrink", count="3")
    assert document["returnValues"]["result.hosts"] == grown[:1]
    assert len(await lab.standing(own)) == 1

    [place] = await PostgresMachineLedger(api.database, SecretKey(b"k" * 32)).places(instance)
    sentences = refused(await api.delete(f"services/{place.account_id}"), 400, "ServiceInUse")
    assert document["name"] in sentences

    document = await api.run(instance, "destroy")
    assert document["status"] == "Destroyed"
    assert await lab.standing(own) == []
    accepted(await api.delete(f"services/{place.account_id}"))


async def test_a_quota_fails_the_launch_in_the_words_of_the_cloud_and_leaves_no_machine(
    api: Api, gate: Gate, hosts: Hosts, lab: Bay
) -> None:
    gate.refuse("RunInstances", 2, "InstanceLimitExceeded")
    instance = await launched(api, gate, hosts)
    document = await api.settled(instance, 90)
    assert document["status"] == "Failed"
    assert "InstanceLimitExceeded" in document["errorMessage"]
    assert await lab.standing(await installation(api)) == []
    assert "wJalrXUtnFEMI" not in str(document)


async def test_the_sweep_takes_down_what_belongs_to_nobody_and_nothing_else(
    api: Api, gate: Gate, hosts: Hosts, lab: Bay
) -> None:
    instance = await launched(api, gate, hosts)
    assert (await api.settled(instance, 90))["status"] == "Running"
    own = await installation(api)
    kept = {node.id for node in await lab.standing(own)}
    planted = [
        (own, "5f00000000000000000000aa"),  # of an instance that nobody knows
        (own, instance),  # of one that knows nothing of it
        ("another-installation", "5f00000000000000000000bb"),
    ]
    for number, (whose, of_instance) in enumerate(planted):
        asked = context(organization_id=api.organization, instance_id=of_instance, tag=f"planted-{number}")
        marks = Tags.of(whose, asked, "web", number)
        await lab.calls.call(lab.context(), lab.account, REGION, planting(marks))
    await eventually(lambda: lab.standing(own), lambda found: {node.id for node in found} == kept, within_s=60)
    assert len(await lab.standing("another-installation")) == 1
    entries = accepted(await api.get(f"organizations/{api.organization}/audit"))
    swept = [entry for entry in entries if entry["operation"] == "sweep_machine"]
    assert {entry["before"]["reason"] for entry in swept} == {
        "its instance is unknown",
        "its instance has no record of it",
    }
    assert {entry["before"]["instance"] for entry in swept} == {"5f00000000000000000000aa", instance}
    await api.run(instance, "destroy")


def planting(marks: Tags) -> Callable[[Cloud], object]:
    def plant(cloud: Cloud) -> object:
        return cloud.create_node(Order(image=IMAGE, size=SIZE, region=REGION), "planted", marks, marks.tag, "")

    return plant
