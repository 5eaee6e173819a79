"""Plans of `opentofu`: what the program's JSON says, and that what runs is what was approved, with the real program."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from launchbay.actions.contract import ActionCall
from launchbay.actions.opentofu import OpenTofu, read_module
from launchbay.actions.opentofu_plan import read_saved_plan, read_shown_plan
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.effect import AFTER_APPLY, Effect
from launchbay.processes.run import Programs
from tests.support.contexts import RecordingContext, run
from tests.support.external_services import MODULE, needs_tofu

TOFU = OpenTofu()


def shown(*changes: dict[str, Any], **more: Any) -> tuple[Effect, ...]:
    return read_shown_plan(json.dumps({"resource_changes": changes, **more})).effects()


def resource(*actions: str, address: str = "db.main", **more: Any) -> dict[str, Any]:
    of_change = {name: more.pop(name) for name in list(more) if name not in {"previous_address", "action_reason"}}
    return {"address": address, "change": {"actions": list(actions), **of_change}, **more}


def test_a_replacement_is_a_deletion_and_a_creation_with_the_cause() -> None:
    found = shown(
        resource("create", address="new", after={}),
        resource(
            *("delete", "create"),
            before={"size": 1},
            after={"size": 2},
            replace_paths=[["size"]],
            action_reason="replace_because_cannot_update",
        ),
    )

    note = "replaced; it can't be changed in place; because of size"
    assert [(each.kind, each.address, each.note) for each in found] == [
        ("create", "new", ""),
        ("delete", "db.main", note),
        ("create", "db.main", note),
    ]


def test_values_known_after_apply_make_an_effect_an_estimate() -> None:
    [known, unknown] = shown(
        resource("update", before={"a": 1, "b": 2}, after={"a": 1, "b": 3}, after_unknown={}),
        resource("create", after={"a": 1}, after_unknown={"id": True, "list": [False, True]}),
    )

    assert (known.before, known.after, known.certainty) == ({"b": 2}, {"b": 3}, "exact")
    assert unknown.after == {"a": 1, "id": AFTER_APPLY, "list": AFTER_APPLY}
    assert unknown.certainty == "estimated"


def test_a_sensitive_value_that_changes_shows_only_that_it_does() -> None:
    marks: dict[str, Any] = {"before_sensitive": {"pw": True}, "after_sensitive": {"pw": True, "tags": [False, True]}}
    plan = read_shown_plan(
        json.dumps(
            {
                "resource_changes": [
                    resource(
                        "update",
                        before={"pw": "old-1", "tags": ["a", "b"]},
                        after={"pw": "new-1", "tags": ["a", "key-1"]},
                        **marks,
                    )
                ]
            }
        )
    )

    [effect] = plan.effects()

    assert effect.before == {"pw": "********", "tags": ["a", "b"]}
    assert effect.after == {"pw": "********", "tags": ["a", "********"]}
    assert plan.secrets() == ["old-1", "new-1", "key-1"]


def test_moves_imports_and_forgotten_resources_delete_nothing() -> None:
    found = shown(
        resource("no-op", before={}, after={}, previous_address="db.old"),
        resource("no-op", before={}, after={}, importing={"id": "i-1"}),
        resource("forget", before={"size": 1}),
        resource("no-op", before={}, after={}),
        resource("read", action_reason="read_because_config_unknown"),
    )

    assert [(each.kind, each.note) for each in found] == [
        ("change", "moved from db.old"),
        ("change", "imported from i-1"),
        ("change", "forgotten: it stays, but is no longer managed"),
        ("run", "is read; its parameters are known only then"),
    ]


def test_what_a_newer_program_plans_is_unknown_and_not_left_out() -> None:
    [effect, deferred] = shown(resource("transmute"), complete=False)
    assert (effect.kind, effect.note) == ("unknown", "OpenTofu plans transmute")
    assert deferred.kind == "unknown"


def here() -> RecordingContext:
    return RecordingContext(programs=Programs(["opentofu"]))


async def plan(context: RecordingContext, **parameters: Any) -> ActionPlan:
    return await plan_action(TOFU, ActionCall(parameters, context), "web#launch/infra")


async def apply(context: RecordingContext, approved: bytes, **parameters: Any) -> Any:
    return await TOFU.run(ActionCall(parameters, context, approved=approved))


async def refusal(context: RecordingContext, approved: bytes, **parameters: Any) -> str:
    with pytest.raises(ActionFailed) as caught:
        await apply(context, approved, **parameters)
    assert not caught.value.retryable
    return str(caught.value)


@needs_tofu
@pytest.mark.slow
async def test_a_plan_changes_nothing_and_exactly_it_is_applied(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    given = {"module": MODULE, "variables": {"place": str(file)}}

    made = await plan(context, **given)

    assert not file.exists()
    assert context.documents.documents == {}
    assert [(each.kind, each.address) for each in made.effects] == [
        ("create", "terraform_data.file"),
        ("change", "output.password"),
        ("change", "output.place"),
    ]
    assert made.effects[0].after["input"] == str(file)
    assert made.effects[0].after["id"] == AFTER_APPLY
    assert "hunter22" not in str(made.effects) + str(context.lines)

    applied = await apply(context, made.artifact, **given)

    assert file.read_text() == "1\n"
    assert applied["outputs"] == {"place": str(file)}


@needs_tofu
@pytest.mark.slow
async def test_what_somebody_changed_since_the_plan_is_not_overwritten(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    given = {"module": MODULE, "variables": {"place": str(file)}}
    await run(TOFU, context, **given)
    approved = await plan(context, **given | {"variables": {"place": str(file), "size": 2}})
    assert [each.kind for each in approved.effects][:1] == ["delete"]
    await run(TOFU, context, **given | {"variables": {"place": str(file), "size": 3}})
    state = read_module(context.documents.documents["default"].data).state

    told = await refusal(context, approved.artifact, **given | {"variables": {"place": str(file), "size": 2}})

    assert "the state changed (serial" in told
    assert "Nothing was done" in told
    assert file.read_text() == "3\n"
    assert read_module(context.documents.documents["default"].data).state == state
    parameters = given | {"variables": {"place": str(file), "size": 2}}
    call = ActionCall(parameters, context, approved=approved.artifact, has_begun=True)
    with pytest.raises(NotApproved) as interrupted:  # the state may have changed because of the step itself
        await TOFU.run(call)
    assert "This step began before to do what was approved" in str(interrupted.value)
    assert "Nothing was done" not in str(interrupted.value)


@needs_tofu
@pytest.mark.slow
async def test_of_two_approved_plans_of_an_empty_state_one_is_applied(tmp_path: Path) -> None:
    """The program itself applies both: a state that doesn't exist has no lineage."""
    context, file = here(), tmp_path / "made"
    given = {"module": MODULE, "variables": {"place": str(file)}}
    first, second = await plan(context, **given), await plan(context, **given)

    await apply(context, first.artifact, **given)
    told = await refusal(context, second.artifact, **given)

    assert "the state is another one" in told
    assert file.read_text() == "1\n"


