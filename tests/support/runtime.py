"""Kills a job at every write of its journal, runs it again, and compares it with the run that nobody disturbed."""

import asyncio
import json
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from textwrap import dedent
from typing import Any

import msgspec
from hypothesis import strategies as st

from launchbay.actions.contract import Action, ActionCall, ActionParameter
from launchbay.actions.registry import BUILT_IN, Registry
from launchbay.clock import Backoff, SystemClock
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, Fenced, WorkflowFailed
from launchbay.machines.registry import Providers
from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest.configuration import Configured, configure
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus, Link
from launchbay.model.job import Plan, StepStatus, StepWait, raise_percent
from launchbay.planning.plans import plan_destroy, plan_launch, plan_run
from launchbay.runtime.components.builtin import running
from launchbay.runtime.components.registry import ComponentTypes
from launchbay.runtime.contract import (
    SYSTEM,
    JobRun,
    LinkedInstance,
    RuntimeDeps,
    StepBudget,
    StepRecord,
    VariableBudget,
)
from launchbay.runtime.lifecycle import run_plan
from launchbay.runtime.signals import return_values
from launchbay.runtime.state import Graph, InstanceState

Step = dict[str, Any]


def _ordered_before(preceding: list[list[int]], number: int) -> set[int]:
    found: set[int] = set()
    for earlier in preceding[number]:
        found |= {earlier} | _ordered_before(preceding, earlier)
    return found


@st.composite
def applications(draw: st.DrawFn, want: int = 0) -> str:
    """Components that launch one after the other or side by side, with steps of all kinds, none failing for good.

    Each has a configuration pin with this value, whose trigger runs what its launch runs.
    """
    count = draw(st.integers(1, 3))
    components = {f"c{n}": draw(_component(n, want)) for n in range(count)}
    bindings = [[f"c{n}", f"c{n - 1}"] for n in range(1, count)]
    return json.dumps({"application": {"components": components, "bindings": bindings}})


@st.composite
def _component(draw: st.DrawFn, place: int, want: int) -> dict[str, Any]:
    interfaces: dict[str, Any] = {
        "own": {"want": "configuration(int)"},
        f"out{place}": {f"s{place}": "publish-signal(object)", f"k{place}": "publish-signal(object)"},
        f"do{place}": {f"grow{place}": "receive-command(object x => object got)"},
    }
    waits = False
    if place:
        waits = draw(st.booleans())
        interfaces["in"] = {f"s{place - 1}": "consume-signal(object)"}
        interfaces["send"] = {f"grow{place - 1}": "send-command(object x => object got)"}
    preceding = draw(_orders())
    kinds = ["effect", "effect", "retried", "ignored", "compute", "macro", "deep"]
    steps: dict[str, Step] = {}
    may_send = place > 0
    for number in range(len(preceding)):
        kind = draw(st.sampled_from([*kinds, "send"] if may_send else kinds))
        may_send = may_send and kind != "send"
        seen = [f"{{$.v{earlier}}}" for earlier in sorted(_ordered_before(preceding, number))]
        value = [f"c{place}t{number}", "{$.want}", *seen, *(["{$.signals.in}"] if place else [])]
        steps[f"t{number}"] = _step(kind, value, place, draw(st.integers(0, 4)))
        steps[f"t{number}"]["precedingPhases"] = [f"t{each}" for each in preceding[number]]
        steps[f"t{number}"].setdefault("output", {})[f"v{number}"] = "got" if kind == "send" else "value"
        if draw(st.booleans()):
            steps[f"t{number}"]["output"]["shared"] = "got" if kind == "send" else "value"
    if place:
        _read_first(steps, waits=waits)
    every = [f"{{$.v{number}}}" for number in range(len(preceding))]
    launch = {"steps": steps, "return": {f"s{place}": {"value": [*every, "{$.shared}"]}}}
    return {
        "type": "workflow.Instance",
        "required": ["in"] if place and not waits else [],
        "interfaces": interfaces,
        "configuration": {
            "own.want": want,
            "configuration.triggers": {"own.want": "again"},
            "configuration.workflows": {"launch": launch, "again": launch, **_called(place)},
        },
    }


