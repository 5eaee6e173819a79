"""The frozen plan of a job: every choice made when it was accepted, so that a rerun after a crash decides the same."""

from typing import Any, Literal

import msgspec

from launchbay.errors import Conflict

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
