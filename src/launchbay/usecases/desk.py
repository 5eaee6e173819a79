"""What every use case works with."""

from collections.abc import Callable
from dataclasses import dataclass

from launchbay.auth.audit import Audit
from launchbay.auth.authentication import BasicAuthentication, Passwords
from launchbay.auth.lookup import Lookups
from launchbay.auth.secret_key import SecretKey
from launchbay.auth.tokens import RefreshTokens, SessionTokens
from launchbay.clock import Clock
from launchbay.egress.http import OutgoingHttp
from launchbay.machines.registry import Providers
from launchbay.model.findings import Finding
from launchbay.planning import CompiledManifests
from launchbay.service_types.registry import ServiceTypes
from launchbay.store.database import Database
from launchbay.store.events import EventFeed
from launchbay.usecases.backlog import Backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a use case may reach.

    `check` returns the findings of a manifest text; `runnable_types` are the component types that live instances run.
    """

    database: Database
    lookups: Lookups
    backlog: Backlog
    manifests: CompiledManifests
    check: Callable[[bytes], list[Finding]]
    runnable_types: frozenset[str]
    clock: Clock
    feed: EventFeed
    service_types: ServiceTypes
    machines: Providers
    secret_key: SecretKey
    outgoing: OutgoingHttp
    audit: Audit
    passwords: Passwords
    sign_in: BasicAuthentication
    refresh_tokens: RefreshTokens
    sessions: SessionTokens
    session_lifetime_s: int
