"""Puts together what a claimed job works with."""

from functools import partial

import msgspec

from launchbay.engine.journal import PostgresJournal, patiently
from launchbay.manifest.configuration import Configured, configure
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import expanded, expanded_configuration
from launchbay.model.environment import read_environment_view
from launchbay.model.instance import Link, read_former_configuration, read_link
from launchbay.model.job import read_plan
from launchbay.planning import CompiledManifests
from launchbay.runtime.contract import JobRun, OtherInstances, Surroundings
from launchbay.runtime.state import Graph, InstanceState, existing
from launchbay.store.database import Database
from launchbay.store.jobs import ClaimRow


class Assembly:
    """Makes a `JobRun` from a claim."""

    def __init__(self, database: Database, manifests: CompiledManifests, surroundings: Surroundings) -> None:
        self._database = database
        self._manifests = manifests
        self._surroundings = surroundings

    async def job(
        self, job_id: str, claim: ClaimRow, journal: PostgresJournal, state: InstanceState, others: OtherInstances
    ) -> JobRun:
        """Return the job. Raises LaunchbayError when the stored manifest or parameters are of no use any more."""
        secrets = journal.secrets
        manifest = await patiently(partial(self._manifest, claim.application_id, claim.version))
        return JobRun(
            job_id=job_id,
            fence=claim.fence,
            instance_id=claim.instance_id,
            organization_id=claim.organization_id,
            environment_id=claim.environment_id,
            plan=read_plan(secrets.opened_json(claim.plan)),
            graph=Graph(manifest, configure(manifest, msgspec.json.decode(claim.parameters))),
            environment=read_environment_view(claim.environment_view),
            state=state,
            journal=journal,
            surroundings=self._surroundings,
            others=others,
            links=links_of(claim.links),
            fed=secrets.opened(msgspec.json.decode(claim.fed_signals)),
            secrets=secrets,
            before=await self._before(claim, state),
        )

    async def _before(self, claim: ClaimRow, state: InstanceState) -> Configured | None:
        if claim.before is None:
            return None
        before = read_former_configuration(claim.before)
        manifest = await patiently(partial(self._manifest, claim.application_id, before.version))
        links = {path: read_link(target, kind, None) for path, (target, kind) in before.links.items()}
        quantities = existing(manifest, state)
        configuration = expanded_configuration(manifest, configure(manifest, before.parameters), quantities)
        return Configured(expanded(manifest, quantities), configuration, links, frozenset(before.parameters))

    async def _manifest(self, application_id: str, version: int) -> CompiledManifest:
        async with self._database.connection() as connection:
            return await self._manifests.get(connection, application_id, version)


def links_of(stored: str | None) -> dict[str, Link]:
    """Return where components lead from the stored form, `{component: [instance or service id, kind, binding]}`."""
    links: dict[str, tuple[str, str, str | None]] = msgspec.json.decode(stored or "{}")
    return {component: read_link(*link) for component, link in links.items()}
