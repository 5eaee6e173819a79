"""Jobs: statuses of jobs and steps, approvals, frozen plans, step paths (reference §3; conformance.md, "States").

Steps have their table of transitions here. Jobs have none: a job begins as Executing and ends once, and the conditions
of `claim`, `end` and `supersede` in `store/queries/jobs.sql` guard that.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
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


class JobOutcome(StrEnum):
    """How a job ended: as its status says.

    Except that a cancelled one hasn't failed (decision 0176).
    """

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


CANCELLED = "Cancelled by "  # begins the error of a job that somebody cancelled
INTERRUPTED_STEP = "The step was interrupted."  # the error of a step that its job left unfinished


# What a step says of its failure, and the code that explains it.
_FAILURES = (
    (" exceeded its timeout of ", "StepTimeout"),
    (" ended with exit code ", "NonzeroExit"),
    (" is refused: it is ", "AddressRefused"),
)


def is_cancellation(error: str | None) -> bool:
    """Return whether the error of a job says that somebody cancelled it.

    `launchbay_outcome` says it in the database.
    """
    return error is not None and error.startswith(CANCELLED)


def failure_code(message: str | None) -> str | None:
    """Return the code that explains the error of a job.

    None if it has no error, if somebody cancelled it, or if no step failed.
    """
    if not message or is_cancellation(message):
        return None
    places = {message.find(words): code for words, code in _FAILURES if words in message}
    if places:
        return places[min(places)]  # later ones can be in the output of the command
    return "ActionFailed" if "step '" in message else None


class StepStatus(StrEnum):
    """Status of one step; a step that a crash interrupted stays Executing and starts again."""

    REQUESTED = "Requested"
    EXECUTING = "Executing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


_STEP_TRANSITIONS: dict[StepStatus, frozenset[StepStatus]] = {
    StepStatus.REQUESTED: frozenset({StepStatus.EXECUTING}),
    StepStatus.EXECUTING: frozenset({StepStatus.EXECUTING, StepStatus.SUCCEEDED, StepStatus.FAILED}),
    StepStatus.SUCCEEDED: frozenset(),
    StepStatus.FAILED: frozenset(),
}


def transition_step(status: StepStatus, to: StepStatus) -> StepStatus:
    """Return `to` if a step in `status` can change to it. Raises ValueError otherwise."""
    if to not in _STEP_TRANSITIONS[status]:
        raise ValueError(f"A step can't change from {status} to {to}.")
    return to


def raise_percent(shown: int, reported: int) -> int:
    """Return the percentage to show next: 0 to 100, and it never falls (promise 6)."""
    return max(shown, min(100, max(0, reported)))


class ApprovalStatus(StrEnum):
    """Status of an approval. All but `pending` are final."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"  # the job ended without an answer, by cancellation for example


@dataclass(frozen=True, slots=True)
class Question:
    """The question of an approval. Times are in UTC.

    `who` is the name of a permission or of a role of the organization; None requires only the permission to answer.
    """

    text: str
    who: str | None
    needed: int
    expires_at: datetime
    not_by_requester: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """One person's answer; `by` is their email address."""

    by: str
    approves: bool
    comment: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an approval, with the answers by time."""

    status: ApprovalStatus
    answers: Sequence[Answer]


def verdict_after(answers: Sequence[bool], needed: int) -> ApprovalStatus:
    """Return the status after these answers: one rejection decides, and so do `needed` approvals."""
    if not all(answers):
        return ApprovalStatus.REJECTED
    return ApprovalStatus.APPROVED if len(answers) >= needed else ApprovalStatus.PENDING


def approver_message(*, permission: str | None, role: str | None) -> str:
    if role is not None:
        return f"a user with role {role!r}"
    if permission is not None:
        return f"a user with permission {permission}"
    return "any user who may approve"


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """A job with a place in a limited group. It started at `since_ms`."""

    job_id: str
    number: int
    workflow: str
    instance_id: str
    instance: str
    since_ms: int


class Holders(msgspec.Struct, frozen=True, array_like=True):
    """Some jobs in a group that the reader may know; `more` are not shown."""

    shown: tuple[Holder, ...] = ()
    more: bool = False


# What work waits for. Each has a case in tests/console/test_waits.py, which asks all surfaces.
WaitKind = Literal[
    "worker",
    "limit",
    "approval",
    "job",
    "retry",
    "time",
    "resource",
    "machine",
    "peers",
    "instance",
    "service",
    "schedule",
    "sleep",
    "destroy",
]


class StepWait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step waits for, as `Wait` without its beginning."""

    kind: WaitKind
    text: str
    ends_when: str
    until: int | None = None
    position: int | None = None
    job: str | None = None
    instance: str | None = None


