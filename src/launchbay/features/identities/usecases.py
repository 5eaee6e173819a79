"""Tokens that say which job asks: who may ask, and for whom (decision 0195)."""

from collections.abc import Sequence

import msgspec

from launchbay.auth.identity_tokens import NO_ISSUER
from launchbay.auth.permissions import Permission
from launchbay.engine.journal import retry_while_unavailable, run_until_available
from launchbay.errors import ActionFailed
from launchbay.features.identities import rows as store
from launchbay.limits import IDENTITY_TOKEN_S
from launchbay.model.identity import JobFacts, check_audiences
from launchbay.model.job import owner_of, step_name
from launchbay.runtime.contract import JobRun
from launchbay.store.database import Connection
from launchbay.usecases.context import AppContext, Context


async def read_audiences(ctx: Context, environment_id: str) -> list[str]:
    """Return for whom steps in an environment may get tokens."""
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
        return await _audiences(work.connection, environment.id)


async def replace_audiences(ctx: Context, environment_id: str, audiences: Sequence[str]) -> None:
    """Set for whom steps in an environment may get tokens. Raises BadRequest."""
    wanted = check_audiences(audiences)
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        before = await _audiences(work.connection, environment.id)
        if before == wanted:
            return
        if wanted:
            await store.set_audiences(
                work.connection,
                environment_id=environment.id,
                organization_id=environment.organization_id,
                audiences=msgspec.json.encode(wanted).decode(),
            )
        else:
            await store.remove_audiences(work.connection, environment_id=environment.id)
        await work.audit("replace_environment_audiences", environment, {"audiences": before}, {"audiences": wanted})


async def _audiences(connection: Connection, environment_id: str) -> list[str]:
    stored = await store.get_audiences(connection, environment_id=environment_id)
    return store.read_audiences(stored)


class JobIdentities:
    """Implements `runtime.contract.Identities`; one object serves all jobs of the process."""

    def __init__(self, app: AppContext) -> None:
        self._database = app.database
        self._tokens = app.identity_tokens

    async def token(self, job: JobRun, path: str, audience: str) -> str:
        """Return a token for a step, by the rule of this moment. Raises ActionFailed."""
        self._require_issuer()
        found = await run_until_available(self._database, store.get_facts, job_id=job.job_id)
        if found is None:
            raise ActionFailed("The job is gone.", retryable=False)
        facts = JobFacts(
            organization_id=job.organization_id,
            organization=found.organization,
            environment_id=job.environment_id,
            environment=found.environment,
            application_id=found.application_id,
            application=found.application,
            manifest_version=found.version,
            revision_id=found.revision_id,
            instance_id=job.instance_id,
            instance=found.instance,
            job_id=job.job_id,
            workflow=job.plan.workflow,
            component=owner_of(path),
            step=step_name(path),
            actor_id=found.owner_id,
            origin=job.plan.origin,
        )

        token = await self._issue(facts, found.audiences, audience)
        job.journal.log(path, "info", f"The step got a token for {audience!r}, for {IDENTITY_TOKEN_S // 60} minutes.")
        return token

    async def token_about(self, facts: JobFacts, audience: str) -> str:
        """Return a token as a job would get, to test who accepts it.

        Raises ActionFailed.
        """
        self._require_issuer()
        stored = await run_until_available(self._database, store.get_audiences, environment_id=facts.environment_id)
        return await self._issue(facts, stored, audience)

    def _require_issuer(self) -> None:
        if not self._tokens.issuer:
            raise ActionFailed(*NO_ISSUER, retryable=False)

    async def _issue(self, facts: JobFacts, audiences: str | None, audience: str) -> str:
        if not store.allows(audiences, audience):
            raise ActionFailed(
                f"Steps in the environment {facts.environment!r} may get no token for the audience {audience!r}.",
                "Whoever edits the environment can add it to its audiences.",
                retryable=False,
            )

        async def issue() -> str:
            return await self._tokens.issue(audience, facts.claims())

        return await retry_while_unavailable(issue)
