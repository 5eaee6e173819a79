"""Former states of an instance."""

from launchbay.feature import Feature
from launchbay.store import history as rows
from launchbay.usecases.context import Ports
from launchbay.web.api import history as api

FEATURE = Feature(
    name="history",
    routes=(api.routes,),
    traces=rows.traces,
    ports=Ports(past_instance=api.past_instance),
)
