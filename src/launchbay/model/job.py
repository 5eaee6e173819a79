"""Jobs and steps: their statuses and the tables that move between them (reference §3, api-decisions "States")."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

from launchbay.errors import Conflict


class JobStatus(StrEnum):
    """Status of one run of a workflow."""

    EXECUTING = "Executing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class StepStatus(StrEnum):
    """Status of one step; a step that a crash interrupted stays Executing and starts again."""

    REQUESTED = "Requested"
    EXECUTING = "Executing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class InvalidStepTransition(ValueError):
    """A step cannot go from one status to the other; reaching it is a defect of the caller."""


_STEP_TRANSITIONS: dict[StepStatus, frozenset[StepStatus]] = {
    StepStatus.REQUESTED: frozenset({StepStatus.EXECUTING}),
    StepStatus.EXECUTING: frozenset({StepStatus.EXECUTING, StepStatus.SUCCEEDED, StepStatus.FAILED}),
    StepStatus.SUCCEEDED: frozenset(),
    StepStatus.FAILED: frozenset(),
}


def transition_step(status: StepStatus, to: StepStatus) -> StepStatus:
    """Return `to` if a step may go there from `status`. Raises ImpossibleStepMove otherwise."""
    if to not in _STEP_TRANSITIONS[status]:
        raise InvalidStepTransition(f"A step that is {status} cannot become {to}.")
    return to


def raise_percent(shown: int, reported: int) -> int:
    """Return the percentage to show next: 0 to 100, and it never falls (promise 6)."""
    return max(shown, min(100, max(0, reported)))


class ApprovalStatus(StrEnum):
    """Where an approval stands. Everything but `pending` is final."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"  # the job ended without an answer, by cancellation for example


@dataclass(frozen=True, slots=True)
class Question:
    """What a step wants approved. `who` is the name of a permission or of a role of the organization; None asks for
    nothing beyond the permission that every answer takes. Times are in UTC.
    """

    text: str
    who: str | None
    needed: int
    expires_at: datetime
    not_by_requester: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What one person answered; `by` is their e-mail address."""

    by: str
    approves: bool
    comment: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an approval ended, with the answers in the order of their times."""

    status: ApprovalStatus
    answers: Sequence[Answer]


def verdict_after(answers: Sequence[bool], needed: int) -> ApprovalStatus:
    """Return where an approval stands with these answers: one refusal decides, and so do `needed` consents."""
    if not all(answers):
        return ApprovalStatus.REJECTED
    return ApprovalStatus.APPROVED if len(answers) >= needed else ApprovalStatus.PENDING


def waiting_message(text: str, *, who: str, needed: int, given: int) -> str:
    """Return what an instance waits for, for people; `who` as `who_sentence` says it."""
    count = "approval" if needed == 1 else f"{needed} approvals ({given} given)"
    return f"Waits for {count} by {who}: {text}"


def approver_message(*, permission: str | None, role: str | None) -> str:
    """Return who may answer, for people."""
    if role is not None:
        return f"somebody with the role {role!r}"
    if permission is not None:
        return f"somebody with the permission {permission}"
    return "somebody who may approve"


