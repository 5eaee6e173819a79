"""The moments at which a process can be made to die, by name: each lies between two effects that last.

`python -m tests.support.failpoints DEFECT serve …` is `launchbay` with all of them in place, and with a defect of
defects.py, or `none`. The product knows nothing of them: functions are wrapped where they are. One of them at a time is
armed, by the file that LAUNCHBAY_FAILPOINT names, and at the asked pass the process kills itself there (decision 0083).
"""

import asyncio
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal

from launchbay.cli.main import main
from tests.support.defects import DEFECTS

SENT_S = 0.03  # an answer is on its way when the event loop has come round


@dataclass(frozen=True)
class Point:
    """Before, after, or a moment after a function. Places are `module:function`, below `launchbay.`.

    Only passes inside of the function `within` count, and of those only the first since the function `since` returned.
    `operation` leads there (operations.py), at least to the pass `later`.
    """

    operation: str
    moment: Literal["before", "after", "soon after"]
    place: str
    within: str | None = None
    since: str | None = None
    later: int = 2


_COMMIT = "store.database:_Transaction._commit"
_ACCEPT = "planning.acceptance:accept"
_LAUNCH = "usecases.launch:launch"
_RUN = "usecases.workflows:run_workflow"
_SCHEDULE = "usecases.workflows:schedule_workflow"
_CONFIGURE = "usecases.reconfigure:reconfigure"
_DELETE = "usecases.instances:delete_instance"
_FIRE = "engine.stager:Stager._fire"
_ROUND = "engine.stager:Stager.fire_due"
_CLAIM = "engine.dispatch:Dispatcher._claim"
_START = "engine.journal:PostgresJournal.start"
_GO_ON = "engine.ending:JobCompletion._start_follow_up"
_INNER = "engine.child_jobs:ChildJobs._resume"
_PARK = "engine.dispatch:Dispatcher._park"
_WAKE = "engine.dispatch:Dispatcher._wake_jobs"
_ANSWER_APPROVAL = "usecases.approvals:answer_approval"
_APPLY = "runtime.lifecycle:reconfigure"
_ANSWER = "web.app:_Answering.write"
_OFFER = "engine.jetstream:JetStreamWakeUps.offer"
_TAKE = "engine.jetstream:JetStreamWakeUps.take"
_ACKNOWLEDGE = "engine.jetstream:WakeUp.acknowledge"