@st.composite
def _orders(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(1, 4))
    return [sorted(draw(st.sets(st.integers(0, number - 1)))) if number else [] for number in range(count)]


def _step(kind: str, value: list[Any], place: int, hold: int) -> Step:
    given: dict[str, Any] = {"value": value}
    match kind:
        case "effect":
            return {"action": "effect", "parameters": {**given, "hold": hold}}
        case "retried":
            return {"action": "effect", "parameters": {**given, "fail": 1, "retryCount": 2}}
        case "ignored":
            return {"action": "effect", "parameters": {**given, "fail": 9, "ignoreFail": True, "hold": hold}}
        case "compute":
            return {"action": "compute", "parameters": given}
        case "macro":
            return {"action": ".macro", "parameters": {**given, "retryCount": 1}}
        case "deep":
            return {"action": ".deep", "parameters": given}
        case _:
            return {"action": f"send.grow{place - 1}", "parameters": {"x": value}}


def _read_first(steps: dict[str, Step], *, waits: bool) -> None:
    for step in steps.values():
        step["precedingPhases"] = [*step["precedingPhases"], "read"]
    steps["read"] = {"action": "getSignals", "output": {"signals": "result"}}
    if waits:
        steps["wait"] = {"action": "waitPeers", "parameters": {"interfaces": {"in": 1}}}
        steps["read"]["precedingPhases"] = ["wait"]


def _called(place: int) -> dict[str, Any]:
    effect = {"action": "effect", "parameters": {"value": "{$.value}"}, "output": {"value": "value"}}
    nested = {"action": ".macro", "parameters": {"value": "{$.value}"}, "output": {"value": "value"}}
    grown = {"action": "effect", "parameters": {"value": "{$.x}"}, "output": {"y": "value"}}
    return {
        "destroy": {"steps": {"end": {"action": "effect"}}},
        ".macro": {"steps": {"in": effect}, "return": {"value": {"value": ["{$.value}"]}}},
        ".deep": {"steps": {"call": nested, "beside": effect}, "return": {"value": {"value": ["{$.call~value}"]}}},
        f"grow{place}": {
            "steps": {"g": grown},
            "return": {"got": {"value": "{$.y}"}, f"k{place}": {"value": "{$.y}"}},
        },
    }


@dataclass
class Disk:
    """What survives a crash."""

    steps: dict[str, StepRecord] = field(default_factory=dict)
    lines: list[tuple[str | None, str, str]] = field(default_factory=list)
    positions: dict[tuple[str, int, str], str] = field(default_factory=dict)
    writes: int = 0

    def texts(self, level: str | None = None) -> list[str]:
        return [text for _, found, text in self.lines if level in (None, found)]


class Crashed(Fenced):
    """The process is dead: it writes nothing any more."""


