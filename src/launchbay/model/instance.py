"""Application instances: statuses and transitions, links, scale, what work waits for (conformance.md, "States")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from launchbay.model.job import JobOutcome


class InstanceStatus(StrEnum):
    """Status of an instance, as the API shows it (reference §3)."""

    REQUESTED = "Requested"
    EXECUTING = "Executing"
    RUNNING = "Running"
    FAILED = "Failed"
    DESTROYING = "Destroying"
    DESTROYED = "Destroyed"


# What lists of instances show unless somebody asks for destroyed ones.
ALIVE = tuple(status for status in InstanceStatus if status is not InstanceStatus.DESTROYED)


class InstanceEvent(StrEnum):
    """What happens to an instance."""

    LAUNCH_STARTED = "launch started"  # a worker claimed the launch job
    WORK_ACCEPTED = "work accepted"  # any workflow, trigger or reconfiguration
    WORK_SUCCEEDED = "work succeeded"
    WORK_FAILED = "work failed"
    DESTROY_ACCEPTED = "destroy accepted"
    DESTROY_SUCCEEDED = "destroy succeeded"
    DESTROY_FAILED = "destroy failed"


_S = InstanceStatus
_E = InstanceEvent
_TRANSITIONS: dict[tuple[InstanceStatus, InstanceEvent], InstanceStatus] = {
    (_S.REQUESTED, _E.LAUNCH_STARTED): _S.EXECUTING,
    # A worker that takes over the launch after a crash finds it started already.
    (_S.EXECUTING, _E.LAUNCH_STARTED): _S.EXECUTING,
    (_S.RUNNING, _E.WORK_ACCEPTED): _S.EXECUTING,
    (_S.FAILED, _E.WORK_ACCEPTED): _S.EXECUTING,
    (_S.EXECUTING, _E.WORK_SUCCEEDED): _S.RUNNING,
    (_S.EXECUTING, _E.WORK_FAILED): _S.FAILED,
    # A launch that no worker started can be cancelled as well: it ends as Failed.
    (_S.REQUESTED, _E.WORK_FAILED): _S.FAILED,
    # A submodule whose parent failed first was never launched.
    (_S.REQUESTED, _E.DESTROY_ACCEPTED): _S.DESTROYING,
    (_S.RUNNING, _E.DESTROY_ACCEPTED): _S.DESTROYING,
    (_S.FAILED, _E.DESTROY_ACCEPTED): _S.DESTROYING,
    (_S.DESTROYING, _E.DESTROY_SUCCEEDED): _S.DESTROYED,
    (_S.DESTROYING, _E.DESTROY_FAILED): _S.FAILED,
}


def transition(status: InstanceStatus, event: InstanceEvent) -> InstanceStatus:
    """Return the status after the event. Raises ValueError for a pair that isn't in the table."""
    try:
        return _TRANSITIONS[status, event]
    except KeyError:
        raise ValueError(f"Invalid event for an instance in status {status}: {event}.") from None


def sources(event: InstanceEvent) -> tuple[InstanceStatus, ...]:
    """Return the statuses in which the event can happen.

    The UPDATE that accepts a job is stricter: the instance must still have the one status that the plan was made for.
    """
    return tuple(status for status, possible in _TRANSITIONS if possible is event)


def status_after_job(prior: InstanceStatus, *, is_destroy: bool, succeeded: bool, propagates: bool) -> InstanceStatus:
    """Return an instance's status when a job ends.

    `prior` is the status at accept. A workflow that doesn't propagate its status leaves the instance unchanged
    (manifest-language §5, propagateStatus).
    """
    if is_destroy:
        return transition(_S.DESTROYING, _E.DESTROY_SUCCEEDED if succeeded else _E.DESTROY_FAILED)
    if not propagates and prior in {_S.RUNNING, _S.FAILED}:
        return prior
    return transition(_S.EXECUTING, _E.WORK_SUCCEEDED if succeeded else _E.WORK_FAILED)


class Health(StrEnum):
    """How an instance is, in a word, for lists."""

    HEALTHY = "Healthy"
    DEGRADED = "Degraded"  # it runs, but its last job failed, a component isn't launched, or a submodule isn't well
    FAILED = "Failed"
    BUSY = "Busy"  # a job is under way
    GONE = "Gone"  # it is destroyed