POINTS: dict[str, Point] = {
    # A launch is accepted.
    "launch.before-its-rows": Point("launch", "before", "store.jobs:accept_launch"),
    "launch.between-parent-and-child": Point("launch", "after", "store.jobs:accept_launch"),
    "launch.between-children-and-links": Point("launch", "after", "store.instances:insert_children", _LAUNCH),
    "launch.before-commit": Point("launch", "before", _COMMIT, _LAUNCH),
    "launch.committed": Point("launch", "after", _COMMIT, _LAUNCH),
    "launch.answered": Point("launch", "soon after", _ANSWER, since=_LAUNCH),
    # A run is accepted.
    "run.before-its-rows": Point("run", "before", _ACCEPT, _RUN),
    "run.accepted": Point("run", "after", _ACCEPT, _RUN),
    "run.before-commit": Point("run", "before", _COMMIT, _RUN),
    "run.committed": Point("run", "after", _COMMIT, _RUN),
    "run.answered": Point("run", "soon after", _ANSWER, since=_RUN),
    # This process holds the job that it accepts, and starts it after the commit.
    "run.held": Point("run", "after", "engine.dispatch:Dispatcher.hold", _RUN),
    "run.before-start": Point("run", "before", "engine.dispatch:Dispatcher._accepted"),
    "run.started": Point("run", "after", "engine.dispatch:Dispatcher._accepted"),
    # A schedule is accepted.
    "schedule.before-commit": Point("schedule", "before", _COMMIT, _SCHEDULE),
    "schedule.committed": Point("schedule", "after", _COMMIT, _SCHEDULE),
    "schedule.answered": Point("schedule", "soon after", _ANSWER, since=_SCHEDULE),
    # A job runs.
    "job.before-claim": Point("run", "before", "store.jobs:claim"),
    "job.claimed": Point("run", "after", "store.jobs:claim"),
    "step.before-begin": Point("run", "before", _START, later=4),
    "step.begun": Point("run", "after", _START, later=4),
    "step.done": Point("run", "before", "engine.journal:PostgresJournal.succeed", later=4),
    "step.outcome-gathered": Point("run", "after", "engine.journal:PostgresJournal.succeed", later=4),
    "step.failed": Point("launch one", "before", "engine.journal:PostgresJournal.fail"),
    "journal.before-write": Point("run", "before", "store.jobs:write_journal", later=4),
    "journal.written": Point("run", "after", "store.jobs:write_journal", later=4),
    # A job ends, and what follows.
    "end.before": Point("run", "before", "engine.ending:JobCompletion.write"),
    "end.before-write": Point("run", "before", "store.jobs:end"),
    "end.written": Point("run", "after", "store.jobs:end"),
    "end.place-given-back": Point("run", "after", "engine.dispatch:Dispatcher._run"),
    "end.before-waiting-work-is-freed": Point("schedule behind a run", "before", "store.schedules:unblock"),
    "end.waiting-work-freed": Point("schedule behind a run", "after", "store.schedules:unblock"),
    "look.before-write": Point("ask", "before", "store.schedules:save_refreshed_signals"),
    "look.written": Point("ask", "after", "store.schedules:save_refreshed_signals"),
    "trigger.before-acceptance": Point("ask", "before", _ACCEPT, _GO_ON),
    "trigger.accepted": Point("ask", "after", _ACCEPT, _GO_ON),
    "trigger.removed": Point("ask", "after", "store.schedules:delete", _GO_ON),
    "trigger.before-commit": Point("ask", "before", _COMMIT, "engine.ending:JobCompletion._write"),
    "trigger.committed": Point("ask", "after", _COMMIT, "engine.ending:JobCompletion._write"),
    # What a process that was killed had begun is gone on with.
    # The jobs of the dead are rescued once: an idle server only looks whether there are more.
    "recovery.before-inheritance": Point("recovery", "before", "store.dispatch:rescue", later=1),
    "recovery.inherited": Point("recovery", "after", "store.dispatch:rescue", later=1),
    "recovery.before-hold": Point("recovery", "before", "store.dispatch:claim"),
    "recovery.held": Point("recovery", "before", "engine.dispatch:Dispatcher._start", _CLAIM),
    "recovery.started": Point("recovery", "after", "engine.dispatch:Dispatcher._start", _CLAIM),
    "recovery.job-claimed": Point("recovery", "after", "store.jobs:claim"),
    "recovery.looked-back": Point("recovery", "after", "engine.runner:Runner._load_history"),
    "recovery.step-begun": Point("recovery", "after", _START, later=4),
    "recovery.step-done": Point("recovery", "before", "engine.journal:PostgresJournal.succeed", later=4),
    "recovery.job-ended": Point("recovery", "after", "store.jobs:end"),
    # A server that is told to stop hands its jobs over.
    "stop.before-handover": Point("stop", "before", "store.dispatch:release"),
    "stop.handed-over": Point("stop", "after", "store.dispatch:release"),
    "stop.unregistered": Point("stop", "after", "store.dispatch:unregister", later=1),
    # A job that only waits is parked, and woken.
    "park.before-flush": Point("rest", "before", _PARK),
    "park.before-row": Point("rest", "before", "store.dispatch:park"),
    "park.row-written": Point("rest", "after", "store.dispatch:park"),
    "park.left": Point("rest", "after", "engine.dispatch:Dispatcher._run", since="store.dispatch:park"),
    "park.question-before-row": Point("answer", "before", "store.dispatch:park"),
    "park.question-row-written": Point("answer", "after", "store.dispatch:park"),
    "wake.before": Point("rest", "before", "store.dispatch:wake_due", since=_PARK, later=3),
    "wake.ready": Point("rest", "before", "engine.dispatch:Dispatcher._announce_if_committed", _WAKE),
    "wake.claimed": Point("rest", "before", "engine.dispatch:Dispatcher._start", _CLAIM),
    "wake.looked-back": Point("rest", "after", "engine.runner:Runner._load_history"),
    "wake.step-done": Point("rest", "after", "engine.journal:PostgresJournal.succeed", later=5),
    "wake.answer-before-commit": Point("answer", "before", _COMMIT, _ANSWER_APPROVAL),
    "wake.answer-committed": Point("answer", "after", _COMMIT, _ANSWER_APPROVAL),
    "wake.answer-claimed": Point("answer", "before", "engine.dispatch:Dispatcher._start", _CLAIM),
    "wake.answer-looked-back": Point("answer", "after", "engine.runner:Runner._load_history"),
    # A schedule fires.
    "fire.taken": Point("schedule", "before", "store.schedules:lock_target"),
    "fire.target-locked": Point("schedule", "after", "store.schedules:lock_target"),
    "fire.before-acceptance": Point("schedule", "before", _ACCEPT, _FIRE),
    "fire.accepted": Point("schedule", "after", _ACCEPT, _FIRE),
    "fire.removed": Point("schedule", "after", "store.schedules:delete", _ROUND),
    "fire.one-of-two-accepted": Point("two schedules", "after", _ACCEPT, _FIRE),
    "fire.two-removed": Point("two schedules", "after", "store.schedules:delete", _ROUND),
    "fire.before-commit": Point("schedule", "before", _COMMIT, _ROUND, since=_FIRE),
    "fire.committed": Point("schedule", "after", _COMMIT, _ROUND, since=_FIRE),
    "fire.held-back": Point("schedule behind a run", "after", "store.schedules:block"),
    "fire.held-back-and-committed": Point("schedule behind a run", "after", _COMMIT, _ROUND, "store.schedules:block"),
    "cron.before-next": Point("cron", "before", "store.schedules:schedule_next"),
    "cron.next-written": Point("cron", "after", "store.schedules:schedule_next"),
    "expiry.accepted": Point("expiry", "after", _ACCEPT, _FIRE),
    "expiry.committed": Point("expiry", "after", _COMMIT, _ROUND, since=_FIRE),
    # A reconfiguration is accepted, and carried out.
    "reconfigure.locked": Point("reconfigure", "after", "store.instances:lock_at_once", _CONFIGURE),
    "reconfigure.accepted": Point("reconfigure", "after", _ACCEPT, _CONFIGURE),
    "reconfigure.between-levels": Point("reconfigure", "after", "store.instances:change_configuration"),
    "reconfigure.links-written": Point("reconfigure", "after", "store.instances:insert_links", _CONFIGURE),
    "reconfigure.new-children-written": Point("reconfigure", "after", "store.instances:insert_children", _CONFIGURE),
    "reconfigure.before-commit": Point("reconfigure", "before", _COMMIT, _CONFIGURE),
    "reconfigure.committed": Point("reconfigure", "after", _COMMIT, _CONFIGURE),
    "reconfigure.answered": Point("reconfigure", "soon after", _ANSWER, since=_CONFIGURE),
    "reconfigure.begun": Point("reconfigure", "before", _APPLY),
    "reconfigure.before-stops": Point("reconfigure", "before", "runtime.lifecycle:_stop"),
    "reconfigure.component-taken-down": Point("reconfigure", "after", "runtime.lifecycle:destroy_component", _APPLY),
    "reconfigure.stopped": Point("reconfigure", "after", "runtime.lifecycle:_stop"),
    "reconfigure.child-reconfigured": Point(
        "reconfigure", "after", "runtime.components.references:Submodule.reconfigure"
    ),
    "reconfigure.before-starts": Point("reconfigure", "before", "runtime.lifecycle:launch", _APPLY),
    "reconfigure.started": Point("reconfigure", "after", "runtime.lifecycle:launch", _APPLY),
    "reconfigure.before-triggers": Point("reconfigure", "before", "runtime.lifecycle:_run_triggers"),
    "reconfigure.triggered": Point("reconfigure", "after", "runtime.lifecycle:_run_triggers"),
    "reconfigure.end-written": Point("reconfigure", "after", "store.jobs:end"),
    # A job runs others in its course.
    "inner.fed": Point("feed", "after", "store.jobs:push_signals"),
    "inner.fed-at-the-end": Point("say", "after", "store.jobs:end"),
    "inner.fed-and-triggered": Point("say", "after", _ACCEPT, _FIRE),
    "inner.before-its-rows": Point("launch", "before", "store.jobs:begin_child"),
    "inner.rows-written": Point("launch", "after", "store.jobs:begin_child"),
    "inner.begun": Point("launch", "after", "engine.child_jobs:ChildJobs._begin"),
    "inner.before-claim": Point("ask", "before", "store.jobs:claim", _INNER),
    "inner.claimed": Point("ask", "after", "store.jobs:claim", _INNER),
    "inner.ended": Point("ask", "after", _INNER),
    # An instance is destroyed.
    "destroy.begun": Point("destroy", "before", "runtime.lifecycle:destroy"),
    "destroy.component-down": Point(
        "destroy", "after", "runtime.components.workflow_instance:WorkflowInstance.destroy", later=3
    ),
    "destroy.child-down": Point("destroy", "after", "runtime.components.references:Submodule.destroy"),
    "destroy.before-release": Point("destroy", "before", "runtime.machines:release_all"),
    "destroy.done": Point("destroy", "after", "runtime.lifecycle:destroy"),
    # An instance is deleted by force, with a job under way.
    "delete.superseded": Point("delete", "after", "store.jobs:supersede"),
    "delete.accepted": Point("delete", "after", _ACCEPT, _DELETE),
    "delete.before-commit": Point("delete", "before", _COMMIT, _DELETE),
    "delete.committed": Point("delete", "after", _COMMIT, _DELETE),
    "delete.answered": Point("delete", "soon after", _ANSWER, since=_DELETE),
    "delete.before-handover": Point("delete", "before", "store.dispatch:release"),
    "delete.handed-over": Point("delete", "after", "store.dispatch:release"),
    "delete.before-recall": Point("delete", "before", "engine.cancellation:replay_superseded"),
    "delete.recalled": Point("delete", "after", "engine.cancellation:replay_superseded"),
    "delete.before-release": Point("delete", "before", "engine.cancellation:release_descendants"),
    "delete.before-end": Point("delete", "before", "store.jobs:end_and_delete_instance"),
    "delete.ended": Point("delete", "after", "store.jobs:end_and_delete_instance"),
}

