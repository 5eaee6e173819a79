"""Commands in images, in a real Podman."""

import asyncio

import pytest

from launchbay.errors import ActionFailed, NotThereYet
from launchbay.machines.containers.engine_api import EngineApi
from launchbay.machines.containers.provider import ContainerMachines
from launchbay.machines.contract import RunsImages
from launchbay.model.machine import ImageRun
from tests.support.containers import ALLOWED, IMAGE, OUTGOING, Here, Podman, asked, made_anew, standing
from tests.support.eventually import eventually


@pytest.fixture
def provider(engine: EngineApi) -> ContainerMachines:
    return ContainerMachines(engine, Here(), ALLOWED, OUTGOING)


def shell(line: str, **more: object) -> ImageRun:
    return ImageRun(image=IMAGE, command=("sh", "-c", line), **more)  # type: ignore[arg-type] # what tests give fits


async def test_a_command_gives_its_output_its_lines_and_its_exit_code(
    provider: ContainerMachines, engine: EngineApi
) -> None:
    assert isinstance(provider, RunsImages)
    lines: list[tuple[str, str]] = []
    run = shell("echo one; echo two >&2; printf three; exit 7", sink=lambda *line: lines.append(line))

    result = await provider.run_image(asked(), run)

    assert (result.stdout, result.stderr, result.exit_code) == ("one\nthree", "two\n", 7)
    assert sorted(lines) == [("stderr", "two"), ("stdout", "one"), ("stdout", "three")]
    assert await standing(engine) == 0


async def test_arguments_environment_and_directory_reach_the_command_as_they_are(provider: ContainerMachines) -> None:
    hostile = "$(reboot); `id` '\" * a\nb"
    command = ("sh", "-c", 'printf "%s|%s|%s" "$1" "$MINE" "$PWD"', "sh", hostile)

    result = await provider.run_image(
        asked(), ImageRun(image=IMAGE, command=command, environment={"MINE": hostile}, directory="/tmp")
    )

    assert result.stdout == f"{hostile}|{hostile}|/tmp"


async def test_of_much_output_a_part_is_kept(provider: ContainerMachines) -> None:
    result = await provider.run_image(asked(), shell("yes | head -c 100000", keep_bytes=1_000))

    assert len(result.stdout) == 1_000


async def test_a_server_that_comes_back_follows_the_command_that_it_began(
    provider: ContainerMachines, engine: EngineApi
) -> None:
    lines: list[str] = []
    run = shell(
        "echo $$-$(cat /proc/sys/kernel/random/uuid); sleep 2; echo end", sink=lambda _, line: lines.append(line)
    )
    first = asyncio.create_task(provider.run_image(asked(handed_over=lambda: True), run))
    await eventually(lambda: len(lines) == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await standing(engine) == 1

    result = await provider.run_image(asked(), run)

    begun = lines[0]
    assert result.stdout == f"{begun}\nend\n"
    assert await standing(engine) == 0


async def test_a_command_that_ended_meanwhile_is_not_run_again_but_another_attempt_is(
    provider: ContainerMachines, engine: EngineApi
) -> None:
    lines: list[str] = []
    run = shell("cat /proc/sys/kernel/random/uuid; sleep 0.3; exit 3", sink=lambda _, line: lines.append(line))
    first = asyncio.create_task(provider.run_image(asked(handed_over=lambda: True), run))
    await eventually(lambda: len(lines) == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.sleep(1)

    again = await provider.run_image(asked(), run)
    other = await provider.run_image(asked(attempt=2), run)

    assert again.stdout == f"{lines[0]}\n"
    assert again.exit_code == 3
    assert other.stdout != again.stdout


async def test_cancelling_removes_the_container(provider: ContainerMachines, engine: EngineApi) -> None:
    lines: list[str] = []
    run = shell("echo up; sleep 600", sink=lambda _, line: lines.append(line))
    running = asyncio.create_task(provider.run_image(asked(), run))
    await eventually(lambda: lines == ["up"])

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await standing(engine) == 0


async def test_too_long_is_ended(provider: ContainerMachines, engine: EngineApi) -> None:
    with pytest.raises(ActionFailed, match="took longer than 2 s"):
        await provider.run_image(asked(), shell("sleep 600", timeout_s=2.0))

    assert await standing(engine) == 0


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (ImageRun(image="localhost/no-such-image", command=("true",)), "has no image"),
        (ImageRun(image=IMAGE, command=("no-such-program",)), "no-such-program"),
        (shell("true", size="2g"), "exceeds the limit for containers"),
        (shell("true", size="large"), "Invalid 'size' of a container: 'large'"),
        (shell("true", network="secret"), "isn't allowed for containers"),
    ],
)
async def test_what_cannot_be_is_told_and_nothing_is_left(
    provider: ContainerMachines, engine: EngineApi, run: ImageRun, said: str
) -> None:
    with pytest.raises(ActionFailed) as caught:
        await provider.run_image(asked(), run)

    assert said in str(caught.value)
    assert await standing(engine) == 0


async def test_an_environment_that_may_make_no_containers_runs_none(engine: EngineApi) -> None:
    provider = ContainerMachines(engine, Here(), ALLOWED, OUTGOING, lambda _: False)

    with pytest.raises(ActionFailed, match="Containers are not allowed"):
        await provider.run_image(asked(), shell("true"))


async def test_what_a_dead_server_left_is_found_as_a_machine_of_the_instance(
    provider: ContainerMachines, engine: EngineApi
) -> None:
    lines: list[str] = []
    run = shell("echo up; sleep 600", sink=lambda _, line: lines.append(line))
    running = asyncio.create_task(provider.run_image(asked(handed_over=lambda: True), run))
    await eventually(lambda: lines == ["up"])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    [stray] = await provider.orphans(asked())
    await provider.release(asked(), stray)

    assert await standing(engine) == 0


async def test_a_plan_finds_the_image_and_the_limits_and_starts_nothing(
    provider: ContainerMachines, engine: EngineApi
) -> None:
    planned = await provider.plan_image(asked(), shell("true", size="0.5x64m"))

    assert planned[1:] == (0.5, 64, "none")
    assert len(planned.image_id.removeprefix("sha256:")) == 64
    assert await standing(engine) == 0
    with pytest.raises(NotThereYet, match="has no image"):
        await provider.plan_image(asked(), ImageRun(image="localhost/no-such-image"))
    with pytest.raises(ActionFailed, match="exceeds the limit"):
        await provider.plan_image(asked(), shell("true", size="9x64m"))


async def test_an_approved_image_runs_also_when_its_name_means_another(
    provider: ContainerMachines, engine_of_session: Podman
) -> None:
    name = "localhost/launchbay-moving:latest"
    engine_of_session.run("tag", IMAGE, name)
    approved = (await provider.plan_image(asked(), ImageRun(image=name))).image_id
    made_anew(engine_of_session, name)

    assert (await provider.plan_image(asked(), ImageRun(image=name))).image_id != approved
    command = ("sh", "-c", "echo ${NEWER:-no}")
    old = await provider.run_image(asked(), ImageRun(image=name, image_id=approved, command=command))
    new = await provider.run_image(asked(attempt=2), ImageRun(image=name, command=command))

    assert (old.stdout, new.stdout) == ("no\n", "yes\n")
