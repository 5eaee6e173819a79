"""Public manifests on real hosts, with their real commands.

Only docker-networking needs nothing but a shell. It fetches what it installs from places that a test does not reach,
and writes below /usr: these steps fail here and are passed over by the environment's policy `execrun.ignoreFail`. The
others need Chef, and run with its stand-in and cookbooks that only give the attributes that the real ones would.

Not here: tomcat and petclinic need a war file and a running Tomcat, zookeeper the HTTP interface of Exhibitor, and
zabbix asks the metadata service of a cloud for its name. The two manifests of qubell-client make several tiers of
machines in a cloud, with nothing for a shell to do. Dry-run machines show what becomes of these (test_public_machines).
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support.applications import (
    destroyed,
    with_stand_ins,
)
from tests.support.databases import Databases
from tests.support.machines import ISOLATED, LOGIN, Hosts, Shelf, archive, needs_sshd, served_shelf, with_chef
from tests.support.public_manifests import (
    DOCKER,
    HAPROXY,
    MONGO,
    MYSQL,
    TESTER,
    launched_public,
    text_of,
)
from tests.support.service import accepted
from tests.support.services import Fleet, running_fleet

# They install and start real programs.
pytestmark = [
    pytest.mark.slow,
    needs_sshd,
    pytest.mark.skipif(not ISOLATED, reason="the manifests change their machines"),
]

COOKBOOKS = ("cookbook-qubell-zookeeper", "haproxy", "java", "maven", "mongodb", "mysql_component")
# What the recipes of these manifests leave in the node.
ATTRIBUTES: dict[str, Any] = {
    "cookbook_qubell_mongodb": {"url": "mongodb://bay"},
    "haproxy": {"entry_urls": ["http://bay.example:80"]},
}


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(4, network=7) as started:
        for host in started.hosts:
            with_chef(host)
        yield started


@pytest.fixture(scope="module")
def shelf() -> Iterator[Shelf]:
    files: list[tuple[str, bytes]] = []
    for name in COOKBOOKS:
        files.append((f"cookbooks/{name}/metadata.rb", b""))
        files.append((f"cookbooks/{name}/attributes/default.json", json.dumps(ATTRIBUTES).encode()))
    with served_shelf(archive(*files)) as served:
        yield served


@pytest.fixture(scope="module")
async def fleet(databases: Databases, hosts: Hosts, shelf: Shelf) -> AsyncIterator[Fleet]:
    url = databases.create()
    policies = {
        "execrun.ignoreFail": "true",
        "provisionVms.vmIdentity": LOGIN,
        "chefsolo.recipeUrl": shelf.url,
        "chefrun.recipeUrl": shelf.url,
    }
    async with running_fleet(url, hosts, policies) as fleet:
        yield fleet
    databases.drop(url)


async def test_docker_networking_lets_its_hosts_into_each_other(fleet: Fleet) -> None:
    system = {"image": "us-west-2/ami-8bbda2ea", "identity": LOGIN}
    document = await launched_public(fleet.api, DOCKER, parameters={"configuration.operating-system": system})
    hosts = document["returnValues"]["endpoints.hosts"]
    assert set(hosts) == await fleet.held()
    assert len(hosts) == 3
    taken = [host for host in fleet.hosts.hosts if host.address in hosts]
    public = {(host.home / ".ssh" / "id_rsa.pub").read_text().split()[1] for host in taken}
    assert len(public) == 3
    for host in taken:
        known = (host.home / ".ssh" / "authorized_keys").read_text()
        assert all(key in known for key in public)
    lines = await fleet.log(document["id"])
    assert any("] ssh-rsa AAAA" in line for line in lines), "what a command writes is in the log"
    await destroyed(fleet.api, document["id"])
    assert await fleet.held() == set()


async def test_mongodb_goes_over_its_hosts_and_runs_scripts(fleet: Fleet, shelf: Shelf) -> None:
    document = await launched_public(fleet.api, MONGO, parameters={"configuration.quantity": 3})
    assert document["returnValues"]["mongo.url"] == "mongodb://bay"
    assert set(document["returnValues"]["mongo.hosts"]) == await fleet.held()
    asked = len(shelf.asked)
    document = await fleet.api.run(document["id"], "mongo.run-js", script_url="http://x.example/a.js")
    assert document["workflowHistory"][0]["status"] == "Succeeded"
    assert len(shelf.asked) > asked
    await destroyed(fleet.api, document["id"])


async def test_mysql_gives_the_address_of_its_host_and_makes_schemas(fleet: Fleet) -> None:
    document = await launched_public(fleet.api, MYSQL)
    assert {document["returnValues"]["database.db-host"]} == await fleet.held()
    given = {"db-user": "bay", "db-user-password": "pa55", "db-user-privileges": '["all"]'}
    document = await fleet.api.run(document["id"], "database.schema", **given)
    assert document["workflowHistory"][0]["status"] == "Succeeded"
    await destroyed(fleet.api, document["id"])


async def test_haproxy_gives_the_entry_urls_that_its_node_has(fleet: Fleet) -> None:
    document = await launched_public(fleet.api, HAPROXY)
    values = document["returnValues"]
    assert {values["haproxy.lb-stats"]["lb-host"]} == await fleet.held()
    assert values["haproxy.entry-urls"] == ["http://bay.example:80"]
    await destroyed(fleet.api, document["id"])


async def test_the_functional_tester_adopts_one_machine_for_six_components(fleet: Fleet) -> None:
    await with_stand_ins(fleet.api, text_of(TESTER))
    credentials = {"access-key": "AK", "secret-key": "SK"}
    offered = {"name": "s3-credentials", "type": "map<string,string>", "value": credentials}
    environment = f"environments/{fleet.api.environment}"
    accepted(await fleet.api.put(f"{environment}/properties", {"properties": [offered]}))
    document = await launched_public(fleet.api, TESTER)
    [address] = await fleet.held()
    assert document["returnValues"]["analyse.local-dashboard"] == f"http://{address}:8899"
    arguments = {"base-url": "http://x.example", "app-fork": "q", "app-repo": "r", "app-branch": "b", "tag": "t"}
    document = await fleet.api.run(document["id"], "develop.test", **arguments)
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["workflowHistory"][0]["errorMessage"]
    await destroyed(fleet.api, document["id"])
