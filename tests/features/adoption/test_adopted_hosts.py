"""Instances of hosts that run already, over real SSH."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from launchbay import limits
from launchbay.actions.contract import ActionCall
from launchbay.actions.provision import Provision
from launchbay.features.plans import usecases as plans
from launchbay.features.plans.rows import PlanRow
from launchbay.model.existing import Existing
from launchbay.usecases.context import Context
from tests.support.databases import Databases
from tests.support.drift import checked, drift_of, open_findings
from tests.support.eventually import eventually
from tests.support.machines import Hosts, needs_sshd
from tests.support.service import Api, Caller, accepted, fresh_name, refused
from tests.support.services import Fleet, running_fleet

pytestmark = [needs_sshd, pytest.mark.slow]  # servers of SSH


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(2, network=31) as started:
        yield started


@pytest.fixture(scope="module")
async def fleet(databases: Databases, hosts: Hosts) -> AsyncIterator[Fleet]:
    url = databases.create()
    async with running_fleet(url, hosts) as fleet:
        yield fleet
    databases.drop(url)


class Shop:
    """A manifest that writes a file on hosts, and the file, which somebody wrote before."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.name = fresh_name("shop").replace(" ", "-")
        self.write("2")

    def write(self, text: str) -> None:
        for host in self.hosts.hosts:
            file = host.work / self.name
            file.unlink(missing_ok=True)
            file.write_text(text)

    def read(self) -> list[str]:
        return [(host.work / self.name).read_text().strip() for host in self.hosts.hosts]

    def manifest(self, addresses: Sequence[str] | None = None) -> str:
        listed = ", ".join(addresses or [host.static_ip for host in self.hosts.hosts])
        place = f"case $SSH_CONNECTION in {self._cases()} esac"
        return f"""
application:
  components:
    web:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
              - hosts: {{action: provisionVms, parameters: {{roleName: web, staticIps: [{listed}]}}}}
              - write:
                  action: execrun
                  precedingPhases: [hosts]
                  parameters:
                    roles: [web]
                    plan: ['{place}; grep -x 2 {self.name}']
                    command: ['{place}; rm -f {self.name}; echo launched > {self.name}']
          destroy:
            steps:
              - remove: {{action: execrun, parameters: {{roles: [web], command: ['{place}; rm -f {self.name}']}}}}
"""

    def _cases(self) -> str:
        return " ".join(f'*" {host.address} "*) cd {host.work};;' for host in self.hosts.hosts)


@pytest.fixture
def shop(hosts: Hosts) -> Shop:
    return Shop(hosts)


async def adopt(api: Caller, application: str, *, component: str = "web", **body: Any) -> Any:
    return await api.post(f"applications/{application}/adoptions", {"hosts": [{"component": component}], **body})


async def adopted(api: Api, shop: Shop) -> str:
    return str(accepted(await adopt(api, await api.application(shop.manifest())))["instanceId"])


async def take_over(api: Api, instance: str) -> Any:
    body = {"act": "manage", "ids": [instance]}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
    shown = await eventually(
        lambda: api.read(f"change-sets/{made['id']}"),
        lambda found: found["plan"][0]["effects"]["status"] not in {"Waiting", "Planning"},
        within_s=60,
    )
    accepted(await api.post(f"change-sets/{made['id']}/apply", {}))
    await api.settled(instance)
    return shown["plan"][0]["effects"]


async def test_hosts_become_an_instance_and_nothing_changes_on_them(fleet: Fleet, shop: Shop) -> None:
    instance = await adopted(fleet.api, shop)

    drift = await drift_of(fleet.api, instance)
    shown = accepted(await fleet.api.get(f"instances/{instance}/adoption"))

    assert (drift["status"], drift["problem"], open_findings(drift)) == ("Checked", None, {})
    assert accepted(await fleet.api.get(f"instances/{instance}"))["status"] == "Running"
    assert (shown["managed"], shown["states"], shown["releases"]) == ("observe", [], [])
    assert [(each["component"], each["role"], each["address"]) for each in shown["hosts"]] == [
        ("web", "web", host.static_ip) for host in shop.hosts.hosts
    ]
    assert shop.read() == ["2", "2"]