class MemoryJournal:
    """One claim of a job. `cut_after` lets so many more writes through; the next one is the crash."""

    def __init__(self, disk: Disk, *, cut_after: int | None = None) -> None:
        self._disk = disk
        self._found = dict(disk.steps)
        self._left = cut_after
        self._late: tuple[str, StepRecord] | None = None  # a start that a crash takes until something follows
        self.is_cut = False

    def find(self, path: str) -> StepRecord | None:
        return self._found.get(path)

    def traces(self) -> Collection[str]:
        return self._found.keys()

    async def start(self, path: str, name: str, attempt: int, at: datetime, *, durable: bool = True) -> None:
        known = self._disk.steps.get(path)
        percent, failed = (0, 0) if known is None else (known.percent, known.failed)
        record = StepRecord(StepStatus.EXECUTING, attempt, at, percent=percent, failed=failed)
        if durable:
            self._write(path, record)
        else:
            self._write_late()
            self._late = (path, record)

    async def keep_passing(self, path: str, attempt: int, values: Mapping[str, Any]) -> None:
        """Do nothing: no other process goes on with the job."""

    async def flush(self) -> None:
        self._write_late()

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        self._write_late()
        known = self._disk.steps[path]
        kept = msgspec.json.decode(msgspec.json.encode(outputs))
        self._write(path, StepRecord(StepStatus.SUCCEEDED, known.attempt, known.started_at, kept, percent=100))

    def skip(self, path: str, name: str) -> None:
        self.log(path, "info", f"Step {name!r} skipped.")
        self._write(path, StepRecord(StepStatus.SUCCEEDED, 0, datetime.now().astimezone(), {}, percent=100))

    def attempt_failed(self, path: str, error: str, retry_s: float) -> None:
        assert path in self._disk.steps, (error, retry_s)
        known = self._disk.steps[path]
        self._disk.steps[path] = replace(known, failed=known.failed + 1)

    def fail(self, path: str, name: str, error: str, attempt: int, *, is_ignored: bool = False) -> None:
        self._write_late()
        known = self._disk.steps.get(path)
        if known is not None and known.status is StepStatus.FAILED:
            return
        at = datetime.now().astimezone() if known is None else known.started_at
        self._write(path, StepRecord(StepStatus.FAILED, attempt, at, error=error))

    def note(self, path: str, name: str, status: StepStatus) -> None:
        self._write_late()
        known = self._disk.steps.get(path)
        if known is not None and known.status is not StepStatus.EXECUTING:
            return
        if known is None:
            known = StepRecord(status, 1, datetime.now().astimezone())
        self._write(path, StepRecord(status, known.attempt, known.started_at))

    def note_inputs(self, path: str, inputs: Mapping[str, Any]) -> None:
        """Do nothing: nothing depends on them."""

    def progress(self, path: str, percent: int) -> None:
        self._write_late()
        known = self._disk.steps[path]
        self._disk.steps[path] = replace(known, percent=raise_percent(known.percent, percent))

    def waiting(self, path: str, wait: StepWait) -> AbstractContextManager[None]:
        assert path in self._disk.steps, wait
        return nullcontext()

    def log(self, path: str | None, level: str, text: str, stream: str = SYSTEM) -> None:
        self._disk.lines.append((path, level, text))

    def note_log_position(self, path: str, attempt: int, source: str, position: str) -> None:
        self._disk.positions[path, attempt, source] = position

    async def log_position(self, path: str, attempt: int, source: str) -> str:
        return self._disk.positions.get((path, attempt, source), "")

    def _write_late(self) -> None:
        late, self._late = self._late, None
        if late is not None:
            self._write(*late)

    def _write(self, path: str, record: StepRecord) -> None:
        self._write_late()
        if self.is_cut or self._left == 0:
            self.is_cut = True
            raise Crashed("The process was killed.")
        if self._left is not None:
            self._left -= 1
        self._disk.writes += 1
        self._disk.steps[path] = record


MEETING_S = 20.0


@dataclass(frozen=True)
class Effect:
    """One time that an action with an effect did its work."""

    path: str
    attempt: int
    key: str
    parameters: Mapping[str, Any]


@dataclass
class World:
    """What the actions did and may wait for."""

    effects: list[Effect] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    present: dict[str, int] = field(default_factory=dict)
    raises: Callable[[], Any] = lambda: None
    returns: Any = None

    def paths(self) -> list[str]:
        return [effect.path for effect in self.effects]

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def actions(self) -> list[Action]:
        return [DoEffect(self), Compute(), Meet(self), Pass(self), Odd(self), Ask(self)]


@dataclass(frozen=True)
class _Probe:
    world: World
    aliases: tuple[str, ...] = ()
    pure: bool = False
    parameters: Mapping[str, ActionParameter] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DoEffect(_Probe):
    """Does something that counts; fails in its first `fail` attempts, after `hold` turns of the event loop."""

    name: str = "effect"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        context, given = call.context, call.parameters
        self.world.effects.append(Effect(context.step_path, context.attempt, context.idempotency_key, dict(given)))
        for _ in range(int(given.get("hold", 0))):
            await asyncio.sleep(0)
        await asyncio.sleep(float(given.get("seconds", 0)))
        if context.attempt <= int(given.get("fail", 0)):
            raise ActionFailed(f"attempt {context.attempt} did not work.", retryable=given.get("retryable", True))
        return {"value": given.get("value"), "attempt": context.attempt}


