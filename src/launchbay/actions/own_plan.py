"""The parameter `plan`: a command or request that says what its step would do."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall
from launchbay.actions.output import REPORTED_CHARS
from launchbay.actions.plan import ActionPlan, refuse_difference, unknown
from launchbay.errors import ActionFailed
from launchbay.model.effect import ANSWER, Effect
from launchbay.model.scalars import settled

PLAN = "plan"
NOT_GIVEN = "Without the parameter 'plan', this action can't say what it would do."


class ApprovedAnswers(msgspec.Struct, frozen=True):
    """The artifact: digests of the step's parameters, and of each answer."""

    parameters: bytes
    answers: dict[str, bytes]

    def require(self, call: ActionCall, answers: Mapping[str, Any]) -> None:
        """Raise NotApproved unless parameters and answers are the same."""
        found = _approved(call, answers)
        differs = [] if found.parameters == self.parameters else ["the parameters of the step changed"]
        every = dict.fromkeys((*self.answers, *found.answers))
        changed = [where for where in every if self.answers.get(where) != found.answers.get(where)]
        refuse_difference([*differs, *(f"what 'plan' says of {where} changed" for where in changed)])


read_answers = msgspec.msgpack.Decoder(ApprovedAnswers).decode


def has_plan(call: ActionCall) -> bool:
    """Return whether the step has the parameter."""
    return call.parameters.get(PLAN) is not None


def no_plan(call: ActionCall) -> ActionPlan:
    """Return the plan of a step that has no parameter `plan`."""
    return unknown(call.context.step_path, NOT_GIVEN)


def plan_of_answers(call: ActionCall, answers: Mapping[str, Any]) -> ActionPlan:
    """Return each answer as an effect.

    Nobody knows whether the step does what its plan says, so all are estimates.
    """
    if not answers:
        return unknown(call.context.step_path, "Unknown: there are no machines yet.")
    effects = tuple(
        Effect(kind="run", address=where, after=answer, certainty="estimated", note=ANSWER)
        for where, answer in answers.items()
    )
    return ActionPlan(effects=effects, artifact=msgspec.msgpack.encode(_approved(call, answers)))


def bounded_answer(where: str, text: str, redact: Callable[[str], str]) -> str:
    """Return an answer.

    Raises ActionFailed if it is too long to be shown, because nobody approves what is left out.
    """
    size = len(text.encode())
    if size > limits.PLAN_VALUE_BYTES:
        raise ActionFailed(
            f"What 'plan' says of {where} has {size} bytes or more. Limit: {limits.PLAN_VALUE_BYTES} bytes. It begins:"
            f" {redact(text)[:REPORTED_CHARS]}",
            "Let it say less, such as what would change alone.",
            retryable=False,
        )
    return text


def _approved(call: ActionCall, answers: Mapping[str, Any]) -> ApprovedAnswers:
    return ApprovedAnswers(_digest(dict(call.parameters)), {where: _digest(each) for where, each in answers.items()})


def _digest(value: Any) -> bytes:
    return hashlib.sha256(msgspec.json.encode(settled(value), order="deterministic")).digest()
