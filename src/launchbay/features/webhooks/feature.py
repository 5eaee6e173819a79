"""Webhooks, and messages to chats."""

from functools import partial

from launchbay.engine.retention import CLEANER_INTERVAL_S
from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.webhooks import api, pages, rows
from launchbay.features.webhooks.delivery import POLL_S, WebhookNotifier, WebhookSender, delete_old_deliveries
from launchbay.features.webhooks.usecases import LEFT_OUT, seal_urls


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    sender = WebhookSender(deps.app.database, deps.app.egress, deps.app.secret_key, deps.base_url)
    deps.on_close(sender.close)
    clean = partial(delete_old_deliveries, deps.app.database)
    return (
        PeriodicTask("webhooks", POLL_S, sender.send_due, due=(rows.list_due,)),
        PeriodicTask("old deliveries", CLEANER_INTERVAL_S, clean),
    )


FEATURE = Feature(
    name="webhooks",
    routes=(api.routes,),
    sealed={
        rows.sealed_secrets: lambda webhook_id, _: rows.secret_purpose(webhook_id),
        rows.sealed_urls: lambda webhook_id, _: rows.url_purpose(webhook_id),
    },
    locks={"webhooks": rows.lock_webhook},
    pages=(pages.routes,),
    start=seal_urls,
    tasks=_tasks,
    notifier=WebhookNotifier,
    offers=(LEFT_OUT,),
)
