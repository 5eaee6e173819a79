"""Secrets that steps read from providers, kept no longer than the job (decision 0196).

A step signs in, and its session is stored, sealed, before anything is read with it. So whatever happens to this
process, another one knows what to revoke.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any

import msgspec
import structlog

from launchbay.auth.secret_key import UnsealFailed
from launchbay.clock import Backoff
from launchbay.concurrency import gather_bounded, uncancelled
from launchbay.engine.journal import (
    retry_while_unavailable,
    run_until_available,
    store_sealed_until_available,
)
from launchbay.errors import ActionFailed, Conflict, LaunchbayError, internal_error
from launchbay.features.secret_providers import rows as store
from launchbay.features.secret_providers.rows import SessionRow, session_purpose
from launchbay.ids import new_id
from launchbay.limits import SECRET_LEASE_S
from launchbay.model.secret_reference import SecretReference
from launchbay.runtime.contract import Identities, JobRun
from launchbay.runtime.slot import staying
from launchbay.service_types.contract import SecretCall, SecretProvider
from launchbay.service_types.secrets import open_secrets
from launchbay.usecases.context import AppContext

log = structlog.get_logger(__name__)
POLL_S = 0.5
_ROUND = 100
_AT_ONCE = 10
_CLAIMED = timedelta(seconds=30)
_NEVER = timedelta(seconds=SECRET_LEASE_S)
_SHORTEST = timedelta(seconds=1)  # between two renewals of a session
_BACKOFF = Backoff(1.0, 60.0)


class ProvidedSecrets:
    """Implements `runtime.contract.SecretSource`; one object serves all jobs of the process."""

    def __init__(self, app: AppContext, identities: Identities) -> None:
        self._app = app
        self._identities = identities

    async def read(self, job: JobRun, path: str, references: Mapping[str, SecretReference]) -> Mapping[str, Any]:
        """Return the values by name, with one sign-in for each provider. Raises ActionFailed."""
        found: dict[str, Any] = {}
        ordered = sorted(references.items(), key=lambda each: each[1].provider)
        for name, group in groupby(ordered, key=lambda each: each[1].provider):
            found |= await self._read_from(job, path, name, dict(group))
        return found

    async def _read_from(
        self, job: JobRun, path: str, name: str, references: Mapping[str, SecretReference]
    ) -> Mapping[str, Any]:
        provider, row = await self._provider(job, name)
        egress = self._app.egress.for_environment(job.organization_id, job.environment_id, job.environment.policies)

        async def token(audience: str) -> str:
            issued = await self._identities.token(job, path, audience)
            job.secrets.register_passing(issued, path)
            return issued

        opened = await self._open(row.id, name)
        job.secrets.register_secret(opened)
        parameters = {**msgspec.json.decode(row.parameters), **opened}
        call = SecretCall(name=name, parameters=parameters, egress=egress, token=token)
        with staying():  # a session that can't be stored could never be revoked
            await retry_while_unavailable(self._check_seals)
        session_id, session = await uncancelled(self._begin(job, path, provider, row.type_id, call))
        values: dict[str, Any] = {}
        for variable, reference in references.items():
            secret = await provider.read(egress, session, reference.path)
            job.secrets.register_passing(secret.values, path)
            if secret.lease and secret.lease_s:
                now = self._app.clock.now()
                await run_until_available(
                    self._app.database,
                    store.add_lease,
                    id=session_id,
                    organization_id=job.organization_id,
                    lease=secret.lease,
                    renew_at=now + timedelta(seconds=secret.lease_s) / 2,
                )
            values[variable] = _value(reference, secret.values)
        job.journal.log(path, "info", f"The step read {', '.join(map(str, references.values()))}.")
        return values

    async def _begin(
        self, job: JobRun, path: str, provider: SecretProvider, type_id: str, call: SecretCall
    ) -> tuple[str, str]:
        """Sign in and store the session, before anything is read with it.

        Returns its ID and the session.
        """
        signed_in = await provider.sign_in(call)
        job.secrets.register_passing(signed_in.secret, path)
        session_id, now = new_id(), self._app.clock.now()
        lasts = _lasting(signed_in.lease_s)
        await store_sealed_until_available(
            self._app.database,
            store.insert,
            partial(self._app.secret_key.seal, signed_in.session.encode(), session_purpose(session_id)),
            id=session_id,
            organization_id=job.organization_id,
            environment_id=job.environment_id,
            job_id=job.job_id,
            provider=call.name,
            type_id=type_id,
            lease_s=signed_in.lease_s,
            renew_at=now + lasts / 2,
            expires_at=now + lasts,
            now=now,
        )
        return session_id, signed_in.session

    async def _check_seals(self) -> None:
        async with self._app.database.connection():  # raises Unavailable while the database is away
            self._app.secret_key.seal(b"", "check")

    async def _provider(self, job: JobRun, name: str) -> tuple[SecretProvider, store.ProviderRow]:
        rows = await run_until_available(
            self._app.database, store.list_providers, environment_id=job.environment_id, name=name
        )
        found: list[tuple[SecretProvider, store.ProviderRow]] = []
        for row in rows:
            kind = self._app.service_types.find(row.type_id)
            if isinstance(kind, SecretProvider):
                found.append((kind, row))
        if len(found) != 1:
            many = "several secret providers" if found else "no secret provider"
            raise ActionFailed(
                f"The environment has {many} with the name {name!r}.",
                "Add one service of a type such as builtin:openbao to the environment, and name it in the reference.",
                retryable=False,
            )
        return found[0]

    async def _open(self, service_id: str, name: str) -> Mapping[str, Any]:
        """Return the secret parameters of the provider. Raises ActionFailed."""

        async def work() -> Mapping[str, Any]:
            async with self._app.database.connection() as connection:
                return await open_secrets(self._app.secret_key, connection, service_id)

        try:
            return await retry_while_unavailable(work)
        except (Conflict, UnsealFailed) as error:
            raise ActionFailed(f"Can't open the parameters of the secret provider {name!r}: {error}") from error


def _value(reference: SecretReference, values: Mapping[str, Any]) -> Any:
    if not reference.key:
        return dict(values)
    if reference.key not in values:
        raise ActionFailed(
            f"The secret provider {reference.provider!r} has no key {reference.key!r} in {reference.path!r}.",
            "Write it there, or correct the reference.",
            retryable=False,
        )
    return values[reference.key]


class SessionKeeper:
    """Renews sessions of running jobs, and revokes others; `advance` is one round."""

    def __init__(self, app: AppContext) -> None:
        self._app = app

    async def advance(self) -> bool:
        """Take each due session. Return True if there may be more."""
        async with self._app.database.connection() as connection:
            due = await store.list_due(connection, now=self._app.clock.now(), but=[], count=_ROUND)
        await gather_bounded(map(self._take, due), _AT_ONCE)
        return len(due) == _ROUND

    async def _take(self, session_id: str) -> None:
        now = self._app.clock.now()
        async with self._app.database.transaction() as connection:
            row = await store.claim(connection, id=session_id, now=now, until=now + _CLAIMED)
        if row is None:
            return
        try:
            write = await self._kept(session_id, row)
        except LaunchbayError as error:
            write = self._after_failure(session_id, row, str(error))
        except Exception:  # types are foreign code, and other sessions go on
            log.exception("secret_session.crashed", session=session_id)
            write = self._after_failure(session_id, row, internal_error(f"secret session {session_id}"))
        async with self._app.database.transaction() as connection:
            await write(connection)

    async def _kept(self, session_id: str, row: SessionRow) -> Any:
        """Renew or revoke the session; return what notes it. Raises LaunchbayError."""
        provider = self._app.service_types.find(row.type_id)
        if not isinstance(provider, SecretProvider):
            raise ActionFailed(f"The type {row.type_id} isn't installed.")
        session = self._app.secret_key.open(bytes(row.sealed), session_purpose(session_id)).decode()
        egress = self._app.egress.for_environment(row.organization_id, row.environment_id)
        if not row.is_running:
            await provider.revoke(egress, session)
            return partial(store.remove, id=session_id)
        renewed = await provider.renew(egress, session, msgspec.json.decode(row.leases))
        now = self._app.clock.now()
        pause = min(_lasting(renewed.session_s or 0), _lasting(renewed.lease_s)) / 2
        failures, message = 0, None
        for reason in (*renewed.lost.values(), *renewed.failed.values()):
            _warn(row, reason)
            message = reason[:500]
        if renewed.failed:
            failures = row.failures + 1
            pause = min(pause, timedelta(seconds=_BACKOFF.delay_s(failures)))
        return partial(
            store.renewed,
            id=session_id,
            renew_at=now + max(pause, _SHORTEST),
            expires_at=row.expires_at if renewed.session_s is None else now + _lasting(renewed.session_s),
            leases=row.leases,
            lost=list(renewed.lost),
            failures=failures,
            message=message,
            now=now,
        )

    def _after_failure(self, session_id: str, row: SessionRow, message: str) -> Any:
        now = self._app.clock.now()
        _warn(row, message)
        # The provider has ended it by itself. A renewal may have reached it without its answer's reaching us.
        if row.expires_at + timedelta(seconds=row.lease_s) <= now:
            return partial(store.remove, id=session_id)
        next_at = now + timedelta(seconds=_BACKOFF.delay_s(row.failures + 1))
        return partial(store.failed, id=session_id, next_at=next_at, message=message[:500])


def _lasting(lease_s: int) -> timedelta:
    return timedelta(seconds=lease_s) if lease_s else _NEVER


def _warn(row: SessionRow, reason: str) -> None:
    log.warning("secret_session.failed", provider=row.provider, job=row.job_id, reason=reason)
