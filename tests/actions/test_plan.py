"""What an action would do: the contract for all of them, with its limits."""

from collections.abc import Mapping
from typing import Any

import pytest

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.errors import ActionFailed
from launchbay.model.effect import NOT_SHOWN, Effect
from tests.support.contexts import RecordingContext


class Planner(ActionDefaults):
    name = "planner"
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {}

    def __init__(self, plan: ActionPlan) -> None:
        self._plan = plan

    async def run(self, _: ActionCall) -> dict[str, Any]:
        raise AssertionError("a plan runs nothing")

    async def plan(self, _: ActionCall) -> ActionPlan:
        return self._plan


class Silent(ActionDefaults):
    name = "silent"
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {}

    async def run(self, _: ActionCall) -> dict[str, Any]:
        raise AssertionError("a plan runs nothing")


class Masking(RecordingContext):
    def redact(self, text: str) -> str:
        return text.replace("hunter22", "********").replace("847261", "********")


async def planned(*effects: Effect, artifact: bytes = b"plan", warnings: tuple[str, ...] = ()) -> ActionPlan:
    action = Planner(ActionPlan(effects=effects, artifact=artifact, warnings=warnings))
    return await plan_action(action, ActionCall({}, Masking()), "web#launch/apply")


async def test_an_action_without_a_plan_may_do_anything() -> None:
    plan = await plan_action(Silent(), ActionCall({}, RecordingContext()), "web#launch/apply")

    [effect] = plan.effects
    assert (effect.kind, effect.address, effect.certainty) == ("unknown", "web#launch/apply", "unknown")
    assert "can't say" in effect.note


async def test_a_plan_without_an_artifact_is_open_since_nothing_holds_the_action_to_it() -> None:
    plan = await planned(Effect(kind="create", address="db"), artifact=b"")
    assert [each.kind for each in plan.effects] == ["create", "unknown"]


async def test_a_pure_action_does_nothing() -> None:
    pure = Silent()
    pure.pure = True
    assert await plan_action(pure, ActionCall({}, RecordingContext()), "x") == ActionPlan()


async def test_no_secret_is_in_a_plan() -> None:
    before = {"dsn": "postgres://u:hunter22@db", "password": "plain", "pin": 847261, "size": 3, "list": ["hunter22"]}

    plan = await planned(Effect(kind="change", address="db.hunter22", before=before), warnings=("hunter22 is old",))

    assert plan.effects[0].before == {
        "dsn": "postgres://u:********@db",
        "password": "********",
        "pin": "********",
        "size": 3,
        "list": ["********"],
    }
    assert plan.effects[0].address == "db.********"
    assert plan.warnings == ("******** is old",)


async def test_a_large_value_is_not_shown_but_its_effect_is() -> None:
    plan = await planned(Effect(kind="create", address="a", after="x" * limits.PLAN_VALUE_BYTES))
    assert (plan.effects[0].kind, plan.effects[0].after) == ("create", NOT_SHOWN)


@pytest.mark.parametrize(
    ("effects", "artifact", "named"),
    [
        ([Effect(kind="run", address="a")] * (limits.PLAN_EFFECTS + 1), b"", f"{limits.PLAN_EFFECTS + 1} effects"),
        ([], bytes(limits.PLAN_ARTIFACT_BYTES + 1), "artifact of the plan"),
        ([Effect(kind="run", address="a", note="x" * 2_000)] * 1_000, b"", "effects of the plan have"),
    ],
)
async def test_a_plan_beyond_a_limit_is_refused_instead_of_cut(
    effects: list[Effect], artifact: bytes, named: str
) -> None:
    with pytest.raises(ActionFailed, match=named) as caught:
        await planned(*effects, artifact=artifact)
    assert not caught.value.retryable
