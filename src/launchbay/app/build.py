"""The composition root: settings → database → use cases and engine → web application."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from typing import Any, Protocol

from argon2 import PasswordHasher
from starlette.types import ASGIApp

from launchbay import __version__
from launchbay.actions.registry import Registry
from launchbay.app.features import FEATURES, endpoints, pages
from launchbay.app.machines import machine_providers, sweeper
from launchbay.app.outgoing import outgoing_client, outgoing_proxy
from launchbay.auth.audit import Audit
from launchbay.auth.authentication import Authenticator, BasicAuthentication
from launchbay.auth.identity_tokens import IDENTITY_KEYS, IdentityTokens
from launchbay.auth.lookup import Lookups
from launchbay.auth.openid import OpenIdClient, OpenIdProvider, ProviderMetadata
from launchbay.auth.passwords import PARAMETERS, Passwords
from launchbay.auth.secret_key import KeyFile, SecretKey, UnsealFailed, read_secret_key
from launchbay.auth.throttle import RateLimits, SignInThrottle
from launchbay.auth.tokens import AccessTokens, KeyRing, RefreshTokens, SessionTokens
from launchbay.clock import Backoff, Clock, SystemClock
from launchbay.concurrency import Shared
from launchbay.console.app import create_console, served_by_console
from launchbay.console.request import ConsoleDeps
from launchbay.egress.http import EgressClient
from launchbay.egress.mail import MailServer
from launchbay.egress.proxy import OutgoingProxy
from launchbay.engine.approvals import POLL_S as APPROVALS_S
from launchbay.engine.approvals import PendingApprovals
from launchbay.engine.dispatch import Dispatcher, WakeUps
from launchbay.engine.journal import PostgresDocuments
from launchbay.engine.machine_ledger import PostgresAccountProbe
from launchbay.engine.retention import CLEANER_INTERVAL_S, RETENTION_INTERVAL_S, Cleaner, Retention, RetentionPolicy
from launchbay.engine.runner import Runner
from launchbay.engine.service_calls import ServiceCalls
from launchbay.engine.stager import Stager
from launchbay.engine.worker import Engine, PeriodicTask
from launchbay.errors import CannotStart
from launchbay.fairness.other_servers import OtherServers, this_machine
from launchbay.fairness.shared_counts import SharedCounts
from launchbay.fairness.turns import RequestTurns
from launchbay.feature import Features, TaskDeps
from launchbay.limits import IDENTITY_TOKEN_S, KIB, MIB
from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.meaning import digest
from launchbay.manifest.reader import Bounds
from launchbay.pages.table import TABS
from launchbay.planning.compiled import CompiledManifests
from launchbay.postgres.cluster import MAX_CONNECTIONS
from launchbay.postgres.memory import as_overrides, sizes_of
from launchbay.postgres.server import EmbeddedPostgres, directory_of
from launchbay.processes.run import Programs
from launchbay.quotas.bounds import Quotas, default_quotas
from launchbay.quotas.stored_bytes import FOLD_S, MEASURE_S, SAVE_S, StoredBytes, fold_instance_counts
from launchbay.runtime.components.builtin import running
from launchbay.runtime.components.registry import ComponentTypes
from launchbay.runtime.contract import (
    NullApprovedPlans,
    NullIdentities,
    NullNotifier,
    NullSecretSource,
    RuntimeDeps,
)
from launchbay.runtime.evaluation import Evaluations
from launchbay.service_types.builtin import CloudAccount
from launchbay.service_types.openbao import OpenBao
from launchbay.service_types.registry import ServiceTypes
from launchbay.service_types.server_secrets import PodTokens, ServerFiles, ServerVariables
from launchbay.settings import Settings
from launchbay.store import dispatch as store_dispatch
from launchbay.store import fleet
from launchbay.store import quotas as store_quotas
from launchbay.store.database import ROOM_S, Database
from launchbay.store.events import EventFeed
from launchbay.store.keys import list_session_keys
from launchbay.store.lookups import lock_of
from launchbay.store.schema import INDEXES_S, change_indexes, upgrade
from launchbay.telemetry.metrics import REGISTRY, NamedJobs, exposition, sample
from launchbay.telemetry.tracing import tracing
from launchbay.tenants import Tenants
from launchbay.usecases.context import AppContext
from launchbay.usecases.fleet import OLD_JOBS_S, list_old_jobs
from launchbay.usecases.idempotency import Idempotency
from launchbay.usecases.organizations import FirstAdministrator, initialize
from launchbay.usecases.sealing import NewestKey, seal_sources
from launchbay.usecases.sign_in import AccountPolicy, OpenIdSignIn, SignInLink
from launchbay.usecases.waits import Ends
from launchbay.web.api.sign_in import CALLBACK, START, START_FOR_CONSOLE
from launchbay.web.app import Mount, create_app
from launchbay.web.connections import bounds
from launchbay.web.endpoints import MONITORING
from launchbay.web.mcp import Mcp
from launchbay.web.openapi import calls_by_tag
from launchbay.web.problems import log_failure, status_of
from launchbay.web.proxies import ClientAddress, TrustedProxies
from launchbay.web.requests import ApiDeps
from launchbay.web.routing import Endpoint
from launchbay.web.wire import WireProtocol

_COLLECTOR = "launchbay.telemetry.collector"  # loaded only where it is used
_CONNECTIONS_BESIDE_POOL = 2  # of a process: its heartbeat, and its events
_CONNECTIONS_OF_OTHERS = 40  # commands, backups and administrators


def console_pages(settings: Settings, api: ApiDeps, actions: Registry, limits: RateLimits, features: Features) -> Mount:
    """Return the console and the paths that it serves."""
    context, declared = api.app, pages(features)
    console = create_console(
        ConsoleDeps(
            app=context,
            tabs=TABS,
            base_url=settings.base_url,
            is_secure=settings.is_secure(),
            known_actions=tuple(sorted(actions.names())),
            known_types=tuple(sorted(context.runnable_types)),
            status_of=status_of,
            log_failure=log_failure,
            api_calls=cache(partial(calls_by_tag, endpoints(features))),
            limits=limits,
            sign_in_links=() if api.openid is None else (SignInLink(settings.oidc_name, START_FOR_CONSOLE),),
        ),
        declared,
    )
    return Mount(console, served_by_console(declared))


def mail_server(settings: Settings) -> MailServer | None:
    if not settings.smtp_host:
        return None
    return MailServer(
        host=settings.smtp_host,
        port=settings.smtp_port,
        sender=settings.smtp_sender,
        security=settings.smtp_security,
        user=settings.smtp_user,
        password=settings.smtp_password,
        ca_file=settings.smtp_ca_file,
    )


def openid_sign_in(settings: Settings, secret: SecretKey, clock: Clock, stack: AsyncExitStack) -> OpenIdSignIn | None:
    if not settings.oidc_issuer:
        return None
    egress = outgoing_client(settings, settings.oidc_issuer)
    stack.push_async_callback(egress.aclose)
    client = OpenIdClient(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        scopes=" ".join(settings.oidc_scopes.replace(",", " ").split()),
        redirect_uri=settings.base_url.rstrip("/") + CALLBACK,
        groups_claim=settings.oidc_groups_claim,
    )
    metadata = ProviderMetadata(client.issuer, egress, clock)
    return OpenIdSignIn(
        OpenIdProvider(client, metadata, egress, secret, clock),
        AccountPolicy(
            domains=tuple(domain.lower() for domain in _listed(settings.oidc_allowed_domains)),
            organization=settings.oidc_organization,
            new_user_roles=_listed(settings.oidc_new_user_roles),
        ),
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


class _ConnectedWakeUps(WakeUps, Protocol):
    async def run(self) -> None: ...


def _wake_ups(settings: Settings) -> _ConnectedWakeUps | None:
    """Return the connection to NATS, or None without one.

    Raises CannotStart without the client library. The module is loaded here: other processes need neither its time nor
    its memory.
    """
    if not settings.dispatch_url:
        return None
    try:
        jetstream = import_module("launchbay.engine.jetstream")
    except ImportError as error:
        raise CannotStart(
            f"LAUNCHBAY_DISPATCH_URL is set, and the client of NATS is not installed: {error}.",
            "Install it with: pip install 'launchbay[nats]'",
            code="NatsMissing",
        ) from error
    found: _ConnectedWakeUps = jetstream.JetStreamWakeUps(
        settings.dispatch_url, stream=settings.dispatch_stream, replicas=settings.dispatch_replicas
    )
    return found


@dataclass(frozen=True, slots=True)
class App:
    """A started process: its web applications, its engine, and the account that a first start created."""

    app: ASGIApp
    monitoring_app: ASGIApp  # only health and metrics, for workers
    engine: Engine
    database: Database
    first_administrator: FirstAdministrator | None
    feed: EventFeed
    quotas: Quotas
    turns: RequestTurns
    counts: SharedCounts


@asynccontextmanager
async def lifespan(
    settings: Settings,
    clock: Clock | None = None,
    hasher: PasswordHasher = PARAMETERS,
    counts: SharedCounts | None = None,
    features: Features = FEATURES,
) -> AsyncIterator[App]:
    """Start everything except listening and running jobs; close it all at the end.

    `hasher` is for tests, whose passwords need no protection, and `features` for tests of the kernel. `counts` are
    those of several processes. Raises CannotStart.
    """
    clock = clock or SystemClock()
    counts = counts or SharedCounts()
    proxy = outgoing_proxy(settings)
    async with AsyncExitStack() as stack:
        for signal, send in (("traces", tracing.send_to), ("logs", _send_logs)):
            if signal in settings.signals():
                end = send(settings.otlp_endpoint, settings.otlp_service, proxy)
                stack.push_async_callback(asyncio.to_thread, end)
        url = await _database_url(settings, stack)
        await upgrade(settings.direct_url() or url)
        database = await stack.enter_async_context(
            Database(
                url,
                direct_url=settings.database_direct_url,
                connections=settings.database_connections,
                directory=directory_of(settings.data_dir, settings.database_url),
            )
        )
        if "metrics" in settings.signals():
            sender = import_module(_COLLECTOR).MetricsSender(settings.otlp_endpoint, settings.otlp_service, proxy)
            sending = asyncio.create_task(_send_metrics(sender, settings.otlp_interval_s, database), name="metrics")
            stack.push_async_callback(_ended, sending)
        passwords = Passwords(hasher)
        stack.callback(passwords.close)
        administrator = await initialize(
            database,
            passwords,
            organization=settings.organization,
            email=settings.admin_email,
            password=settings.admin_password,
        )
        secret, newest = await _secret_key(settings, database, clock)
        following = asyncio.create_task(newest.keep_current(), name="newest secret key")
        stack.push_async_callback(_ended, following)
        await seal_sources(database, secret)
        await features.start(database, secret)
        egress = outgoing_client(settings)
        stack.push_async_callback(egress.aclose)
        wake_ups = _wake_ups(settings)
        app = _assemble(
            settings, clock, database, passwords, secret, egress, administrator, counts, wake_ups, features, stack
        )
        if wake_ups is not None:
            connecting = asyncio.create_task(wake_ups.run(), name="wake-ups")
            stack.push_async_callback(_ended, connecting)
        stack.push_async_callback(app.feed.close)
        reading = asyncio.create_task(app.quotas.keep_current(database), name="quotas")
        stack.push_async_callback(_ended, reading)
        others = OtherServers(database, app.turns, this_machine())
        hearing = asyncio.create_task(others.keep_current(), name="other servers")
        stack.push_async_callback(_ended, hearing)
        yield app


async def _secret_key(settings: Settings, database: Database, clock: Clock) -> tuple[SecretKey, NewestKey]:
    """Return the secret key, and what keeps it current.

    Only the first start of a database makes one.

    Raises CannotStart unless the database is encrypted with it: otherwise the process would encrypt values that others
    can't decrypt, and fail at the first secret.
    """
    async with database.connection() as connection:
        is_encrypted = bool(await list_session_keys(connection))
    secret = read_secret_key(settings.key_file(), creates=not is_encrypted)
    try:
        await KeyRing(database, secret, clock, settings.session_lifetime_s).signing_key()
    except UnsealFailed as error:
        raise CannotStart(
            f"This database is encrypted with another secret key than {settings.key_file()}.",
            "Copy the key file of another server or of the backup there. If the key is lost, run:"
            " launchbay docs --print howto/restore#restore-without-the-key",
        ) from error
    newest = NewestKey(database, secret, KeyFile(settings.key_file()))
    await newest.adopt()
    return secret, newest


@asynccontextmanager
async def prepared(
    settings: Settings, hasher: PasswordHasher = PARAMETERS
) -> AsyncIterator[tuple[Settings, FirstAdministrator | None]]:
    """Do once what several server processes need before they start. Raises CannotStart.

    Yields the settings of the processes, with the URL of the embedded PostgreSQL if there is one, and the account that
    a first start created.
    """
    async with AsyncExitStack() as stack:
        url = await _database_url(settings, stack)
        await upgrade(settings.direct_url() or url)
        async with Database(url, direct_url=settings.database_direct_url, connections=2) as database:
            passwords = Passwords(hasher)
            stack.callback(passwords.close)
            administrator = await initialize(
                database,
                passwords,
                organization=settings.organization,
                email=settings.admin_email,
                password=settings.admin_password,
            )
            await _secret_key(settings, database, SystemClock())
            if not settings.database_url:
                # No other process can use it, so every worker that it lists is dead.
                async with database.connection() as connection:
                    dead = await store_dispatch.list_workers(connection)
                    worker_ids, beats = [row.id for row in dead], [row.beat_at for row in dead]
                    await store_dispatch.rescue(connection, worker_ids=worker_ids, beats=beats)
        yield replace(settings, database_url=url), administrator


async def _database_url(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.database_url:
        return settings.database_url
    needed = settings.processes * (settings.database_connections + _CONNECTIONS_BESIDE_POOL) + _CONNECTIONS_OF_OTHERS
    overrides = {"max_connections": str(max(needed, MAX_CONNECTIONS)), **as_overrides(sizes_of(settings))}
    embedded = await asyncio.to_thread(partial(EmbeddedPostgres.start, settings.data_dir, overrides=overrides))
    stack.push_async_callback(asyncio.to_thread, embedded.stop)
    watching = asyncio.create_task(embedded.keep_running(), name="embedded postgres")

    stack.push_async_callback(_ended, watching)
    return embedded.url


def _send_logs(endpoint: str, service: str, proxy: OutgoingProxy | None) -> Callable[[], None]:
    end: Callable[[], None] = import_module(_COLLECTOR).send_logs(endpoint, service, proxy)
    return end


async def _send_metrics(sender: Any, interval_s: float, database: Database) -> None:
    """Send this process's metrics at intervals, and once more at the end."""
    try:
        while True:
            await sample(database)
            await asyncio.to_thread(sender.send, list(REGISTRY.collect()))
            await asyncio.sleep(interval_s)
    finally:
        await asyncio.to_thread(sender.send, list(REGISTRY.collect()))
        await asyncio.to_thread(sender.close)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _assemble(
    settings: Settings,
    clock: Clock,
    database: Database,
    passwords: Passwords,
    secret: SecretKey,
    egress: EgressClient,
    administrator: FirstAdministrator | None,
    counts: SharedCounts,
    wake_ups: WakeUps | None,
    features: Features,
    stack: AsyncExitStack,
) -> App:
    actions = Registry.load()
    known_actions = actions.by_name
    component_types = ComponentTypes.load()
    known_types = component_types.definitions
    bounds = Bounds(
        settings.manifest_kib * KIB,
        settings.manifest_values,
        settings.manifest_expressions,
        settings.manifest_bound_pins,
    )
    manifests = CompiledManifests(
        partial(compile_manifest, known_actions=known_actions, known_types=known_types, bounds=bounds),
        compiler=digest((__version__, sorted(known_actions), sorted(known_types), tuple(bounds))),
    )
    throttle = SignInThrottle(database, secret)
    basic = BasicAuthentication(database, passwords, throttle, clock)
    keys = KeyRing(database, secret, clock, settings.session_lifetime_s)
    sessions = SessionTokens(keys, clock, settings.base_url or "launchbay", settings.session_lifetime_s)
    identity_keys = KeyRing(database, secret, clock, IDENTITY_TOKEN_S, IDENTITY_KEYS)
    identity_tokens = IdentityTokens(identity_keys, clock, settings.base_url)
    tenants = Tenants()
    dispatcher = Dispatcher(
        database,
        clock,
        concurrency=settings.engine_concurrency,
        heartbeat_s=settings.heartbeat_interval_s,
        grace_s=settings.stop_grace_s,
        stalled_after_s=settings.stalled_after_s,
        park_after_s=settings.park_after_s,
        wake_ups=wake_ups,
        tenants=tenants,
    )
    providers = machine_providers(settings, database, secret, egress)
    feed = EventFeed(database, tenants)
    context = AppContext(
        database=database,
        lookups=Lookups(basic.invalidate),
        locks=features.locks(lock_of),
        ports=features.ports(),
        change_rules=features.change_rules(),
        offers=features.offers(),
        quotas=Quotas(default_quotas(settings), clock, counts, tenants),
        turns=RequestTurns(),
        organization_creators=settings.creators(),
        organizations_each=settings.quota_organizations,
        dispatch=dispatcher,
        manifests=manifests,
        check=partial(check, known_actions=known_actions, known_types=known_types, bounds=bounds),
        manifest_bytes=bounds.bytes,
        runnable_types=frozenset(running(component_types)),
        clock=clock,
        feed=feed,
        ends=Ends(database, dispatcher, feed.closing),
        machines=providers,
        service_types=ServiceTypes.load(
            CloudAccount(PostgresAccountProbe(egress)),
            ServerFiles(settings.secret_directories, settings.own_files()),
            ServerVariables(settings.secret_variables),
            OpenBao(PodTokens(settings.kubernetes_tokens)),
        ),
        secret_key=secret,
        egress=egress,
        audit=Audit(secret),
        passwords=passwords,
        sign_in=basic,
        throttle=throttle,
        refresh_tokens=RefreshTokens(),
        sessions=sessions,
        identity_tokens=identity_tokens,
        session_lifetime_s=settings.session_lifetime_s,
        session_idle_s=settings.session_idle_s,
        given_password_days=settings.given_password_days,
    )
    approvals = PendingApprovals(database, clock)
    evaluations = Evaluations(settings.expression_memory_mib * MIB)
    stack.push_async_callback(evaluations.close)
    identities = features.identities(context) or NullIdentities()
    deps = RuntimeDeps(
        actions=actions,
        component_types=running(component_types),
        clock=clock,
        egress=egress,
        retry_backoff=Backoff(settings.step_retry_first_s, settings.step_retry_longest_s),
        machines=providers,
        approvals=approvals,
        notifier=features.notifier(database) or NullNotifier(),
        identities=identities,
        secret_source=features.secret_source(context, identities) or NullSecretSource(),
        approved_plans=features.approved_plans(context) or NullApprovedPlans(),
        mail=mail_server(settings),
        documents=PostgresDocuments(database, secret),
        programs=Programs(settings.programs()),
        evaluator=evaluations,
    )
    calls = ServiceCalls(database, context.service_types, secret, deps.secret_source)
    of_features = features.tasks(
        TaskDeps(
            app=context,
            base_url=settings.base_url,
            mail=deps.mail,
            programs=deps.programs,
            runtime=deps,
            on_close=stack.push_async_callback,
        )
    )
    engine = _engine(settings, context, dispatcher, deps, calls, approvals, of_features)
    api = _api_deps(settings, context, openid_sign_in(settings, secret, clock, stack), wake_ups)
    requests = RateLimits(
        context.clock,
        counts,
        address_per_s=settings.rate_limit_address_per_s,
        user_per_s=settings.rate_limit_user_per_s,
        burst_s=settings.rate_limit_burst_s,
    )
    mcp = Mcp(settings.base_url)
    stack.push_async_callback(mcp.close)
    console = console_pages(settings, api, actions, requests, features)
    app = _web_app(settings, api, requests, counts, endpoints(features), console, mcp, features.protocols())
    return App(
        app,
        _web_app(settings, api, requests, counts, MONITORING),
        engine,
        database,
        administrator,
        context.feed,
        context.quotas,
        context.turns,
        counts,
    )


