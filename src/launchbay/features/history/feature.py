"""Former states of an instance."""

from launchbay.feature import Feature
from launchbay.web.api import history as api

FEATURE = Feature(
    name="history",
    routes=(api.routes,),
)
