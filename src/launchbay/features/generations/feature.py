"""Generations of an instance, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.generations import api, pages, rows
from launchbay.features.generations.later import RollbackWork
from launchbay.usecases.later import PutOff

FEATURE = Feature(
    name="generations",
    routes=(api.routes,),
    pages=(pages.routes,),
    later=(RollbackWork,),
    offers=(PutOff(rows.wake),),
)
