"""One step: attempts, ignored failures, parameters, policies, and actions that misbehave."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from launchbay import limits
from launchbay.clock import Backoff
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import StepStatus
from launchbay.planning.plans import plan_launch
from launchbay.runtime.contract import JobRun
from tests.support.runtime import Instance, World, instance

STEP = "workflow#launch/s"


def one_step(step: str, **more: Any) -> Instance:
    """A launch of the step `s`, and of `after` behind it."""
    return instance(
        f"""
        launch:
          steps:
            - s: {step}
            - after: {{action: effect, precedingPhases: [s]}}
        """,
        **more,
    )


@pytest.mark.parametrize(
    ("fails", "retries", "attempts", "works"), [(0, 2, 1, True), (2, 2, 3, True), (3, 2, 3, False)]
)
async def test_retry_count_n_means_n_plus_one_attempts(fails: int, retries: int, attempts: int, works: bool) -> None:
    live = one_step(f"{{action: effect, parameters: {{fail: {fails}, retryCount: {retries}}}}}")
    error = await live.launch()
    assert [effect.attempt for effect in live.world.effects if effect.path == STEP] == list(range(1, attempts + 1))
    assert (error is None) == works
    assert live.disk.steps[STEP].attempt == attempts
    assert len(live.disk.texts("warning")) == attempts - 1


async def test_all_attempts_have_the_same_idempotency_key_and_other_steps_another() -> None:
    live = one_step("{action: effect, parameters: {fail: 2, retryCount: 2}}")
    await live.launch()
    keys = {path: {e.key for e in live.world.effects if e.path == path} for path in live.world.paths()}
    assert {len(found) for found in keys.values()} == {1}
    assert len({key for found in keys.values() for key in found}) == 2


async def test_attempts_are_paced_with_doubling_pauses() -> None:
    live = one_step("{action: effect, parameters: {fail: 3, retryCount: 3}}", pacing=Backoff(0.02, 0.04))
    begun = asyncio.get_running_loop().time()
    assert await live.launch() is None
    assert asyncio.get_running_loop().time() - begun > 0.08, "0.1 s but for the rounding of three timers"
    assert [text.rpartition(" in ")[2] for text in live.disk.texts("warning")] == ["0.02 s.", "0.04 s.", "0.04 s."]


async def test_what_cannot_get_better_is_not_tried_again() -> None:
    live = one_step("{action: effect, parameters: {fail: 9, retryCount: 5, retryable: false}}")
    assert await live.launch() is not None
    assert len(live.world.effects) == 1


async def test_ignore_fail_lets_a_failed_step_count_as_finished() -> None:
    live = one_step("{action: effect, parameters: {fail: 1, ignoreFail: true}}")
    assert await live.launch() is None
    assert live.world.paths() == [STEP, "workflow#launch/after"]
    assert live.disk.steps[STEP].status is StepStatus.FAILED
    assert any("Ignored" in text for text in live.disk.texts("warning"))


class NothingApproved:
    """Approved plans without any step."""

    async def artifact(self, _job: JobRun, path: str) -> bytes | None:
        raise NotApproved(f"{path} isn't in the plan.")

    async def refuse(self, job: JobRun, path: str, reason: str, *, replans: bool) -> None: ...

    async def refusal(self, job: JobRun, path: str) -> str | None: ...

    async def begin(self, job: JobRun, path: str, attempt: str) -> None: ...

    async def begun_by(self, _job: JobRun, path: str) -> str | None:
        return None if path else ""

    async def end(self, job: JobRun, path: str) -> None: ...


@pytest.mark.parametrize(
    "step",
    [
        "{action: effect, parameters: {retryCount: 2, ignoreFail: true}}",
        "{action: outer, parameters: {retryCount: 2, ignoreFail: true}}",
    ],
    ids=["action", "call"],
)
async def test_what_was_not_approved_is_neither_ignored_nor_tried_again(step: str) -> None:
    live = instance(f"""
        launch:
          steps:
            - s: {step}
            - after: {{action: effect, precedingPhases: [s]}}
        outer:
          steps:
            - inner: {{action: effect}}
    """)
    live.surroundings = replace(live.surroundings, approved_plans=NothingApproved())

    error = await live.run(plan_launch({}, InstanceStatus.REQUESTED).holding())

    assert error is not None
    assert "isn't in the plan." in error
    assert live.world.effects == []
    assert "Retrying" not in str(live.disk.texts("warning"))
    assert "workflow#launch/after" not in live.disk.steps


async def test_a_job_that_nobody_approved_with_a_plan_asks_for_none() -> None:
    live = one_step("{action: effect}")
    live.surroundings = replace(live.surroundings, approved_plans=NothingApproved())
    assert await live.launch() is None


def unequal_lists(more: str) -> Instance:
    """A launch of the step `s`, whose parameter can't be made, and of `after` behind it."""
    return instance(f"""
        launch:
          steps:
            - two: {{action: effect, parameters: {{value: [1, 2]}}, output: {{two: value}}}}
            - one: {{action: effect, parameters: {{value: [1]}}, output: {{one: value}}, precedingPhases: [two]}}
            - s: {{action: effect, precedingPhases: [one], parameters: {{value: "{{$.two}}{{$.one}}", {more}}}}}
            - after: {{action: effect, precedingPhases: [s]}}
    """)


