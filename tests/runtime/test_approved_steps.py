"""Steps that do what somebody approved: which attempt continues, which looks again, and which is refused."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from launchbay.actions.contract import ActionCall, ActionParameter, Document
from launchbay.actions.plan import ActionPlan, refuse_begun
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.instance import InstanceStatus
from launchbay.planning.plans import plan_destroy, plan_launch
from launchbay.runtime.contract import DocumentKey, JobRun
from launchbay.runtime.lifecycle import teardown_artifact
from tests.support.kept_documents import KEEPING, InMemory, Keep, WorldOf
from tests.support.runtime import SUCCEEDED, Crashed, Disk, Instance, instance

PATH = "workflow#launch/s"
HELD_LAUNCH = plan_launch({}, InstanceStatus.REQUESTED).holding()
HELD_DESTROY = plan_destroy(InstanceStatus.RUNNING).holding()


@dataclass
class Approved:
    """Approved plans that say the same of each step; `notes` and `refused` outlive a crash."""

    what: bytes = b"this"
    notes: dict[str, str] = field(default_factory=dict)
    refused: dict[str, tuple[str, bool]] = field(default_factory=dict)

    async def artifact(self, job: JobRun, path: str) -> bytes | None:
        if path in self.refused:
            raise NotApproved(self.refused[path][0])
        return self.what

    async def refuse(self, job: JobRun, path: str, reason: str, *, replans: bool) -> None:
        self.refused[path] = reason, replans

    async def refusal(self, job: JobRun, path: str) -> str | None:
        return next((reason for each, (reason, _) in self.refused.items() if each.startswith(path)), None)

    async def begin(self, job: JobRun, path: str, attempt: str) -> None:
        self.notes[path] = attempt

    async def begun_by(self, job: JobRun, path: str) -> str | None:
        return self.notes.get(path)

    async def end(self, job: JobRun, path: str) -> None:
        del self.notes[path]


@dataclass
class Act:
    """Begins to do what was approved, or continues; each of `ends` says how an attempt ends, and later ones succeed."""

    ends: list[Callable[[], Any]]
    name: str = "act"
    aliases: tuple[str, ...] = ()
    pure: bool = False
    parameters: Mapping[str, ActionParameter] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    calls: list[tuple[bool, bool]] = field(default_factory=list)

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        self.calls.append((call.has_begun, call.continues))
        if not call.continues:
            await call.begin()
        if self.ends and (waits := self.ends.pop(0)()):
            await waits
        return {}


def raising(error: BaseException) -> Callable[[], None]:
    def end() -> None:
        raise error

    return end


KILLED = raising(Crashed("The process was killed."))
FAILED = raising(ActionFailed("It ended with exit code 1."))


def acting(*ends: Callable[[], Any], more: str = "") -> tuple[Instance, Act, Approved]:
    act, approved = Act(list(ends)), Approved()
    text = f"launch: {{steps: [{{s: {{action: act, parameters: {{retryCount: 1}}{more}}}}}]}}"
    live = instance(text, WorldOf(act))
    live.surroundings = replace(live.surroundings, approved_plans=approved)
    return live, act, approved


async def killed(live: Instance, plan: Any) -> Disk:
    disk = Disk()
    with pytest.raises(Crashed):
        await live.run(plan, disk=disk)
    return disk


async def test_after_a_crash_the_same_attempt_continues_and_one_after_its_failure_looks_again() -> None:
    live, act, _ = acting(KILLED, FAILED)
    disk = await killed(live, HELD_LAUNCH)

    assert await live.run(HELD_LAUNCH, disk=disk) == SUCCEEDED

    assert [continues for _, continues in act.calls] == [False, True, False]


async def test_after_a_crash_of_an_earlier_version_which_notes_no_attempt_the_command_goes_on() -> None:
    live, act, approved = acting(KILLED)
    disk = await killed(live, HELD_LAUNCH)
    approved.notes[PATH] = ""

    assert await live.run(HELD_LAUNCH, disk=disk) == SUCCEEDED

    assert act.calls == [(False, False), (True, True)]


async def test_what_an_earlier_version_began_in_another_run_is_not_continued() -> None:
    live, act, approved = acting()
    approved.notes[PATH] = ""

    assert await live.run(HELD_LAUNCH) == SUCCEEDED

    assert act.calls == [(True, False)]


@pytest.mark.parametrize("end", [FAILED, raising(ValueError("a defect"))], ids=["failure", "defect"])
async def test_how_an_attempt_failed_is_known_so_another_one_looks_again(end: Callable[[], Any]) -> None:
    live, act, _ = acting(end)

    assert await live.run(HELD_LAUNCH) == SUCCEEDED

    assert act.calls == [(False, False), (False, False)]


async def test_a_step_that_runs_out_of_time_was_interrupted_and_another_job_does_not_continue_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live, act, approved = acting(lambda: asyncio.sleep(60), more=", timeout: 0.05")
    assert "exceeded its timeout" in str(await live.run(HELD_LAUNCH))
    assert PATH in approved.notes
    monkeypatch.setattr("tests.support.runtime.JOB", "5f00000000000000000000ff")

    assert await live.run(HELD_LAUNCH) == SUCCEEDED

    assert act.calls == [(False, False), (True, False)]


@dataclass
class KeepOnce(Keep):
    """Takes down what was approved, once; `ends` as for `Act`."""

    ends: list[Callable[[], Any]] = field(default_factory=list)
    approved: list[bytes | None] = field(default_factory=list)

    async def teardown(self, call: ActionCall, name: str) -> None:
        self.approved.append(call.approved)
        if call.approved is not None:
            refuse_begun(call)
            await call.begin()
        if self.ends and (waits := self.ends.pop(0)()):
            await waits
        await super().teardown(call, name)


async def keeping(
    what: bytes, *ends: Callable[[], Any], action: type[KeepOnce] = KeepOnce
) -> tuple[Instance, KeepOnce, InMemory]:
    keep, kept = action(ends=list(ends)), InMemory()
    live = instance(KEEPING, WorldOf(keep))
    live.surroundings = replace(live.surroundings, documents=kept)
    assert await live.launch() == SUCCEEDED
    kept.documents.pop(DocumentKey("workflow", "keep", "two"))
    live.surroundings = replace(live.surroundings, approved_plans=Approved(what))
    return live, keep, kept


async def test_an_approved_teardown_that_was_killed_is_not_repeated() -> None:
    live, keep, _ = await keeping(b"this", KILLED)
    disk = await killed(live, HELD_DESTROY)

    error = await live.run(HELD_DESTROY, disk=disk)

    assert "This step began before to do what was approved" in str(error)
    assert keep.gone == []


async def test_an_approved_teardown_that_runs_out_of_time_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    live, keep, _ = await keeping(b"this", lambda: asyncio.sleep(60))
    with monkeypatch.context() as short:
        short.setattr("launchbay.limits.TEARDOWN_S", 0.05)
        assert "exceeded its limit" in str(await live.run(HELD_DESTROY))

    error = await live.run(HELD_DESTROY)

    assert "This step began before to do what was approved" in str(error)
    assert keep.gone == []


async def test_an_approved_teardown_that_failed_may_be_tried_by_another_job() -> None:
    live, keep, _ = await keeping(b"this", FAILED)
    assert "It ended with exit code 1." in str(await live.run(HELD_DESTROY))

    assert await live.run(HELD_DESTROY) == SUCCEEDED

    assert keep.gone == ["one"]


class PlanningKeep(KeepOnce):
    """As KeepOnce, with plans of its own."""

    async def plan_teardown(self, call: ActionCall, name: str) -> ActionPlan:
        return ActionPlan(artifact=b"own")


async def test_an_action_gets_what_it_planned_however_long_that_is() -> None:
    own = b"x" * 32
    live, keep, _ = await keeping(own, action=PlanningKeep)
    assert await live.run(HELD_DESTROY) == SUCCEEDED
    assert keep.approved == [own]


DIGEST_OF_MADE = hashlib.sha256(b"made").digest()


@pytest.mark.parametrize("action", [KeepOnce, PlanningKeep])
@pytest.mark.parametrize("mark", [b"", b"document:"], ids=["earlier", "marked"])
async def test_a_teardown_is_held_to_the_document_also_in_forms_of_earlier_versions(
    action: type[KeepOnce], mark: bytes
) -> None:
    live, keep, kept = await keeping(mark + DIGEST_OF_MADE, action=action)
    assert await live.run(HELD_DESTROY) == SUCCEEDED
    assert keep.approved == [None]

    if action is PlanningKeep and not mark:
        return  # that may be what the action planned
    live, keep, kept = await keeping(mark + DIGEST_OF_MADE, action=action)
    kept.documents = {key: Document(b"other", each.version) for key, each in kept.documents.items()}
    assert "The stored document has changed" in str(await live.run(HELD_DESTROY))
    assert keep.gone == []


def test_servers_of_an_earlier_version_check_a_digest_or_give_their_action_what_it_cannot_read() -> None:
    document = Document(b"made", 1)
    assert teardown_artifact(KeepOnce(), document) == DIGEST_OF_MADE
    assert len(teardown_artifact(PlanningKeep(), document)) != len(DIGEST_OF_MADE)


DIFFERS = raising(NotApproved("This isn't what was approved: the size. Nothing was done."))


@pytest.mark.parametrize(
    ("key", "replans"), [("", False), ("onDifference: replan", True), ("onDifference: stop", False)]
)
async def test_a_refusal_is_noted_with_what_the_manifest_says_of_it(key: str, *, replans: bool) -> None:
    act, approved = Act([DIFFERS]), Approved()
    workflow = "{steps: [{s: {action: act}}]}"
    live = instance(f"header: {{{key}}}\nlaunch: {workflow}", WorldOf(act))
    live.surroundings = replace(live.surroundings, approved_plans=approved)

    assert "Nothing was done" in str(await live.run(HELD_LAUNCH))

    assert approved.refused == {PATH: ("This isn't what was approved: the size. Nothing was done.", replans)}


async def test_a_step_that_was_refused_stays_so_after_a_crash_though_the_world_is_as_before() -> None:
    live, act, approved = acting(KILLED)
    approved.refused[PATH] = "It differed.", True  # the process died before it could record the step

    assert "It differed." in str(await live.run(HELD_LAUNCH))

    assert act.calls == []


CALL, INNER = "workflow#launch/outer", "workflow#launch/outer/s"


@pytest.mark.parametrize("recorded", [(), (INNER,), (CALL, INNER)], ids=["nothing", "the step", "the call too"])
async def test_a_crash_after_a_refusal_does_not_let_a_call_around_it_be_ignored(recorded: tuple[str, ...]) -> None:
    act, approved = Act([DIFFERS]), Approved()
    text = """
        launch:
          steps:
            - outer: {action: outer, parameters: {ignoreFail: true}}
            - after: {action: act, precedingPhases: [outer]}
        outer: {steps: [{s: {action: act}}]}
    """
    live = instance(text, WorldOf(act))
    live.surroundings = replace(live.surroundings, approved_plans=approved)
    disk = Disk()
    assert "the size" in str(await live.run(HELD_LAUNCH, disk=disk))
    for path in [each for each in disk.steps if each not in recorded]:
        del disk.steps[path]

    again = await live.run(HELD_LAUNCH, disk=disk)

    assert "the size" in str(again)
    assert len(act.calls) == 1
