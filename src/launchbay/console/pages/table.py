"""THE table of the console's pages. Families declare rows beside their handlers; here they come together."""

from launchbay.console.page import Page
from launchbay.console.pages import (
    applications,
    configuration,
    instance_acts,
    instances,
    jobs,
    launch,
    live,
    manifests,
    organizations,
    sign_in,
)

_FAMILIES = (
    sign_in,
    organizations,
    applications,
    manifests,
    launch,
    instances,
    instance_acts,
    jobs,
    live,
    configuration,
)

PAGES: tuple[Page, ...] = tuple(page for family in _FAMILIES for page in family.PAGES)
