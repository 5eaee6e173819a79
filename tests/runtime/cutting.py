"""Kills a job at every write of its journal, runs it again, and compares it with the run that nobody disturbed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from launchbay.model.job import Plan, StepStatus
from tests.runtime.journals import Crashed, Disk
from tests.runtime.probes import Effect
from tests.runtime.running import Instance

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
    first: dict[str, Effect] = {}
    for effect in live.world.effects:
        known = first.setdefault(effect.path, effect)
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
