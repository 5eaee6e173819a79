"""The providers of clouds and containers, and the sweep that looks after what they made."""

import importlib
import resource
from collections.abc import Callable
from functools import partial
from typing import Any

from launchbay.auth.secret_key import SecretKey
from launchbay.clock import Clock
from launchbay.engine.machine_ledger import PostgresCloudBook
from launchbay.engine.sweeper import Sweeper
from launchbay.machines.contract import Errand, MachineProvider, Parts, Sweepable
from launchbay.machines.registry import Late, Providers
from launchbay.settings import Settings
from launchbay.store.database import Database

CLOUD, CONTAINER = "cloud", "container"
_EVERY = "*"
_FILES = 65_536
_PROCESSES = 16_384  # of one login on the whole machine; a container has a lower bound of its own


def cloud_providers(settings: Settings, database: Database, secret_key: SecretKey, parts: Parts) -> Late:
    """Return what makes the providers when they are first asked for; containers where the operator named an engine."""
    book = PostgresCloudBook(database, secret_key)
    late: dict[str, Callable[[], MachineProvider]] = {
        CLOUD: lambda: _loaded("launchbay.machines.clouds.provider:CloudMachines")(parts, book)
    }
    if settings.container_socket:
        late[CONTAINER] = partial(_containers, settings, book, parts)
    return late


def sweeper(
    settings: Settings, database: Database, secret_key: SecretKey, providers: Providers, clock: Clock
) -> Sweeper:
    """Return the sweep. A provider is loaded for it only where it may have made something."""
    book = PostgresCloudBook(database, secret_key)

    async def swept() -> list[Sweepable]:
        names = [CLOUD] if await book.places() else []
        names += [CONTAINER] if settings.container_socket else []
        return [provider for name in names if isinstance(provider := providers.named(name), Sweepable)]

    return Sweeper(
        database=database,
        providers=swept,
        clock=clock,
        mode=settings.machines_sweep,
        interval_s=settings.machines_sweep_interval_s,
        grace_s=settings.machines_sweep_grace_s,
    )


def _containers(settings: Settings, book: PostgresCloudBook, parts: Parts) -> MachineProvider:
    engine = _loaded("launchbay.machines.containers.engine_api:EngineApi")(settings.container_socket)
    allowed = _loaded("launchbay.machines.containers.order:Allowed")(
        memory_mb=settings.container_memory_mb,
        cpus=settings.container_cpus,
        networks=_listed(settings.container_networks),
        # What this server may, its engine may in all likelihood: more would keep containers from starting.
        files=_own_limit(resource.RLIMIT_NOFILE, _FILES),
        processes=_own_limit(resource.RLIMIT_NPROC, _PROCESSES),
    )
    environments = _listed(settings.container_environments)

    def may_use(errand: Errand) -> bool:
        if settings.machines == CONTAINER or _EVERY in environments:
            return True
        return errand.environment_id in environments or errand.organization_id in environments

    made: MachineProvider = _loaded("launchbay.machines.containers.provider:ContainerMachines")(
        engine, book, allowed, parts.outgoing, may_use
    )
    return made


def _own_limit(which: int, wanted: int) -> int:
    _, most = resource.getrlimit(which)
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _loaded(path: str) -> Callable[..., Any]:
    """Import a class now, at its first use: what it stands on is heavy."""
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found