@dataclass(frozen=True)
class Compute:
    """Gives its parameter back; pure."""

    name: str = "compute"
    aliases: tuple[str, ...] = ()
    pure: bool = True
    parameters: Mapping[str, ActionParameter] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        if call.parameters.get("fail"):
            raise ActionFailed("this cannot be computed.", retryable=False)
        return {"value": call.parameters.get("value")}


@dataclass(frozen=True)
class Meet(_Probe):
    """Waits until `count` steps are here at the same time; only steps that really run in parallel get through."""

    name: str = "meet"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        world, place = self.world, str(call.parameters.get("place", ""))
        world.present[place] = world.present.get(place, 0) + 1
        if world.present[place] >= int(call.parameters["count"]):
            world.gate(place).set()
        try:
            async with asyncio.timeout(MEETING_S):
                await world.gate(place).wait()
        except TimeoutError:
            raise ActionFailed(f"only {world.present[place]} came.", retryable=False) from None
        return {}


@dataclass(frozen=True)
class Pass(_Probe):
    """Notes its begin and end, and waits for a gate in between if it is given one."""

    name: str = "pass"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        path = call.context.step_path.rpartition("/")[2]
        self.world.events.append(f"{path} begins")
        if "opens" in call.parameters:
            self.world.gate(call.parameters["opens"]).set()
        if "gate" in call.parameters:
            await self.world.gate(call.parameters["gate"]).wait()
        self.world.events.append(f"{path} ends")
        return {}


@dataclass(frozen=True)
class Odd(_Probe):
    """Does what no action should: raises or returns what the world says."""

    name: str = "odd"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        self.world.events.append(f"odd {call.context.attempt}")
        result = self.world.raises()
        if asyncio.iscoroutine(result):
            await result
        returned: Mapping[str, Any] = self.world.returns
        return returned


@dataclass(frozen=True)
class Ask(_Probe):
    """Sends a command although it has an effect of its own, which the contract forbids."""

    name: str = "ask"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        return await call.context.call_command("iface", "cmd", {}, None)


JOB = "5f0000000000000000000004"
QUICK = Backoff(0.001, 0.004)
LONGEST_S = 20.0  # no run of these tests takes long; one that hangs shall say so
OUTGOING = EgressClient(Allowlist.parse(""), ssl_context=ssl.create_default_context())
SUCCEEDED = None


class NoOthers:
    """Other instances, of which there are none."""

    async def get(self, link: Link) -> LinkedInstance:
        raise WorkflowFailed(f"there is no instance {link.instance_id}.")

    async def push_signals(self, link: Link, signals: Mapping[str, Any]) -> None:
        raise WorkflowFailed(f"there is no instance {link.instance_id}.")

    async def needs_reconfiguration(self, parent: JobRun, link: Link, path: str, *, is_up: bool) -> bool:
        raise WorkflowFailed(f"there is no instance {link.instance_id}.")

    async def cancel_abandoned(self, parent: JobRun) -> None:
        """There are no jobs of others."""

    async def add_members(self, parent: JobRun, paths: Sequence[str]) -> None:
        raise WorkflowFailed("there are no instances.")

    async def show_members(self, parent: JobRun) -> None:
        """There are no instances to show."""

    async def orphaned_instances(self, parent: JobRun) -> list[Link]:
        return []

    async def offered_pins(self, link: Link) -> frozenset[str]:
        raise WorkflowFailed(f"there is no instance {link.instance_id}.")

    async def required_signals(self, link: Link) -> frozenset[str]:
        raise WorkflowFailed(f"there is no instance {link.instance_id}.")

    async def run(
        self,
        parent: JobRun,
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool = False,
    ) -> Mapping[str, Any]:
        raise WorkflowFailed(f"there is no instance {link.instance_id}.")

    async def call_parent(
        self, child: JobRun, need: str, arguments: Mapping[str, Any], path: str, *, is_replay: bool = False
    ) -> list[Mapping[str, Any]]:
        return []


