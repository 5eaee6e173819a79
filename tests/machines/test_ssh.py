"""Commands and files on real OpenSSH servers."""

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from launchbay import limits
from launchbay.errors import ActionFailed, AddressRefused
from launchbay.machines.contract import ProviderContext
from launchbay.machines.ssh import SshMachines
from launchbay.model.machine import Machine, RemoteCommand
from launchbay.telemetry.tracing import trace_parent
from tests.support.contexts import Log, context
from tests.support.eventually import eventually
from tests.support.machines import LOGIN, UIDS, Host, Hosts, Pins, needs_isolated, needs_sshd, needs_sudo, parts

pytestmark = needs_sshd


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(2) as started:
        yield started


@pytest.fixture
def ssh(hosts: Hosts, tmp_path: Path) -> SshMachines:
    return SshMachines(parts(hosts, tmp_path))


def on(host: Host, login: str = LOGIN) -> Machine:
    return Machine(
        id=host.address, role="web", provider="static", number=1, public_ip=host.address, port=host.port, login=login
    )


def asked(request: pytest.FixtureRequest | str, log: Log | None = None, **more: object) -> ProviderContext:
    """A context of a step that no other test has."""
    return context(log, tag=str(request), job_id="5f00000000000000000000aa", **more)


async def test_a_command_gives_its_output_and_exit_code(ssh: SshMachines, hosts: Hosts) -> None:
    result = await ssh.run(asked("plain"), on(hosts[0]), RemoteCommand(line="echo hi; echo no >&2; exit 3"))
    assert (result.stdout, result.stderr, result.exit_code) == ("hi\n", "no\n", 3)


async def test_a_script_says_itself_who_reads_it_and_a_line_is_for_sh_or_the_shell_of_the_step(
    ssh: SshMachines, hosts: Hosts
) -> None:
    script = "#!/usr/bin/env perl\nprint 6 * 7;\n"
    assert (await ssh.run(asked("perl"), on(hosts[0]), RemoteCommand(line=script))).stdout == "42"
    line = "[[ -d ~ ]] && echo $0 | grep -q run && cat <<< yes"
    assert (await ssh.run(asked("bash"), on(hosts[0]), RemoteCommand(line=line, shell="bash"))).stdout == "yes\n"
    line = "echo ${BASH_VERSION:-none} $(readlink -f /proc/$$/exe)"
    [version, reader] = (await ssh.run(asked("sh"), on(hosts[0]), RemoteCommand(line=line))).stdout.split()
    assert version == "none" or reader == str(Path("/bin/sh").resolve())


async def test_a_command_continues_the_trace_of_its_step(ssh: SshMachines, hosts: Hosts) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    show = "echo ${TRACEPARENT-none}"
    found = trace_parent.set(parent)
    try:
        for command in (RemoteCommand(line=show), RemoteCommand(line="sh", arguments=("-c", show))):
            result = await ssh.run(asked(f"trace of {command.kind}"), on(hosts[0]), command)
            assert result.stdout == f"{parent}\n", result
    finally:
        trace_parent.reset(found)
    result = await ssh.run(asked("no trace"), on(hosts[0]), RemoteCommand(line=show))
    assert result.stdout == "none\n"


async def test_output_comes_line_by_line_while_the_command_runs(ssh: SshMachines, hosts: Hosts) -> None:
    seen: list[tuple[str, str]] = []
    go_on = hosts[0].work / "go-on"

    def sink(stream: str, line: str) -> None:
        seen.append((stream, line))
        go_on.touch()

    line = f"echo first; until [ -e {go_on} ]; do sleep 0.05; done; echo second >&2; printf last"
    result = await ssh.run(asked("live"), on(hosts[0]), RemoteCommand(line=line, sink=sink))
    assert seen == [("stdout", "first"), ("stderr", "second"), ("stdout", "last")]
    assert (result.stdout, result.stderr) == ("first\nlast", "second\n")


async def test_the_same_attempt_adopts_its_command_and_the_next_one_runs_it_again(
    ssh: SshMachines, hosts: Hosts
) -> None:
    ledger = hosts[0].work / "adopted"
    command = RemoteCommand(line=f"echo x >> {ledger}; wc -l < {ledger}; exit 4")
    log = Log()
    for _ in range(2):
        result = await ssh.run(asked("twice", log), on(hosts[0]), command)
        assert (result.stdout, result.exit_code) == ("1\n", 4)
    assert any("was started before" in line for line in log)
    assert (await ssh.run(asked("twice", attempt=2), on(hosts[0]), command)).stdout == "2\n"


