"""THE table: every endpoint of the HTTP API. Families declare rows beside their handlers; here they come together."""

from launchbay.web.api import (
    account,
    applications,
    approvals,
    archives,
    configuration,
    environments,
    events,
    health,
    instances,
    jobs,
    manifests,
    organizations,
    revisions,
    roles,
    services,
    sign_in,
    users,
    webhooks,
    workflows,
)
from launchbay.web.openapi import description_rows
from launchbay.web.routing import Endpoint

_FAMILIES: tuple[tuple[Endpoint, ...], ...] = (
    # One line for each file in handlers/, in the order of the documentation.
    organizations.ENDPOINTS,
    archives.ENDPOINTS,
    users.ENDPOINTS,
    roles.ENDPOINTS,
    roles.PERMISSIONS_ENDPOINTS,
    applications.ENDPOINTS,
    manifests.ENDPOINTS,
    revisions.ENDPOINTS,
    environments.ENDPOINTS,
    services.ENDPOINTS,
    instances.ENDPOINTS,
    configuration.ENDPOINTS,
    environments.OFFERS_ENDPOINTS,
    workflows.ENDPOINTS,
    instances.EXPIRY_ENDPOINTS,
    jobs.ENDPOINTS,
    approvals.ENDPOINTS,
    events.ENDPOINTS,
    organizations.AUDIT_ENDPOINTS,
    webhooks.ENDPOINTS,
    organizations.HOST_KEYS_ENDPOINTS,
    account.ENDPOINTS,
    sign_in.ENDPOINTS,
    sign_in.OPENID_ENDPOINTS,
    health.ENDPOINTS,
    health.METRICS_ENDPOINTS,
)


def _table() -> tuple[Endpoint, ...]:
    rows = tuple(row for family in _FAMILIES for row in family)
    return rows + description_rows(rows)


ENDPOINTS: tuple[Endpoint, ...] = _table()
WATCHING: tuple[Endpoint, ...] = (*health.ENDPOINTS, *health.METRICS_ENDPOINTS)  # all that a worker answers
