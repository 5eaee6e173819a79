"""What a provider lets jobs read, and who has read from it (decision 0193)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Literal

import msgspec
import structlog

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.auth.secret_key import UnsealFailed
from launchbay.concurrency import uncancelled
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, BadRequest, Conflict, LaunchbayError
from launchbay.features.identities.usecases import JobIdentities
from launchbay.features.secret_providers import rows as store
from launchbay.features.secret_providers.rows import ChangedRow, ReadRow, StuckRow, UncheckedRow, session_purpose
from launchbay.features.secret_providers.rules import NothingThere, StepValues
from launchbay.features.secret_providers.sessions import lasting
from launchbay.features.secret_providers.versions import note_version
from launchbay.ids import new_id
from launchbay.limits import CHANGED_SECRETS_SHOWN, SECRET_READS_SHOWN, SECRET_TEST_S, STEP_SECRETS
from launchbay.model.identity import JobFacts
from launchbay.model.redaction import Redactor
from launchbay.model.secret_reference import SecretReference, parse_secret_reference
from launchbay.service_types.contract import (
    LeasingProvider,
    SecretCall,
    SecretFailed,
    SecretProblem,
    SecretProvider,
    ShowsAccess,
)
from launchbay.service_types.secrets import open_secrets, open_values, provided_references
from launchbay.store.database import DatabaseError
from launchbay.store.environments import Environment
from launchbay.store.services import Service
from launchbay.usecases.context import AppContext, Context, Work

log = structlog.get_logger(__name__)
Result = Literal["readable", "allowed", "forbidden", "missing", "failed"]
_RESULTS: Mapping[SecretProblem, Result] = {SecretProblem.FORBIDDEN: "forbidden", SecretProblem.MISSING: "missing"}
_USERS_NAMED = 5
_LEFT = timedelta(seconds=SECRET_TEST_S + 10)  # then the process that tests is gone


@dataclass(frozen=True, slots=True)
class PathTest:
    """What a job may do with a path, and why it can't read."""

    path: str
    result: Result
    may_write: bool | None  # None: the provider can't say
    message: str = ""


@dataclass(slots=True)
class ProviderTest:
    """What came of a test. Without a `problem`, it could sign in and ask."""

    problem: str = ""
    paths: list[PathTest] = field(default_factory=list)


async def try_provider(
    ctx: Context, service_id: str, environment_id: str, paths: Sequence[str], application_id: str | None = None
) -> ProviderTest:
    """Sign in as a job would, and say what it may do.

    It shows no value. With an application, it is as its launch. Raises BadRequest, Conflict.
    """
    async with ctx.begin() as work:
        service = await work.lookup.service(service_id, Permission.EDIT_SERVICE)
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        if environment.organization_id != service.organization_id:
            raise BadRequest("The environment belongs to another organization.", code="UnknownId")
        references = _references(service, paths)
        provider = ctx.app.service_types.find(service.type_id)
        if not isinstance(provider, SecretProvider):
            raise BadRequest(f"Services of the type {service.type_id} give no secrets.", code="NotProvider")
        offered = await store.list_providers(work.connection, environment_id=environment.id, name=service.name)
        if service.id not in [row.id for row in offered]:
            raise Conflict(
                f"The environment {environment.name!r} doesn't offer {service.name!r}.",
                "Add it to the services of the environment.",
                code="NotOffered",
            )
        facts = await _facts(work, environment, application_id)
        try:
            secrets = await open_secrets(ctx.app.secret_key, work.connection, service.id)
        except UnsealFailed as error:
            raise Conflict(str(error)) from error
        after = {"environment": environment.id, "application": application_id, "paths": list(paths)}
        await work.audit("test_secret_provider", service, after=after)
    policies = msgspec.json.decode(environment.policies)
    egress = ctx.app.egress.for_environment(environment.organization_id, environment.id, policies)
    redactor = Redactor()
    for value in secrets.values():
        redactor.register_secret(str(value))

    async def token(audience: str) -> str:
        issued = await JobIdentities(ctx.app).token_about(facts, audience)
        redactor.register_secret(issued)
        return issued

    call = SecretCall(
        name=service.name,
        parameters={**msgspec.json.decode(service.parameters), **secrets},
        egress=egress,
        token=token,
        organization_id=environment.organization_id,
        environment_id=environment.id,
    )
    found = await Trial(ctx.app, service, environment.id, provider, redactor.register_secret).run(call, references)
    paths_shown = [
        PathTest(each.path, each.result, each.may_write, redactor.text(each.message)) for each in found.paths
    ]
    return ProviderTest(redactor.text(found.problem), paths_shown)


