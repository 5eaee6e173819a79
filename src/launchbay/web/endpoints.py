"""THE table: every endpoint of the HTTP API. Families declare rows beside their handlers; here they come together."""

from launchbay.web.endpoint import Endpoint
from launchbay.web.handlers import (
    account,
    applications,
    approvals,
    archives,
    audit,
    configuration,
    environments,
    events,
    expiry,
    health,
    host_keys,
    instances,
    jobs,
    manifests,
    members,
    metrics,
    offers,
    openid,
    organizations,
    pages,
    permissions,
    revisions,
    roles,
    services,
    webhooks,
    workflows,
)
from launchbay.web.handlers.description import description_rows

_FAMILIES: tuple[tuple[Endpoint, ...], ...] = (
    # One line for each file in handlers/, in the order of the documentation.
    organizations.ENDPOINTS,
    archives.ENDPOINTS,
    members.ENDPOINTS,
    roles.ENDPOINTS,
    permissions.ENDPOINTS,
    applications.ENDPOINTS,
    manifests.ENDPOINTS,
    revisions.ENDPOINTS,
    environments.ENDPOINTS,
    services.ENDPOINTS,
    instances.ENDPOINTS,
    configuration.ENDPOINTS,
    offers.ENDPOINTS,
    workflows.ENDPOINTS,
    expiry.ENDPOINTS,
    jobs.ENDPOINTS,
    approvals.ENDPOINTS,
    events.ENDPOINTS,
    audit.ENDPOINTS,
    webhooks.ENDPOINTS,
    host_keys.ENDPOINTS,
    account.ENDPOINTS,
    pages.ENDPOINTS,
    openid.ENDPOINTS,
    health.ENDPOINTS,
    metrics.ENDPOINTS,
)


def _table() -> tuple[Endpoint, ...]:
    rows = tuple(row for family in _FAMILIES for row in family)
    return rows + description_rows(rows)


ENDPOINTS: tuple[Endpoint, ...] = _table()
WATCHING: tuple[Endpoint, ...] = (*health.ENDPOINTS, *metrics.ENDPOINTS)  # all that a worker answers
