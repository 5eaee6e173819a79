"""Former states of an instance."""

from launchbay.feature import Feature
from launchbay.features.history import api, rows
from launchbay.usecases.context import Ports

FEATURE = Feature(
    name="history",
    routes=(api.routes,),
    traces=rows.traces,
    ports=Ports(past_instance=api.past_instance),
)
