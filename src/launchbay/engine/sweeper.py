"""Deletes orphaned machines: those that this installation created and that no instance owns.

A crash leaks no machine: every machine has tags from its creation, and a repeated step adopts machines with its tag.
Orphans are left by jobs that were cancelled between a machine and its record, and by instances whose records were
deleted while their cloud was unreachable. One process at a time runs a sweep, once per `interval_s`.
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
OPERATION = "sweep_machine"
METHOD = "system"
log = structlog.get_logger(__name__)
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeper:
    """Sweeps all providers; each round belongs to the process that claims it.

    `providers` is called in each round. A machine younger than `grace_s` is left for its step to record.
    """

    database: Database
    providers: Callable[[], Awaitable[Sequence[Sweepable]]]
    clock: Clock
    mode: str
    interval_s: float
    grace_s: float

    async def sweep(self) -> None:
        """Sweep all providers if a round is due and not claimed."""
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
        """Delete a machine if it is an orphan.

        No job of its instance can start and adopt it in the meantime.
        """
        async with self.database.transaction() as connection:
            reason = _reason(tagged, await machines.get_owner_status(connection, instance_id=tagged.tags.instance))
            if reason is None:
                return
            about, context = _document(provider, tagged, reason), _provider_context(provider, tagged)
            try:
                async with asyncio.timeout(limits.SWEEP_RELEASE_S):
                    # Its own job may have deleted it since the listing.
                    if not await provider.exists(context, tagged.machine):
                        return
                    if self.mode == REPORT:
                        log.warning("orphan.found", **about)
                        return
                    await provider.release(context, tagged.machine)
            except Exception as error:  # noqa: BLE001 - a provider is foreign code; the other orphans must go anyway
                log.warning("orphan.removal_failed", **about, error=str(error) or type(error).__name__)
                return
            await _record(connection, tagged, about)
            log.warning("orphan.removed", **about)


def _reason(tagged: TaggedMachine, instance: machines.OwnedMachineRow | None) -> str | None:
    """Return why a machine is an orphan, or None if it may be owned."""
    if instance is None:
        return "its instance is unknown"
    if InstanceStatus(instance.status) is InstanceStatus.DESTROYED:
        return "its instance is destroyed"
    if instance.job_id is not None:  # the job may have just created it, or may adopt it
        return None
    known = {machine.id for _, machine in InstanceState.from_text(instance.state).machines()}
    return None if tagged.machine.id in known else "its instance has no record of it"


def _document(provider: Sweepable, tagged: TaggedMachine, reason: str) -> dict[str, Any]:
    tags, machine = tagged.tags, tagged.machine
    return {
        "machine": machine.id,
        "provider": provider.name,
        "instance": tags.instance,
        "component": tags.component,
        "role": tags.role,
        "number": tags.number,
        "address": machine.host,
        "reason": reason,
    }


async def _record(connection: Connection, tagged: TaggedMachine, about: dict[str, Any]) -> None:
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
        token_id=None,
        token_name=None,
    )


def _provider_context(provider: Sweepable, tagged: TaggedMachine | None = None) -> ProviderContext:
    """Return the context of the sweep, which belongs to no step."""

    def log_line(level: str, text: str) -> None:
        log.log(_LEVELS.get(level, _LEVELS["warning"]), "orphan.provider_logged", provider=provider.name, text=text)

    tags = None if tagged is None else tagged.tags
    return ProviderContext(
        organization_id="" if tags is None else tags.organization,
        environment_id="" if tags is None else tags.environment,
        instance_id="" if tags is None else tags.instance,
        component="" if tags is None else tags.component,
        action="sweep",
        step="sweep",
        path="",
        tag="" if tags is None else tags.tag,
        log=log_line,
    )