@dataclass
class Instance:
    """An instance of a manifest between its jobs, and the world that its actions work in."""

    manifest: CompiledManifest
    world: World
    surroundings: RuntimeDeps
    environment: EnvironmentView = field(default_factory=EnvironmentView)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    state: str = "{}"
    before: Configured | None = None  # what a reconfiguration comes from
    variables: VariableBudget = field(default_factory=VariableBudget)
    disk: Disk = field(default_factory=Disk)

    async def launch(self, **how: Any) -> str | None:
        return await self.run(plan_launch({}, InstanceStatus.REQUESTED), **how)

    async def destroy(self) -> str | None:
        return await self.run(plan_destroy(InstanceStatus.RUNNING))

    async def command(self, workflow: str, **parameters: Any) -> str | None:
        return await self.run(plan_run(self.manifest, workflow, parameters, InstanceStatus.RUNNING))

    async def run(
        self, plan: Plan, *, disk: Disk | None = None, cut_after: int | None = None, steps: int = 20_000
    ) -> str | None:
        """Run a job to its end and return its error message; None is success. Raises Crashed where it is cut."""
        self.disk = disk or Disk()
        state = InstanceState.from_text(self.state)
        job = JobRun(
            job_id=JOB,
            instance_id="5f0000000000000000000001",
            organization_id="5f0000000000000000000002",
            environment_id="5f0000000000000000000003",
            plan=plan,
            graph=Graph(self.manifest, configure(self.manifest, self.parameters)),
            environment=self.environment,
            state=state,
            journal=MemoryJournal(self.disk, cut_after=cut_after),
            deps=self.surroundings,
            linked_instances=NoOthers(),
            before=self.before,
            budget=StepBudget(steps),
            variables=self.variables,
        )
        error = SUCCEEDED
        try:
            async with asyncio.timeout(LONGEST_S):
                await run_plan(job)
        except WorkflowFailed as failure:
            error = str(failure)
        self.state = state.to_text()
        return error

    @property
    def results(self) -> dict[str, Any]:
        return return_values(self.manifest, InstanceState.from_text(self.state))

    @property
    def components(self) -> dict[str, Any]:
        stored: dict[str, Any] = msgspec.json.decode(self.state)
        return stored


def instance(text: str, world: World | None = None, **more: Any) -> Instance:
    world = world or World()
    actions = Registry([*(("launchbay", action) for action in BUILT_IN), *(("tests", a) for a in world.actions())])
    pacing = more.pop("pacing", QUICK)
    machines = more.pop("machines", None) or Providers([])
    types = more.pop("component_types", None) or ComponentTypes()
    surroundings = RuntimeDeps(actions, running(types), SystemClock(), OUTGOING, pacing, machines)
    known_actions = frozenset(actions.names())
    manifest = compile_manifest(dedent(text).encode(), known_actions=known_actions, known_types=types.definitions)
    return Instance(manifest, world, surroundings, **more)


def workflows(text: str) -> str:
    """A workflow manifest, with the names that the rest of the file uses."""
    return dedent(text)


FINAL = {StepStatus.SUCCEEDED, StepStatus.FAILED}


@dataclass(frozen=True)
class Outcome:
    """What is left of a job."""

    error: str | None
    components: dict[str, Any]
    results: dict[str, Any]
    steps: dict[str, tuple[str, Any]]


def outcome(live: Instance, error: str | None) -> Outcome:
    steps = {path: (record.status.value, record.outputs) for path, record in live.disk.steps.items()}
    return Outcome(error, live.components, live.results, steps)


