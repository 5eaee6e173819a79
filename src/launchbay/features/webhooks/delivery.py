"""Sends webhook deliveries: signed, retried with backoff, and disabled after days without success.

Every process may send: a claim skips deliveries that another one has claimed, and expires with its lease. So a
delivery whose sender died is sent again. A receiver may get it twice or out of order; it has an id and a time.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import httpx
import msgspec
import structlog

from launchbay import limits
from launchbay.auth.audit import Audit
from launchbay.auth.secret_key import SecretKey, UnsealFailed
from launchbay.clock import Backoff
from launchbay.concurrency import computed
from launchbay.egress.http import EgressClient, redacted_url
from launchbay.engine.audit import engine_actor
from launchbay.engine.journal import run_until_available
from launchbay.engine.retention import CLEANER_BATCH_ROWS
from launchbay.errors import EgressFailed, Unavailable
from launchbay.features.webhooks import rows as store
from launchbay.features.webhooks.chat import counted, failure_key, message
from launchbay.features.webhooks.rows import ClaimedRow, secret_purpose, signature, url_purpose
from launchbay.model.redaction import Redactor
from launchbay.runtime.contract import JobRun
from launchbay.store.connection import BoundedConnection
from launchbay.store.database import Database

POLL_S = 0.5
LEASE_S = limits.WEBHOOK_TIMEOUT_S * 3
log = structlog.get_logger(__name__)


class WebhookNotifier:
    """Implements `runtime.contract.Notifier`; one object serves all jobs of the process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def notify(self, job: JobRun, path: str, notification: Mapping[str, Any]) -> int:
        """Write a delivery for each subscribed webhook, once per step of a job."""
        # Secrets from vaults are encrypted in it, and masked when it is sent.
        document = msgspec.json.encode(job.secrets.sealed(notification)).decode()
        count = await run_until_available(
            self._database,
            store.insert_notifications,
            instance_id=job.instance_id,
            job_id=job.job_id,
            key=job.idempotency_key(path),
            document=document,
        )
        return count or 0


