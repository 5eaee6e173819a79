"""THE table of the console's pages. Families declare rows beside their handlers; here they come together."""

from launchbay.console.page import Page
from launchbay.console.pages import (
    account,
    applications,
    approvals,
    audit,
    configuration,
    environments,
    instance_acts,
    instances,
    jobs,
    launch,
    live,
    manifests,
    organizations,
    roles,
    services,
    sign_in,
    users,
    webhooks,
)

_FAMILIES: tuple[tuple[Page, ...], ...] = (
    sign_in.PAGES,
    organizations.PAGES,
    applications.PAGES,
    manifests.PAGES,
    launch.PAGES,
    instances.PAGES,
    instance_acts.PAGES,
    jobs.PAGES,
    live.PAGES,
    configuration.PAGES,
    approvals.PAGES,
    environments.PAGES,
    services.PAGES,
    roles.PAGES,
    users.PAGES,
    account.PAGES,
    audit.PAGES,
    webhooks.PAGES,
)

PAGES: tuple[Page, ...] = tuple(page for family in _FAMILIES for page in family)