@dataclass
class Case:
    """A job on an instance: `make` gives the instance as it is before."""

    make: Callable[[], Instance]
    plan: Plan

    async def undisturbed(self) -> tuple[Outcome, Instance]:
        live = self.make()
        error = await live.run(self.plan)
        return outcome(live, error), live

    async def cut_at(self, *writes: int) -> tuple[Outcome, Instance, list[tuple[Disk, int]]]:
        """Run with a crash after each so-many-th write, then to the end; also what was on disk at each crash."""
        live, disk = self.make(), Disk()
        crashes: list[tuple[Disk, int]] = []
        for number in writes:
            try:
                error = await live.run(self.plan, disk=disk, cut_after=number)
            except Crashed:
                crashes.append((Disk(dict(disk.steps)), len(live.world.effects)))
            else:
                return outcome(live, error), live, crashes
        return outcome(live, await live.run(self.plan, disk=disk)), live, crashes


def check_records(live: Instance, crashes: list[tuple[Disk, int]]) -> None:
    """What was recorded as done did not happen again; what was repeated had the same key and parameters."""
    for disk, effects in crashes:
        done = {path for path, record in disk.steps.items() if record.status in FINAL}
        again = [effect.path for effect in live.world.effects[effects:] if effect.path in done]
        assert again == [], "a recorded step ran again"
        for effect in live.world.effects[effects:]:
            record = disk.steps.get(effect.path)
            assert record is None or effect.attempt >= record.attempt, "an attempt that had failed ran again"
    first: dict[tuple[str, int], Effect] = {}  # rounds of `until` have keys of their own
    for effect in live.world.effects:
        known = first.setdefault((effect.path, effect.attempt), effect)
        assert effect.key == known.key
        assert effect.parameters == known.parameters


async def cut_everywhere(case: Case) -> int:
    """Cut a job at every write, and return how many there are."""
    expected, whole = await case.undisturbed()
    wanted = {(effect.path, effect.attempt) for effect in whole.world.effects}
    for number in range(whole.disk.writes):
        found, live, crashes = await case.cut_at(number)
        assert crashes, f"write {number} of {whole.disk.writes} was not reached"
        assert found == expected, f"cut after write {number}"
        check_records(live, crashes)
        assert {(effect.path, effect.attempt) for effect in live.world.effects} == wanted, f"cut after write {number}"
    return whole.disk.writes


PAIR = """
    application:
      interfaces:
        act: {{go: "bind(caller#act.go)"}}
      components:
        caller:
          type: workflow.Instance
          interfaces:
            act: {{go: "receive-command(int n => object got)"}}
            db: {{grow: "send-command(int by, string why => int size, string note)"}}
          configuration:
            configuration.workflows:
              go:
                steps: [{{call: {step}}}]
                return: {{got: {{value: "{{$.got}}"}}}}
        {peers}
      bindings: [{bindings}]
"""
PEER = """{name}:
          type: workflow.Instance
          interfaces:
            actions: {{grow: "receive-command(int by, string why => int size, string note)"}}
          configuration:
            configuration.workflows:
              grow:
                parameters: [by: {{default: 7}}, why: {{default: none}}]
                steps:
                  - work:
                      action: effect
                      parameters: {{value: ["{name}", "{{$.by}}", "{{$.why}}"], seconds: {seconds}, fail: {fail}}}
                      output: {{v: value}}
                return: {{size: {{value: "{{$.v}}"}}}}"""


def pair(step: str, *names: str, seconds: float = 0, fail: int = 0) -> Instance:
    peers = "\n        ".join(PEER.format(name=name, seconds=seconds, fail=fail) for name in names)
    bindings = ", ".join(f"[caller, {name}]" for name in names)
    return instance(PAIR.format(step=step, peers=peers, bindings=bindings))


BY_NAME = '{action: db.grow, parameters: {by: "{$.n}", why: because}, output: {got: size}}'
BY_CALL = (
    '{action: commandCall, parameters: {service: db, command: grow, arguments: {by: "{$.n}"}}, output: {got: result}}'
)