def _api_deps(
    settings: Settings, context: AppContext, openid: OpenIdSignIn | None, wake_ups: WakeUps | None
) -> ApiDeps:
    return ApiDeps(
        app=context,
        idempotency=Idempotency(context.database, context.lookups, context.secret_key),
        ready=Shared(partial(_check_ready, context)),
        is_dispatch_up=None if wake_ups is None else lambda: wake_ups.is_up,
        metrics=partial(exposition, context.database),
        metrics_token=settings.metrics_token,
        base_url=settings.base_url,
        manifest_bytes=context.manifest_bytes,
        is_secure=settings.is_secure(),
        sign_in_links=() if openid is None else (SignInLink(settings.oidc_name, START),),
        openid=openid,
    )


async def _check_ready(context: AppContext) -> None:
    """Raise Unavailable if this process can't answer requests."""
    await context.database.ping()
    context.secret_key.check_newest()


def _web_app(
    settings: Settings,
    api: ApiDeps,
    limits: RateLimits,
    counts: SharedCounts,
    rows: tuple[Endpoint, ...],
    pages: Mount | None = None,
    mcp: Mcp | None = None,
    protocols: Sequence[WireProtocol] = (),
) -> ASGIApp:
    tokens = AccessTokens(api.app.database)
    authenticator = Authenticator(api.app.sign_in, api.app.sessions, tokens, api.app.throttle)
    hosts, proxies = settings.accepted_hosts(), _proxies(settings, counts)
    return create_app(rows, authenticator, api, limits, pages, hosts, proxies, api.app.turns, mcp, protocols)


