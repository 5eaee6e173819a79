"""Machines of a cloud, made and taken down through moto's EC2 endpoint."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.engine.machine_ledger import PostgresAccountProbe
from launchbay.errors import ActionFailed
from launchbay.model.machine import RemoteCommand
from tests.support import clouds
from tests.support.clouds import REGION, Bay, Gate, Keys, bay, loopback_subnet, spec
from tests.support.machines import LOGIN, Hosts, make_key, needs_sshd

pytestmark = pytest.mark.slow  # machines of a simulated cloud, each reached through sshd


@pytest.fixture
def lab(gate: Gate, tmp_path: Path) -> Bay:
    return bay(gate.url, tmp_path)


async def test_machines_are_made_with_marks_and_found_by_them(lab: Bay) -> None:
    machines = await lab.provider.provision(lab.context(), "web", [4, 5], spec())
    nodes = await lab.standing()
    assert [machine.number for machine in machines] == [4, 5]
    assert {machine.id for machine in machines} == {f"account-1/{REGION}/{node.id}" for node in nodes}
    assert all(machine.public_ip and machine.private_ip and machine.login == "ubuntu" for machine in machines)
    marks = [node.tags for node in nodes if node.tags is not None]
    assert {mark.number for mark in marks} == {4, 5}
    assert {(mark.installation, mark.instance, mark.component, mark.role, mark.tag) for mark in marks} == {
        ("installation-1", lab.context().instance_id, "web", "web", "t")
    }


async def test_the_job_learns_the_credential_so_that_nothing_shows_it(lab: Bay) -> None:
    learned: list[str] = []
    await lab.provider.provision(lab.context(register_secret=learned.append), "web", [1], spec())
    assert set(learned) == {lab.account.credential}


async def test_a_place_is_noted_before_the_first_machine_is_made_there(lab: Bay, gate: Gate) -> None:
    gate.refuse("RunInstances", 1, "InsufficientInstanceCapacity", 500)
    with pytest.raises(ActionFailed):
        await lab.provider.provision(lab.context(), "web", [1], spec())
    assert [(place.account_id, place.region) for _, place in lab.book.noted] == [("account-1", REGION)]


async def test_the_same_errand_again_makes_only_what_is_missing(lab: Bay) -> None:
    first = await lab.provider.provision(lab.context(), "web", [1], spec())
    both = await lab.provider.provision(lab.context(), "web", [1, 2], spec())
    assert both[0].id == first[0].id
    assert len(await lab.standing()) == 2


async def test_a_repeated_request_has_the_same_client_token_and_another_attempt_another(lab: Bay, gate: Gate) -> None:
    for attempt in (1, 1, 2):
        await lab.provider.provision(lab.context(attempt=attempt), "web", [1], spec())
        clouds.reset(gate.upstream)
    first, again, retried = gate.tokens
    assert first == again != retried
    assert len(first) <= 64


async def test_another_step_makes_machines_of_its_own(lab: Bay) -> None:
    await lab.provider.provision(lab.context(), "web", [1], spec())
    await lab.provider.provision(lab.context(tag="u"), "web", [2], spec())
    assert len(await lab.standing()) == 2


async def test_a_released_machine_is_gone_and_may_be_released_again(lab: Bay) -> None:
    first, second = await lab.provider.provision(lab.context(), "web", [1, 2], spec())
    await lab.provider.release(lab.context(), first)
    assert [node.id for node in await lab.standing()] == [second.id.rpartition("/")[2]]
    await lab.provider.release(lab.context(), first)
    unheard_of = msgspec.structs.replace(second, id=f"account-1/{REGION}/i-00000000000000000")
    await lab.provider.release(lab.context(), unheard_of)


async def test_a_quota_takes_down_what_was_made_and_is_told(lab: Bay, gate: Gate) -> None:
    gate.refuse("RunInstances", 3, "InstanceLimitExceeded")
    with pytest.raises(ActionFailed, match="InstanceLimitExceeded") as failed:
        await lab.provider.provision(lab.context(), "web", [1, 2, 3, 4], spec())
    assert failed.value.retryable
    assert gate.count("RunInstances") == 4
    assert await lab.standing() == []


async def test_a_list_that_the_service_divides_by_itself_is_read_to_its_end(lab: Bay, gate: Gate) -> None:
    numbers = list(range(1, 13))
    made = await lab.provider.provision(lab.context(), "web", numbers, spec())
    gate.page_size = 5
    before = gate.count("DescribeInstances")
    assert {each.id for each in await lab.provider.orphans(lab.context())} == {each.id for each in made}
    assert gate.count("DescribeInstances") - before == 3
    again = await lab.provider.provision(lab.context(), "web", numbers, spec())
    assert [each.id for each in again] == [each.id for each in made], "those on later pages are there, too"


async def test_a_recovery_that_cannot_find_its_machine_yet_gets_it_by_the_client_token(lab: Bay, gate: Gate) -> None:
    gate.honors_tokens = True
    [first] = await lab.provider.provision(lab.context(), "web", [1], spec())
    gate.blind = {("DescribeInstances", gate.count("DescribeInstances") + 1)}  # the search for what is there
    [again] = await lab.provider.provision(lab.context(), "web", [1], spec())
    assert again.id == first.id
    assert gate.count("RunInstances") == 2
    assert len(await lab.standing()) == 1


async def test_a_machine_that_the_cloud_does_not_know_yet_is_waited_for(lab: Bay, gate: Gate) -> None:
    gate.blind = {("DescribeInstances", nth) for nth in range(1, 5)}
    [machine] = await lab.provider.provision(lab.context(), "web", [1], spec())
    assert [f"account-1/{REGION}/{node.id}" for node in await lab.standing()] == [machine.id]
    assert gate.count("RunInstances") == 1


async def test_new_machines_that_the_cloud_does_not_know_yet_are_taken_down_all_the_same(lab: Bay, gate: Gate) -> None:
    gate.refuse("RunInstances", 2, "InstanceLimitExceeded")
    gate.blind = {("DescribeInstances", nth) for nth in range(1, 5)}
    gate.refuse("TerminateInstances", 1, "InvalidInstanceID.NotFound")
    with pytest.raises(ActionFailed, match="InstanceLimitExceeded") as failed:
        await lab.provider.provision(lab.context(), "web", [1, 2], spec())
    assert "left for the sweep" not in str(failed.value)
    assert gate.count("TerminateInstances") == 2
    gate.blind.clear()
    assert await lab.standing() == []


async def test_a_key_that_the_cloud_does_not_know_yet_is_tried_again_with_the_same_token(lab: Bay, gate: Gate) -> None:
    gate.refuse("RunInstances", 1, "InvalidKeyPair.NotFound")
    assert len(await lab.provider.provision(lab.context(), "web", [1], spec())) == 1
    assert len(gate.tokens) == 2
    assert len(set(gate.tokens)) == 1


async def test_machines_that_cannot_be_taken_down_are_told_as_left(lab: Bay, gate: Gate) -> None:
    gate.refuse("RunInstances", 2, "InstanceLimitExceeded")
    for nth in range(1, 10):
        gate.refuse("TerminateInstances", nth, "InternalError", 500)
    with pytest.raises(ActionFailed, match="Machines may be left for the sweep"):
        await lab.provider.provision(lab.context(), "web", [1, 2], spec())


async def test_an_image_that_is_not_there_is_refused_for_good_in_the_words_of_the_cloud(lab: Bay, gate: Gate) -> None:
    gate.refuse("RunInstances", 1, "InvalidAMIID.NotFound")
    with pytest.raises(ActionFailed, match="InvalidAMIID") as failed:
        await lab.provider.provision(lab.context(), "web", [1], spec(image="ami-ffffffff"))
    assert not failed.value.retryable


async def test_wrong_credentials_are_told_as_such(lab: Bay, gate: Gate) -> None:
    gate.refuse("DescribeInstances", 1, "AuthFailure", 401)
    with pytest.raises(ActionFailed, match="rejected the credentials") as failed:
        await lab.provider.provision(lab.context(), "web", [1], spec())
    assert not failed.value.retryable


async def test_strays_are_all_machines_of_the_instance_and_of_no_other(lab: Bay) -> None:
    made = await lab.provider.provision(lab.context(), "web", [1, 2], spec())
    await lab.provider.provision(lab.context(instance_id="5f00000000000000000000ff", tag="v"), "web", [1], spec())
    strays = await lab.provider.orphans(lab.context())
    assert sorted(machine.id for machine in strays) == sorted(machine.id for machine in made)
    assert {(machine.role, machine.provider) for machine in strays} == {("web", "cloud")}


async def test_two_installations_in_one_account_see_their_own_machines_only(
    lab: Bay, gate: Gate, tmp_path: Path
) -> None:
    other = bay(gate.url, tmp_path)
    other.book.id = "installation-2"
    await lab.provider.provision(lab.context(), "web", [1], spec())
    await other.provider.provision(other.context(), "web", [1], spec())
    assert len([found async for found in lab.provider.list_tagged(lab.context())]) == 1
    assert len(await lab.provider.orphans(lab.context())) == 1
    assert len(await lab.standing("installation-2")) == 1


async def test_a_key_pair_is_imported_once_under_a_name_made_of_the_key(lab: Bay, gate: Gate) -> None:
    await lab.provider.provision(lab.context(), "web", [1], spec(key_name="ops"))
    machines = await lab.provider.provision(lab.context(tag="u"), "web", [2], spec(key_name="ops"))
    assert machines[0].key_name == "ops"
    assert gate.count("ImportKeyPair") == 2


async def test_an_endpoint_that_the_rules_forbid_is_not_asked(gate: Gate, tmp_path: Path) -> None:
    guarded = bay(gate.url, tmp_path, allow="")
    with pytest.raises(ActionFailed, match=r"127\.0\.0\.1 is refused: it is a loopback address"):
        await guarded.provider.provision(guarded.context(), "web", [1], spec())
    assert gate.actions == []


@pytest.mark.parametrize("region", ["us-east-1.evil.example/", "127.0.0.1", "us east", ""])
async def test_a_region_cannot_lead_to_another_host(tmp_path: Path, region: str) -> None:
    aws = bay("", tmp_path, regions=(region,))
    with pytest.raises(ActionFailed, match="Invalid name of a region"):
        await aws.provider.provision(aws.context(), "web", [1], spec())


async def test_an_unknown_maker_of_clouds_is_refused_with_those_that_are_known(gate: Gate, tmp_path: Path) -> None:
    strange = bay(gate.url, tmp_path, provider="moon-base")
    with pytest.raises(ActionFailed, match=r"unsupported provider 'moon-base'\. Supported: aws-ec2, ec2"):
        await strange.provider.provision(strange.context(), "web", [1], spec())


async def test_an_account_of_the_manifest_is_kept_and_its_machines_are_released_with_it(lab: Bay, gate: Gate) -> None:
    own = {
        "jcloudsProvider": "aws-ec2",
        "jcloudsEndpoint": gate.url,
        "jcloudsIdentity": "AKIAOTHER",
        "jcloudsCredential": "secret",
    }
    [machine] = await lab.provider.provision(lab.context(), "web", [1], spec(location=REGION, settings=own))
    assert machine.id.startswith(f"given-AKIAOTHER/{REGION}/")
    await lab.provider.release(lab.context(), machine)
    assert await lab.standing() == []


async def test_without_a_fitting_account_the_offered_ones_are_told(lab: Bay) -> None:
    with pytest.raises(ActionFailed, match=r"matches\. It offers: 'lab' \(aws-ec2\)"):
        await lab.provider.provision(lab.context(), "web", [1], spec(settings={"jcloudsProvider": "openstack-nova"}))
    lab.book.accounts.append(replace(lab.account, id="account-2", name="other"))
    with pytest.raises(ActionFailed, match="Several cloud accounts of the environment match: 'lab'"):
        await lab.provider.provision(lab.context(), "web", [1], spec())


async def test_a_machine_of_an_account_that_was_deleted_is_told_as_left(lab: Bay) -> None:
    [machine] = await lab.provider.provision(lab.context(), "web", [1], spec())
    lab.book.accounts.clear()
    with pytest.raises(ActionFailed, match=r"The cloud account that created the machine i-.* was deleted"):
        await lab.provider.release(lab.context(), machine)
    assert await lab.provider.orphans(lab.context()) == []


async def test_private_addresses_are_the_ones_where_a_policy_says_so(lab: Bay) -> None:
    policies = {"machines.wait-for-ssh": False, "machines.address": "private", "machines.ssh-port": 2222}
    [machine] = await lab.provider.provision(lab.context(policies=policies), "web", [1], spec())
    assert (machine.host, machine.public_ip, machine.port) == (machine.private_ip, "", 2222)


async def test_a_machine_that_does_not_let_us_in_is_taken_down_again(lab: Bay) -> None:
    """moto's machines have public addresses and no SSH server, and this lab has no private key."""
    with pytest.raises(ActionFailed, match="no private key"):
        await lab.provider.provision(lab.context(policies={}), "web", [1, 2], spec())
    assert await lab.standing() == []