def component(needs: str, provides: str, launch: str, required: str) -> str:
    return f"""
          type: workflow.Instance
          required: [{required}]
          interfaces: {{{needs} {provides} none: {{}}}}
          configuration: {{configuration.workflows: {{launch: {launch}}}}}"""


def chain(**launches: str) -> Instance:
    """Components by name; each requires the signal of the one before it."""
    names = list(launches)
    text = "application:\n  components:\n"
    for place, (name, launch) in enumerate(launches.items()):
        needs = f"from: {{{names[place - 1]}: consume-signal(int)}}," if place else ""
        provides = f"to: {{{name}: publish-signal(int)}},"
        body = component(needs, provides, launch, "from" if place else "")
        text += f"    {name}:" + body.replace("\n    ", "\n") + "\n"
    bindings = ", ".join(f"[{one}, {other}]" for one, other in pairwise(names))
    return instance(f"{text}  bindings: [{bindings}]\n")


def launch(step: str, name: str) -> str:
    return f"{{steps: [{{s: {step}}}], return: {{{name}: {{value: 1}}}}}}"


WORK = "{action: effect, parameters: {seconds: 0.01}}"

PROVIDER = """{{type: workflow.Instance, interfaces: {{out: {{ip: publish-signal(string), n: publish-signal(int)}}}},
                 configuration: {{configuration.workflows: {{launch: {launch}}}}}}}"""
QUICK_RUN = "{steps: [], return: {ip: {value: IP}, n: {value: 1}}}"
SLOW = "{steps: [{s: {action: effect, parameters: {seconds: 0.05}}}], return: {ip: {value: IP}, n: {value: 1}}}"
FAILING = "{steps: [{s: {action: effect, parameters: {fail: 1, seconds: 0.02}}}], return: {ip: {value: IP}}}"


def reader(first: str, *, required: str = "[]", **providers: str) -> Instance:
    """A component `r` that runs `first` and then reads its signals; the providers' launches by name."""
    lines = "".join(
        f"          {name}: {PROVIDER.format(launch=launch.replace('IP', f'ip-{name}'))}\n"
        for name, launch in providers.items()
    )
    bindings = ", ".join(f"[r, {name}]" for name in providers)
    return instance(f"""
      application:
        components:
          r:
            type: workflow.Instance
            required: {required}
            interfaces:
              in: {{ip: consume-signal(string), n: consume-signal(int)}}
              other: {{x: consume-signal(int)}}
              result: {{single: publish-signal(object), multi: publish-signal(object)}}
            configuration:
              configuration.workflows:
                launch:
                  steps:
                    - first: {first}
                    - one: {{action: getSignals, precedingPhases: [first], output: {{single: result}}}}
                    - two:
                        {{action: getSignals, precedingPhases: [first], parameters: {{multi: true}},
                          output: {{multi: result}}}}
                  return: {{single: {{value: "{{$.single}}"}}, multi: {{value: "{{$.multi}}"}}}}
{lines}
        bindings: [{bindings}]
    """)


MACRO = """
    launch:
      steps:
        - build:
            action: .make
            parameters: {size: 3}
            output: {made: total}
        - use:
            action: effect
            precedingPhases: [build]
            parameters: {made: "{$.made}", inner: "{$.build~part}", deep: "{$.build~leafed}"}
      return:
        made: {value: "{$.made}"}
    .make:
      parameters:
        - size: {}
        - extra: {default: 4}
      steps:
        - one: {action: effect, parameters: {value: "{$.size}"}, output: {part: value}}
        - deeper: {action: .leaf, precedingPhases: [one], parameters: {base: "{$.part}"}, output: {leafed: out}}
      return:
        total: {value: ["{$.part}", "{$.extra}", "{$.leafed}"]}
    .leaf:
      parameters: [base: {}]
      steps:
        - only: {action: effect, parameters: {value: "leaf of {$.base}"}, output: {leaf: value}}
      return:
        out: {value: "{$.leaf}"}
"""
