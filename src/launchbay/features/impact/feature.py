"""Whom a change of an object reaches."""

from launchbay.feature import Feature
from launchbay.web.api import impact as api

FEATURE = Feature(
    name="impact",
    routes=(api.routes,),
)
