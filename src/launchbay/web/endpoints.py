"""The order of endpoints in the documentation. Each is declared at its handler."""

from collections.abc import Iterable

from launchbay.web.api import (
    account,
    applications,
    approvals,
    configuration,
    environments,
    events,
    failures,
    fleet,
    health,
    instances,
    jobs,
    manifests,
    organizations,
    revisions,
    roles,
    second_factors,
    secrets,
    service_accounts,
    services,
    sign_in,
    users,
    workflows,
)
from launchbay.web.openapi import description_rows
from launchbay.web.routing import Endpoint

# A text is the place of the feature with this name.
IN_ORDER: tuple[Iterable[Endpoint] | str, ...] = (
    organizations.routes,
    "directories",
    users.routes,
    second_factors.routes,
    service_accounts.routes,
    roles.routes,
    roles.permissions_routes,
    applications.routes,
    manifests.routes,
    revisions.routes,
    environments.routes,
    services.routes,
    "secret_providers",
    secrets.routes,
    instances.routes,
    configuration.routes,
    "generations",
    "history",
    environments.offers_routes,
    workflows.routes,
    instances.expiry_routes,
    jobs.routes,
    fleet.routes,
    fleet.labels_routes,
    failures.routes,
    "bulk",
    "recurring",
    "git_sources",
    "concurrency_limits",
    "lifetimes",
    "sleep_windows",
    "change_sets",
    "freezes",
    "change_rules",
    "promotion",
    "plans",
    "drift",
    "adoption",
    "impact",
    "rollouts",
    approvals.routes,
    events.routes,
    organizations.audit_routes,
    organizations.usage_routes,
    "identities",
    "webhooks",
    organizations.host_keys_routes,
    account.routes,
    second_factors.own_routes,
    sign_in.routes,
    sign_in.openid_routes,
    health.routes,
    health.metrics_routes,
)

MONITORING: tuple[Endpoint, ...] = (*health.routes, *health.metrics_routes)  # all that a worker serves


def table(rows: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return all endpoints of a process: these, and those that describe them."""
    return rows + description_rows(rows)