# Incremented if an older program would run a plan, or replay its journal, incorrectly. A field that older programs may
# ignore doesn't increment it (decision 0086).
PLAN_VERSION = 3
_HELD_VERSION = 2  # an older program would run the job without what was approved
_FORGETTING_VERSION = 3  # an older program would destroy what the instance only observes
OriginKind = Literal["person", "token", "schedule", "trigger", "expiry", "job"]
JobKind = Literal["launch", "command", "trigger", "reconfigure", "destroy", "refused"]


class Cause(msgspec.Struct, frozen=True):
    """The larger change that a job is part of.

    A rollback's `id` is its generation, and the `id` of what a rule begins is the instance's. A recurring schedule has
    its `name`. The jobs of a planned change set are held to the plans that were approved.
    """

    kind: Literal["change-set", "rollout", "rollback", "recurring-schedule", "idle", "sleep"]
    id: str
    name: str = ""
    is_planned: bool = False


class Origin(msgspec.Struct, frozen=True):
    """What began a job, if not a person.

    A person who began it as a part of a larger change has a `cause`.
    """

    kind: OriginKind
    id: str = ""
    name: str = ""
    cause: Cause | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a job does.

    `launch` and `destroy` run on all components, `command` sends `component_workflow` to an `interface` of one
    `component`, `trigger` runs one of its workflows. `reconfigure` changes the instance from its former configuration
    to the present one. `refused` fails immediately with `refusal`: a due schedule that can no longer run still shows a
    result.

    `workflow` is the job's name in the API. `prior_status` is the instance's status at accept, and `propagates` says
    whether the job's end changes it (manifest-language §5, propagateStatus). `deletes_instance` makes a destroy the
    last job of a forced deletion: it has a time limit, and the records are deleted after it. `resumes` are the failed
    jobs, newest last, that this one continues: their completed steps don't run again. `recalls` is the job that a
    forced deletion cancelled, if any: its effects are replayed into the instance's state first. `trace` is the trace
    of the request (W3C traceparent), or "". `key_seed` is what idempotency keys derive from instead of the job's ID,
    or "" (decision 0151). `origin` is None for a person, and `manifest_version` is that of the
    instance at accept. A `held` job does only what somebody approved (decision 0207). A destroy that
    `forgets` leaves what is there (decision 0232). `version` must stay the last
    field: the statement that claims a job looks for it at the end of the text.
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
    key_seed: str = ""
    origin: Origin | None = None
    manifest_version: int | None = None
    held: bool = False
    forgets: bool = False
    version: int = 1

    @property
    def configures(self) -> bool:
        """Whether it applies the parameters of the instance."""
        return self.kind in {"launch", "reconfigure"}

    def holding(self) -> "Plan":
        """Return the plan of a job that does only what somebody approved."""
        return msgspec.structs.replace(self, held=True, version=max(self.version, _HELD_VERSION))

    @property
    def is_harmless(self) -> bool:
        """Whether it changes nothing outside of Launchbay."""
        return self.forgets or self.kind == "refused"

    def forgetting(self) -> "Plan":
        """Return the plan of a destroy that leaves what is there."""
        return msgspec.structs.replace(self, forgets=True, version=_FORGETTING_VERSION)

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()


def seed_of_item(*item: object) -> str:
    """Return the seed of idempotency keys of an item of later work (decision 0151).

    The same ID and time give the same seed in every process, and in a database restored from a backup.
    """
    return hashlib.sha256("\n".join(map(str, item)).encode()).hexdigest()


