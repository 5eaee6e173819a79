"""`launchbay test FILE…`: runs tests of manifests and prints their results."""

import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import click

from launchbay import limits
from launchbay.actions.registry import Registry
from launchbay.clock import Backoff
from launchbay.egress.http import EgressClient
from launchbay.errors import BadRequest, InvalidManifest, LaunchbayError, WorkflowFailed
from launchbay.machines.dry_run import Answers, fits
from launchbay.machines.registry import POLICY, Providers
from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest_tests.expectations import Difference, Observed, differences
from launchbay.manifest_tests.launch_tree import Fixtures
from launchbay.manifest_tests.recorder import RecordedDryRun, Recorder, record_actions
from launchbay.manifest_tests.suite import Act, Case, Suite, Verb, is_suite, read_suite, suite_of
from launchbay.manifest_tests.virtual_time import Deadlock, VirtualClock, VirtualLoop, run
from launchbay.manifest_tests.world import EndlessTriggers, LiveInstance, Simulation
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Plan
from launchbay.model.machine import DRY_RUN
from launchbay.planning.plans import may_accept, plan_destroy, plan_launch, plan_reconfigure, plan_run
from launchbay.runtime.components.builtin import running
from launchbay.runtime.components.registry import ComponentTypes
from launchbay.runtime.contract import RuntimeDeps
from launchbay.runtime.state import InstanceState
from launchbay.settings import Settings