@pytest.mark.slow
async def test_a_cancelled_command_dies_with_all_its_processes(
    ssh: SshMachines, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COMMAND_STOP_S", 0.5)
    mark = hosts[0].work / "children"
    line = f"(trap '' TERM; sleep 300 & echo $! >> {mark}; wait) & echo $! >> {mark}; wait"
    task = asyncio.create_task(ssh.run(asked("cancelled"), on(hosts[0]), RemoteCommand(line=line)))
    await _until(lambda: mark.exists() and len(mark.read_text().split()) == 2)
    assert await _alive(ssh, hosts[0], mark)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await _alive(ssh, hosts[0], mark)


async def test_a_command_whose_job_goes_on_elsewhere_runs_on_and_is_adopted(ssh: SshMachines, hosts: Hosts) -> None:
    begun, go_on, ledger = (hosts[0].work / name for name in ("begun", "ends", "effects"))
    line = f"echo x >> {ledger}; touch {begun}; until [ -e {go_on} ]; do sleep 0.05; done; echo done"
    step = asked("elsewhere", handed_over=lambda: True)
    task = asyncio.create_task(ssh.run(step, on(hosts[0]), RemoteCommand(line=line)))
    await _until(begun.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = asyncio.create_task(ssh.run(step, on(hosts[0]), RemoteCommand(line=line)))
    go_on.touch()
    assert (await again).stdout == "done\n"
    assert ledger.read_text() == "x\n"


async def test_the_next_process_continues_where_the_log_ended(ssh: SshMachines, hosts: Hosts) -> None:
    @dataclass
    class Positions:
        stored: dict[str, str] = field(default_factory=dict)

        def note(self, source: str, position: str) -> None:
            self.stored[source] = position

        async def find(self, source: str) -> str:
            return self.stored.get(source, "")

    seen: list[str] = []
    go_on = hosts[0].work / "continues"
    step = asked("continues", handed_over=lambda: True, log_positions=Positions())
    line = f"seq 1 500; printf half; until [ -e {go_on} ]; do sleep 0.05; done; echo ' line'; seq 501 900"
    command = RemoteCommand(line=line, sink=lambda _, text: seen.append(text))
    task = asyncio.create_task(ssh.run(step, on(hosts[0]), command))
    await _until(lambda: len(seen) == 500)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.touch()
    for _ in range(2):  # and it may die after the end of the command
        assert (await ssh.run(step, on(hosts[0]), command)).exit_code == 0
    numbers = [str(number) for number in range(1, 901)]
    assert seen == [*numbers[:500], "half line", *numbers[500:]]


async def test_all_commands_of_a_job_are_ended_together_and_those_that_did_not_begin_never_do(
    ssh: SshMachines, hosts: Hosts
) -> None:
    begun = hosts[0].work / "stopped"
    step = replace(asked("stopped", handed_over=lambda: True), job_id="5f00000000000000000000bb")
    task = asyncio.create_task(ssh.run(step, on(hosts[0]), RemoteCommand(line=f"touch {begun}; sleep 300")))
    await _until(begun.exists)
    await ssh.stop(step, on(hosts[0]))
    assert (await task).exit_code == 143


@pytest.mark.slow
async def test_a_command_that_takes_too_long_is_ended(ssh: SshMachines, hosts: Hosts) -> None:
    mark = hosts[0].work / "slow"
    command = RemoteCommand(line=f"echo $$ > {mark}; sleep 300", timeout_s=1.0)
    with pytest.raises(ActionFailed, match="took longer than 1 s and was stopped"):
        await ssh.run(asked("slow"), on(hosts[0]), command)
    assert not await _alive(ssh, hosts[0], mark)


async def test_of_a_long_output_the_middle_is_left_out(ssh: SshMachines, hosts: Hosts) -> None:
    command = RemoteCommand(line="seq 1 100000", keep_bytes=1000)
    for _ in range(2):
        stdout = (await ssh.run(asked("long"), on(hosts[0]), command)).stdout
        assert stdout.startswith("1\n2\n")
        assert stdout.endswith("99999\n100000\n")
        assert "bytes are left out here" in stdout
        assert len(stdout) < 1200


async def test_a_command_that_writes_without_end_is_ended(
    ssh: SshMachines, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COMMAND_OUTPUT_BYTES", limits.MIB)
    mark = hosts[0].work / "endless"
    with pytest.raises(ActionFailed, match=r"wrote more than 1 MiB and was stopped") as error:
        await ssh.run(asked("endless"), on(hosts[0]), RemoteCommand(line=f"echo $$ > {mark}; exec yes"))
    assert not error.value.retryable
    assert not await _alive(ssh, hosts[0], mark)


async def test_a_connection_that_breaks_is_made_again_and_the_command_runs_on(ssh: SshMachines, hosts: Hosts) -> None:
    seen: list[str] = []
    log, ledger, go_on = Log(), hosts[0].work / "broken", hosts[0].work / "broken.go"
    line = f"echo x | tee -a {ledger}; until [ -e {go_on} ]; do sleep 0.05; done; echo end"
    async with Wire(hosts[0]) as wire:
        command = RemoteCommand(line=line, sink=lambda _, text: seen.append(text))
        task = asyncio.create_task(ssh.run(asked("broken", log), wire.machine, command))
        await _until(lambda: "x" in seen)
        wire.cut()
        await _until(lambda: wire.connections == 2)
        go_on.touch()
        assert (await task).stdout == "x\nend\n"
    assert ledger.read_text() == "x\n"
    assert seen == ["x", "end"]
    assert any("Lost the connection to 127.0.1.1" in text for text in log)


async def test_a_host_that_stays_out_of_reach_fails_the_command(
    ssh: SshMachines, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MACHINE_CONNECT_S", 0.2)
    nowhere = msgspec.structs.replace(on(hosts[0]), port=1)
    told = r"127\.0\.1\.1 has been unreachable for \d+ s: 127\.0\.1\.1:1 is unreachable"
    with pytest.raises(ActionFailed, match=told):
        await ssh.run(asked("nowhere"), nowhere, RemoteCommand(line="true"))


@needs_sudo
async def test_sudo_makes_the_superuser_and_without_it_there_is_none(ssh: SshMachines, hosts: Hosts) -> None:
    machine = on(hosts[0])
    assert (await ssh.run(asked("user"), machine, RemoteCommand(line="id -un"))).stdout == "ops\n"
    assert (await ssh.run(asked("root"), machine, RemoteCommand(line="id -un", sudo=True))).stdout == "root\n"
    refused = await ssh.run(asked("no"), on(hosts[0], "plain"), RemoteCommand(line="id -un", sudo=True))
    assert refused.exit_code == 1
    assert "password is required" in refused.stderr


@needs_sudo
async def test_a_cancelled_command_of_the_superuser_dies_too(ssh: SshMachines, hosts: Hosts) -> None:
    mark = hosts[0].work / "of-root"
    line = f"echo $$ > {mark}; sleep 300"
    task = asyncio.create_task(ssh.run(asked("root-dies"), on(hosts[0]), RemoteCommand(line=line, sudo=True)))
    await _until(lambda: mark.exists() and mark.read_text().strip() != "")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await _alive(ssh, hosts[0], mark, sudo=True)


@pytest.mark.slow
@needs_sudo
async def test_a_command_that_vanished_with_its_machine_is_not_run_again_by_itself(
    ssh: SshMachines, hosts: Hosts
) -> None:
    ledger = hosts[1].work / "vanished"
    task = asyncio.create_task(
        ssh.run(asked("vanished"), on(hosts[1]), RemoteCommand(line=f"echo x >> {ledger}; sleep 300"))
    )
    await _until(lambda: ledger.exists() and ledger.read_text() != "")
    hosts[1].restart()
    with pytest.raises(ActionFailed, match="vanished without an exit code"):
        await task
    assert ledger.read_text() == "x\n"


@needs_isolated
async def test_a_read_only_tmp_is_not_needed_and_without_any_place_each_is_named(
    ssh: SshMachines, hosts: Hosts
) -> None:
    host = hosts[1]
    command = RemoteCommand(line="touch /tmp/mine; echo done")
    result = await ssh.run(asked("read-only"), on(host), command)
    assert result.stdout == "done\n"
    assert "Read-only file system" in result.stderr
    (host.directory / "mounts").write_text("mount -t tmpfs -o ro tmpfs /dev/shm\n")
    host.home.chmod(0o500)
    os.chown(host.home, 0, 0)
    host.restart()
    try:
        with pytest.raises(ActionFailed) as error:
            await ssh.run(asked("no place"), on(host), command)
    finally:
        (host.directory / "mounts").unlink()
        os.chown(host.home, UIDS["ops"], UIDS["ops"])
        host.home.chmod(0o755)
        host.restart()
    assert "it has no place to write in: " in str(error.value)
    for place, reason in (("/tmp", "Read-only file system"), ("/var/tmp", "Read-only"), ("/dev/shm", "Read-only")):
        assert re.search(rf"{place}/\.launchbay-\d+ \({reason}", str(error.value)), str(error.value)
    assert f"{host.home}/.launchbay (Permission denied)" in str(error.value)


async def test_files_are_put_and_got(ssh: SshMachines, hosts: Hosts) -> None:
    name = str(hosts[0].work / "file")
    for content in (b"one\0\xff", b"two"):
        await ssh.put_file(asked("put"), on(hosts[0]), name, content)
        assert await ssh.get_file(asked("get"), on(hosts[0]), name) == content
    with pytest.raises(ActionFailed, match=r"Can't access the file /nowhere on 127\.0\.1\.1: No such file"):
        await ssh.get_file(asked("get"), on(hosts[0]), "/nowhere")


async def test_the_first_host_key_is_pinned_and_another_one_is_refused(hosts: Hosts, tmp_path: Path) -> None:
    provided = parts(hosts, tmp_path)
    ssh, host = SshMachines(provided), hosts[1]
    await ssh.wait_until_reachable(asked("pin"), on(host))
    host.new_host_key()
    with pytest.raises(ActionFailed, match=r"The host key of .* has changed: it shows SHA256:.*, and SHA256:") as error:
        await ssh.wait_until_reachable(asked("pin"), on(host), within_s=60)
    assert not error.value.retryable
    assert f"launchbay organization forget-host-key {host.static_ip}" in str(error.value)
    shown = str(error.value).partition("it shows ")[2].partition(",")[0]
    accepting = asked("pin", policies={"machines.host-keys": f"other:22=SHA256:x,{host.static_ip}={shown}"})
    await ssh.wait_until_reachable(accepting, on(host))
    await ssh.forget(asked("pin"), on(host))
    await ssh.wait_until_reachable(asked("pin"), on(host))
    assert isinstance(provided.host_keys, Pins)
    assert [host for _, host in provided.host_keys.pins] == [f"{host.address}:{host.port}"]


async def test_a_stated_fingerprint_may_be_of_any_key_that_the_host_has(hosts: Hosts, tmp_path: Path) -> None:
    ssh, host = SshMachines(parts(hosts, tmp_path)), hosts[1]
    host.new_host_key("ed25519", "rsa", "ecdsa")
    for number in range(3):
        stated = {"machines.host-keys": f"{host.static_ip}={host.fingerprint(number)}"}
        await ssh.wait_until_reachable(asked("any key", policies=stated), on(host))
    stated = {"machines.host-keys": f"{host.static_ip}=SHA256:{'x' * 43}"}
    with pytest.raises(ActionFailed, match="has changed: it shows SHA256") as error:
        await ssh.wait_until_reachable(asked("no key", policies=stated), on(host), within_s=60)
    for number, kind in enumerate(("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256")):
        assert f"{host.fingerprint(number)} ({kind})" in str(error.value)


async def test_a_type_of_key_that_has_gone_from_the_host_is_no_outage(hosts: Hosts, tmp_path: Path) -> None:
    ssh, host = SshMachines(parts(hosts, tmp_path)), hosts[1]
    host.new_host_key("ed25519")
    await ssh.wait_until_reachable(asked("gone"), on(host))
    host.new_host_key("rsa")
    told = r"no longer has a host key of the pinned type ssh-ed25519: it has SHA256:.* \(ssh-rsa\)"
    with pytest.raises(ActionFailed, match=told) as error:
        await ssh.run(asked("gone"), on(host), RemoteCommand(line="true"))
    assert not error.value.retryable
    accepting = asked("accept", policies={"machines.host-keys": f"{host.static_ip}={host.fingerprint()}"})
    assert f"{host.static_ip}={host.fingerprint()}" in str(error.value)
    await ssh.wait_until_reachable(accepting, on(host))


async def test_an_address_that_the_rules_forbid_is_not_dialled(hosts: Hosts, tmp_path: Path) -> None:
    ssh = SshMachines(parts(hosts, tmp_path, allowed="127.0.1.77"))
    with pytest.raises(AddressRefused, match=r"127\.0\.1\.1 is refused: it is a loopback address"):
        await ssh.wait_until_reachable(asked("refused"), on(hosts[0]))


async def test_who_is_not_let_in_is_told_what_to_check(ssh: SshMachines, hosts: Hosts) -> None:
    with pytest.raises(ActionFailed, match=r"refused the login 'nobody-here' with the environment's key pair\. Check"):
        await ssh.wait_until_reachable(asked("login"), on(hosts[0], "nobody-here"))


class Wire:
    """A connection to a host that can be cut."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._writers: list[asyncio.StreamWriter] = []
        self.connections = 0

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._serve, self._host.address, 0)
        port = self._server.sockets[0].getsockname()[1]
        self.machine = msgspec.structs.replace(on(self._host), port=port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, back = await asyncio.open_connection(self._host.address, self._host.port)
        self._writers += [writer, back]
        await asyncio.gather(_carry(reader, back), _carry(there, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _until(condition: object) -> None:
    assert callable(condition)
    await eventually(condition)


async def _alive(ssh: SshMachines, host: Host, mark: Path, *, sudo: bool = False) -> bool:
    """Tell whether one of the processes that are written there still runs, as the machine sees it."""
    line = (
        f"for pid in $(cat {mark}); do [ ! -d /proc/$pid ] || grep -q 'State:.Z' /proc/$pid/status || echo $pid; done"
    )
    asker = asked(f"alive {mark} {asyncio.get_running_loop().time()}")
    return bool((await ssh.run(asker, on(host), RemoteCommand(line=line, sudo=sudo))).stdout)