def read_plan(text: str) -> Plan:
    """Return the plan from its stored form. Raises Conflict for a newer version."""
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
            f"A newer version of Launchbay accepted the job: its plan has format {version}, this server supports"
            f" {PLAN_VERSION}.",
            "Upgrade this server, or send the request to an upgraded one.",
            code="NewerPlan",
        )


class _Versioned(msgspec.Struct):
    version: int


_decoder = msgspec.json.Decoder(Plan)
_version_decoder = msgspec.json.Decoder(_Versioned)

# The path of a step in its job's plan: the key of its record, and of its idempotency key (guarantee 3).
#
#     web#launch/deploy                       the step `deploy` of the workflow `launch` of the component `web`
#     web#launch/deploy/copy                  a step of the macro that `deploy` calls
#     web#launch/ask>db#actions.grow/grow     a step of the workflow of the command `actions.grow` at the peer `db`
#     web#launch/deploy~2/copy                the second path, in the second attempt of `deploy`
#     db#launch>server%23launch%2Fask         a command that the submodule `db`, while it launches, sends to its parent
#
# Different steps have different paths for any names in a manifest: these separators are escaped in names.

#     web#launch/deploy~[2]/deploy            the third item of the loop `deploy`
#     web#launch/deploy~each                  the items of the loop, as they were when it began

_DECISIONS = frozenset({"each", "began", "expired"})
PATH_CHARS = 600  # with four bytes each, less than the limit of an index key
_HEAD_CHARS = 120
_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_MARK = re.compile(r"[%/#>~\x00-\x1f\x7f]")


def segment(name: str) -> str:
    """Return a name, escaped for a path."""
    return _MARK.sub(lambda mark: f"%{ord(mark[0]):02X}", name)


def workflow_path(component: str, workflow: str) -> str:
    return _bounded(f"{segment(component)}#{segment(workflow)}")


def step_path(workflow: str, step: str) -> str:
    return _bounded(f"{workflow}/{segment(step)}")


def command_path(step: str, component: str, pin: str) -> str:
    """Return the path of the workflow that a step's command runs at the pin `interface.pin` of another component."""
    return _bounded(f"{step}>{segment(component)}#{segment(pin)}")


def passed_path(call: str, path: str) -> str:
    """Return the path of a command that a called job passes up.

    `call` is the path of the call, and `path` the place of the command in the called job's own plan.
    """
    return _bounded(f"{call}>{segment(path)}")


def attempt_path(step: str, attempt: int) -> str:
    """Return the prefix of a step's calls in one of its attempts, starting at 1."""
    return step if attempt == 1 else _bounded(f"{step}~{attempt}")


def item_path(step: str, number: int) -> str:
    """Return the prefix of one item of a loop, counted from 0."""
    return _bounded(f"{step}~[{number}]")


def decision_path(place: str, what: str) -> str:
    """Return the path of a record of what the runtime has decided."""
    return _bounded(f"{place}~{what}")


def is_decision(path: str) -> bool:
    """Return whether a record keeps a decision instead of a step."""
    return path.rpartition("~")[2] in _DECISIONS


def component_of(path: str) -> str:
    """Return the component, as written by `segment`, whose workflow the job runs directly."""
    return path.partition("#")[0]


def unescaped(text: str) -> str:
    """Return the name that `segment` escaped."""
    return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), text)


def owner_of(path: str) -> str:
    """Return the component whose workflow has the step: in a command, the receiver."""
    return unescaped(path.rpartition(">")[2].partition("#")[0])


def outer_paths(path: str) -> Iterator[str]:
    """Yield the paths around a step, the innermost first."""
    for place in range(len(path) - 1, 0, -1):
        if path[place] in "/>~":
            yield path[:place]


def is_own_step(path: str) -> bool:
    """Return whether the path is a step of a workflow that the job runs directly, not inside a call."""
    return path.count("/") == 1 and ">" not in path and "~" not in path


def step_name(path: str) -> str:
    return unescaped(path.rpartition("/")[2])


def _bounded(path: str) -> str:
    """Return the path, or the head of a very long one with a digest of all of it."""
    if len(path) <= PATH_CHARS:
        return path
    return f"{path[:_HEAD_CHARS]}%{hashlib.sha256(path.encode()).hexdigest()}"