class WebhookSender:
    """Claims due deliveries and sends them in parallel; `send_due` runs every POLL_S."""

    def __init__(self, database: Database, egress: EgressClient, secret: SecretKey, base_url: str = "") -> None:
        self._database = database
        self._egress = egress
        self._base_url = base_url.rstrip("/")
        self._secret = secret
        self._audit = Audit(secret)
        self._in_flight: dict[asyncio.Task[None], str] = {}

    async def send_due(self) -> bool:
        """Start due deliveries up to the limits; return True if more may be due."""
        room = limits.WEBHOOKS_AT_ONCE - len(self._in_flight)
        if room <= 0:
            return False
        # Other webhooks must not wait for the running requests of a slow one.
        requests = Counter(self._in_flight.values())
        busy = [webhook_id for webhook_id, count in requests.items() if count >= limits.WEBHOOK_AT_ONCE]
        async with self._database.transaction() as connection:
            claimed = await store.claim(connection, each=limits.WEBHOOK_AT_ONCE, busy=busy, count=room, lease_s=LEASE_S)
            bodies = {row.id: msgspec.json.decode(row.body) for row in claimed}
            sent = await _grouped(connection, claimed, bodies)
            instance_ids = list({body["instance"] for body in bodies.values() if body.get("instance") is not None})
            known = (
                {row.id: row for row in await store.list_secrets_by_organization(connection, instance_ids=instance_ids)}
                if bodies
                else {}
            )
        for row, body in sent:
            given = known.get(body.get("instance") or "")
            documents = () if given is None else (given.parameters, given.environment_view)
            redactor = await computed(sum(map(len, documents)), partial(_redactor, documents))
            task = asyncio.create_task(self._deliver(row, self._shown(row, body, redactor)), name="webhook")
            self._in_flight[task] = row.webhook_id
            task.add_done_callback(self._finished)
        return len(claimed) > 0

    def _shown(self, row: ClaimedRow, body: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
        """Return the event without secrets, with links to its subject and job."""
        path = _console_path(body)
        link = f"{self._base_url}/console/{path}" if self._base_url and path else None
        shown = {**redactor.value({"id": row.id, **body}), "link": link}
        if body.get("job") is not None and "failures" not in body:
            job_link = None if link is None else f"{link}/jobs/{body['job']['id']}"
            shown["job"] = {**shown["job"], "link": job_link}
        return shown

    async def close(self) -> None:
        """Cancel running deliveries; they are sent again after their leases expire."""
        for task in self._in_flight:
            task.cancel()
        if self._in_flight:
            await asyncio.wait(self._in_flight)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        del self._in_flight[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("webhook.crashed", error=repr(error))

    async def _deliver(self, row: ClaimedRow, body: Mapping[str, Any]) -> None:
        backoff = Backoff(limits.WEBHOOK_RETRY_FIRST_S, limits.WEBHOOK_RETRY_LONGEST_S)
        status, error = await self._post(row, msgspec.json.encode(message(row.format, body)), body["organization"])
        try:
            async with self._database.connection() as connection:
                if error is None:
                    await store.mark_delivered(connection, delivery_id=row.id, attempt=row.attempts, last_status=status)
                    return
                failing_s = await store.mark_failed(
                    connection,
                    delivery_id=row.id,
                    attempt=row.attempts,
                    last_status=status,
                    last_error=error,
                    pause_s=backoff.delay_s(row.attempts),
                    give_up_s=limits.WEBHOOK_GIVE_UP_S,
                )
            if failing_s is not None and failing_s >= limits.WEBHOOK_DISABLED_AFTER_S:
                await self._disable(row.webhook_id, error)
        except Unavailable as unavailable:
            log.warning("webhook.outcome_lost", delivery=row.id, error=str(unavailable))

    async def _post(self, row: ClaimedRow, body: bytes, organization_id: str) -> tuple[int | None, str | None]:
        """Make one attempt; return the response status and the error; both may be None."""
        try:
            secret = self._secret.open(row.secret, secret_purpose(row.webhook_id))
            url = self._secret.open(row.sealed_url, url_purpose(row.webhook_id)).decode()
        except UnsealFailed as error:
            return None, str(error)
        headers = {
            "Content-Type": "application/json",
            "Launchbay-Event": row.event,
            "Launchbay-Delivery": row.id,
            "Launchbay-Signature": signature(secret, int(time.time()), body),
        }
        shown = redacted_url(httpx.URL(url))
        try:
            egress = self._egress.for_environment(organization_id)
            egress.require_private(url, "What is signed with the webhook's secret")
            answer = await egress.request(
                "POST",
                url,
                headers=headers,
                body=body,
                timeout_s=limits.WEBHOOK_TIMEOUT_S,
                max_bytes=limits.WEBHOOK_RESPONSE_BYTES,
            )
        except EgressFailed as error:
            problem = str(error).replace(shown, "the receiver")  # its path may be a secret
            return None, problem[:1].upper() + problem[1:]
        if answer.url != shown:
            return answer.status, "The receiver redirects. Set the webhook's URL to the redirect target."
        if not 200 <= answer.status < 300:
            return answer.status, f"The receiver returned {answer.status}."
        return answer.status, None

    async def _disable(self, webhook_id: str, error: str) -> None:
        days = limits.WEBHOOK_DISABLED_AFTER_S / 86_400
        reason = f"No delivery has succeeded for {days:g} days. Last error: {error}"
        async with self._database.transaction() as connection:
            disabled = await store.disable(connection, webhook_id=webhook_id, reason=reason)
            if disabled is not None:
                await self._audit.record(
                    connection,
                    engine_actor("webhooks"),
                    "update_webhook",
                    f"/webhooks/{disabled.id}",
                    organization_id=disabled.organization_id,
                    before={"enabled": True},
                    after={"enabled": False, "reason": reason},
                )
                await store.delete_pending(connection, webhook_id=webhook_id, reason=reason)
                log.warning("webhook.disabled", webhook=webhook_id)


async def delete_old_deliveries(database: Database) -> bool:
    """Delete old deliveries, and those that are too many for a webhook.

    Returns True if there is more to delete.
    """
    async with database.connection() as connection:
        excess = await store.delete_excess(
            connection,
            most=limits.WEBHOOK_PENDING,
            count=CLEANER_BATCH_ROWS,
            reason="Too many deliveries are waiting for this webhook.",
        )
        old = await store.delete_old_deliveries(connection, days=limits.WEBHOOK_LOG_DAYS, count=CLEANER_BATCH_ROWS)
        await store.delete_old_failures(connection, days=limits.WEBHOOK_LOG_DAYS)
    return max(excess, old) >= CLEANER_BATCH_ROWS


async def _grouped(
    connection: BoundedConnection, claimed: Sequence[ClaimedRow], bodies: Mapping[str, dict[str, Any]]
) -> list[tuple[ClaimedRow, dict[str, Any]]]:
    """Return what is sent now, with its events.

    Of equal failures for a chat, that is the first one. Those of the time after it are held, and their first one
    becomes the message that counts them all. A message counts what it counted at its first attempt.
    """
    sent: list[tuple[ClaimedRow, dict[str, Any]]] = []
    failures = {
        row.id: failure_key(bodies[row.id], row.application or "", row.environment or "")
        for row in claimed
        if row.format != "json"
    }
    # In one order, so that two processes never wait for each other.
    for row in sorted(claimed, key=lambda row: (row.webhook_id, failures.get(row.id) or "", row.created_at, row.id)):
        body, failure = bodies[row.id], failures.get(row.id)
        if failure is None or await _is_sent(connection, row, failure):
            joined = [] if failure is None else await store.list_joined(connection, delivery_id=row.id)
            sent.append((row, counted(body, [msgspec.json.decode(each) for each in joined]) if joined else body))
    return sent


async def _is_sent(connection: BoundedConnection, row: ClaimedRow, failure: str) -> bool:
    """Return whether a claimed failure is a message now; otherwise hold it."""
    known = await store.lock_failure(connection, webhook_id=row.webhook_id, failure=failure)
    if known is None:
        raise AssertionError("an INSERT returns its row")
    is_follow_up = known.follow_up_id == row.id
    if row.failure is not None and row.joined_to is None and not is_follow_up:
        return True  # another attempt
    if is_follow_up or not (known.must_wait or known.follow_up_id):
        await store.begin_message(
            connection, webhook_id=row.webhook_id, failure=failure, delivery_id=row.id, hold_s=limits.CHAT_HOLD_S
        )
        return True
    await store.hold(
        connection,
        webhook_id=row.webhook_id,
        failure=failure,
        delivery_id=row.id,
        joined_to=known.follow_up_id,
        until=known.next_message_at,
    )
    return False


def _console_path(body: Mapping[str, Any]) -> str | None:
    """Return the path of an event's subject below `/console/`; a test has none."""
    if "failures" in body:
        return f"organizations/{body['organization']}"
    match body["event"]:
        case "changeSet":
            return f"organizations/{body['organization']}/changes/{body['changeSet']['id']}"
        case "drift":
            return f"instances/{body['instance']}/drift"
        case "rollout":
            return f"applications/{body['application']}/rollouts/{body['rollout']['id']}"
    return None if body.get("instance") is None else f"instances/{body['instance']}"


def _redactor(documents: Sequence[str]) -> Redactor:
    return Redactor(map(msgspec.json.decode, documents))