def _references(service: Service, paths: Sequence[str]) -> list[tuple[str, SecretReference]]:
    if not 0 < len(paths) <= STEP_SECRETS:
        raise BadRequest(f"paths: name 1 to {STEP_SECRETS} paths.", code="InvalidPath", field="paths")
    found: list[tuple[str, SecretReference]] = []
    for path in dict.fromkeys(paths):
        try:
            found.append((path, parse_secret_reference(f"provider/{path}")._replace(provider=service.name)))
        except ValueError as error:
            raise BadRequest(
                f"paths: {path[:80]!r} isn't a path of the provider.",
                "Write it without the provider's name, such as secret/shop or secret/shop#password.",
                code="InvalidPath",
                field="paths",
            ) from error
    return found


async def _facts(work: Work, environment: Environment, application_id: str | None) -> JobFacts:
    """Return what the token says: that of a launch without instance and job."""
    organization = await work.lookup.organization(environment.organization_id)
    name, version = "", 0
    if application_id is not None:
        application = await work.lookup.application(
            application_id, Permission.CREATE_INSTANCE, permissions.environment(environment.id)
        )
        if application.organization_id != environment.organization_id:
            raise BadRequest("The application belongs to another organization.", code="UnknownId")
        application_id, name, version = application.id, application.name, application.latest_version
    return JobFacts(
        organization_id=organization.id,
        organization=organization.name,
        environment_id=environment.id,
        environment=environment.name,
        application_id=application_id or "",
        application=name,
        manifest_version=version,
        revision_id=None,
        instance_id="",
        instance="",
        job_id="",
        workflow="launch",
        component="",
        step="",
        actor_id=work.actor.user_id,
        origin=work.origin(),
    )


@dataclass(slots=True)
class Trial:
    """A session for a test, stored as those of steps are. It notes versions."""

    app: AppContext
    service: Service | UncheckedRow
    environment_id: str
    provider: SecretProvider
    hide: Callable[[str], object]
    session_id: str = ""  # known here as soon as there is one, also if the time is over by then
    session: str = ""

    async def run(self, call: SecretCall, references: Sequence[tuple[str, SecretReference]]) -> ProviderTest:
        """Look at each path for its share of the time."""
        found = ProviderTest()
        until_s = asyncio.get_running_loop().time() + SECRET_TEST_S
        try:
            async with asyncio.timeout_at(until_s):
                await uncancelled(self._begin(call))
                for left, (path, reference) in zip(range(len(references), 0, -1), references, strict=True):
                    found.paths.append(await self._look_in_time(call.egress, path, reference, until_s, left))
        except TimeoutError:
            found.problem = f"The secret provider {self.service.name!r} took longer than {SECRET_TEST_S:g} s."
        except ActionFailed as error:
            found.problem = str(error)
        finally:
            if self.session_id:
                await uncancelled(self._end(call.egress, self.session_id, self.session))
        return found

    async def _begin(self, call: SecretCall) -> None:
        signed_in = await self.provider.sign_in(call)
        for secret in [signed_in.secret] if isinstance(signed_in.secret, str) else signed_in.secret:
            self.hide(secret)
        self.session = signed_in.session
        if not isinstance(self.provider, LeasingProvider):
            return
        session_id, now = new_id(), self.app.clock.now()
        try:
            async with self.app.database.transaction() as connection:
                await store.insert(
                    connection,
                    id=session_id,
                    organization_id=self.service.organization_id,
                    environment_id=self.environment_id,
                    job_id="",
                    path="",
                    attempt=0,
                    provider=self.service.name,
                    type_id=self.service.type_id,
                    sealed=self.app.secret_key.seal(signed_in.session.encode(), session_purpose(session_id)),
                    lease_s=signed_in.lease_s,
                    renew_at=now + _LEFT,
                    expires_at=now + lasting(signed_in.lease_s),
                    next_at=now + _LEFT,
                )
        except Exception:  # then nobody else knows the session
            with suppress(LaunchbayError):
                await self.provider.revoke(call.egress, signed_in.session)
            raise
        self.session_id = session_id

    async def _look_in_time(
        self, egress: EgressClient, path: str, reference: SecretReference, until_s: float, left: int
    ) -> PathTest:
        """Look at the next of so many paths.

        Raises ActionFailed if none can be looked at.
        """
        now_s = asyncio.get_running_loop().time()
        share_s = (until_s - now_s) / left
        try:
            # Whoever asks for all ends the last one.
            async with asyncio.timeout(share_s if left > 1 else None):
                return await self._look(egress, self.session, path, reference)
        except TimeoutError:
            return PathTest(path, "failed", None, f"It took longer than {share_s:.1f} s.")
        except (LaunchbayError, DatabaseError):
            raise
        except Exception as error:  # noqa: BLE001 - types are foreign code
            kind, name = type(error).__name__, self.service.name
            log.error("secret_providers.crashed", provider=name, path=path, error=kind)  # noqa: TRY400 - it may have secrets
            return PathTest(path, "failed", None, f"The provider failed unexpectedly: {kind}.")

    async def _look(self, egress: EgressClient, session: str, path: str, reference: SecretReference) -> PathTest:
        """Say what the session may do with a path. Raises ActionFailed."""
        may_write: bool | None = None
        if isinstance(self.provider, ShowsAccess):
            try:
                access = await self.provider.look(egress, session, reference.path)
            except SecretFailed as error:
                if error.problem is not SecretProblem.INVALID:
                    raise
                return PathTest(path, "failed", None, str(error))
            may_write = access.may_write
            if not access.may_read:
                return PathTest(path, "forbidden", may_write, access.fix or "Its role may not read it.")
            if not access.is_stored:
                return PathTest(path, "allowed", may_write, "It wasn't read, which would make something new.")
        result: Result = "readable"
        try:
            asked_at = self.app.clock.now()
            secret = await self.provider.read(egress, session, reference.path)
            async with self.app.database.transaction() as connection:
                await note_version(connection, self.app.secret_key, self.service.id, reference, secret, asked_at)
            StepValues().take(reference, secret.values, secret.whole)
        except NothingThere as error:
            result, message = "missing", str(error)
        except SecretFailed as error:
            result, message = _RESULTS.get(error.problem, "failed"), str(error)
        except ActionFailed as error:
            result, message = "failed", str(error)
        else:
            message = ""
        return PathTest(path, result, may_write, message)

    async def _end(self, egress: EgressClient, session_id: str, session: str) -> None:
        """Revoke the session, or leave it to the keeper."""
        assert isinstance(self.provider, LeasingProvider), "others have no session to revoke"
        try:
            await self.provider.revoke(egress, session)
            write = partial(store.remove, id=session_id)
        except LaunchbayError as error:
            write = partial(store.failed, id=session_id, next_at=self.app.clock.now(), message=str(error)[:500])
        async with self.app.database.transaction() as connection:
            await write(connection)


