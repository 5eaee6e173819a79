"""Rules about changes, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.change_rules import api, pages
from launchbay.features.change_rules.usecases import ask_rules, rules_at
from launchbay.usecases.context import Ports

FEATURE = Feature(
    name="change_rules",
    routes=(api.routes,),
    pages=(pages.routes,),
    change_rules=(ask_rules,),
    ports=Ports(rules_at=rules_at),
)
