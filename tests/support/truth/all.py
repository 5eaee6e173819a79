"""All comparisons; to import it registers them."""

from tests.support.truth import (
    of_blueprints,
    of_drift,
    of_freezes,
    of_programs,
    of_promotion,
    of_rules,
    of_the_api,
    of_the_console,
    of_the_objects,
    of_the_reads,
)
from tests.support.truth.comparisons import COMPARISONS, View, differences

__all__ = [
    "COMPARISONS",
    "View",
    "differences",
    "of_blueprints",
    "of_drift",
    "of_freezes",
    "of_programs",
    "of_promotion",
    "of_rules",
    "of_the_api",
    "of_the_console",
    "of_the_objects",
    "of_the_reads",
]