@dataclass(frozen=True, slots=True)
class ProviderUse:
    """The newest reads, sessions that couldn't be revoked, and services.

    These refer to its secrets, as IDs with names.
    """

    reads: list[ReadRow]
    open_sessions: list[StuckRow]
    services: list[tuple[str, str]]


async def read_use(ctx: Context, service_id: str) -> ProviderUse:
    """Return who has read from a provider, the newest reads first.

    They are of instances that the caller may read, and services that the caller may edit refer to it.
    """
    async with ctx.read() as work:
        service = await work.lookup.service(service_id, Permission.READ)
        reads = await store.list_reads(work.connection, service_id=service.id, count=SECRET_READS_SHOWN)
        stuck = await store.list_stuck_of(
            work.connection, organization_id=service.organization_id, provider=service.name, count=SECRET_READS_SHOWN
        )
        referring = await _referring(work, service)
    return ProviderUse(
        [
            row
            for row in reads
            if work.lookup.allows(
                service.organization_id,
                Permission.READ,
                permissions.instance(row.application_id, row.instance_id),
                permissions.environment(row.environment_id),
            )
        ],
        stuck,
        [
            (each, name)
            for each, name in referring
            if work.lookup.allows(service.organization_id, Permission.EDIT_SERVICE, permissions.service(each))
        ],
    )


async def count_readers(ctx: Context, organization_id: str) -> dict[str, int]:
    """Return how many instances use each provider that somebody has read from, by ID."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.count_readers(work.connection, organization_id=organization_id)
    return {row.id: row.instances for row in rows}


async def list_service_users(work: Work, service: Service) -> list[str]:
    """Return the first who need a service for its secrets, in words.

    They are in environments that offer it.
    """
    rows = await store.list_dependents(work.connection, service_id=service.id, count=_USERS_NAMED)
    return [
        *(f"instance {row.instance!r} in {row.environment!r}" for row in rows),
        *(f"service {name!r}" for _, name in (await _referring(work, service))[:_USERS_NAMED]),
    ]


async def _referring(work: Work, service: Service) -> list[tuple[str, str]]:
    """Return services of which a parameter is a secret of this one.

    An environment has both.
    """
    sealed: dict[tuple[str, str], dict[str, bytes]] = {}
    for row in await store.list_neighbors(work.connection, service_id=service.id):
        sealed.setdefault((row.id, row.service), {})[row.name] = row.sealed
    found: list[tuple[str, str]] = []
    for (service_id, name), values in sealed.items():
        with suppress(UnsealFailed):
            references = provided_references(open_values(work.app.secret_key, service_id, values))
            if any(each.provider == service.name for each in references.values()):
                found.append((service_id, name))
    return found


async def list_changed_secrets(ctx: Context, instance_id: str) -> list[ChangedRow]:
    """Return the secrets that have changed since steps of an instance read them."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await store.list_changed(work.connection, instance_id=record.id, count=CHANGED_SECRETS_SHOWN)


def named_secrets(rows: Sequence[ChangedRow]) -> list[str]:
    """Return each secret once, as steps name it, and how many are left out."""
    found = list(dict.fromkeys(f"{row.provider}/{row.secret}" for row in rows))
    return [*found, f"and {rows[0].left_out} more"] if rows and rows[0].left_out else found
