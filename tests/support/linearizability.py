"""Does a recorded history fit one order, with every operation at one moment between its call and its return?

The search of Wing and Gong ("Testing and verifying concurrent objects", 1993), with the memory of Lowe's improvement:
what was tried from the same set of operations and the same state, and no later, is not tried again.

The object is an instance (conformance.md). Jobs end by themselves, at an unknown moment, but never before they
can: a job that takes a while keeps the instance for that long. That is what makes a second acceptance a violation and
not just the next job. All times are seconds of one clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a client asked for."""

    RUN = "run"
    SCHEDULE = "schedule with interval 0"
    CONFIGURE = "configure"
    DESTROY = "destroy"
    DELETE = "delete"
    DELETE_BY_FORCE = "delete by force"
    READ = "read"


class Phase(StrEnum):
    """The state of the instance as the model sees it."""

    IDLE = "Running"
    BUSY = "Executing"
    DESTROYING = "Destroying"
    DELETING = "Destroying, to be deleted"
    DESTROYED = "Destroyed"
    ABSENT = "absent"


@dataclass(frozen=True)
class Operation:
    """One request: what was asked and answered, and when it was sent and its answer received."""

    kind: Kind
    outcome: str  # "accepted", "busy", "destroyed", "active", "absent"; of a read the status
    called_s: float
    returned_s: float

    def __str__(self) -> str:
        return f"{self.called_s:8.4f} … {self.returned_s:8.4f}  {self.kind}: {self.outcome}"


@dataclass(frozen=True)
class State:
    """A phase that holds from `since_s` on; until `until_s`, the job in it cannot have ended."""

    phase: Phase
    since_s: float = 0.0
    until_s: float = 0.0


_WORK = {Kind.RUN, Kind.SCHEDULE, Kind.CONFIGURE, Kind.DESTROY}
_ENDS_AS = {Phase.BUSY: Phase.IDLE, Phase.DESTROYING: Phase.DESTROYED, Phase.DELETING: Phase.ABSENT}
_REFUSALS = {
    Phase.BUSY: "busy",
    Phase.DESTROYING: "busy",
    Phase.DELETING: "busy",
    Phase.DESTROYED: "destroyed",
    Phase.ABSENT: "absent",
}
_SHOWN = {Phase.DELETING: "Destroying", Phase.ABSENT: "absent"}


class Model:
    """The sequential specification. `shortest_s` tells how long a job of each kind takes at least."""

    def __init__(self, shortest_s: dict[Kind, float]) -> None:
        self._shortest_s = shortest_s

    def steps(self, state: State, operation: Operation) -> Iterator[State]:
        """Yield every state in which the operation can leave the instance, at the earliest moments that it may."""
        for before in self._possible(state):
            at_s = max(before.since_s, operation.called_s)
            if at_s > operation.returned_s:
                continue
            after = self._after(before, operation, at_s)
            if after is not None:
                yield after

    @staticmethod
    def _possible(state: State) -> Iterator[State]:
        """Yield the state, and the one that it ends as when its job does."""
        yield state
        if state.phase in _ENDS_AS:
            yield State(_ENDS_AS[state.phase], max(state.since_s, state.until_s))

    def _after(self, before: State, operation: Operation, at_s: float) -> State | None:
        """Return the state after the operation, None when it cannot have that outcome there."""
        phase, kind, outcome = before.phase, operation.kind, operation.outcome
        unchanged = State(phase, at_s, before.until_s)
        if kind is Kind.READ:
            return unchanged if outcome == _SHOWN.get(phase, phase.value) else None
        if kind in _WORK:
            if phase is not Phase.IDLE:
                return unchanged if outcome == _REFUSALS[phase] else None
            begun = Phase.DESTROYING if kind is Kind.DESTROY else Phase.BUSY
            return State(begun, at_s, at_s + self._shortest_s.get(kind, 0.0)) if outcome == "accepted" else None
        return self._after_deletion(before, operation, at_s)

    def _after_deletion(self, before: State, operation: Operation, at_s: float) -> State | None:
        phase, outcome = before.phase, operation.outcome
        if phase is Phase.ABSENT:  # whoever finds it deleted meanwhile may be told so, or that it is done
            return State(phase, at_s) if outcome in {"absent", "accepted"} else None
        if phase is Phase.DESTROYED:
            return State(Phase.ABSENT, at_s) if outcome == "accepted" else None
        if operation.kind is Kind.DELETE:
            return State(phase, at_s, before.until_s) if outcome == "active" else None
        if phase is Phase.DELETING:
            return State(phase, at_s, before.until_s) if outcome == "accepted" else None
        ends_s = at_s + self._shortest_s.get(Kind.DESTROY, 0.0)
        return State(Phase.DELETING, at_s, ends_s) if outcome == "accepted" else None


def is_linearizable(history: Sequence[Operation], model: Model, start: State) -> bool:
    """Tell whether the operations can have happened in some order."""
    operations = sorted(history, key=lambda operation: operation.called_s)
    everything = (1 << len(operations)) - 1
    tried: dict[tuple[int, Phase], list[State]] = {}
    waiting = [(0, start)]
    while waiting:
        done, state = waiting.pop()
        if done == everything:
            return True
        seen = tried.setdefault((done, state.phase), [])
        if any(other.since_s <= state.since_s and other.until_s <= state.until_s for other in seen):
            continue
        seen.append(state)
        for index in reversed(list(_next(operations, done))):
            for after in model.steps(state, operations[index]):
                waiting.append((done | 1 << index, after))
    return False


def _next(operations: Sequence[Operation], done: int) -> Iterator[int]:
    """Yield what may come next: whatever was called before the first return among those that are left."""
    left = [index for index in range(len(operations)) if not done >> index & 1]
    first_return_s = min(operations[index].returned_s for index in left)
    return (index for index in left if operations[index].called_s <= first_return_s)