def health_of(status: InstanceStatus, last_job: str | None, *, is_incomplete: bool) -> Health:
    """Return how an instance is.

    `last_job` is the outcome of its last job. `is_incomplete`: a component isn't launched, or a submodule, or one
    inside it, isn't well (`launchbay_incomplete` in the database).
    """
    if status is InstanceStatus.RUNNING:
        return Health.DEGRADED if last_job == JobOutcome.FAILED or is_incomplete else Health.HEALTHY
    return {InstanceStatus.FAILED: Health.FAILED, InstanceStatus.DESTROYED: Health.GONE}.get(status, Health.BUSY)


def is_active(status: InstanceStatus, *, may_hold_something: bool) -> bool:
    """Return whether the instance is active: only then does its deletion need force (conformance.md, "States").

    `may_hold_something` is False if none of its jobs can have created a resource.
    """
    return status is not _S.DESTROYED and (status is not _S.FAILED or may_hold_something)


class FormerConfiguration(msgspec.Struct, frozen=True):
    """Manifest version, given parameters and former links of components: `{component: [instance id, kind]}`.

    `stopped` are components that a failed reconfiguration has stopped already. `owed` are pins by component that an
    earlier one changed, without the workflows that they trigger (decision 0217).
    """

    version: int
    parameters: dict[str, Any]
    links: dict[str, tuple[str, str]] = {}
    stopped: list[str] = []
    owed: dict[str, list[str]] = {}

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()


read_former_configuration = msgspec.json.Decoder(FormerConfiguration).decode


class LinkKind(StrEnum):
    """The kind of target that a component is linked to."""

    OWN = "own"  # an instance, launched as a submodule, and destroyed with its parent
    SHARED = "shared"  # a running instance from the environment's shared-instances catalog
    SERVICE = "service"  # an instance that is offered as a service in the environment
    SERVICE_INSTANCE = "service-instance"  # a service of the environment, of some service type; no instance


class BoundService(msgspec.Struct, frozen=True):
    """A service as an instance sees it, copied at launch or at the last reconfiguration (language §8).

    `secrets` are encrypted; `signals` are the values that its type publishes, by `interface.pin`.
    """

    name: str
    type_id: str
    parameters: dict[str, Any] = {}
    secrets: dict[str, bytes] = {}
    signals: dict[str, Any] = {}


class Binding(msgspec.Struct, frozen=True):
    """How a component is connected to a service: its pins, each with the service's name for it."""

    pins: dict[str, str] = {}
    service: BoundService | None = None  # only in links of the kind SERVICE_INSTANCE


@dataclass(frozen=True, slots=True)
class Link:
    """The target of a component. Two links are equal if their targets are."""

    instance_id: str  # of an instance, or of a service
    kind: LinkKind
    binding: Binding = field(default=Binding(), compare=False)

    @property
    def is_instance(self) -> bool:
        return self.kind is not LinkKind.SERVICE_INSTANCE

    def key(self, pin: str) -> str | None:
        """Return the target's name for a pin `interface.pin` of the component, or None."""
        is_service = self.kind in {LinkKind.SERVICE, LinkKind.SERVICE_INSTANCE}
        return self.binding.pins.get(pin) if is_service else pin

    def is_same(self, other: "Link | None") -> bool:
        """Return whether the other link is equal and has the same binding."""
        return other is not None and self == other and self.binding == other.binding

    def binding_text(self) -> str | None:
        """Return the stored form of the binding, None for an empty one."""
        return None if self.binding == Binding() else msgspec.json.encode(self.binding).decode()


def read_link(instance_id: str, kind: str, binding: str | None) -> Link:
    return Link(instance_id, LinkKind(kind), Binding() if binding is None else _binding_decoder.decode(binding))


_binding_decoder = msgspec.json.Decoder(Binding)


class Scale(msgspec.Struct, frozen=True):
    """`quantity` members, and the configured number at the time when it was set."""

    configured: int
    quantity: int


def effective_scale(scale: Scale | None, configured: int) -> Scale:
    """Return the scale for a configured number: a quantity stays until another number is configured."""
    return scale if scale is not None and scale.configured == configured else Scale(configured, configured)


def scales_in(state: str) -> Mapping[str, Scale]:
    """Return the scales by the path of the Scaler from the stored form of an instance's state."""
    return {path: part.scale for path, part in _parts_decoder.decode(state).items() if part.scale is not None}


def remembered_in(state: str, path: str) -> frozenset[str]:
    """Return the names of what a component's workflows returned; `state` is stored text."""
    part = _parts_decoder.decode(state).get(path)
    return frozenset() if part is None else frozenset(part.variables)


class _Part(msgspec.Struct):
    scale: Scale | None = None
    variables: dict[str, msgspec.Raw] = {}


_parts_decoder = msgspec.json.Decoder(dict[str, _Part])
