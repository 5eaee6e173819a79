"""Takes machines down that this installation made and that belong to nobody: the sweep of strays.

A crash leaks no machine, because every machine carries marks from its first moment and a repeated step takes over what
it finds with its tag. What is left are machines that no step comes back to: of a job that was cancelled between a
machine and its record, of an instance whose records were deleted while its cloud did not answer. They are found here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from launchbay import limits
from launchbay.clock import Clock
from launchbay.machines.contract import ProviderContext, Sweepable, TaggedMachine
from launchbay.model.instance import InstanceStatus
from launchbay.runtime.state import InstanceState
from launchbay.store import audit, machines
from launchbay.store.database import Connection, Database

REMOVE, REPORT, OFF = "remove", "report", "off"
MODES = (REMOVE, REPORT, OFF)
OPERATION = "sweep_machine"
METHOD = "system"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeper:
    """Every process may run one: a round belongs to the process that claims it.

    `providers` are asked for in each round; `interval_s` lies between two rounds, and a machine that is younger than
    `grace_s` is left for its step to record.
    """

    database: Database
    providers: Callable[[], Awaitable[Sequence[Sweepable]]]
    clock: Clock
    mode: str
    interval_s: float
    grace_s: float

    async def sweep(self) -> None:
        """Look for strays everywhere, if the time has come and no other process does."""
        if self.mode == OFF:
            return
        async with self.database.connection() as connection:
            if await machines.claim_sweep(connection, interval_s=self.interval_s) is None:
                return
        async with asyncio.timeout(limits.SWEEP_S):
            for provider in await self.providers():
                async for found in provider.list_tagged(_provider_context(provider)):
                    if self._is_old(found):
                        await self._sweep_machine(provider, found)

    def _is_old(self, tagged: TaggedMachine) -> bool:
        return tagged.created_at is None or (self.clock.now() - tagged.created_at).total_seconds() >= self.grace_s

    async def _sweep_machine(self, provider: Sweepable, tagged: TaggedMachine) -> None:
        """Take a machine down if it is a stray. No job of its instance begins meanwhile, which might take it over."""
        async with self.database.transaction() as connection:
            reason = _reason(tagged, await machines.get_owner_status(connection, instance_id=tagged.tags.instance))
            if reason is None:
                return
            about, context = _document(provider, tagged, reason), _provider_context(provider, tagged)
            try:
                async with asyncio.timeout(limits.SWEEP_RELEASE_S):
                    # Since it was found, its own job may have taken it down.
                    if not await provider.exists(context, tagged.machine):
                        return
                    if self.mode == REPORT:
                        log.warning("orphan.found", **about)
                        return
                    await provider.release(context, tagged.machine)
            except Exception as error:  # noqa: BLE001 - a provider is foreign code; the other strays must go all the same
                log.warning("orphan.removal_failed", **about, error=str(error) or type(error).__name__)
                return
            await _record(connection, tagged, about)
            log.warning("orphan.removed", **about)


def _reason(tagged: TaggedMachine, instance: machines.OwnedMachineRow | None) -> str | None:
    """Say why a machine belongs to nobody, None where it may belong to somebody."""
    if instance is None:
        return "its instance is unknown"
    if InstanceStatus(instance.status) is InstanceStatus.DESTROYED:
        return "its instance is destroyed"
    if instance.job_id is not None:  # which may have made it just now, or be about to take it over
        return None
    known = {machine.id for _, machine in InstanceState.from_text(instance.state).machines()}
    return None if tagged.machine.id in known else "no record of its instance tells of it"


def _document(provider: Sweepable, tagged: TaggedMachine, reason: str) -> dict[str, Any]:
    marks, machine = tagged.tags, tagged.machine
    return {
        "machine": machine.id,
        "provider": provider.name,
        "instance": marks.instance,
        "component": marks.component,
        "role": marks.role,
        "number": marks.number,
        "address": machine.host,
        "reason": reason,
    }


async def _record(connection: Connection, tagged: TaggedMachine, about: dict[str, Any]) -> None:
    """Write the removal into the audit log of the organization that the machine was made for."""
    await audit.insert(
        connection,
        organization_id=tagged.tags.organization,
        actor_id="",
        actor_email="",
        method=METHOD,
        address="",
        operation=OPERATION,
        object=f"/instances/{tagged.tags.instance}",
        object_id=tagged.tags.instance,
        before=msgspec.json.encode(about).decode(),
        after=None,
    )


def _provider_context(provider: Sweepable, tagged: TaggedMachine | None = None) -> ProviderContext:
    """Return the context of the sweep, which is nobody's step."""

    def told(level: str, text: str) -> None:
        log.log(_LEVELS.get(level, _LEVELS["warning"]), "sweep.told", provider=provider.name, text=text)

    marks = None if tagged is None else tagged.tags
    return ProviderContext(
        organization_id="" if marks is None else marks.organization,
        environment_id="" if marks is None else marks.environment,
        instance_id="" if marks is None else marks.instance,
        component="" if marks is None else marks.component,
        action="sweep",
        step="sweep",
        path="",
        tag="" if marks is None else marks.tag,
        log=told,
    )


_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
