"""Generations of an instance, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.generations import api, pages
from launchbay.features.generations.later import RollbackWork

FEATURE = Feature(
    name="generations",
    routes=(api.routes,),
    pages=(pages.routes,),
    later=(RollbackWork,),
)
