"""Documents of steps in PostgreSQL: sealed, and written only by who holds the job."""

from collections.abc import Sequence
from functools import partial

from launchbay.actions.contract import Document
from launchbay.auth.secret_key import SealBroken, SecretKey
from launchbay.engine.journal import patiently
from launchbay.errors import ActionFailed, Fenced
from launchbay.ids import new_id
from launchbay.runtime.contract import JobRun, KeptKey
from launchbay.store import instances as store
from launchbay.store.database import Database
from launchbay.store.instances import kept_document_purpose


class PostgresDocuments:
    """Implements `runtime.run.KeptDocuments`; one object serves all jobs of the process."""

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key

    async def of_instance(self, job: JobRun) -> Sequence[KeptKey]:
        """Return which documents there are."""
        return await patiently(partial(self._of_instance, job))

    async def read(self, job: JobRun, key: KeptKey) -> Document | None:
        """Return a document, None where there is none."""
        found = await patiently(partial(self._read, job, key))
        if found is None:
            return None
        try:
            return Document(self._secret_key.open(found.sealed, kept_document_purpose(found.id)), found.version)
        except SealBroken as error:
            raise ActionFailed(*error.sentences, retryable=False) from error

    async def write(self, job: JobRun, key: KeptKey, document: Document) -> int:
        """Write over the version that the document names, and return the new one."""
        version = await patiently(partial(self._write, job, key, document))
        if version is None:
            raise ActionFailed(
                f"Another step has changed what {key.action} keeps as {key.name!r} meanwhile.",
                "Give steps that run beside each other different names, or let one wait for the other.",
            )
        return version

    async def forget(self, job: JobRun, key: KeptKey) -> None:
        """Drop a document."""
        await patiently(partial(self._forget, job, key))

    async def _of_instance(self, job: JobRun) -> Sequence[KeptKey]:
        async with self._database.connection() as connection:
            rows = await store.of_instance(connection, instance_id=job.instance_id)
        return [KeptKey(*row) for row in rows]

    async def _read(self, job: JobRun, key: KeptKey) -> store.KeptRow | None:
        async with self._database.connection() as connection:
            return await store.read(connection, instance_id=job.instance_id, **key._asdict())

    async def _write(self, job: JobRun, key: KeptKey, document: Document) -> int | None:
        async with self._database.transaction() as connection:
            before = await store.read(connection, instance_id=job.instance_id, **key._asdict())
            if (0 if before is None else before.version) != document.version:
                return None
            document_id = new_id() if before is None else before.id
            version = await store.write(
                connection,
                document_id=document_id,
                instance_id=job.instance_id,
                **key._asdict(),
                sealed=self._secret_key.seal(document.data, kept_document_purpose(document_id)),
                version=document.version,
                **_claim(job),
            )
            if version is None and not await store.holds(connection, **_claim(job)):
                raise Fenced("Another worker has taken the job over.")
            return version

    async def _forget(self, job: JobRun, key: KeptKey) -> None:
        async with self._database.connection() as connection:
            await store.forget(connection, instance_id=job.instance_id, **key._asdict(), **_claim(job))


def _claim(job: JobRun) -> dict[str, str | int]:
    return {"job_id": job.claimed_id or job.job_id, "fence": job.fence}
