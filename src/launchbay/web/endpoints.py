"""THE table: every endpoint of the HTTP API, each declared at its handler, in the order of the documentation."""

from collections.abc import Iterable

from launchbay.web.api import (
    account,
    applications,
    approvals,
    archives,
    bulk,
    change_sets,
    concurrency_limits,
    configuration,
    directory,
    environments,
    events,
    failures,
    fleet,
    generations,
    git_sources,
    health,
    history,
    impact,
    instances,
    jobs,
    lifetimes,
    manifests,
    organizations,
    recurring,
    revisions,
    roles,
    rollouts,
    second_factors,
    secrets,
    service_accounts,
    services,
    sign_in,
    sleep_windows,
    users,
    webhooks,
    workflows,
)
from launchbay.web.openapi import description_rows
from launchbay.web.routing import Endpoint

_MODULES: tuple[Iterable[Endpoint], ...] = (
    organizations.routes,
    archives.routes,
    directory.routes,
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
    secrets.routes,
    instances.routes,
    configuration.routes,
    generations.routes,
    history.routes,
    environments.offers_routes,
    workflows.routes,
    instances.expiry_routes,
    jobs.routes,
    fleet.routes,
    fleet.labels_routes,
    bulk.routes,
    failures.routes,
    recurring.routes,
    git_sources.routes,
    concurrency_limits.routes,
    lifetimes.routes,
    sleep_windows.routes,
    change_sets.routes,
    impact.routes,
    rollouts.routes,
    approvals.routes,
    events.routes,
    organizations.audit_routes,
    organizations.usage_routes,
    webhooks.routes,
    organizations.host_keys_routes,
    account.routes,
    second_factors.own_routes,
    sign_in.routes,
    sign_in.openid_routes,
    health.routes,
    health.metrics_routes,
)


def _table() -> tuple[Endpoint, ...]:
    rows = tuple(row for routes in _MODULES for row in routes)
    return rows + description_rows(rows)


ENDPOINTS: tuple[Endpoint, ...] = _table()
MONITORING: tuple[Endpoint, ...] = (*health.routes, *health.metrics_routes)  # all that a worker serves