@needs_sshd
async def test_a_machine_at_an_address_that_the_rules_forbid_is_taken_down_again(gate: Gate, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    lab = bay(gate.url, tmp_path, keys=Keys((tmp_path / "key").read_text()))
    policies = {"machines.address": "private", "machines.start-timeout": 5}
    with pytest.raises(ActionFailed, match="is refused: it is a private network") as failed:
        await lab.provider.provision(lab.context(policies=policies), "web", [1], spec())
    assert not failed.value.retryable
    assert await lab.standing() == []


async def test_a_server_without_the_library_says_what_to_install(lab: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}", name="libcloud")

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(ActionFailed, match=r"libcloud is missing\. .*pip install 'launchbay\[clouds\]'"):
        await lab.provider.provision(lab.context(), "web", [1], spec())


STOPPED_AT = [
    ("DescribeInstances", 1),
    ("RunInstances", 1),
    ("RunInstances", 2),
    ("RunInstances", 3),
    ("DescribeInstances", 2),
]


@pytest.mark.parametrize(("action", "nth"), STOPPED_AT)
async def test_an_interrupted_errand_is_taken_up_again_and_leaves_no_stray(
    lab: Bay, gate: Gate, action: str, nth: int
) -> None:
    """The call is carried out and its answer lost, as in a crash; then the same context comes again."""
    reached, go_on = gate.hold(action, nth)
    task = asyncio.ensure_future(lab.provider.provision(lab.context(), "web", [1, 2, 3], spec()))
    assert await asyncio.to_thread(reached.wait, 60)
    task.cancel()
    await asyncio.wait({task})
    machines = await lab.provider.provision(lab.context(), "web", [1, 2, 3], spec())
    standing = await lab.standing()
    assert sorted(machine.id.rpartition("/")[2] for machine in machines) == [node.id for node in standing]
    assert [machine.number for machine in machines] == [1, 2, 3]
    go_on.set()


async def test_an_account_works_in_the_regions_that_let_it_in(moto_url: str) -> None:
    probe = PostgresAccountProbe(EgressClient(Allowlist.parse("127.0.0.1")))
    parameters = {
        "configuration.provider": "ec2",
        "configuration.identity": "AKIAIOSFODNN7EXAMPLE",
        "configuration.credential": "wJalrXUtnFEMI",
        "configuration.endpoint-url": moto_url,
    }
    assert list(probe.regions(parameters)) == ["us-east-1"]
    assert await probe.problem("", parameters, "us-east-1") is None
    closed = PostgresAccountProbe(EgressClient())
    assert "loopback" in str(await closed.problem("", parameters, "us-east-1"))
    elsewhere = parameters | {"configuration.endpoint-url": "http://127.0.0.1:9/"}
    told = str(await probe.problem("", elsewhere, "us-east-1"))
    assert told
    assert "wJalrXUtnFEMI" not in told


NETWORK = 77
FIRST = 4  # the first address of a subnet that is a machine's


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(FIRST + 1, network=NETWORK) as started:
        yield started


@needs_sshd
async def test_a_machine_is_made_when_it_lets_us_in_and_does_what_it_is_told(
    gate: Gate, hosts: Hosts, tmp_path: Path
) -> None:
    lab = bay(gate.url, tmp_path, allow="127.0.0.0/8", keys=Keys(hosts.private_key, hosts.public_key))
    policies = {"machines.address": "private", "machines.ssh-port": hosts[0].port, "machines.start-timeout": 60}
    settings = {"subnetId": loopback_subnet(gate.upstream, REGION, NETWORK)}
    asked = lab.context(policies=policies)
    machines = await lab.provider.provision(asked, "web", [1, 2], spec(login=LOGIN, settings=settings))
    assert {machine.host for machine in machines} == {f"127.0.{NETWORK}.{FIRST}", f"127.0.{NETWORK}.{FIRST + 1}"}
    result = await lab.provider.run(asked, machines[0], RemoteCommand(line="echo $((6 * 7))"))
    assert (result.stdout, result.exit_code) == ("42\n", 0)
    await lab.provider.put_file(asked, machines[1], "motd", b"hello")
    assert await lab.provider.get_file(asked, machines[1], "motd") == b"hello"


@needs_sshd
async def test_a_machine_that_shows_no_ssh_server_in_time_is_taken_down(
    gate: Gate, hosts: Hosts, tmp_path: Path
) -> None:
    lab = bay(gate.url, tmp_path, allow="127.0.0.0/8", keys=Keys(hosts.private_key, hosts.public_key))
    policies = {"machines.address": "private", "machines.ssh-port": 1, "machines.start-timeout": 1}
    settings = {"subnetId": loopback_subnet(gate.upstream, REGION, NETWORK)}
    with pytest.raises(ActionFailed, match="is unreachable"):
        await lab.provider.provision(lab.context(policies=policies), "web", [1], spec(login=LOGIN, settings=settings))
    assert await lab.standing() == []