async def test_a_check_runs_plan_on_the_hosts_and_the_first_change_set_takes_over(fleet: Fleet, shop: Shop) -> None:
    instance = await adopted(fleet.api, shop)
    await drift_of(fleet.api, instance)
    shop.write("3")
    assert "Step web#launch/write can't be planned" in (await checked(fleet.api, instance))["problem"]
    shop.write("2")
    assert (await checked(fleet.api, instance))["problem"] is None

    effects = await take_over(fleet.api, instance)
    assert effects["status"] == "Planned", effects
    assert "2" in str(effects["steps"])
    assert accepted(await fleet.api.get(f"instances/{instance}/adoption"))["managed"] == "full"
    assert shop.read() == ["launched", "launched"]
    accepted(await fleet.api.post(f"instances/{instance}/destroy", {}))
    await fleet.api.settled(instance)
    assert not any((host.work / shop.name).exists() for host in shop.hosts.hosts), "a managed one runs destroy"


async def test_an_answer_of_plan_that_changes_is_a_finding_until_it_is_as_it_was(fleet: Fleet, shop: Shop) -> None:
    api = fleet.api
    text = shop.manifest().replace(f"grep -x 2 {shop.name}", f"cat {shop.name}")
    instance = str(accepted(await adopt(api, await api.application(text)))["instanceId"])
    await drift_of(api, instance)
    assert open_findings(await checked(api, instance, baseline=True)) == {}
    shop.write("3")

    found = open_findings(await checked(api, instance))

    assert len(found) == 2, "one for each host"
    assert {(each["from"]["answer"], each["to"]["answer"]) for each in found.values()} == {("2", "3")}
    one = next(iter(found.values()))
    told = await api.post(f"instances/{instance}/drift/findings/{one['id']}/take-over")
    assert told.status_code == 400
    shop.write("2")
    assert open_findings(await checked(api, instance)) == {}
    assert shop.read() == ["2", "2"]


