"""What steps read from providers of secrets (decision 0196).

An attempt of a step signs in, and its session is stored, sealed, before anything is read with it. So whatever happens
to this process, another one knows what to revoke.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any

import msgspec

from launchbay.auth.secret_key import UnsealFailed
from launchbay.concurrency import uncancelled
from launchbay.engine.journal import (
    retry_while_unavailable,
    run_until_available,
    store_sealed_until_available,
)
from launchbay.errors import ActionFailed, Conflict
from launchbay.features.secret_providers import rows as store
from launchbay.features.secret_providers.rows import session_purpose
from launchbay.features.secret_providers.rules import StepValues, another_attempt, unmasked
from launchbay.features.secret_providers.sessions import lasting
from launchbay.features.secret_providers.versions import note_version
from launchbay.ids import new_id
from launchbay.limits import SECRET_READS_KEPT
from launchbay.model.job import owner_of, step_name
from launchbay.model.secret_reference import SecretReference
from launchbay.runtime.contract import Identities, JobRun
from launchbay.runtime.slot import staying
from launchbay.service_types.contract import (
    LeasingProvider,
    ProvidedSecret,
    SecretCall,
    SecretFailed,
    SecretProblem,
    SecretProvider,
)
from launchbay.service_types.secrets import open_secrets
from launchbay.usecases.context import AppContext

_SHORT_SHOWN = 10


class ProvidedSecrets:
    """Implements `runtime.contract.SecretSource`; one object serves all jobs of the process."""

    def __init__(self, app: AppContext, identities: Identities) -> None:
        self._app = app
        self._identities = identities

    async def read(
        self,
        job: JobRun,
        path: str,
        attempt: int,
        references: Mapping[str, SecretReference],
        *,
        is_recorded: bool = False,
    ) -> Mapping[str, Any]:
        """Return the values by name, with one sign-in for each provider. Raises ActionFailed."""
        found: dict[str, Any] = {}
        taken = StepValues()
        ordered = sorted(references.items(), key=lambda each: each[1].provider)
        for name, group in groupby(ordered, key=lambda each: each[1].provider):
            try:
                found |= await self._read_from(job, path, attempt, name, dict(group), taken, is_recorded=is_recorded)
            except ActionFailed as error:
                error.add(another_attempt(retryable=error.retryable))
                raise
        return found

    async def _read_from(
        self,
        job: JobRun,
        path: str,
        attempt: int,
        name: str,
        references: Mapping[str, SecretReference],
        taken: StepValues,
        *,
        is_recorded: bool,
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
        call = SecretCall(
            name=name,
            parameters=parameters,
            egress=egress,
            token=token,
            organization_id=job.organization_id,
            environment_id=job.environment_id,
            job_id=job.job_id,
        )
        with staying():  # a session that can't be stored could never be revoked
            await retry_while_unavailable(self._check_seals)
        try:
            session_id, session = await uncancelled(self._begin(job, path, attempt, provider, row.type_id, call))
        except SecretFailed as error:
            raise SecretFailed(error.problem, *error.messages, _wanted(references)) from error
        values: dict[str, Any] = {}
        versions: dict[str, str | None] = {}
        for variable, reference in references.items():
            asked_at = self._app.clock.now()
            secret = await provider.read(egress, session, reference.path)
            versions[reference.within] = await self._version(row.id, reference, secret, asked_at)
            if session_id and secret.lease and secret.lease_s:
                now = self._app.clock.now()
                await run_until_available(
                    self._app.database,
                    store.add_lease,
                    id=session_id,
                    organization_id=job.organization_id,
                    lease=secret.lease,
                    renew_at=now + timedelta(seconds=secret.lease_s) / 2,
                )
            value = values[variable] = taken.take(reference, secret.values, secret.whole)
            if is_recorded and secret.lasts:
                job.secrets.register_secret(value)
            else:
                job.secrets.register_passing(value if reference.key else [value, secret.values], path)
            if is_recorded and not secret.lasts:
                raise SecretFailed(
                    SecretProblem.INVALID,
                    f"The secret provider {name!r} makes {reference.path!r} for a step, and ends it with the step.",
                    f"Name it in `secrets` of the step that needs it: {reference}.",
                )
            if short := unmasked(reference, value):
                job.journal.log(path, "warning", f"{', '.join(short[:_SHORT_SHOWN])} is too short to be masked.")
        await run_until_available(
            self._app.database,
            store.note_reads,
            service_id=row.id,
            instance_id=job.instance_id,
            component=owner_of(path),
            step=step_name(path),
            secrets=list(versions),
            versions=list(versions.values()),
            job_id=job.job_id,
            now=self._app.clock.now(),
            most=SECRET_READS_KEPT,
        )
        job.journal.log(path, "info", f"The step read {', '.join(map(str, references.values()))}.")
        return values

    async def _version(
        self, service_id: str, reference: SecretReference, secret: ProvidedSecret, asked_at: datetime
    ) -> str | None:
        async def work() -> str | None:
            async with self._app.database.transaction() as connection:
                return await note_version(connection, self._app.secret_key, service_id, reference, secret, asked_at)

        return await retry_while_unavailable(work)

    async def _begin(
        self, job: JobRun, path: str, attempt: int, provider: SecretProvider, type_id: str, call: SecretCall
    ) -> tuple[str, str]:
        """Sign in, and first of all store a session to revoke.

        Returns its ID, empty for one that nobody revokes, and the session.
        """
        signed_in = await provider.sign_in(call)
        job.secrets.register_passing(signed_in.secret, path)
        if not isinstance(provider, LeasingProvider):
            return "", signed_in.session
        session_id, now = new_id(), self._app.clock.now()
        lasts = lasting(signed_in.lease_s)
        await store_sealed_until_available(
            self._app.database,
            store.insert,
            partial(self._app.secret_key.seal, signed_in.session.encode(), session_purpose(session_id)),
            id=session_id,
            organization_id=job.organization_id,
            environment_id=job.environment_id,
            job_id=job.job_id,
            path=path,
            attempt=attempt,
            provider=call.name,
            type_id=type_id,
            lease_s=signed_in.lease_s,
            renew_at=now + lasts / 2,
            expires_at=now + lasts,
            next_at=now,
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
            raise SecretFailed(
                SecretProblem.INVALID,
                f"The environment has {many} with the name {name!r}.",
                "Add one service of a type such as builtin:openbao to the environment, and name it in the reference.",
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
            raise ActionFailed(
                f"Can't open the parameters of the secret provider {name!r}: {error}", retryable=False
            ) from error


def _wanted(references: Mapping[str, SecretReference]) -> str:
    """Return what a step would have read, for a sign-in that failed."""
    return f"The step wanted {', '.join(sorted({str(each) for each in references.values()}))}."
