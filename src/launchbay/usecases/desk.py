"""What every use case works with."""

from collections.abc import Callable
from dataclasses import dataclass

from launchbay.access.lookup import Lookups
from launchbay.clock import Clock
from launchbay.model.findings import Finding
from launchbay.planning.manifests import CompiledManifests
from launchbay.store.pool import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Database, access and compiler of this process. `check` returns the findings of a manifest text."""

    database: Database
    lookups: Lookups
    manifests: CompiledManifests
    check: Callable[[bytes], list[Finding]]
    clock: Clock
