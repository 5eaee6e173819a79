"""Commands and files on machines behind jump hosts, all of them real OpenSSH servers."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from launchbay import limits
from launchbay.app.machines import CheckedResolver
from launchbay.egress.addresses import Allowlist
from launchbay.errors import ActionFailed, AddressRefused
from launchbay.machines import ssh_connection
from launchbay.machines.contract import ProviderContext
from launchbay.machines.ssh import SshMachines
from launchbay.machines.static import StaticMachines
from launchbay.model.machine import JumpHost, Machine, MachineSpec, RemoteCommand
from tests.support.contexts import Log, context
from tests.support.eventually import eventually
from tests.support.machines import ISOLATED, LOGIN, Host, Hosts, Keys, Pins, make_key, needs_sshd, parts

pytestmark = needs_sshd
SECOND_LOGIN = "plain" if ISOLATED else LOGIN


@dataclass
class Way:
    """Two jump hosts and a target, each with a key of its own."""

    hosts: Hosts
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def first(self) -> Host:
        return self.hosts[0]

    @property
    def second(self) -> Host:
        return self.hosts[1]

    @property
    def target(self) -> Host:
        return self.hosts[2]

    @property
    def policy(self) -> str:
        return f"{LOGIN}@{self.first.static_ip}=first,{SECOND_LOGIN}@{self.second.static_ip}=second"

    def machine(self) -> Machine:
        host = self.target
        return Machine(
            id="t", role="web", provider="static", number=1, public_ip=host.address, port=host.port, login=LOGIN
        )


@pytest.fixture(scope="module")
def way() -> Iterator[Way]:
    with Hosts.start(3, network=9) as hosts:
        found = Way(hosts)
        for name, host in zip(("first", "second", "target"), hosts.hosts, strict=True):
            make_key(hosts.directory / name)
            found.keys[name] = (hosts.directory / name).read_text()
            (host.directory / "authorized_keys").write_text((hosts.directory / f"{name}.pub").read_text())
        found.keys[""] = found.keys["target"]
        yield found


@pytest.fixture
def ssh(way: Way, tmp_path: Path) -> SshMachines:
    return machines(way, tmp_path)


def machines(way: Way, directory: Path, allowed: str = "127.0.0.0/8") -> SshMachines:
    return SshMachines(replace(parts(way.hosts, directory, allowed), keys=Keys(way.keys)))


def asked(
    way: Way, tag: str, log: Log | None = None, policies: Mapping[str, str] | None = None, **more: object
) -> ProviderContext:
    stated = {"machines.jump": way.policy, **(policies or {})}
    return context(log, tag=tag, job_id="5f00000000000000000000cc", policies=stated, **more)


def sign_ins(host: Host) -> int:
    return (host.directory / "sshd.log").read_text().count("Accepted publickey")


def established(host: Host) -> int:
    """Count the connections that the host's server has, from the kernel's table."""
    first, second, third, fourth = map(int, host.address.split("."))
    local = f"{fourth:02X}{third:02X}{second:02X}{first:02X}:{host.port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1] == local and row[3] == "01" for row in rows)


async def nothing_is_open(way: Way) -> None:
    await _until(lambda: not any(map(established, way.hosts.hosts)))


@contextlib.contextmanager
def only_lets_in(host: Host, public_key: str) -> Iterator[None]:
    file = host.directory / "authorized_keys"
    text = file.read_text()
    file.write_text(public_key)
    try:
        yield
    finally:
        file.write_text(text)


async def test_two_hops_with_accounts_and_keys_of_their_own_lead_to_the_machine(way: Way, ssh: SshMachines) -> None:
    before = [sign_ins(host) for host in way.hosts.hosts]
    step, machine = asked(way, "two"), way.machine()
    await ssh.wait_until_reachable(step, machine)
    result = await ssh.run(step, machine, RemoteCommand(line="echo hi; exit 3"))
    assert (result.stdout, result.exit_code) == ("hi\n", 3)
    name = str(way.target.work / "file")
    await ssh.put_file(step, machine, name, b"content")
    assert await ssh.get_file(step, machine, name) == b"content"
    await ssh.stop(step, machine)
    assert [sign_ins(host) - known for host, known in zip(way.hosts.hosts[1:], before[1:], strict=True)] == [5, 5]
    assert sign_ins(way.first) > before[0]
    if ISOLATED:
        assert "Accepted publickey for plain" in (way.second.directory / "sshd.log").read_text()


async def test_each_host_key_on_the_way_is_pinned_under_its_way(way: Way, tmp_path: Path) -> None:
    provided = replace(parts(way.hosts, tmp_path), keys=Keys(way.keys))
    ssh = SshMachines(provided)
    await ssh.wait_until_reachable(asked(way, "pins"), way.machine())
    assert isinstance(provided.host_keys, Pins)
    first, second, target = (host.static_ip for host in way.hosts.hosts)
    assert [name for _, name in provided.host_keys.pins] == [first, f"{second}@{first}", f"{target}@{second}@{first}"]
    await ssh.forget(asked(way, "pins"), way.machine())
    assert len(provided.host_keys.pins) == 2


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_another_host_key_anywhere_ends_the_way_there(way: Way, ssh: SshMachines, number: int) -> None:
    before = [sign_ins(host) for host in way.hosts.hosts]
    host = way.hosts[number]
    name = "@".join(each.static_ip for each in reversed(way.hosts.hosts[: number + 1]))
    told = f"Jump host {number + 1}, {host.static_ip}, has another host key: it shows {host.fingerprint()}"
    if host is way.target:
        told = f"The host key of {host.static_ip} (through {way.second.static_ip}) has changed: it shows"
    stated = {"machines.host-keys": f"{name}=SHA256:{'x' * 43}"}
    with pytest.raises(ActionFailed) as error:
        await ssh.run(asked(way, "key", policies=stated), way.machine(), RemoteCommand(line="true"))
    assert told in str(error.value)
    assert f"forget-host-key {name})" in str(error.value)
    assert not error.value.retryable
    assert [sign_ins(each) for each in way.hosts.hosts[number:]] == before[number:]
    await nothing_is_open(way)
    right = {"machines.host-keys": f"{host.static_ip}={host.fingerprint()}"}
    await ssh.wait_until_reachable(asked(way, "right", policies=right), way.machine())


async def test_a_hop_that_was_installed_anew_is_refused_until_its_key_is_forgotten(way: Way, tmp_path: Path) -> None:
    provided = replace(parts(way.hosts, tmp_path), keys=Keys(way.keys))
    ssh, step = SshMachines(provided), asked(way, "anew")
    await ssh.wait_until_reachable(step, way.machine())
    await nothing_is_open(way)
    way.first.new_host_key()
    with pytest.raises(ActionFailed, match=f"Jump host 1, {way.first.static_ip}, has another host key") as error:
        await ssh.wait_until_reachable(step, way.machine())
    assert not error.value.retryable
    await provided.host_keys.forget(step, way.first.static_ip)
    await ssh.wait_until_reachable(step, way.machine())


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_whoever_refuses_the_key_is_named(way: Way, ssh: SshMachines, number: int) -> None:
    before = [sign_ins(host) for host in way.hosts.hosts]
    host, name = way.hosts[number], ("first", "second", "")[number]
    login = (LOGIN, SECOND_LOGIN, LOGIN)[number]
    with (
        only_lets_in(host, way.hosts.public_key),
        pytest.raises(ActionFailed, match=rf"{host.static_ip}.* refused the login '{login}' with") as error,
    ):
        await ssh.run(asked(way, "refused"), way.machine(), RemoteCommand(line="true"))
    if host is way.target:
        assert f"{host.static_ip} (through {way.second.static_ip}) refused" in str(error.value)
        assert "Check vmIdentity" in str(error.value)
    else:
        assert f"Jump host {number + 1}, {host.static_ip}, refused" in str(error.value)
        assert f"the key pair '{name}'" in str(error.value)
        assert "Check the entry in machines.jump" in str(error.value)
    assert [sign_ins(each) for each in way.hosts.hosts[number:]] == before[number:]
    await nothing_is_open(way)


async def test_no_connection_stays_open_whatever_the_end(way: Way, ssh: SshMachines) -> None:
    assert (await ssh.run(asked(way, "done"), way.machine(), RemoteCommand(line="true"))).exit_code == 0
    await nothing_is_open(way)
    begun = way.target.work / "cancelled"
    line = f"touch {begun}; while :; do sleep 0.1; done"
    task = asyncio.create_task(ssh.run(asked(way, "cancelled"), way.machine(), RemoteCommand(line=line)))
    await _until(begun.exists)
    assert [established(host) for host in way.hosts.hosts] == [1, 1, 1]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await nothing_is_open(way)
    with pytest.raises(ActionFailed, match=r"took longer than 0\.5 s"):
        await ssh.run(asked(way, "late"), way.machine(), RemoteCommand(line="sleep 30", timeout_s=0.5))
    await nothing_is_open(way)


async def test_no_other_user_waits_for_one_that_is_cancelled_while_it_connects(way: Way, ssh: SshMachines) -> None:
    tasks = [asyncio.create_task(ssh.wait_until_reachable(asked(way, str(n)), way.machine())) for n in range(4)]
    await asyncio.sleep(0.01)
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == [None] * 3
    await nothing_is_open(way)


@pytest.mark.slow
async def test_a_hop_that_dies_during_a_command_is_reached_again_and_the_command_ran_once(
    way: Way, ssh: SshMachines
) -> None:
    for number, hop in enumerate((way.first, way.second)):
        seen: list[str] = []
        log, ledger, go_on = Log(), way.target.work / f"dies{number}", way.target.work / f"dies{number}.go"
        line = f"echo x | tee -a {ledger}; until [ -e {go_on} ]; do sleep 0.05; done; echo end"
        command = RemoteCommand(line=line, sink=partial(_append, seen))
        task = asyncio.create_task(ssh.run(asked(way, f"dies{number}", log), way.machine(), command))
        await _until(lambda seen=seen: "x" in seen)
        hop.restart()
        go_on.touch()
        assert (await task).stdout == "x\nend\n"
        assert ledger.read_text() == "x\n"
        assert seen == ["x", "end"]
        lost = [text for text in log if "Lost the connection" in text]
        assert f"Jump host {number + 1}, {hop.static_ip}, closed the connection" in lost[0]


@pytest.mark.slow
async def test_a_hop_that_falls_silent_is_noticed(way: Way, ssh: SshMachines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connection, "_KEEP_ALIVE_S", 0.2)
    ledger, go_on = way.target.work / "silent", way.target.work / "silent.go"
    line = f"echo x >> {ledger}; until [ -e {go_on} ]; do sleep 0.05; done; echo end"
    async with Relay(way.first) as relay:
        jump = {"machines.jump": f"{LOGIN}@{relay.place}=first,{SECOND_LOGIN}@{way.second.static_ip}=second"}
        step = asked(way, "silent", policies=jump)
        task = asyncio.create_task(ssh.run(step, way.machine(), RemoteCommand(line=line)))
        await _until(ledger.exists)
        relay.fall_silent()
        await _until(lambda: relay.connections == 2)
        go_on.touch()
        assert (await task).stdout == "end\n"
    assert ledger.read_text() == "x\n"


async def test_connections_through_a_hop_share_one_to_it_up_to_its_bound(
    way: Way, ssh: SshMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tunnels, connections in ((limits.JUMP_TUNNELS, 1), (4, 3)):
        monkeypatch.setattr(limits, "JUMP_TUNNELS", tunnels)
        begun, go_on = way.target.work / f"begun{tunnels}", way.target.work / f"go{tunnels}"
        line = f"echo x >> {begun}; until [ -e {go_on} ]; do sleep 0.1; done"
        jump = {"machines.jump": f"{LOGIN}@{way.first.static_ip}=first"}
        before = sign_ins(way.first)
        steps = [asked(way, f"many{tunnels}-{number}", policies=jump) for number in range(12)]
        tasks = [asyncio.create_task(ssh.run(step, way.machine(), RemoteCommand(line=line))) for step in steps]
        await _until(lambda begun=begun: begun.exists() and len(begun.read_text().split()) == 12)
        assert sign_ins(way.first) - before == connections
        tasks[0].cancel()  # who opened the connection leaves: the others stay on it
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        go_on.touch()
        assert [(await task).exit_code for task in tasks[1:]] == [0] * 11
        assert sign_ins(way.first) - before <= connections + 1  # ending the cancelled one may need another


async def test_a_connection_to_a_hop_is_not_shared_with_who_has_no_right_to_its_key(way: Way, ssh: SshMachines) -> None:
    go_on = way.target.work / "foreign.go"
    jump = {"machines.jump": f"{LOGIN}@{way.first.static_ip}=first"}
    begun = way.target.work / "foreign"
    line = f"touch {begun}; until [ -e {go_on} ]; do sleep 0.05; done"
    task = asyncio.create_task(ssh.run(asked(way, "owner", policies=jump), way.machine(), RemoteCommand(line=line)))
    await _until(begun.exists)
    before = sign_ins(way.first)
    other = asked(way, "foreign", policies=jump, environment_id="5f00000000000000000000ee")
    await ssh.wait_until_reachable(other, way.machine())
    assert sign_ins(way.first) == before + 1
    go_on.touch()
    await task


async def test_the_next_process_continues_where_the_log_ended_behind_a_hop_too(way: Way, tmp_path: Path) -> None:
    @dataclass
    class Positions:
        stored: dict[str, str] = field(default_factory=dict)

        def note(self, source: str, position: str) -> None:
            self.stored[source] = position

        async def find(self, source: str) -> str:
            return self.stored.get(source, "")

    seen: list[str] = []
    go_on = way.target.work / "continues"
    step = asked(way, "continues", handed_over=lambda: True, log_positions=Positions())
    line = f"seq 1 500; until [ -e {go_on} ]; do sleep 0.05; done; seq 501 900"
    command = RemoteCommand(line=line, sink=lambda _, text: seen.append(text))
    task = asyncio.create_task(machines(way, tmp_path).run(step, way.machine(), command))
    await _until(lambda: len(seen) == 500)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.touch()
    assert (await machines(way, tmp_path).run(step, way.machine(), command)).exit_code == 0
    assert seen == [str(number) for number in range(1, 901)]


async def test_addresses_are_checked_at_every_hop(way: Way, tmp_path: Path) -> None:
    before = [sign_ins(host) for host in way.hosts.hosts]
    for allowed, refused in (
        (way.target.address, way.first.address),
        (way.first.address, way.second.address),
        (f"{way.first.address},{way.second.address}", way.target.address),
    ):
        with pytest.raises(AddressRefused, match=rf"{refused} is refused: it is a loopback address"):
            await machines(way, tmp_path, allowed).wait_until_reachable(asked(way, "no"), way.machine())
    assert sign_ins(way.target) == before[2]
    assert sign_ins(way.second) - before[1] == 1


@pytest.mark.parametrize("host", ["localhost", "db.localhost.", "2130706433", "0x7f.1", "::1", "169.254.169.254"])
def test_no_spelling_of_a_forbidden_address_is_left_to_a_hop(host: str) -> None:
    with pytest.raises(AddressRefused):
        CheckedResolver(Allowlist()).unresolved(context(), host, 22)


def test_a_name_is_left_to_the_hop_and_an_address_gets_its_normal_form() -> None:
    resolver = CheckedResolver(Allowlist.parse("10.0.0.0/8"))
    assert resolver.unresolved(context(), "db.behind.example", 22) == "db.behind.example"
    assert resolver.unresolved(context(), "10.1", 22) == "10.0.0.1"


async def test_a_hop_that_forwards_nothing_says_so_and_one_that_reaches_nothing_is_tried_again(
    way: Way, ssh: SshMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MACHINE_CONNECT_S", 1.0)
    jump = {"machines.jump": f"{LOGIN}@{way.first.static_ip}=first"}
    nowhere = msgspec.structs.replace(way.machine(), port=1)
    told = rf"Jump host 1, .*, can't connect to {way.target.address}:1 \(Connection refused\)"
    with pytest.raises(ActionFailed, match=told) as error:
        await ssh.wait_until_reachable(asked(way, "nowhere", policies=jump), nowhere)
    assert error.value.retryable
    config = way.first.directory / "sshd_config"
    text = config.read_text()
    config.write_text(f"{text}AllowTcpForwarding no\n")
    way.first.restart()
    try:
        told = f"Jump host 1, {way.first.static_ip}, doesn't forward connections to {way.target.static_ip}: "
        with pytest.raises(ActionFailed) as error:
            await ssh.wait_until_reachable(asked(way, "closed", policies=jump), way.machine(), within_s=60)
        assert told in str(error.value)
        assert not error.value.retryable
    finally:
        config.write_text(text)
        way.first.restart()


async def test_the_way_of_a_step_or_a_resource_precedes_the_policy(way: Way, tmp_path: Path) -> None:
    provided = replace(parts(way.hosts, tmp_path), keys=Keys(way.keys))
    static = StaticMachines(provided)
    own = (JumpHost(address=way.first.address, port=way.first.port, login=LOGIN, key_name="first"),)
    broken = {"machines.jump": "nobody@127.0.9.77:1"}
    places = {0: f"{LOGIN}@{way.target.static_ip}"}
    [machine] = await static.adopt(asked(way, "step", policies=broken), "web", places, MachineSpec(jump=own))
    assert machine.jump == own
    [machine] = await static.adopt(asked(way, "direct", policies=broken), "web", places, MachineSpec(jump=()))
    assert machine.jump == ()
    [machine] = await static.adopt(asked(way, "policy"), "web", places, MachineSpec())
    assert machine.jump is None


async def test_a_policy_that_names_no_hosts_is_refused(way: Way, ssh: SshMachines) -> None:
    with pytest.raises(ActionFailed, match=r"Invalid policy machines\.jump of the environment: 'ops@:22'") as error:
        await ssh.wait_until_reachable(asked(way, "bad", policies={"machines.jump": "ops@:22"}), way.machine())
    assert not error.value.retryable


class Relay:
    """The way to a host; its connections can fall silent without being closed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._writers: list[asyncio.StreamWriter] = []
        self._silent: set[int] = set()
        self.connections = 0

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._serve, self._host.address, 0)
        self.place = f"{self._host.address}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def fall_silent(self) -> None:
        self._silent = set(range(1, self.connections + 1))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        there, back = await asyncio.open_connection(self._host.address, self._host.port)
        self._writers += [writer, back]
        await asyncio.gather(self._carry(number, reader, back), self._carry(number, there, writer))

    async def _carry(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if number not in self._silent:
                    writer.write(data)
                    await writer.drain()
        writer.close()


def _append(lines: list[str], _: str, text: str) -> None:
    lines.append(text)


async def _until(condition: object) -> None:
    assert callable(condition)
    await eventually(condition, within_s=60)