# A worker is woken through NATS: the server has no engine.
NATS_POINTS = {
    "nats.before-message": Point("run", "before", _OFFER),
    "nats.message-sent": Point("run", "after", _OFFER),
    "nats.message-taken": Point("run", "after", _TAKE),
    "nats.before-claim": Point("run", "before", "store.dispatch:claim", since=_TAKE),
    "nats.claimed": Point("run", "after", "store.dispatch:claim", since=_TAKE),
    "nats.before-acknowledgement": Point("run", "before", _ACKNOWLEDGE),
    "nats.acknowledged": Point("run", "after", _ACKNOWLEDGE),
    "nats.job-claimed": Point("run", "after", "store.jobs:claim"),
    "nats.step-begun": Point("run", "after", _START, later=4),
    "nats.job-ended": Point("run", "after", "store.jobs:end"),
    "nats.family-before-message": Point("launch", "before", _OFFER),
    "nats.woken-before-message": Point("rest", "before", _OFFER, since=_PARK),
}
POINTS |= NATS_POINTS


def find(place: str) -> tuple[Any, str, Any]:
    """Return what holds a place, its name there, and the function. Raises LookupError for one that is not there."""
    module, _, way = place.partition(":")
    holder: Any = import_module(f"launchbay.{module}")
    *outer, name = way.split(".")
    for each in outer:
        holder = getattr(holder, each, None)
    found = vars(holder).get(name) if holder is not None else None
    if not callable(found):
        raise LookupError(f"There is no {place} in the product any more; failpoints.py names it.")
    return holder, name, found


