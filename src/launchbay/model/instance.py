"""The life of an application instance: its statuses, and the one table of their moves (api-decisions, "States")."""

from enum import StrEnum


class InstanceStatus(StrEnum):
    """Status of an instance, as the API shows it (reference §3)."""

    REQUESTED = "Requested"
    EXECUTING = "Executing"
    RUNNING = "Running"
    FAILED = "Failed"
    DESTROYING = "Destroying"
    DESTROYED = "Destroyed"


class InstanceEvent(StrEnum):
    """What happens to an instance."""

    LAUNCH_STARTED = "launch started"  # a worker claimed the launch job
    WORK_ACCEPTED = "work accepted"  # any workflow, trigger or reconfiguration
    WORK_SUCCEEDED = "work succeeded"
    WORK_FAILED = "work failed"
    DESTROY_ACCEPTED = "destroy accepted"
    DESTROY_SUCCEEDED = "destroy succeeded"
    DESTROY_FAILED = "destroy failed"


class ImpossibleMove(ValueError):
    """An event that cannot happen in a status; reaching it is a defect of the caller."""


_S = InstanceStatus
_E = InstanceEvent

_MOVES: dict[tuple[InstanceStatus, InstanceEvent], InstanceStatus] = {
    (_S.REQUESTED, _E.LAUNCH_STARTED): _S.EXECUTING,
    # A worker that takes the launch over after a crash finds it started already.
    (_S.EXECUTING, _E.LAUNCH_STARTED): _S.EXECUTING,
    (_S.RUNNING, _E.WORK_ACCEPTED): _S.EXECUTING,
    (_S.FAILED, _E.WORK_ACCEPTED): _S.EXECUTING,
    (_S.EXECUTING, _E.WORK_SUCCEEDED): _S.RUNNING,
    (_S.EXECUTING, _E.WORK_FAILED): _S.FAILED,
    # A launch that never got to a worker can be given up as well: it ends as Failed.
    (_S.REQUESTED, _E.WORK_FAILED): _S.FAILED,
    # A submodule whose parent failed before its turn came has never been launched.
    (_S.REQUESTED, _E.DESTROY_ACCEPTED): _S.DESTROYING,
    (_S.RUNNING, _E.DESTROY_ACCEPTED): _S.DESTROYING,
    (_S.FAILED, _E.DESTROY_ACCEPTED): _S.DESTROYING,
    (_S.DESTROYING, _E.DESTROY_SUCCEEDED): _S.DESTROYED,
    (_S.DESTROYING, _E.DESTROY_FAILED): _S.FAILED,
}


def move(status: InstanceStatus, event: InstanceEvent) -> InstanceStatus:
    """Return the status after the event. Raises ImpossibleMove for a pair that the table does not have."""
    try:
        return _MOVES[status, event]
    except KeyError:
        raise ImpossibleMove(f"An instance that is {status} cannot have: {event}.") from None


def sources(event: InstanceEvent) -> tuple[InstanceStatus, ...]:
    """Return the statuses in which the event can happen: the condition of the UPDATE that accepts a job."""
    return tuple(status for status, possible in _MOVES if possible is event)


def status_after_job(prior: InstanceStatus, *, is_destroy: bool, succeeded: bool, propagates: bool) -> InstanceStatus:
    """Return an instance's status when a job ends.

    `prior` is the status at accept. A workflow that does not propagate its status leaves the instance as it was
    (manifest-language §5, propagateStatus).
    """
    if is_destroy:
        return move(_S.DESTROYING, _E.DESTROY_SUCCEEDED if succeeded else _E.DESTROY_FAILED)
    if not propagates and prior in {_S.RUNNING, _S.FAILED}:
        return prior
    return move(_S.EXECUTING, _E.WORK_SUCCEEDED if succeeded else _E.WORK_FAILED)


def is_active(status: InstanceStatus, *, may_hold_something: bool) -> bool:
    """Tell whether the instance is active: only then does its deletion need force (api-decisions, "States").

    `may_hold_something` is False when nothing it has done can have made a resource.
    """
    return status is not _S.DESTROYED and (status is not _S.FAILED or may_hold_something)