class SlowLook:
    """Holds each look at hosts until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.components: list[str] = []
        self.may_go_on = asyncio.Event()
        looks = Provision.find_existing

        async def held(action: Provision, call: ActionCall) -> Existing:
            self.components.append(call.context.step_path.partition("#")[0])
            await self.may_go_on.wait()
            return await looks(action, call)

        monkeypatch.setattr(Provision, "find_existing", held)

    async def begun(self) -> None:
        await eventually(lambda: self.components)


async def test_who_retries_joins_the_look_that_continues(
    fleet: Fleet, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = fleet.api
    application = await api.application(shop.manifest())
    slow = SlowLook(monkeypatch)
    monkeypatch.setattr(limits, "ADOPTED_LOOK_S", 0.0)
    for _ in range(3):
        told = await adopt(api, application)
        assert "and continues" in refused(told, 503, "LookUnderWay")
        assert told.headers["Retry-After"] == "5"
    await slow.begun()
    assert slow.components == ["web"]

    monkeypatch.setattr(limits, "ADOPTED_LOOK_S", 20.0)
    slow.may_go_on.set()
    assert accepted(await adopt(api, application, dryRun=True))["hosts"], "it is what the look has found"
    assert slow.components == ["web"]
    accepted(await adopt(api, application, dryRun=True))
    assert slow.components == ["web", "web"], "what was read is looked at again"


@pytest.mark.parametrize("is_shown", [False, True], ids=["before it is shown", "before what it found is read"])
async def test_a_look_that_another_request_has_read_first_is_made_again(
    fleet: Fleet, shop: Shop, monkeypatch: pytest.MonkeyPatch, is_shown: bool
) -> None:
    application = await fleet.api.application(shop.manifest())
    reads = plans.read_plan
    taken: list[str] = []

    async def read(ctx: Context, plan_id: str) -> PlanRow:
        row = await reads(ctx, plan_id)
        if row.status == "Waiting" or taken:
            return row
        taken.append(plan_id)
        async with fleet.api.database.transaction() as connection:
            await connection.execute("DELETE FROM plans WHERE id = %s", [plan_id])
        return row if is_shown else await reads(ctx, plan_id)

    monkeypatch.setattr(plans, "read_plan", read)
    found = accepted(await adopt(fleet.api, application, dryRun=True))["hosts"]

    assert len(taken) == 1
    assert [each["address"] for each in found] == [host.static_ip for host in shop.hosts.hosts]


async def test_another_request_or_person_has_a_look_of_its_own(
    fleet: Fleet, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = fleet.api
    application = await api.application(shop.manifest())
    slow = SlowLook(monkeypatch)
    monkeypatch.setattr(limits, "ADOPTED_LOOK_S", 0.0)
    other = await api.member("Read: [/*]", "CreateInstance: [/*]")

    refused(await adopt(api, application), 503, "LookUnderWay")
    refused(await adopt(api, application, launch={"instanceName": "other"}), 503, "LookUnderWay")
    refused(await adopt(other, application), 503, "LookUnderWay")

    async with api.database.connection() as connection:
        made = "SELECT FROM plans WHERE asked IS NOT NULL AND status = 'Waiting'"
        assert len(await (await connection.execute(made)).fetchall()) == 3
        await connection.execute("DELETE FROM plans")
    slow.may_go_on.set()


async def test_only_what_is_asked_for_is_looked_at(fleet: Fleet, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, web = shop.manifest().partition("    web:\n")
    application = await fleet.api.application(f"{shop.manifest()}    db:\n{web}")
    slow = SlowLook(monkeypatch)
    slow.may_go_on.set()

    found = accepted(await adopt(fleet.api, application, component="db", dryRun=True))

    assert ({each["component"] for each in found["hosts"]}, slow.components) == ({"db"}, ["db"])


async def test_destroying_before_only_forgets_and_the_hosts_can_be_adopted_again(fleet: Fleet, shop: Shop) -> None:
    application = await fleet.api.application(shop.manifest())
    instance = str(accepted(await adopt(fleet.api, application))["instanceId"])
    problem = refused(await adopt(fleet.api, application), 400, "AdoptedAlready")
    assert instance in problem
    assert f"The host for 'web' ({shop.hosts[0].static_ip})" in problem

    accepted(await fleet.api.post(f"instances/{instance}/destroy", {}))
    await fleet.api.settled(instance)

    assert shop.read() == ["2", "2"]
    accepted(await adopt(fleet.api, application))


async def test_two_applications_may_adopt_the_same_hosts(fleet: Fleet, shop: Shop) -> None:
    assert await adopted(fleet.api, shop) != await adopted(fleet.api, shop)


async def test_a_host_that_is_down_is_refused_and_leaves_nothing(fleet: Fleet, shop: Shop) -> None:
    addresses = [shop.hosts[0].static_ip, f"127.0.31.99:{shop.hosts[0].port}"]
    application = await fleet.api.application(shop.manifest(addresses))

    problem = refused(await adopt(fleet.api, application), 400, "InvalidHosts")

    assert "'web' adopts nothing" in problem
    assert addresses[1] in problem
    assert accepted(await fleet.api.get(f"applications/{application}/instances")) == []


async def test_a_host_with_another_key_is_refused_with_what_to_do(fleet: Fleet, shop: Shop) -> None:
    application = await fleet.api.application(shop.manifest())
    accepted(await adopt(fleet.api, application, dryRun=True))
    try:
        shop.hosts[1].new_host_key()

        problem = refused(await adopt(fleet.api, application), 400, "InvalidHosts")

        assert f"The host key of {shop.hosts[1].static_ip} has changed" in problem
        assert "machines.host-keys" in problem
    finally:
        await fleet.api.delete(f"organizations/{fleet.api.organization}/host-keys/{shop.hosts[1].static_ip}")


async def test_a_step_that_makes_machines_has_no_hosts_to_adopt(fleet: Fleet, shop: Shop) -> None:
    text = shop.manifest().replace("staticIps: [", "targetQuantity: 2, tags: [")
    problem = refused(await adopt(fleet.api, await fleet.api.application(text)), 400, "InvalidHosts")
    assert "Name its hosts in 'staticIps'" in problem
    assert await fleet.held() == set()


async def test_a_component_without_hosts_is_refused(fleet: Fleet, shop: Shop) -> None:
    application = await fleet.api.application(shop.manifest())
    problem = refused(await adopt(fleet.api, application, component="db"), 400, "InvalidHosts")
    assert "no step of 'db' adopts hosts" in problem
    assert "Name one of: web." in problem