class Trap:
    """Counts the passes of the point that is armed, and ends the process at the asked one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._armed_at = 0
        self._name = ""
        self._left = 0
        self._since: set[str] = set()
        self._codes: dict[str, CodeType] = {}

    def place_all(self) -> None:
        """Wrap every function that is the place of a point, or the begin of one."""
        wanted = {each for point in POINTS.values() for each in (point.place, point.since) if each is not None}
        within = {point.within for point in POINTS.values() if point.within is not None}
        self._codes = {place: find(place)[2].__code__ for place in within}
        for place, (holder, name, function) in {place: find(place) for place in wanted}.items():
            wrapped = self._wrapped(place, function)
            if isinstance(holder, ModuleType):
                _replace_everywhere(function, wrapped)
            else:
                setattr(holder, name, wrapped)

    def _wrapped(self, place: str, function: Any) -> Callable[..., Any]:
        before = [name for name, point in POINTS.items() if point.place == place and point.moment == "before"]
        after = [name for name, point in POINTS.items() if point.place == place and point.moment != "before"]

        async def waited_for(*given: Any, **named: Any) -> Any:
            self._pass(before)
            result = await function(*given, **named)
            self._pass(after)
            self._since.add(place)
            return result

        def passing(function: Callable[..., Any]) -> Callable[..., Any]:
            def called(*given: Any, **named: Any) -> Any:
                self._pass(before)
                result = function(*given, **named)
                self._pass(after)
                return result

            return called

        if hasattr(function, "later"):  # a statement, which can also be deferred
            waited_for.later = passing(function.later)  # type: ignore[attr-defined] # as the statement has it
        is_waited_for = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        return waited_for if is_waited_for else passing(function)

    def _pass(self, names: list[str]) -> None:
        if not names or not self._is_armed() or self._name not in names:
            return
        point = POINTS[self._name]
        if point.within is not None and not _is_running(self._codes[point.within]):
            return
        if point.since is not None:
            if point.since not in self._since:
                return
            self._since.discard(point.since)
        self._left -= 1
        if self._left == 0:
            if point.moment == "soon after":
                asyncio.get_running_loop().call_later(SENT_S, self._die)
            else:
                self._die()

    def _is_armed(self) -> bool:
        try:
            at = self._file.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        if at != self._armed_at:
            self._armed_at = at
            self._name, _, passes = self._file.read_text("utf-8").partition(" ")
            self._left = int(passes)
            self._since.clear()
        return True

    def _die(self) -> None:
        self._file.with_suffix(".reached").write_text(self._name, "utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # the signal comes first


def _is_running(code: CodeType) -> bool:
    """Tell whether a function is among those that wait for the code that asks."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back  # type: ignore[assignment] # None at the end
    return False


def _replace_everywhere(function: Any, wrapped: Any) -> None:
    """Put a function's replacement wherever a module has it, under whatever name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("launchbay"):
            for name in [name for name, value in vars(module).items() if value is function]:
                setattr(module, name, wrapped)


if __name__ == "__main__":
    defect = sys.argv.pop(1)
    if defect != "none":
        DEFECTS[defect]()
    Trap(Path(os.environ["LAUNCHBAY_FAILPOINT"])).place_all()
    main()
