"""Machines that are directories of this server."""

import asyncio
import io
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.machines.local import LocalMachines, receive
from launchbay.machines.registry import Providers
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus
from launchbay.model.machine import ChefRun, Machine, MachineSpec, RemoteCommand
from launchbay.planning.plans import plan_destroy, plan_launch
from tests.support.contexts import context
from tests.support.eventually import eventually
from tests.support.machines import PACKAGE, Hosts, parts, workflow
from tests.support.runtime import SUCCEEDED, Instance, instance

ENVIRONMENT = context().environment_id
LAUNCH = plan_launch({}, InstanceStatus.REQUESTED)
DESTROY = plan_destroy(InstanceStatus.RUNNING)
OUTGOING = EgressClient(Allowlist())


async def no_names(_: str, __: str) -> list[str]:
    """Find no name of any environment."""
    return []


@pytest.fixture
def local(tmp_path: Path) -> LocalMachines:
    return LocalMachines(parts(Hosts(tmp_path, "", ""), tmp_path, outgoing=OUTGOING), [ENVIRONMENT], no_names)


async def made(local: LocalMachines, **more: Any) -> Machine:
    [machine] = await local.provision(context(**more), "web", [1], MachineSpec())
    return machine


def on(local: LocalMachines, text: str, **policies: Any) -> Instance:
    return instance(
        text, machines=Providers([(PACKAGE, local)], local.name), environment=EnvironmentView(policies=policies)
    )


async def test_a_machine_is_a_directory_that_goes_with_its_instance(local: LocalMachines, tmp_path: Path) -> None:
    live = on(
        local,
        workflow(
            "web: {action: provisionVms, parameters: {roleName: web, quantity: 2}, output: {ips: ips}}",
            "run: {action: execrun, parameters: {roles: [web], command: ['pwd; echo x > file']},"
            " output: {out: stdout}}",
            returns="{ips: {value: '{$.ips}'}, out: {value: '{$.out}'}}",
        ),
    )
    assert await live.run(LAUNCH) == SUCCEEDED
    results = {name.rpartition(".")[2]: value for name, value in live.results.items()}
    assert results["ips"] == ["127.1.0.1", "127.1.0.2"]
    places = [Path(place) for place in results["out"].values()]
    assert [(place / "file").read_text() for place in places] == ["x\n", "x\n"]
    assert all(place.is_relative_to(tmp_path) for place in places)
    assert await live.run(DESTROY) == SUCCEEDED
    assert not any(place.exists() for place in places)


