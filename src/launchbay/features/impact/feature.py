"""Whom a change of an object reaches."""

from launchbay.feature import Feature
from launchbay.features.impact import api

FEATURE = Feature(
    name="impact",
    routes=(api.routes,),
)