async def test_ignore_fail_counts_for_parameters_that_cannot_be_made_too() -> None:
    live = unequal_lists("ignoreFail: true")
    assert await live.launch() is None
    assert live.world.paths()[2:] == ["workflow#launch/after"]


async def test_an_expression_error_fails_the_step_and_names_the_expression() -> None:
    live = unequal_lists("retryCount: 3")
    error = await live.launch()
    assert error is not None
    assert "step 's' failed" in error
    assert "{$.two}, {$.one}" in error
    assert len(live.world.effects) == 2
    assert live.disk.steps[STEP].status is StepStatus.FAILED
    assert error.endswith(live.disk.steps[STEP].error or "-")


async def test_an_embedded_expression_without_value_is_empty_with_a_warning_in_the_log() -> None:
    live = one_step('{action: effect, parameters: {value: "http://{$.host.name}/x"}}')
    assert await live.launch() is None
    assert live.world.effects[0].parameters == {"value": "http:///x"}
    [(path, _, text)] = [line for line in live.disk.lines if line[1] == "warning"]
    assert path == STEP
    assert "{$.host.name}" in text


async def test_a_whole_expression_without_value_is_null_with_a_warning_in_the_log() -> None:
    live = one_step('{action: effect, parameters: {value: "{$.nothing}"}}')
    assert await live.launch() is None
    assert live.world.effects[0].parameters == {"value": None}
    [(path, _, text)] = [line for line in live.disk.lines if line[1] == "warning"]
    assert path == STEP
    assert "{$.nothing}" in text


@pytest.mark.parametrize(
    ("setting", "told"),
    [('retryCount: "{$.n}"', "retryCount"), ('ignoreFail: "{$.n}"', "ignoreFail"), ("retryCount: 101", "0 to 100")],
)
async def test_settings_of_the_wrong_kind_fail_the_step_by_name(setting: str, told: str) -> None:
    live = instance(f"""
        launch:
          steps:
            - give: {{action: compute, parameters: {{value: many}}, output: {{n: value}}}}
            - s: {{action: effect, precedingPhases: [give], parameters: {{{setting}}}}}
    """)
    error = await live.launch()
    assert error is not None
    assert told in error
    assert live.world.effects == []


async def test_policies_win_over_the_manifest_and_the_log_names_them_without_their_values() -> None:
    policies = {"effect.value": "s3cr3t", "effect.retryCount": 1, "effect.ignoreFail": True, "other.value": 5}
    live = one_step(
        "{action: effect, parameters: {value: mine, kept: 1, fail: 9, retryCount: 0}}",
        environment=EnvironmentView(policies=policies),
    )
    assert await live.launch() is None
    assert [effect.attempt for effect in live.world.effects if effect.path == STEP] == [1, 2]
    assert live.world.effects[0].parameters == {"value": "s3cr3t", "kept": 1, "fail": 9}
    told = [text for path, level, text in live.disk.lines if path == STEP and level == "info"]
    assert [text for text in told if "'value'" in text]
    assert [text for text in told if "'retryCount'" in text]
    assert "s3cr3t" not in str(live.disk.lines)


async def test_a_policy_gives_a_parameter_that_the_manifest_does_not_have() -> None:
    live = one_step("{action: effect}", environment=EnvironmentView(policies={"effect.value": [1]}))
    assert await live.launch() is None
    assert live.world.effects[0].parameters == {"value": [1]}