async def test_commands_have_nothing_of_the_servers_environment(
    local: LocalMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHBAY_ADMIN_PASSWORD", "hidden")
    machine = await made(local)
    result = await local.run(context(), machine, RemoteCommand(line="env | cut -d= -f1 | sort | tr '\\n' ' '"))
    assert set(result.stdout.split()) <= {"HOME", "LANG", "PATH", "PWD", "SHELL", "SHLVL", "OLDPWD", "_"}
    assert {"HOME", "PATH"} <= set(result.stdout.split())


@pytest.mark.parametrize("line", ["setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!", "sleep 300 & echo $!"])
async def test_a_process_in_the_background_does_not_keep_its_command(local: LocalMachines, line: str) -> None:
    machine = await made(local)
    async with asyncio.timeout(30):
        result = await local.run(context(), machine, RemoteCommand(line=line))
    background = int(result.stdout)
    try:
        assert result.exit_code == 0
        opened = [path.readlink().as_posix() for path in Path(f"/proc/{background}/fd").iterdir()]
        assert [each for each in opened if each.startswith("pipe:")] == []
    finally:
        os.kill(background, signal.SIGKILL)


@pytest.mark.slow
async def test_a_cancelled_command_dies_with_its_children(local: LocalMachines, tmp_path: Path) -> None:
    machine, mark = await made(local), tmp_path / "mark"
    line = f"(trap '' TERM; sleep 300 & echo $! >> {mark}; wait) & echo $! >> {mark}; wait"
    task = asyncio.create_task(local.run(context(), machine, RemoteCommand(line=line)))
    await eventually(lambda: mark.exists() and len(mark.read_text().split()) >= 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # a busy machine takes its time to bury what was killed
    await eventually(lambda: not any(_runs(pid) for pid in mark.read_text().split()))


@pytest.mark.slow
async def test_release_ends_what_still_runs(local: LocalMachines, tmp_path: Path) -> None:
    machine, mark = await made(local), tmp_path / "mark"
    step = context(handed_over=lambda: True)
    task = asyncio.create_task(local.run(step, machine, RemoteCommand(line=f"echo $$ > {mark}; sleep 300")))
    await eventually(lambda: mark.exists() and mark.read_text().strip())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _runs(mark.read_text().strip())
    await local.release(context(), machine)
    assert not _runs(mark.read_text().strip())
    await local.release(context(), machine)
    assert await local.orphans(context()) == []


async def test_only_environments_that_the_operator_named_may(tmp_path: Path) -> None:
    given = parts(Hosts(tmp_path, "", ""), tmp_path, outgoing=OUTGOING)
    for allowed in ([], ["5f00000000000000000000ff"]):
        with pytest.raises(ActionFailed, match="not allowed in this environment"):
            await made(LocalMachines(given, allowed, no_names))
    for allowed in (["*"], [context().organization_id], [ENVIRONMENT]):
        machine = await made(LocalMachines(given, allowed, no_names))
    with pytest.raises(ActionFailed, match="not allowed in this environment"):
        await made(LocalMachines(given, ["*"], no_names), policies={"machines.local": False})
    with pytest.raises(ActionFailed, match="not allowed in this environment"):
        await LocalMachines(given, [], no_names).run(context(), machine, RemoteCommand(line="true"))


async def test_an_interrupted_provision_makes_no_second_directory(local: LocalMachines) -> None:
    assert (await made(local)).id == (await made(local)).id
    assert len(await local.orphans(context())) == 1


async def test_files_stay_inside_of_the_directory(local: LocalMachines, tmp_path: Path) -> None:
    machine = await made(local)
    await local.put_file(context(), machine, "a", b"one")
    assert await local.get_file(context(), machine, "a") == b"one"
    await local.run(context(), machine, RemoteCommand(line="ln -s / out"))
    for name in ("../x", "/etc/passwd", "out/etc/passwd", "."):
        with pytest.raises(ActionFailed, match="not in the directory"):
            await local.get_file(context(), machine, name)
        with pytest.raises(ActionFailed, match="not in the directory"):
            await local.put_file(context(), machine, name, b"")
    with pytest.raises(ActionFailed, match="Can't read the file nothing: No such file"):
        await local.get_file(context(), machine, "nothing")


async def test_there_is_no_superuser_and_nothing_to_adopt(local: LocalMachines) -> None:
    machine = await made(local)
    with pytest.raises(ActionFailed, match="no superuser"):
        await local.run(context(), machine, RemoteCommand(line="id", sudo=True))
    with pytest.raises(ActionFailed, match="no superuser"):
        await local.converge(context(), machine, ChefRun(run_list=["x"]))
    with pytest.raises(ActionFailed, match=r"Can't adopt 127\.0\.0\.1"):
        await local.adopt(context(), "web", {1: "127.0.0.1"}, MachineSpec())


def _runs(pid: str) -> bool:
    try:
        return "Z (zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


async def test_the_pipe_of_a_command_is_still_open_when_its_file_is_closed() -> None:
    """Otherwise another thread may have opened a file with its number, which then gets closed."""
    reading, writing = os.pipe()
    was_open = []

    class Pipe(io.FileIO):
        def close(self) -> None:
            if not self.closed:
                was_open.append(Path(f"/proc/self/fd/{reading}").exists())
            super().close()

    got = bytearray()
    os.write(writing, b"ahoy")
    os.close(writing)
    await receive(Pipe(reading, "rb"), got.extend)
    assert (bytes(got), was_open) == (b"ahoy", [True])
