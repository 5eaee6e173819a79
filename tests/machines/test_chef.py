"""Chef on real hosts, with a stand-in for the program: cookbooks over HTTP, attributes there and back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext
from launchbay.machines.ssh import SshMachines
from launchbay.model.machine import ChefRun, Machine
from launchbay.telemetry.tracing import trace_parent
from tests.support.contexts import Log, context
from tests.support.machines import ISOLATED, LOGIN, Hosts, Shelf, archive, needs_sshd, parts, served_shelf, with_chef

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
pytestmark = [needs_sshd, pytest.mark.skipif(not ISOLATED, reason="the stand-in goes into a host's own PATH")]
COOKBOOKS = archive(
    ("repo/cookbooks/web/metadata.rb", b"name 'web'"),
    ("repo/cookbooks/web/recipes/default.rb", b""),
    ("repo/cookbooks/web/attributes/default.json", b'{"web": {"port": 80, "user": "www"}}'),
)


@pytest.fixture(scope="module")
def shelf() -> Iterator[Shelf]:
    with served_shelf(COOKBOOKS) as served:
        yield served


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(2, network=4) as started:
        with_chef(started[0])
        yield started


@pytest.fixture
def ssh(hosts: Hosts, tmp_path: Path) -> SshMachines:
    return SshMachines(parts(hosts, tmp_path))


def on(hosts: Hosts, number: int = 0) -> Machine:
    host = hosts[number]
    return Machine(
        id=host.address, role="web", provider="static", number=1, public_ip=host.address, port=host.port, login=LOGIN
    )


def asked(tag: str, **more: Any) -> ProviderContext:
    return context(tag=tag, job_id="5f00000000000000000000cc", **more)


@pytest.mark.parametrize("sudo", [False, True])
async def test_attributes_go_there_and_the_nodes_come_back(
    ssh: SshMachines, hosts: Hosts, shelf: Shelf, sudo: bool
) -> None:
    lines: list[str] = []
    chef = ChefRun(
        run_list=["web, recipe[web::other]"],
        recipe_url=shelf.url,
        attributes={"web": {"port": 8080, "it's": ["$(id)", "'quoted\"'"]}},
        sudo=sudo,
        sink=lambda stream, line: lines.append(line),
    )
    node = await ssh.converge(asked(f"there and back {sudo}"), on(hosts), chef)
    assert node["web"] == {"port": 8080, "user": "www", "it's": ["$(id)", "'quoted\"'"]}
    assert node["run_list"] == ["recipe[web]", "recipe[web::other]"]
    assert (node["uid"] == 0) is sudo
    assert lines == ["Chef stand-in: run list is ['recipe[web]', 'recipe[web::other]']"]
    left = sorted(path.name for path in (hosts[0].home / ".launchbay" / "chef").glob("*/*"))
    assert set(left) == {"node.json"}, "cookbooks and attributes, which may be secret, do not stay"


@pytest.mark.parametrize("sudo", [False, True])
async def test_recipes_find_the_trace_and_the_token_of_the_step(ssh: SshMachines, hosts: Hosts, sudo: bool) -> None:
    found = trace_parent.set(PARENT)
    try:
        chef = ChefRun(run_list=[], sudo=sudo, identity="canary-4410-of-the-step")
        node = await ssh.converge(asked(f"trace {sudo}"), on(hosts), chef)
    finally:
        trace_parent.reset(found)
    assert (node["trace"], node["token_chars"]) == (PARENT, len("canary-4410-of-the-step"))
    left = [path.read_bytes() for path in hosts[0].home.rglob("*") if path.is_file()]
    assert not any(b"canary-4410" in content for content in left), "it is gone with the run"


async def test_after_a_crash_the_run_is_adopted_and_fetches_nothing(
    ssh: SshMachines, hosts: Hosts, shelf: Shelf
) -> None:
    chef = ChefRun(run_list=["web"], recipe_url=shelf.url, sudo=False)
    first = await ssh.converge(asked("adopted"), on(hosts), chef)
    fetched, log = len(shelf.asked), Log()
    assert await ssh.converge(asked("adopted", log=log), on(hosts), chef) == first
    assert len(shelf.asked) == fetched
    assert any("was started before" in line for line in log)


@pytest.mark.parametrize(
    ("run_list", "path", "told"),
    [
        (["web::fail"], "/cookbooks.tar.gz", "ended with exit code 1: RuntimeError: the recipe failed"),
        (["other"], "/cookbooks.tar.gz", "Cookbook other not found"),
        (["web"], "/nothing", r"/nothing returned 404\."),
    ],
)
async def test_what_went_wrong_is_told(
    ssh: SshMachines, hosts: Hosts, shelf: Shelf, run_list: list[str], path: str, told: str
) -> None:
    with pytest.raises(ActionFailed, match=told):
        await ssh.converge(asked(told), on(hosts), ChefRun(run_list=run_list, recipe_url=shelf.base + path, sudo=False))


async def test_cookbooks_are_not_fetched_from_forbidden_addresses(hosts: Hosts, tmp_path: Path, shelf: Shelf) -> None:
    ssh = SshMachines(parts(hosts, tmp_path, allowed="127.0.4.0/24"))
    with pytest.raises(ActionFailed, match=r"127\.0\.0\.1 is refused: it is a loopback address"):
        await ssh.converge(asked("forbidden"), on(hosts), ChefRun(run_list=["web"], recipe_url=shelf.url, sudo=False))


async def test_a_host_without_chef_says_so(ssh: SshMachines, hosts: Hosts) -> None:
    with pytest.raises(ActionFailed, match="neither chef-solo nor cinc-solo is installed"):
        await ssh.converge(asked("none"), on(hosts, 1), ChefRun(run_list=["web"], sudo=False))


async def test_a_chef_server_is_not_there(ssh: SshMachines, hosts: Hosts) -> None:
    with pytest.raises(ActionFailed, match="A Chef server isn't supported"):
        await ssh.converge(asked("server"), on(hosts), ChefRun(run_list=["web"], solo=False))
