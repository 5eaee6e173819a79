"""All pages of the kernel's objects, and what is above their tabs.

Pages of features come with their registration.
"""

from launchbay.console.request import PageRoute, Tabs
from launchbay.pages import (
    account,
    applications,
    approvals,
    audit,
    components,
    configuration,
    environments,
    instance,
    instances,
    launch,
    manifests,
    organizations,
    overview,
    revisions,
    roles,
    run,
    runs,
    schedules,
    secrets,
    service_accounts,
    services,
    sign_in,
    signals,
    start,
    users,
    versions,
)

KERNEL_PAGES: tuple[PageRoute, ...] = tuple(
    route
    for module in (
        sign_in,
        organizations,
        overview,
        start,
        applications,
        manifests,
        versions,
        revisions,
        launch,
        instances,
        instance,
        runs,
        run,
        components,
        signals,
        configuration,
        schedules,
        approvals,
        environments,
        services,
        secrets,
        roles,
        users,
        service_accounts,
        account,
        audit,
    )
    for route in module.routes
)

TABS = Tabs(instance=instance.tab_values, application=applications.tab_values)
