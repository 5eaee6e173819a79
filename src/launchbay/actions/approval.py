"""`approval`: wait for people who may say yes (docs/decisions/0059-approvals.md)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import (
    flag,
    optional_duration_s,
    optional_text,
    required_text,
    whole_number,
    wrong_parameter,
)
from launchbay.errors import ActionFailed
from launchbay.model.job import ApprovalStatus, Question, Verdict

_TEXT = "what is to be approved, a sentence for people"


class Approval:
    """Waits until enough people have approved. A refusal, or too long a silence, fails the step for good."""

    name = "approval"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "text": ActionParameter("What is to be approved, a sentence for people.", type="string", required=True),
        "message": ActionParameter("Another name for text.", type="string"),
        "who": ActionParameter(
            "A permission or role: who answers needs it besides ApproveInstanceWorkflow.", type="string"
        ),
        "approvals": ActionParameter("How many people have to approve; 1 where it is left out.", type="int"),
        "timeout": ActionParameter('How long to wait: seconds, or a text such as "2 days"; 7 days if left out.'),
        "notByRequester": ActionParameter("true: not by whoever asked for the launch or workflow.", type="bool"),
    }
    outputs: Mapping[str, str] = {
        "approvedBy": "The e-mail address of who approved; of several, with commas between them.",
        "comment": "What they commented, a line each.",
        "approvedAt": "When the last one approved, in UTC, such as 2026-11-20T13:05:00Z.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Ask, and wait for the answer."""
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
    timeout_s = optional_duration_s(parameters, "timeout", longest_s=limits.APPROVAL_LONGEST_S)
    patience = timedelta(seconds=limits.APPROVAL_S if timeout_s is None else timeout_s)
    return Question(
        text=text,
        who=optional_text(parameters, "who", "the name of a permission or of a role"),
        needed=1 if needed is None else whole_number(needed, "approvals", minimum=1, maximum=limits.APPROVALS_NEEDED),
        # From the first start on: after a crash only the rest of the time is left.
        expires_at=call.context.started_at + patience,
        not_by_requester=flag(parameters, "notByRequester", default=False),
    )


def _refusal(verdict: Verdict) -> str:
    refused = next((answer for answer in verdict.answers if not answer.approves), None)
    if refused is not None:
        return f"Rejected by {refused.by}" + (f": {refused.comment}" if refused.comment else ".")
    if verdict.status is ApprovalStatus.EXPIRED:
        return f"Nobody has decided in time; {len(verdict.answers)} had approved. Run it again to ask again."
    return "The approval was withdrawn."
