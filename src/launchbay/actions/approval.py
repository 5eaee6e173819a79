"""`approval`: wait until people approve (decision 0059)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter
from launchbay.actions.parameters import (
    duration_s,
    flag,
    optional_text,
    required_text,
    whole_number,
    wrong_parameter,
)
from launchbay.errors import ActionFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.job import ApprovalStatus, Question, Verdict

_TEXT = "the question for people"


class Approval(ActionDefaults):
    """Waits until enough people have approved. One rejection, or the timeout, fails the step permanently."""

    name = "approval"
    parameters: Mapping[str, ActionParameter] = {
        "text": ActionParameter("The question for people.", type="string", required=True, other_name="message"),
        "message": ActionParameter("Another name for text.", type="string"),
        "who": ActionParameter(
            "A permission or role that is required in addition to ApproveInstanceWorkflow.",
            type="string",
            needs_value=True,
        ),
        "approvals": ActionParameter(
            "The number of people who must approve. Default: 1.", type="int", needs_value=True
        ),
        "timeout": ActionParameter(
            'The maximum time to wait, in seconds or as a string such as "2 days". Default: 7 days.',
            check=parse_duration_s,
        ),
        "notByRequester": ActionParameter(
            "true: the requester of the launch or workflow isn't allowed to approve.", type="bool", needs_value=True
        ),
    }
    outputs: Mapping[str, str] = {
        "approvedBy": "The email addresses of the people who approved, comma-separated.",
        "comment": "Their comments, one per line.",
        "approvedAt": "The time of the last approval, in UTC, such as 2026-11-20T13:05:00Z.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        verdict = await call.context.ask(_question(call))
        if verdict.status is not ApprovalStatus.APPROVED:
            raise ActionFailed(_refusal(verdict), retryable=False)
        by = ", ".join(answer.by for answer in verdict.answers)
        call.context.log("info", f"Approved by {by}.")
        return {
            "approvedBy": by,
            "comment": "\n".join(answer.comment for answer in verdict.answers if answer.comment),
            "approvedAt": max(answer.at for answer in verdict.answers).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def _question(call: ActionCall) -> Question:
    parameters = call.parameters
    name = "text" if parameters.get("text") is not None or parameters.get("message") is None else "message"
    text = required_text(parameters, name, _TEXT).strip()
    if not text or len(text) > limits.APPROVAL_TEXT_CHARS:
        raise wrong_parameter(name, f"{_TEXT}, of 1 to {limits.APPROVAL_TEXT_CHARS} characters")
    needed = parameters.get("approvals")
    timeout_s = duration_s(parameters, "timeout", limits.APPROVAL_S, longest_s=limits.APPROVAL_LONGEST_S)
    return Question(
        text=text,
        who=optional_text(parameters, "who", "the name of a permission or of a role"),
        needed=1 if needed is None else whole_number(needed, "approvals", minimum=1, maximum=limits.APPROVALS_NEEDED),
        # From the first start: after a crash, only the rest of the time remains.
        expires_at=call.context.started_at + timedelta(seconds=timeout_s),
        not_by_requester=flag(parameters, "notByRequester", default=False),
    )


def _refusal(verdict: Verdict) -> str:
    refused = next((answer for answer in verdict.answers if not answer.approves), None)
    if refused is not None:
        return f"Rejected by {refused.by}" + (f": {refused.comment}" if refused.comment else ".")
    if verdict.status is ApprovalStatus.EXPIRED:
        return f"The approval expired with {len(verdict.answers)} approvals. Run the workflow again to ask again."
    return "The approval was withdrawn."