@needs_tofu
@pytest.mark.slow
async def test_two_approved_plans_at_the_same_time_are_applied_once(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    given = {"module": MODULE, "variables": {"place": str(file)}}
    first, second = await plan(context, **given), await plan(context, **given)

    done = await asyncio.gather(
        apply(context, first.artifact, **given), apply(context, second.artifact, **given), return_exceptions=True
    )

    assert sorted(isinstance(each, ActionFailed) for each in done) == [False, True]
    assert file.read_text() == "1\n"


@needs_tofu
@pytest.mark.slow
async def test_other_variables_are_refused_although_the_program_ignores_them(tmp_path: Path) -> None:
    context = here()
    given = {"module": MODULE, "variables": {"place": str(tmp_path / "a")}}
    approved = (await plan(context, **given)).artifact

    assert "the module or its variables changed" in await refusal(
        context, approved, module=MODULE, variables={"place": str(tmp_path / "b")}
    )
    assert "the operation is destroy instead of apply" in await refusal(context, approved, **given, operation="destroy")
    assert list(tmp_path.glob("*")) == []


@needs_tofu
@pytest.mark.slow
async def test_a_destruction_is_planned_and_applied_as_planned(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    assert (await plan(context, operation="destroy")).effects == ()
    await run(TOFU, context, module=MODULE, variables={"place": str(file)})

    made = await plan(context, operation="destroy")
    assert [(each.kind, each.address) for each in made.effects if each.kind == "delete"] == [
        ("delete", "terraform_data.file")
    ]
    assert file.exists()
    await apply(context, made.artifact, operation="destroy")

    assert not file.exists()
    assert context.documents.documents == {}


@needs_tofu
@pytest.mark.slow
async def test_sensitive_values_are_in_no_effect_and_known_as_secrets() -> None:
    context = here()
    module = """
    variable "key" { sensitive = true }
    resource "terraform_data" "kept" { input = { key = var.key, name = "n" } }
    check "key" {
      assert {
        condition     = var.key == ""
        error_message = "The key is set."
      }
    }
    """

    made = await plan(context, module=module, variables={"key": "canary-8472"})

    assert made.effects[0].after["input"] == {"key": "********", "name": "n"}
    assert "canary-8472" not in str(made.effects) + str(made.warnings) + str(context.lines)
    assert "canary-8472" in str(context.learned)
    assert made.warnings == ("check.key: The key is set.",)
    assert read_saved_plan(made.artifact).serial == 0


def test_an_artifact_survives_its_own_form() -> None:
    with pytest.raises(msgspec.DecodeError):
        read_saved_plan(b"\x00nothing")


@needs_tofu
@pytest.mark.slow
async def test_a_plan_to_destroy_nothing_destroys_nothing(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    approved = await plan(context, operation="destroy")
    assert approved.effects == ()
    assert (await apply(context, approved.artifact, operation="destroy"))["changes"] == {}
    await run(TOFU, context, module=MODULE, variables={"place": str(file)})

    told = await refusal(context, approved.artifact, operation="destroy")

    assert "there was nothing to destroy" in told
    assert file.exists()


@needs_tofu
@pytest.mark.slow
async def test_a_step_that_was_planned_to_plan_applies_nothing(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    given = {"module": MODULE, "variables": {"place": str(file)}}
    approved = (await plan(context, **given, operation="plan")).artifact

    assert "the operation is apply instead of plan" in await refusal(context, approved, **given)

    assert not file.exists()
    assert (await apply(context, approved, **given, operation="plan"))["hasChanges"]
