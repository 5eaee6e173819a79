"""What an action would do, without doing it.

It has effects to read, and an artifact with which exactly that runs later. An action that can say so has `plan`
(`SupportsPlan`). For each other one the plan is one effect that nobody knows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from launchbay import limits
from launchbay.actions.contract import Action, ActionCall
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.effect import NOT_SHOWN, Effect
from launchbay.model.existing import Existing
from launchbay.model.redaction import REDACTED, is_secret_name

CANNOT_PLAN = "This action can't say what it would do."
NOT_HELD = "This action may also do something else when it runs."
_DIFFERENCES_NAMED = 5


class ActionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of one step; none means that it would do nothing.

    `run` gets the artifact as `ActionCall.approved`, and then does this or fails with `NotApproved`. An empty one
    promises nothing: the plan then gets an unknown effect, unless it has one.
    `warnings` are for the reader. `destroys` names the document of which the step leaves nothing, so that its teardown
    isn't counted too.
    """

    effects: tuple[Effect, ...] = ()
    artifact: bytes = b""
    warnings: tuple[str, ...] = ()
    destroys: str = ""


@runtime_checkable
class SupportsPlan(Protocol):
    """An action that says what it would do."""

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return what `run` with these parameters would do. It changes nothing, inside or outside.

        Raises `ActionFailed` as `run` does, also if the time is too short to find out.
        """


@runtime_checkable
class PlansTeardown(Protocol):
    """An action that says what the teardown of a document would destroy (`SupportsTeardown`)."""

    async def plan_teardown(self, call: ActionCall, name: str) -> ActionPlan:
        """Return what `teardown` would do.

        That gets the artifact as `ActionCall.approved`. Raises `ActionFailed`.
        """


@runtime_checkable
class FindsExisting(Protocol):
    """An action that finds what runs already of what its step makes."""

    async def find_existing(self, call: ActionCall) -> Existing:
        """Return what runs already. It changes nothing.

        Raises ActionFailed with a remedy if there is nothing, or nothing that a step could continue with.
        """


def unknown(address: str, note: str = CANNOT_PLAN) -> ActionPlan:
    """Return the plan of a step that may do anything."""
    return ActionPlan(effects=(Effect(kind="unknown", address=address, certainty="unknown", note=note),))


def refuse_difference(differs: Sequence[str]) -> None:
    """Raise NotApproved, which names the first of what differs, if anything does."""
    if differs:
        more = len(differs) - _DIFFERENCES_NAMED
        shown = " and ".join((*differs[:_DIFFERENCES_NAMED], *((f"{more} more",) if more > 0 else ())))
        raise NotApproved(f"This isn't what was approved: {shown}. Nothing was done.")


def refuse_begun(call: ActionCall) -> None:
    """Raise NotApproved if an approved step acted before, and didn't fail.

    It was interrupted, so nobody knows how far it came, or it is over: another run could do it twice. Before a look at
    the world, which would blame somebody else for what the step has done itself, and before `call.begin()`.
    """
    if call.has_begun:
        raise NotApproved("This step began before to do what was approved, so another run could do it twice.")


async def plan_action(action: Action, call: ActionCall, address: str) -> ActionPlan:
    """Return the plan of a step, within its limits and without secrets.

    `address` is that of an unknown effect. Raises ActionFailed beyond a limit: what is left out of a plan must not be
    approved with it.
    """
    if action.pure:
        return ActionPlan()
    if not isinstance(action, SupportsPlan):
        return unknown(address)
    plan = bounded(await action.plan(call), call.context.redact)
    if plan.artifact or any(each.kind == "unknown" for each in plan.effects):
        return plan
    return msgspec.structs.replace(plan, effects=(*plan.effects, *unknown(address, NOT_HELD).effects))


def bounded(plan: ActionPlan, redact: Callable[[str], str]) -> ActionPlan:
    """Return the plan without secrets and large values. Raises ActionFailed."""
    if len(plan.effects) > limits.PLAN_EFFECTS:
        raise ActionFailed(
            f"The plan has {len(plan.effects)} effects (limit: {limits.PLAN_EFFECTS}).",
            "Split the step into smaller ones.",
            retryable=False,
        )
    if len(plan.artifact) > limits.PLAN_ARTIFACT_BYTES:
        raise ActionFailed(
            f"The artifact of the plan has {len(plan.artifact)} bytes (limit: {limits.PLAN_ARTIFACT_BYTES}).",
            "Split the step into smaller ones.",
            retryable=False,
        )
    effects = tuple(
        msgspec.structs.replace(
            each,
            address=redact(each.address),
            before=_shown(each.before, redact),
            after=_shown(each.after, redact),
            note=redact(each.note),
        )
        for each in plan.effects
    )
    size = len(msgspec.json.encode(effects))
    if size > limits.PLAN_BYTES:
        raise ActionFailed(
            f"The effects of the plan have {size} bytes (limit: {limits.PLAN_BYTES}).",
            "Split the step into smaller ones.",
            retryable=False,
        )
    warnings = tuple(redact(text)[: limits.LOG_LINE_CHARS] for text in plan.warnings[: limits.PLAN_WARNINGS])
    return ActionPlan(effects=effects, artifact=plan.artifact, warnings=warnings, destroys=plan.destroys)


def _shown(value: Any, redact: Callable[[str], str]) -> Any:
    masked = mask(value, redact)
    return masked if len(msgspec.json.encode(masked)) <= limits.PLAN_VALUE_BYTES else NOT_SHOWN


def mask(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON value without secrets.

    Those are known ones, and values under names such as `password`.
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {
            redact(str(name)): REDACTED if is_secret_name(str(name)) and item is not None else mask(item, redact)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [mask(item, redact) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if redact(str(value)) == str(value) else REDACTED
    return value
