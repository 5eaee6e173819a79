"""Looks for changed secrets, once an hour (decision 0228)."""

import random
from itertools import groupby
from typing import Any

import msgspec
import structlog

from launchbay.concurrency import gather_bounded
from launchbay.errors import LaunchbayError
from launchbay.features.identities.usecases import JobIdentities
from launchbay.features.secret_providers import rows as store
from launchbay.features.secret_providers.rows import UncheckedRow
from launchbay.features.secret_providers.usecases import Trial
from launchbay.limits import SECRET_SESSIONS_OF_PROVIDER, STEP_SECRETS
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
        """Check some secrets of the provider that waits longest.

        Returns whether more may wait.
        """
        now = self._app.clock.now()
        async with self._app.database.transaction() as connection:
            due = await store.list_unchecked(connection, now=now, but=[], count=1)
            if not due:
                return False
            place: dict[str, Any] = {"service_id": due[0].service_id}
            place["paths"] = await store.take_unchecked(connection, **due[0]._asdict(), now=now, count=STEP_SECRETS)
            await store.delete_unread(connection, **place)
            rows = await store.list_last_readers(connection, **place)
        groups = [list(several) for _, several in groupby(sorted(rows, key=_reader), key=_reader)]
        # One after another, each could take the time of a test.
        await gather_bounded(map(self._check, groups), SECRET_SESSIONS_OF_PROVIDER)
        return bool(place["paths"])

    async def _check(self, rows: list[UncheckedRow]) -> None:
        name, redactor = rows[0].name, Redactor()
        try:
            problems = await self._look(rows, redactor)
        except LaunchbayError as error:
            problems = [redactor.text(str(error))]
        except Exception as error:  # noqa: BLE001 - types are foreign code, and other steps' secrets are looked at
            kind = type(error).__name__
            log.error("secret_versions.crashed", provider=name, error=kind)  # noqa: TRY400 - its text may have secrets
            return
        for problem in problems:
            log.warning("secret_versions.unchecked", provider=name, error=problem, repeats=True)

    async def _look(self, rows: list[UncheckedRow], redactor: Redactor) -> list[str]:
        """Read the secrets of one step as this step.

        Returns what was in the way. Raises LaunchbayError.
        """
        first = rows[0]
        provider = self._app.service_types.find(first.type_id)
        if not isinstance(provider, SecretProvider):
            return []
        async with self._app.database.connection() as connection:
            secrets = await open_secrets(self._app.secret_key, connection, first.id)
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
        # In another order each time: if it ends early, it reaches others than last time.
        paths = random.sample([row.path for row in rows], len(rows))
        found = await trial.run(call, [(path, SecretReference(first.name, path, "")) for path in paths])
        unread = [f"{each.path}: {each.message}" for each in found.paths if each.result != "readable"]
        return [redactor.text(each) for each in (*filter(None, [found.problem]), *unread)]


def _reader(row: UncheckedRow) -> tuple[str, ...]:
    """Return what tells steps apart, each of which has a token of its own."""
    return row.environment_id, row.instance_id, row.component, row.step, row.workflow


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
