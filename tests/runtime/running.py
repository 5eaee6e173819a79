"""Manifests in, outcomes out: runs jobs with the real compiler and interpreter, over a journal in memory."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

import msgspec

from launchbay.actions.registry import BUILT_IN, Registry
from launchbay.backoff import Backoff
from launchbay.clock import SystemClock
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import WorkflowFailed
from launchbay.machines.registry import Providers
from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest.configuration import Configured, configure
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus, Link
from launchbay.model.job import Plan
from launchbay.planning import plan_destroy, plan_launch, plan_run
from launchbay.runtime.components.registry import ComponentTypes
from launchbay.runtime.contract import JobRun, LinkedInstance, RuntimeDeps, StepBudget
from launchbay.runtime.lifecycle import run_plan
from launchbay.runtime.signals import return_values
from launchbay.runtime.state import Graph, InstanceState
from tests.runtime.journals import Disk, MemoryJournal
from tests.runtime.probes import World

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
    surroundings = RuntimeDeps(actions, types.running, SystemClock(), OUTGOING, pacing, machines)
    known_actions = frozenset(actions.names())
    manifest = compile_manifest(dedent(text).encode(), known_actions=known_actions, known_types=types.definitions)
    return Instance(manifest, world, surroundings, **more)


def workflows(text: str) -> str:
    """A workflow manifest, with the names that the rest of the file uses."""
    return dedent(text)