class Rude(BaseException):
    """No ordinary exception."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def raising(error: BaseException | type[BaseException]) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


async def _cancel_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


ODD: list[tuple[str, Callable[[], Any], str]] = [
    ("error", raising(ZeroDivisionError("by zero")), "ZeroDivisionError: by zero"),
    ("key error", raising(KeyError("x")), "KeyError: 'x'"),
    ("system exit", raising(SystemExit(3)), "SystemExit: 3"),
    ("generator exit", raising(GeneratorExit()), "GeneratorExit"),
    ("stop iteration", raising(StopIteration(1)), "StopIteration"),
    ("base exception", raising(Rude("rude")), "Rude: rude"),
    ("group", raising(BaseExceptionGroup("many", [Rude("a"), ValueError("b")])), "BaseExceptionGroup: many"),
    ("cancelled", raising(asyncio.CancelledError()), "cancelled its own task"),
    ("timeout", raising(TimeoutError()), "TimeoutError"),
    ("no text", raising(Unprintable()), "Unprintable"),
    ("nothing said", raising(ActionFailed("")), "without a message"),
    ("cancels its task", _cancel_own_task, "cancelled its own step"),
]


@pytest.mark.parametrize(("act", "told"), [pytest.param(act, told, id=name) for name, act, told in ODD])
async def test_whatever_a_foreign_action_raises_fails_its_step_and_nothing_else(
    act: Callable[[], Any], told: str
) -> None:
    live = instance(
        """
        launch:
          steps:
            - s: {action: odd}
            - sibling: {action: effect, parameters: {seconds: 0.01}}
        """,
        World(raises=act),
    )
    error = await live.launch()
    assert error is not None
    assert "step 's' failed" in error
    assert told in error
    assert live.disk.steps["workflow#launch/sibling"].status is StepStatus.SUCCEEDED
    assert live.disk.steps[STEP].status is StepStatus.FAILED


async def test_a_foreign_defect_is_retried_as_the_step_says() -> None:
    live = instance(
        "launch: {steps: [{s: {action: odd, parameters: {retryCount: 2}}}]}", World(raises=raising(OSError()))
    )
    assert await live.launch() is not None
    assert live.world.events == ["odd 1", "odd 2", "odd 3"]


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
NESTED: dict[str, Any] = {}
_inner = NESTED
for _ in range(5000):
    _inner["x"] = {}
    _inner = _inner["x"]


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        pytest.param({"x": object()}, "outputs aren't valid JSON", id="object"),
        pytest.param({("a", "b"): 1}, "outputs aren't valid JSON", id="key"),
        pytest.param({"x": "\ud800"}, "outputs aren't valid JSON", id="surrogate"),
        pytest.param(CYCLE, "outputs aren't valid JSON", id="cycle"),
        pytest.param(NESTED, "outputs aren't valid JSON", id="deep"),
        pytest.param({"x": "a" * (limits.STEP_OUTPUT_BYTES + 1)}, f"(limit: {limits.STEP_OUTPUT_BYTES})", id="large"),
        pytest.param(None, "outputs aren't a map", id="nothing"),
        pytest.param([1], "outputs aren't a map", id="list"),
        pytest.param("text", "outputs aren't a map", id="text"),
    ],
)
async def test_outputs_that_cannot_be_kept_fail_the_step(returned: Any, told: str) -> None:
    live = one_step("{action: odd, parameters: {retryCount: 3}}", world=World(returns=returned))
    error = await live.launch()
    assert error is not None
    assert told in error
    assert live.world.events == ["odd 1"], "another attempt would return the same"
    assert live.disk.steps[STEP].status is StepStatus.FAILED


async def test_outputs_have_the_form_that_a_crash_would_give_them() -> None:
    live = instance(
        """
        launch:
          steps: [{s: {action: odd, output: {x: x}}}]
          return: {x: {value: "{$.x}"}}
        """,
        World(returns={"x": (1, {2: float("nan")})}),
    )
    assert await live.launch() is None
    assert live.results == {"x": [1, {"2": None}]}


async def test_an_action_that_has_effects_may_not_send_commands() -> None:
    live = one_step("{action: ask}")
    error = await live.launch()
    assert error is not None
    assert "declare it pure" in error


async def test_an_action_that_is_not_installed_any_more_fails_its_step_with_the_remedy() -> None:
    live = one_step("{action: effect}")
    del live.surroundings.actions._actions["effect"]
    error = await live.launch()
    assert error is not None
    assert "Unknown action, workflow or command 'effect'" in error
    assert "Install the package" in error