_POLICIES = {POLICY: DRY_RUN, "dry-run.restcall": True}


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case. `lines` is the log of its instances, level and text."""

    case: Case
    differences: tuple[Difference, ...]
    seconds: float
    lines: tuple[tuple[str, str], ...] = field(default=())


class SuiteRunner:
    """Runs suites with the actions and component types of this installation; caches compiled manifests."""

    def __init__(self) -> None:
        self._actions = Registry.load()
        self._types = ComponentTypes.load()
        self.compiled = lru_cache(maxsize=None)(self._compiled)

    def results(self, suite: Suite, wanted: Callable[[str], bool]) -> Iterator[CaseResult]:
        """Run the cases with wanted names, and yield their results. Raises UnusableManifest and OSError."""
        manifest = self.compiled(suite.manifest)
        applications = {name: self.compiled(path) for name, path in suite.applications.items()}
        view = EnvironmentView(
            policies={**_POLICIES, **suite.environment.policies},
            markers=suite.environment.markers,
            properties=suite.environment.properties,
        )
        fixtures = Fixtures(applications, view, suite.services)
        for case in suite.cases:
            if wanted(case.name):
                began_s = time.perf_counter()
                attempt = _CaseRun(self, suite, fixtures, manifest, case)
                found = attempt.differences()
                yield CaseResult(case, tuple(found), time.perf_counter() - began_s, tuple(attempt.lines))

    def runtime_deps(self, recorder: Recorder, provider: RecordedDryRun, clock: VirtualClock) -> RuntimeDeps:
        settings = Settings()
        return RuntimeDeps(
            actions=record_actions(self._actions, recorder),
            component_types=running(self._types),
            clock=clock,
            # Never used: the dry run answers every call.
            egress=EgressClient(ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)),
            retry_backoff=Backoff(settings.step_retry_first_s, settings.step_retry_longest_s),
            machines=Providers([("launchbay test", provider)], DRY_RUN),
        )

    def _compiled(self, path: Path) -> CompiledManifest:
        try:
            return compile_manifest(
                path.read_bytes(), known_actions=frozenset(self._actions.names()), known_types=self._types.definitions
            )
        except InvalidManifest as error:
            raise UnusableManifest(path, error.messages) from error


class UnusableManifest(LaunchbayError):
    """A manifest of a suite has errors."""

    def __init__(self, path: Path, messages: tuple[str, ...]) -> None:
        super().__init__(*messages)
        self.path = path


class _CaseRun:
    """The run of one case."""

    def __init__(
        self, suite_runner: SuiteRunner, suite: Suite, fixtures: Fixtures, manifest: CompiledManifest, case: Case
    ) -> None:
        self._suite_runner = suite_runner
        self._suite = suite
        self._fixtures = fixtures
        self._manifest = manifest
        self._case = case
        self._recorder = Recorder()
        self._provider = RecordedDryRun(self._recorder)
        self._instance: LiveInstance | None = None
        self._act: Act | None = None
        self.lines: list[tuple[str, str]] = []

    def differences(self) -> list[Difference]:
        """Run the case, and return the differences of the first act that has any."""
        try:
            return run(self._run)
        except Deadlock as error:
            return [Difference(self._case.line if self._act is None else self._act.line, str(error))]

    async def _run(self, loop: VirtualLoop) -> list[Difference]:
        world = Simulation(
            self._suite_runner.runtime_deps(self._recorder, self._provider, VirtualClock(loop)), self._fixtures
        )
        self.lines = world.lines
        for act in self._case.acts:
            self._act = act
            self._provider.answers = Answers((*act.answers.entries, *self._suite.answers.entries))
            self._recorder.performed.clear()
            jobs, lines, world.error = len(world.jobs), len(world.lines), None
            refusal = await self._run_act(world, act)
            observed = self._observe(world, jobs, lines, refusal)
            found = differences(act.expected, observed, act.line)
            if found:
                return found
        return []

    async def _run_act(self, world: Simulation, act: Act) -> str | None:
        """Perform an act. Return why it was rejected, or None."""
        try:
            with suppress(WorkflowFailed):  # `world.error` has its message
                if act.verb is Verb.WAIT:
                    await world.advance(act.seconds)
                else:
                    instance, plan = self._planned(world, act)
                    async with instance.turn:
                        await world.run(instance, plan)
            await world.run_follow_ups()
        except BadRequest as error:
            return " ".join(error.messages)
        except EndlessTriggers as error:
            return str(error)
        return None

    def _planned(self, world: Simulation, act: Act) -> tuple[LiveInstance, Plan]:
        """Return the instance and the job to run on it. Raises BadRequest as the API does."""
        if act.verb is Verb.LAUNCH and self._instance is None:
            self._instance = world.create(self._fixtures.plan_tree(self._manifest, act.parameters))
            after_s = act.destroy_after_s
            if after_s is None:
                after_s = limits.DESTROY_INTERVAL_DEFAULT_MS / 1000
            self._instance.destroy_at = world.deps.clock.now() + timedelta(seconds=after_s)
            return self._instance, plan_launch({}, InstanceStatus.REQUESTED)
        instance = self._instance
        if instance is None:
            raise BadRequest(f"Can't {act.verb} before a launch. Launch the instance first.")
        if instance.status is InstanceStatus.DESTROYED:
            raise BadRequest("The instance is destroyed.")
        if act.verb is Verb.LAUNCH:
            plan = plan_launch({}, instance.status)
        elif act.verb is Verb.DESTROY:
            plan = plan_destroy(instance.status)
        elif act.verb is Verb.RUN:
            plan = plan_run(instance.tree.manifest, act.subject, act.parameters, instance.status)
        else:
            manifest = instance.tree.manifest
            if act.subject:
                manifest = self._suite_runner.compiled(self._suite.path.parent / act.subject)
            world.change(instance, self._fixtures.plan_tree(manifest, act.parameters))
            plan = plan_reconfigure(instance.status)
        assert may_accept(plan), "a running or failed instance accepts any job"
        return instance, plan

    def _observe(self, world: Simulation, jobs: int, lines: int, refusal: str | None) -> Observed:
        instance = self._instance
        return Observed(
            status=None if instance is None else instance.status,
            error=refusal or world.error,
            values={} if instance is None else instance.values,
            performed_steps=list(self._recorder.performed),
            workflows=[".".join((*module_path, workflow)) for module_path, workflow in world.jobs[jobs:]],
            machines=_machines(world),
            lines=[text for _, text in world.lines[lines:]],
        )


def _machines(world: Simulation) -> Mapping[str, int]:
    states = (InstanceState.from_text(instance.state) for instance in world.instances.values())
    return Counter(machine.role for state in states for _, machine in state.machines())


_UNREADABLE = 2


@click.command("test")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-k", "pattern", default="*", help="Run only tests whose name contains this; * and ? are wildcards.")
@click.option("--log", is_flag=True, help="Print the log of every test. Default: only of failed tests.")
def test(files: Sequence[Path], pattern: str, log: bool) -> None:  # noqa: FBT001 - click hands flags over so
    """Run tests of manifests on dry-run machines and virtual time, without a server.

    FILES are test files, such as shop.test.yml, or manifests with a test file in the same directory.
    """
    runner = SuiteRunner()
    ran = failed = 0
    seconds = 0.0
    for path in dict.fromkeys(file if is_suite(file) else suite_of(file) for file in files):
        click.echo(str(path))
        try:
            for outcome in runner.results(read_suite(path, path.read_bytes()), lambda name: fits(f"*{pattern}*", name)):
                ran += 1
                failed += bool(outcome.differences)
                seconds += outcome.seconds
                _print_result(path, outcome, with_log=log)
        except (InvalidManifest, UnusableManifest) as error:
            where = error.path if isinstance(error, UnusableManifest) else path
            _refuse(*(f"{where}: {message.replace('The manifest is', 'The file is')}" for message in error.messages))
        except OSError as error:
            _refuse(f"{error.filename or path}: {error.strerror}.")
    outcomes = "all succeeded" if not failed else f"{failed} failed"
    click.echo(f"{ran} {'test' if ran == 1 else 'tests'}, {outcomes}, {round(seconds * 1000)} ms")
    if failed:
        sys.exit(1)


def _print_result(path: Path, outcome: CaseResult, *, with_log: bool) -> None:
    mark = click.style("failed", fg="red") if outcome.differences else click.style("ok", fg="green")
    click.echo(f"  {mark}  {outcome.case.name} ({round(outcome.seconds * 1000)} ms)")
    for difference in outcome.differences:
        click.echo(f"      {path}:{difference.line}: {difference.text}")
    if outcome.differences or with_log:
        for level, text in outcome.lines:
            click.echo(f"      {level}: {text}" if level != "info" else f"      {text}")


def _refuse(*messages: str) -> None:
    for message in messages:
        click.echo(message, err=True)
    sys.exit(_UNREADABLE)
