"""What follows jobs that change sets began: their ends are compared with what was shown.

Applying a change set is one transaction of who applies it, so nothing is applied here. One that stopped may be planned
again.
"""

from collections.abc import Sequence
from typing import Any, Never

import msgspec
import structlog

from launchbay import limits
from launchbay.auth.permissions import Actor, Method
from launchbay.errors import InvalidManifest, LaunchbayError, NotAllowed, TooManyRequests
from launchbay.features.change_sets import rows as store
from launchbay.features.change_sets.rows import EndedRow, StoppedRow
from launchbay.features.change_sets.usecases import FINGERPRINT, follow_up, read_facts, read_promise
from launchbay.features.plans import rows as plans
from launchbay.manifest.configuration import Change
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import component_at
from launchbay.model.job import JobStatus, is_cancellation, unescaped
from launchbay.runtime.lifecycle import TEARDOWN
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING, acting_token

log = structlog.get_logger(__name__)
_SETTLED = 50  # instances of one round
_REPLANS = 20  # of one round
_PASSING = {*PASSING, TooManyRequests.code}


class ChangeSetWork(LaterWork[str, Never]):
    """Notes how jobs of change sets end, and compares that with what was shown."""

    task = "change sets"
    noun = "change set"
    due = (store.list_applying,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_applying(connection)

    async def take(self, connection: Connection, row_id: str) -> str | None:
        return await store.take(connection, change_set_id=row_id)

    async def next(self, connection: Connection, row: str) -> bool:
        """Note what has ended. Return whether there may be more."""
        ended = await store.list_ended(connection, change_set_id=row, count=_SETTLED)
        for each in ended:
            has_succeeded = each.job_status == JobStatus.SUCCEEDED
            differences = await self._differences(connection, each)
            await store.end_instance(
                connection,
                change_set_id=row,
                place=each.place,
                status="Succeeded" if has_succeeded else "Failed",
                message="The job is gone." if each.job_status is None else each.error_message,
                differences=msgspec.json.encode(differences).decode(),
            )
        if await store.finish(connection, change_set_id=row):
            await plans.delete_artifacts(connection, change_set_id=row)
            await store.post(connection, change_set_id=row)
            log.info("change_set.ended", change_set=row)
        return len(ended) == _SETTLED

    async def _differences(self, connection: Connection, row: EndedRow) -> list[str]:
        """Return a sentence for each way in which the result isn't what was shown."""
        promise, found = read_promise(row.promise), list[str]()
        if row.job_status != JobStatus.SUCCEEDED:
            ended = "The job was cancelled." if is_cancellation(row.error_message) else "The job failed."
            found.append(ended if row.job_status else "The job is gone.")
        promised = {each.name for each in promise.workflows}
        # What goes with a component isn't a workflow of the manifest.
        unseen = [each for each in sorted(set(row.ran) - promised) if not each.endswith(f"#{TEARDOWN}")]
        found += [f"The workflow {name} ran, which wasn't shown." for name in unseen]
        if promise.version is None or row.version is None or row.parameters is None or row.state is None:
            return found
        if row.version != promise.version:
            found.append(f"The version is {row.version} instead of {promise.version}.")
        facts = {
            name.partition("parameter ")[2]: value
            for name, value in read_facts(row.facts).items()
            # Another launch keeps the parameters, so their facts are about the only ones.
            if name.startswith(("new parameter ", "parameter ")) and " of the submodule " not in name
        }
        now = {
            name: FINGERPRINT + self.app.audit.fingerprint(value)
            for name, value in msgspec.json.decode(row.parameters, type=dict[str, Any]).items()
        }
        found += [
            f"The parameter {name} isn't as shown."
            for name in sorted(facts.keys() | now.keys())
            if facts.get(name) != now.get(name)
        ]
        parts = _read_parts(row.state)
        try:
            manifest = await self.app.manifests.get(connection, row.application_id, row.version)
        except InvalidManifest:
            # Another version of this program accepted it. The change set ends all the same, and so do later ones.
            return [*found, "This version of Launchbay refuses the manifest, so the components aren't compared."]
        found += [
            f"The component {component.path} isn't launched."
            for component in promise.components
            if component.path in manifest.components and component.change != Change.STOPS
            if not parts.get(component.path, _Part()).launched
        ]
        if row.job_status == JobStatus.SUCCEEDED:
            missing = [each.name for each in promise.workflows if each.name not in row.ran]
            found += [f"The workflow {name} didn't run." for name in missing if _has_steps(manifest, name)]
        return found


class ReplanWork(LaterWork[StoppedRow, StoppedRow]):
    """Makes the change sets that follow stopped ones, by the IDs of the jobs that stopped (decision 0253).

    Each waits for a person.
    """

    task = "replans"
    noun = "new plan after job"
    due = (store.list_due_replans,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_due_replans(connection, but=list(failed), count=_REPLANS)

    async def take(self, connection: Connection, row_id: str) -> StoppedRow | None:
        return await store.take_replan(connection, job_id=row_id)

    async def next(self, connection: Connection, row: StoppedRow) -> StoppedRow | bool:
        """Return the job, unless it did all the same what it should, somebody canceled it, or it is gone."""
        if row.job_status == JobStatus.FAILED and row.instance_id is not None and not is_cancellation(row.job_error):
            return row
        await store.end_replan(connection, job_id=row.job_id, follow_up_id=None, problem=None)
        return True

    async def act(self, row: StoppedRow, item: StoppedRow) -> str:
        """Make the change set as the author of the first one, with the rights that they have now."""
        if row.owner_name is None:
            raise NotAllowed("The account that made the change set was deleted.")
        token = await acting_token(self.app, row.token_id)
        actor = Actor(row.owner_id, row.owner_email, row.owner_name, "", Method.ENGINE, token=token)
        return await follow_up(Context(self.app, actor), row)

    async def note(self, connection: Connection, row: StoppedRow, item: StoppedRow, done: str) -> None:
        await store.end_replan(connection, job_id=row.job_id, follow_up_id=done, problem=None)
        text = f"The change is planned again. The change set {done} waits until somebody approves or applies it."
        await store.note_in_log(connection, job_id=row.job_id, level="info", text=text)

    async def put_off(self, connection: Connection, row: StoppedRow, item: StoppedRow, refusal: LaunchbayError) -> None:
        """Try a few times if it may pass. Then a person has to plan again."""
        if refusal.code in _PASSING and row.tries + 1 < limits.REPLAN_TRIES:
            pause_s = pause_of(refusal, self.app.clock.now(), limits.REPLAN_PAUSE_S)
            await store.postpone_replan(connection, job_id=row.job_id, pause_s=pause_s, problem=str(refusal))
            return
        log.warning("change_set.not_planned_again", change_set=row.change_set_id, reason=str(refusal))
        problem = f"{refusal} To plan again, create a change set of the instance with plans."
        await store.end_replan(connection, job_id=row.job_id, follow_up_id=None, problem=problem)
        text = f"The change isn't planned again: {problem}"
        await store.note_in_log(connection, job_id=row.job_id, level="error", text=text)


def _has_steps(manifest: CompiledManifest, name: str) -> bool:
    """Return whether a workflow of the instance itself leaves records when it runs."""
    path, _, workflow = name.partition("#")
    component = component_at(manifest, unescaped(path))
    found = None if component is None else component.workflows.get(unescaped(workflow))
    return found is not None and bool(found.steps)


class _Part(msgspec.Struct, frozen=True):
    launched: bool = False


_read_parts = msgspec.json.Decoder(dict[str, _Part]).decode