# Raised when an older program would carry out a plan wrongly, or its journal: the journal has the version of its plan.
# A field that older programs may pass over does not raise it (docs/decisions/0086-stored-versions.md).
PLAN_VERSION = 1
JobKind = Literal["launch", "command", "trigger", "reconfigure", "destroy", "refused"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a job does.

    `launch` and `destroy` go over all components, `command` sends `component_workflow` to an `interface` of one
    `component`, `trigger` runs one of its workflows. `reconfigure` goes from the instance's former configuration to the
    present one. `refused` fails with `refusal` at once: a schedule that fell due and cannot be carried out any more
    still shows what became of it.

    `workflow` is the name that the job has in the API. `prior_status` is the instance's status at accept and
    `propagates` whether the job's end changes it (manifest-language §5, propagateStatus). `deletes_instance` makes a
    destroy the last job of a forced deletion: it has a time limit, and the records go after it. `resumes` are the
    failed jobs, the last one last, that this one goes on with: what they have done stays done. `recalls` is the job
    that a forced deletion put an end to, if any: what it has done is brought into the instance's state first. `trace`
    is the trace of whoever asked for the job (W3C traceparent), "" without. `version` stays the last field for ever:
    the statement that claims a job looks for it at the end of the text.
    """

    kind: JobKind
    workflow: str
    prior_status: str
    propagates: bool = True
    component: str | None = None
    interface: str = ""
    component_workflow: str | None = None
    arguments: dict[str, Any] = {}
    deletes_instance: bool = False
    refusal: str | None = None
    resumes: list[str] = []
    recalls: str | None = None
    trace: str = ""
    version: int = PLAN_VERSION

    def to_text(self) -> str:
        """Return the stored form."""
        return msgspec.json.encode(self).decode()


def read_plan(text: str) -> Plan:
    """Return the plan from its stored form. Raises Conflict for a version that this program does not know."""
    try:
        plan = _decoder.decode(text)
    except msgspec.ValidationError:
        _check_version(_version_decoder.decode(text).version)
        raise
    _check_version(plan.version)
    return plan


def _check_version(version: int) -> None:
    if version > PLAN_VERSION:
        raise Conflict(
            f"A newer version of Launchbay has accepted the job: its plan has format {version}, and this server knows"
            f" {PLAN_VERSION}.",
            "Upgrade this server, or ask one that is upgraded already.",
            code="NewerPlan",
        )


class _Versioned(msgspec.Struct):
    version: int


_decoder = msgspec.json.Decoder(Plan)
_version_decoder = msgspec.json.Decoder(_Versioned)

# The path of a step in its job's plan: the key of its record, and of its idempotency key (architecture, rule 7).
#
#     web#launch/deploy                      the step `deploy` of the workflow `launch` of the component `web`
# web#launch/deploy/copy                 a step of the macro that `deploy` calls     web#launch/ask>db#actions.grow/grow
# a step of the workflow that the command `actions.grow` runs at the peer `db`     web#launch/deploy~2/copy
# the same as the second one, in the second attempt of `deploy`
#
# Different places have different paths, whatever the names in a manifest are: the marks above are escaped in names.

PATH_CHARS = 600  # with four bytes each still less than a key of an index may have
_HEAD_CHARS = 120
_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_MARK = re.compile(r"[%/#>~\x00-\x1f\x7f]")


def segment(name: str) -> str:
    """Return a name as it stands in a path."""
    return _MARK.sub(lambda mark: f"%{ord(mark[0]):02X}", name)


def workflow_path(component: str, workflow: str) -> str:
    """Return the path of a workflow that the job itself runs."""
    return _bounded(f"{segment(component)}#{segment(workflow)}")


def step_path(workflow: str, step: str) -> str:
    """Return the path of a step in the run of a workflow with this path."""
    return _bounded(f"{workflow}/{segment(step)}")


def command_path(step: str, component: str, pin: str) -> str:
    """Return the path of the workflow that a step's command runs at the pin `interface.pin` of another component."""
    return _bounded(f"{step}>{segment(component)}#{segment(pin)}")


def attempt_path(step: str, attempt: int) -> str:
    """Return what a step's calls have before theirs in one of its attempts, the first being 1."""
    return step if attempt == 1 else _bounded(f"{step}~{attempt}")


def component_of(path: str) -> str:
    """Return the component, as `segment` writes it, whose workflow the job itself runs on this path."""
    return path.partition("#")[0]


def is_own_step(path: str) -> bool:
    """Tell whether the path is that of a step in a workflow that the job itself runs, not of one inside of a call."""
    return path.count("/") == 1 and ">" not in path and "~" not in path


def step_name(path: str) -> str:
    """Return the name of the step with this path."""
    return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), path.rpartition("/")[2])


def _bounded(path: str) -> str:
    """Return the path, or for a very long one its head with a digest of the whole."""
    if len(path) <= PATH_CHARS:
        return path
    return f"{path[:_HEAD_CHARS]}%{hashlib.sha256(path.encode()).hexdigest()}"
