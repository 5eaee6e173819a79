"""Looks for changed secrets, once an hour (decision 0228)."""

from itertools import groupby

import msgspec
import structlog

from launchbay.auth.secret_key import UnsealFailed
from launchbay.errors import Conflict
from launchbay.features.identities.usecases import JobIdentities
from launchbay.features.secret_providers import rows as store
from launchbay.features.secret_providers.rows import UncheckedRow
from launchbay.features.secret_providers.usecases import Trial
from launchbay.limits import STEP_SECRETS
from launchbay.model.identity import JobFacts
from launchbay.model.redaction import Redactor
from launchbay.model.secret_reference import SecretReference
from launchbay.service_types.contract import SecretCall, SecretProvider
from launchbay.service_types.secrets import open_secrets
from launchbay.usecases.context import AppContext

log = structlog.get_logger(__name__)
POLL_S = 60.0


class VersionChecks:
    """Reads what steps have read, to note versions; one provider at a time."""

    def __init__(self, app: AppContext) -> None:
        self._app = app

    async def advance(self) -> bool:
        """Check some secrets of the provider that waits longest; return whether more may wait."""
        async with self._app.database.transaction() as connection:
            rows = await store.take_unchecked(connection, now=self._app.clock.now(), count=STEP_SECRETS)
        for _, several in groupby(sorted(rows, key=_place), key=_place):
            await self._check(list(several))
        return bool(rows)

    async def _check(self, rows: list[UncheckedRow]) -> None:
        first = rows[0]
        provider = self._app.service_types.find(first.type_id)
        if not isinstance(provider, SecretProvider):
            return
        try:
            async with self._app.database.connection() as connection:
                secrets = await open_secrets(self._app.secret_key, connection, first.id)
        except (Conflict, UnsealFailed) as error:
            log.warning("secret_versions.unchecked", provider=first.name, reason=str(error), repeats=True)
            return
        redactor = Redactor()
        for value in secrets.values():
            redactor.register_secret(str(value))

        async def token(audience: str) -> str:
            issued = await JobIdentities(self._app).token_about(_facts(first), audience)
            redactor.register_secret(issued)
            return issued

        call = SecretCall(
            name=first.name,
            parameters={**msgspec.json.decode(first.parameters), **secrets},
            egress=self._app.egress.for_environment(
                first.organization_id, first.environment_id, msgspec.json.decode(first.policies)
            ),
            token=token,
            organization_id=first.organization_id,
            environment_id=first.environment_id,
        )
        trial = Trial(self._app, first, first.environment_id, provider, redactor.register_secret)
        found = await trial.run(call, [(row.path, SecretReference(row.name, row.path, "")) for row in rows])
        if found.problem:
            reason = redactor.text(found.problem)
            log.warning("secret_versions.unchecked", provider=first.name, reason=reason, repeats=True)


def _place(row: UncheckedRow) -> tuple[str, str]:
    return row.id, row.environment_id


def _facts(row: UncheckedRow) -> JobFacts:
    """Return what a token says: that of the step, without its job."""
    return JobFacts(
        organization_id=row.organization_id,
        organization=row.organization,
        environment_id=row.environment_id,
        environment=row.environment,
        application_id=row.application_id,
        application=row.application,
        manifest_version=row.version,
        revision_id=row.revision_id,
        instance_id=row.instance_id,
        instance=row.instance,
        job_id="",
        workflow=row.workflow,
        component=row.component,
        step=row.step,
        actor_id=row.owner_id,
        origin=None,
    )