def _proxies(settings: Settings, counts: SharedCounts) -> Callable[[ASGIApp], ASGIApp] | None:
    trusted = TrustedProxies(settings.proxy_networks())
    if not trusted:
        return None
    return partial(ClientAddress, proxies=trusted, per_address=bounds(settings).per_address, counts=counts)


def _engine(
    settings: Settings,
    context: AppContext,
    dispatcher: Dispatcher,
    deps: RuntimeDeps,
    calls: ServiceCalls,
    approvals: PendingApprovals,
    of_features: tuple[PeriodicTask, ...],
) -> Engine:
    database, manifests, secret = context.database, context.manifests, context.secret_key
    stored = StoredBytes(database, context.quotas)
    listed = (settings.metrics_applications, settings.metrics_environments, settings.metrics_labels)
    named_jobs = NamedJobs(database, *listed)
    orphans = sweeper(settings, database, secret, context.machines, deps.clock)
    return Engine(
        database=database,
        clock=deps.clock,
        dispatcher=dispatcher,
        runner=Runner(
            database,
            deps,
            manifests,
            calls,
            secret,
            dispatcher,
            stored,
            settings.destroy_timeout_s,
            named_jobs,
            context.lookups,
        ),
        stager=Stager(database, dispatcher, manifests, deps.clock, secret, context.lookups, context.change_rules),
        name=f"worker-{secrets.token_hex(4)}",
        stager_interval_s=settings.stager_interval_ms / 1000,
        is_alone=not settings.database_url,  # the embedded database serves one process
        periodic_tasks=(
            PeriodicTask("room", ROOM_S, database.look_for_room),
            PeriodicTask("cleaner", CLEANER_INTERVAL_S, Cleaner(database).clean),
            PeriodicTask(
                "retention",
                RETENTION_INTERVAL_S,
                Retention(database, _retention_policy(settings), deps.clock, secret).purge,
            ),
            PeriodicTask("old jobs", OLD_JOBS_S, partial(list_old_jobs, database), due=(fleet.list_unlisted,)),
            PeriodicTask("indexes", INDEXES_S, partial(change_indexes, database), may_take_long=True),
            PeriodicTask("approvals", APPROVALS_S, approvals.poll),
            PeriodicTask("stored bytes", SAVE_S, stored.save),
            PeriodicTask(
                "instance counts",
                FOLD_S,
                partial(fold_instance_counts, database),
                due=(store_quotas.list_counted_changes,),
            ),
            PeriodicTask("measurement", MEASURE_S, stored.measure, may_take_long=True),
            PeriodicTask("sweep", settings.machines_sweep_interval_s, orphans.sweep),
            *of_features,
        ),
    )


def _retention_policy(settings: Settings) -> RetentionPolicy:
    return RetentionPolicy(
        destroyed_days=settings.retention_days,
        history_days=settings.history_retention_days,
        log_days=settings.log_retention_days,
        audit_days=settings.audit_retention_days,
    )
