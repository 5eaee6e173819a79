"""Puts notifications of steps on their way to webhooks; `webhook_sender.py` signs, sends and repeats them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from launchbay.actions.contract import idempotency_key
from launchbay.engine.journal import patiently
from launchbay.runtime.contract import JobRun
from launchbay.store import webhooks
from launchbay.store.database import Database


class WebhookNotices:
    """Implements `runtime.run.Notices`; one object serves all jobs of the process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tell(self, job: JobRun, path: str, told: Mapping[str, Any]) -> int:
        """Write a delivery for each webhook that asks for notifications, once for each step of a job."""
        # What the job has learned from vaults is sealed in it, and covered when it is sent.
        document = msgspec.json.encode(job.secrets.sealed(told)).decode()
        return await patiently(partial(self._tell, job, path, document))

    async def _tell(self, job: JobRun, path: str, document: str) -> int:
        async with self._database.connection() as connection:
            count = await webhooks.notify(
                connection, instance_id=job.instance_id, key=idempotency_key(job.job_id, path), document=document
            )
        return count or 0
