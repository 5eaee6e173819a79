"""`container.run` as the manifest sees it; a real engine runs it in tests/machines/containers/test_runs.py."""

from typing import Any

import pytest

from launchbay.actions.contract import ActionCall
from launchbay.actions.execution import ContainerRun
from launchbay.actions.plan import plan_action
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.machine import CommandResult
from launchbay.model.redaction import REDACTED
from tests.support.contexts import RecordingContext, run
from tests.support.machines import Lab, on_lab, workflow

RUN = ContainerRun()


async def test_the_parameters_become_the_run_and_its_end_the_outputs() -> None:
    context = RecordingContext(image_result=CommandResult('{"a": 1}\n', "warned\n", 0))

    outputs = await run(
        RUN,
        context,
        image="debian:12",
        command=["sh", "-c", "echo $A", 7],
        environment={"A": 1, "B": True},
        directory="/srv",
        size="1x64m",
        network="build",
        timeout="2 minutes",
    )

    [asked] = context.images
    assert asked.command == ("sh", "-c", "echo $A", "7")
    assert asked.environment == {"A": "1", "B": "true"}
    assert (asked.image, asked.directory, asked.size, asked.network) == ("debian:12", "/srv", "1x64m", "build")
    assert asked.timeout_s == 120
    assert outputs == {"stdout": {"a": 1}, "stderr": "warned", "exitCode": 0}
    assert asked.sink is not None
    asked.sink("stdout", "a line")
    assert context.lines == [("info", "[debian:12] a line")]


async def test_a_failed_command_fails_the_step_unless_any_exit_code_is_welcome() -> None:
    context = RecordingContext(image_result=CommandResult("", "no room, password=hunter22\n", 4))

    with pytest.raises(ActionFailed) as caught:
        await run(RUN, context, image="a")

    assert "exit code 4: no room" in str(caught.value)
    assert "hunter22" not in str(caught.value)
    assert (await run(RUN, context, image="a", failOnExitCode=False))["exitCode"] == 4


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({}, "'image' is missing"),
        ({"image": "a", "command": [["x"]]}, "'command' is wrong"),
        ({"image": "a", "environment": {"A=B": "c"}}, "'environment.A=B' is wrong"),
        ({"image": "a", "environment": {"A": ["c"]}}, "'environment.A' is wrong"),
        ({"image": "a", "failOnExitCode": "perhaps"}, "'failOnExitCode' is wrong"),
    ],
)
async def test_a_wrong_parameter_is_named(parameters: dict[str, Any], named: str) -> None:
    with pytest.raises(ActionFailed) as caught:
        await run(RUN, RecordingContext(), **parameters)

    assert named in str(caught.value)
    assert not caught.value.retryable


async def test_a_plan_names_the_container_and_masks_its_secrets() -> None:
    context = RecordingContext()
    parameters = {"image": "shop:1.4", "command": ["./migrate"], "environment": {"A": 1, "DB_PASSWORD": "hunter22"}}

    plan = await plan_action(RUN, ActionCall(parameters, context), context.step_path)

    [effect] = plan.effects
    assert (effect.kind, effect.address, effect.certainty) == ("run", "web/launch/deploy", "estimated")
    assert effect.after == {
        "image": "shop:1.4",
        "imageId": "sha256:1",
        "command": ["./migrate"],
        "environment": {"A": "1", "DB_PASSWORD": REDACTED},
        "size": "1x256m",
        "network": "none",
    }
    assert b"hunter22" not in plan.artifact
    assert context.images == []


@pytest.mark.parametrize(
    ("changed", "planned", "named"),
    [
        ({}, {"image_id": "sha256:2"}, "the image is sha256:2 instead of sha256:1"),
        ({}, {"network": "host"}, "the size or network of the container changed"),
        ({"command": ["./migrate", "--all"]}, {}, "the parameters of the step changed"),
        ({"environment": {"A": "2"}}, {}, "the parameters of the step changed"),
    ],
)
async def test_an_approved_run_starts_nothing_if_the_container_would_be_another(
    changed: dict[str, Any], planned: dict[str, Any], named: str
) -> None:
    parameters = {"image": "shop:1.4", "environment": {"A": "1"}}
    context = RecordingContext()
    plan = await RUN.plan(ActionCall(parameters, context))
    context.image_plan = context.image_plan._replace(**planned)

    with pytest.raises(NotApproved) as caught:
        await RUN.run(ActionCall(parameters | changed, context, approved=plan.artifact))

    assert named in str(caught.value)
    assert context.images == []


async def test_an_approved_run_starts_the_image_that_was_approved() -> None:
    context = RecordingContext(identity="of this attempt")
    plan = await RUN.plan(ActionCall({"image": "shop:1.4"}, RecordingContext()))

    await RUN.run(ActionCall({"image": "shop:1.4"}, context, approved=plan.artifact))

    assert [each.image_id for each in context.images] == ["sha256:1"]


async def test_after_a_crash_an_approved_run_follows_its_container_whatever_the_image_is() -> None:
    context = RecordingContext()
    plan = await RUN.plan(ActionCall({"image": "shop:1.4"}, context))
    context.image_plan = context.image_plan._replace(image_id="sha256:2")

    await RUN.run(ActionCall({"image": "shop:1.4"}, context, approved=plan.artifact, continues=True))

    assert [each.image_id for each in context.images] == ["sha256:1"]


async def test_without_an_engine_the_operator_is_named() -> None:
    live = on_lab(workflow("go: {action: container.run, parameters: {image: a}}"), Lab())

    assert "LAUNCHBAY_CONTAINER_SOCKET" in str(await live.launch())
