"""Containers as machines, in a real Podman."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from launchbay.errors import ActionFailed
from launchbay.limits import MACHINE_FILE_BYTES
from launchbay.machines.containers.engine_api import EngineApi
from launchbay.machines.containers.provider import ContainerMachines
from launchbay.model.machine import Machine, MachineSpec, RemoteCommand
from tests.support.containers import ALLOWED, IMAGE, OUTGOING, Here, NoPodman, Podman, asked, standing
from tests.support.contexts import Log, context
from tests.support.eventually import eventually

SPEC = MachineSpec(image=IMAGE)


@pytest.fixture
def provider(engine: EngineApi) -> ContainerMachines:
    return ContainerMachines(engine, Here(), ALLOWED, OUTGOING)


@pytest.fixture
async def machine(provider: ContainerMachines) -> Machine:
    [made] = await provider.provision(asked(), "web", [1], SPEC)
    return made


async def test_containers_are_made_with_labels_and_run(provider: ContainerMachines, engine: EngineApi) -> None:
    machines = await provider.provision(asked(), "web", [3, 4], SPEC)
    assert [machine.number for machine in machines] == [3, 4]
    assert len({machine.host for machine in machines}) == 2
    found = [each async for each in provider.list_tagged(asked())]
    assert {(each.tags.number, each.tags.role, each.tags.tag) for each in found} == {
        (3, "web", "t"),
        (4, "web", "t"),
    }
    assert all(each.created_at is not None for each in found)
    assert await hosts_of(provider, machines) == ["web-3", "web-4"]


async def test_the_same_errand_again_makes_only_what_is_missing(provider: ContainerMachines, engine: EngineApi) -> None:
    [first] = await provider.provision(asked(), "web", [1], SPEC)
    both = await provider.provision(asked(), "web", [1, 2], SPEC)
    assert both[0].id == first.id
    assert await standing(engine) == 2


async def test_a_container_that_was_created_and_not_started_is_taken_up(
    provider: ContainerMachines, engine: EngineApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(self: EngineApi, container: str) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(EngineApi, "start", crash)
        with pytest.raises(asyncio.CancelledError):
            await provider.provision(asked(), "web", [1], SPEC)
    assert await standing(engine) == 1
    [machine] = await provider.provision(asked(), "web", [1], SPEC)
    assert await hosts_of(provider, [machine]) == ["web-1"]
    assert await standing(engine) == 1


async def test_a_failure_takes_down_what_was_made(provider: ContainerMachines, engine: EngineApi) -> None:
    ends = MachineSpec(image=IMAGE, settings={"providerSettings": {"command": ["true"]}})
    with pytest.raises(ActionFailed, match="ended immediately"):
        await provider.provision(asked(), "web", [1, 2], ends)
    assert await standing(engine) == 0


async def test_an_image_that_is_not_there_is_told_and_not_pulled(provider: ContainerMachines) -> None:
    with pytest.raises(
        ActionFailed, match=r"has no image 'localhost/nothing:1'\. An administrator can add it"
    ) as failed:
        await provider.provision(asked(), "web", [1], MachineSpec(image="localhost/nothing:1"))
    assert not failed.value.retryable


async def test_a_released_container_is_gone_and_may_be_released_again(
    provider: ContainerMachines, engine: EngineApi, machine: Machine
) -> None:
    await provider.release(asked(), machine)
    assert await standing(engine) == 0
    await provider.release(asked(), machine)


async def test_strays_are_those_of_the_instance_and_installation(
    provider: ContainerMachines, engine: EngineApi, machine: Machine
) -> None:
    other = ContainerMachines(engine, Here("installation-2"), ALLOWED, OUTGOING)
    await other.provision(asked(), "web", [1], SPEC)
    await provider.provision(asked(instance_id="5f00000000000000000000ff", tag="u"), "web", [1], SPEC)
    assert [each.id for each in await provider.orphans(asked())] == [machine.id]
    assert len([each async for each in provider.list_tagged(asked())]) == 2


async def test_a_command_gives_its_output_line_by_line_and_its_exit_code(
    provider: ContainerMachines, machine: Machine
) -> None:
    lines: list[tuple[str, str]] = []
    command = RemoteCommand(
        line="echo one; echo two >&2; sleep 0.3; printf three; exit 7", sink=lambda *line: lines.append(line)
    )
    result = await provider.run(asked(), machine, command)
    assert (result.stdout, result.stderr, result.exit_code) == ("one\nthree", "two\n", 7)
    assert sorted(lines) == [("stderr", "two"), ("stdout", "one"), ("stdout", "three")]


async def test_a_long_script_and_odd_characters_arrive_as_they_are(
    provider: ContainerMachines, machine: Machine
) -> None:
    text = "".join(f"# {number} ' \" $ \\ ü\n" for number in range(20_000)) + "echo 'ä\"$X`'\n"
    result = await provider.run(asked(), machine, RemoteCommand(line=text))
    assert (result.stdout, result.exit_code) == ('ä"$X`\n', 0)


async def test_a_command_runs_once_however_often_the_same_attempt_asks(
    provider: ContainerMachines, machine: Machine
) -> None:
    command = RemoteCommand(line="echo x >>/tmp/ledger; wc -l </tmp/ledger")
    first = await provider.run(asked(), machine, command)
    again = await provider.run(asked(), machine, command)
    retried = await provider.run(asked(attempt=2), machine, command)
    assert (first.stdout, again.stdout, retried.stdout) == ("1\n", "1\n", "2\n")


async def test_cancel_ends_the_whole_process_group(provider: ContainerMachines, machine: Machine) -> None:
    seen = asyncio.Event()
    line = "sleep 4000 & echo begun; sleep 4001"
    command = RemoteCommand(line=line, sink=lambda stream, text: seen.set())
    task = asyncio.ensure_future(provider.run(asked(), machine, command))
    await asyncio.wait_for(seen.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "sleep 400" not in await processes(provider, machine)


async def test_a_job_that_goes_on_elsewhere_keeps_its_command_and_finds_it_again(
    provider: ContainerMachines, machine: Machine
) -> None:
    seen = asyncio.Event()
    line = "echo x >>/tmp/ledger; echo begun; sleep 2; cat /tmp/ledger"
    command = RemoteCommand(line=line, sink=lambda stream, text: seen.set())
    task = asyncio.ensure_future(provider.run(asked(handed_over=lambda: True), machine, command))
    await asyncio.wait_for(seen.wait(), 60)
    task.cancel()
    await asyncio.wait({task})
    result = await provider.run(asked(), machine, command)
    assert result.stdout == "begun\nx\n"


async def test_a_command_that_takes_too_long_is_ended(provider: ContainerMachines, machine: Machine) -> None:
    with pytest.raises(ActionFailed, match="took longer than 1 s and was stopped"):
        await provider.run(asked(), machine, RemoteCommand(line="sleep 4000", timeout_s=1))
    assert "sleep 4000" not in await processes(provider, machine)


async def test_files_are_put_and_got_also_by_another_login(provider: ContainerMachines) -> None:
    [machine] = await provider.provision(asked(), "web", [1], MachineSpec(image=IMAGE, login="ann"))
    content = bytes(range(256)) * 1000
    await provider.put_file(asked(), machine, "data.bin", content)
    assert await provider.get_file(asked(), machine, "/home/ann/data.bin") == content
    owner = await provider.run(asked(), machine, RemoteCommand(line="id -un; stat -c %U data.bin"))
    assert owner.stdout == "ann\nann\n"


async def test_a_file_that_is_not_there_and_a_directory_are_told(provider: ContainerMachines, machine: Machine) -> None:
    for name in ("/nowhere", "/etc"):
        with pytest.raises(ActionFailed, match=f"File not found on .*: {name}"):
            await provider.get_file(asked(), machine, name)
    with pytest.raises(ActionFailed, match="Can't write the file"):
        await provider.put_file(asked(), machine, "/nowhere/x", b"")


async def test_files_are_bounded_by_what_the_login_may_do_and_by_their_size(provider: ContainerMachines) -> None:
    [machine] = await provider.provision(asked(), "web", [1], MachineSpec(image=IMAGE, login="ann"))
    with pytest.raises(ActionFailed, match=r"Can't write the file .*Permission denied"):
        await provider.put_file(asked(), machine, "/etc/passwd", b"")
    await provider.run(asked(), machine, RemoteCommand(line=f"head -c {MACHINE_FILE_BYTES + 1} /dev/zero >big"))
    with pytest.raises(ActionFailed, match="has more than 8388608 bytes"):
        await provider.get_file(asked(), machine, "big")


async def test_a_container_that_is_gone_is_told(provider: ContainerMachines, machine: Machine) -> None:
    await provider.release(asked(), machine)
    with pytest.raises(ActionFailed, match="doesn't run"):
        await provider.run(asked(), machine, RemoteCommand(line="true"))


@pytest.mark.parametrize(
    "stop", [("kill",), ("stop", "--time", "0"), ("rm", "--force", "--time", "0")], ids=["kill", "stop", "rm"]
)
async def test_a_container_that_was_stopped_is_an_end_and_no_outage(
    provider: ContainerMachines, machine: Machine, engine_of_session: Podman, stop: tuple[str, ...]
) -> None:
    """Podman 4 answers 500 for it, with which a connection was thought lost for two minutes."""
    engine_of_session.run(*stop, machine.id)
    log = Log()
    with pytest.raises(ActionFailed, match="doesn't run"):
        await provider.run(context(log, job_id="5f0000000000000000000007"), machine, RemoteCommand(line="true"))
    assert not [text for text in log if "Lost the connection" in text]


async def test_a_container_that_is_stopped_under_its_command_ends_the_command(
    provider: ContainerMachines, machine: Machine, engine_of_session: Podman
) -> None:
    running = asyncio.create_task(provider.run(asked(), machine, RemoteCommand(line="touch begun; sleep 600")))
    begun = partial(provider.get_file, asked(), machine, "begun")
    await eventually(begun, lambda found: found is not None, within_s=60, despite=ActionFailed)
    engine_of_session.run("kill", machine.id)
    with pytest.raises(ActionFailed):
        await running


async def test_containers_of_a_network_have_addresses_and_reach_each_other(
    provider: ContainerMachines, engine_of_session: Podman
) -> None:
    spec = MachineSpec(image=IMAGE, settings={"providerSettings": {"network": "bridge"}})
    try:
        engine_of_session.run("run", "--rm", "--network", "podman", IMAGE, "true")
    except NoPodman as reason:
        pytest.skip(f"this machine has no bridge network for containers: {reason}")
    first, second = await provider.provision(asked(), "web", [1, 2], spec)
    assert first.host != second.host
    result = await provider.run(
        asked(), first, RemoteCommand(line=f"ping -c 1 -w 10 {second.host} >/dev/null && echo ok")
    )
    assert result.stdout == "ok\n"


async def test_an_organization_adopts_its_own_containers_only(provider: ContainerMachines, machine: Machine) -> None:
    [adopted] = await provider.adopt(asked(instance_id="5f00000000000000000000ff"), "db", {1: machine.host}, SPEC)
    assert (adopted.id, adopted.adopted, adopted.role) == (machine.id, True, "db")
    with pytest.raises(ActionFailed, match="no container of this organization has this address"):
        await provider.adopt(asked(organization_id="5f00000000000000000000aa"), "db", {1: machine.host}, SPEC)


async def test_an_environment_that_the_operator_did_not_allow_makes_none(engine: EngineApi) -> None:
    closed = ContainerMachines(engine, Here(), ALLOWED, OUTGOING, may_use=lambda context: False)
    with pytest.raises(ActionFailed, match="Containers are not allowed in this environment"):
        await closed.provision(asked(), "web", [1], SPEC)
    with pytest.raises(ActionFailed, match="Containers are not allowed in this environment"):
        await closed.adopt(asked(), "web", {1: "x"}, SPEC)


@pytest.mark.slow
async def test_an_engine_that_does_not_answer_is_told_with_its_place(tmp_path: Path) -> None:
    away = ContainerMachines(EngineApi(str(tmp_path / "none.sock")), Here(), ALLOWED, OUTGOING)
    with pytest.raises(ActionFailed, match=r"Can't connect to the container engine at .*none\.sock"):
        await away.orphans(asked())


async def hosts_of(provider: ContainerMachines, machines: Sequence[Machine]) -> list[str]:
    told = [await provider.run(asked(tag="look"), machine, RemoteCommand(line="hostname")) for machine in machines]
    return [result.stdout.strip() for result in told]


async def processes(provider: ContainerMachines, machine: Machine) -> str:
    return (await provider.run(asked(tag="look"), machine, RemoteCommand(line="ps"))).stdout
