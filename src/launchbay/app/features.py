"""All features. Only this module names each of them."""

from launchbay.console.request import PageRoute
from launchbay.feature import Features
from launchbay.features.adoption.feature import FEATURE as ADOPTION
from launchbay.features.bulk.feature import FEATURE as BULK
from launchbay.features.change_rules.feature import FEATURE as CHANGE_RULES
from launchbay.features.change_sets.feature import FEATURE as CHANGE_SETS
from launchbay.features.concurrency_limits.feature import FEATURE as CONCURRENCY_LIMITS
from launchbay.features.directories.feature import FEATURE as DIRECTORIES
from launchbay.features.documentation.feature import FEATURE as DOCUMENTATION
from launchbay.features.drift.feature import FEATURE as DRIFT
from launchbay.features.freezes.feature import FEATURE as FREEZES
from launchbay.features.generations.feature import FEATURE as GENERATIONS
from launchbay.features.git_sources.feature import FEATURE as GIT_SOURCES
from launchbay.features.history.feature import FEATURE as HISTORY
from launchbay.features.identities.feature import FEATURE as IDENTITIES
from launchbay.features.impact.feature import FEATURE as IMPACT
from launchbay.features.lifetimes.feature import FEATURE as LIFETIMES
from launchbay.features.plans.feature import FEATURE as PLANS
from launchbay.features.promotion.feature import FEATURE as PROMOTION
from launchbay.features.recurring.feature import FEATURE as RECURRING
from launchbay.features.rollouts.feature import FEATURE as ROLLOUTS
from launchbay.features.scim.feature import FEATURE as SCIM
from launchbay.features.secret_providers.feature import FEATURE as SECRET_PROVIDERS
from launchbay.features.sleep_windows.feature import FEATURE as SLEEP_WINDOWS
from launchbay.features.webhooks.feature import FEATURE as WEBHOOKS
from launchbay.pages.table import KERNEL_PAGES
from launchbay.web.endpoints import IN_ORDER, table
from launchbay.web.routing import Endpoint

FEATURES = Features(
    (
        ADOPTION,
        BULK,
        CHANGE_RULES,
        CHANGE_SETS,
        CONCURRENCY_LIMITS,
        DIRECTORIES,
        DOCUMENTATION,
        DRIFT,
        FREEZES,
        GENERATIONS,
        GIT_SOURCES,
        HISTORY,
        IDENTITIES,
        IMPACT,
        LIFETIMES,
        PLANS,
        PROMOTION,
        RECURRING,
        ROLLOUTS,
        SCIM,
        SECRET_PROVIDERS,
        SLEEP_WINDOWS,
        WEBHOOKS,
    )
)


def endpoints(features: Features) -> tuple[Endpoint, ...]:
    """Return all endpoints of the API, in the order of the documentation."""
    return table(features.endpoints(IN_ORDER))


def pages(features: Features) -> tuple[PageRoute, ...]:
    """Return all pages that the console serves."""
    return (*KERNEL_PAGES, *features.pages())


ENDPOINTS = endpoints(FEATURES)
PAGES = pages(FEATURES)
