"""Tokens that say which job asks."""

from launchbay.feature import Feature
from launchbay.features.identities import api
from launchbay.features.identities.usecases import JobIdentities

FEATURE = Feature(
    name="identities",
    routes=(api.routes, api.issuer_routes),
    identities=JobIdentities,
)
