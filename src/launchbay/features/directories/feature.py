"""Organizations as files: directories and archives."""

from launchbay.feature import Feature
from launchbay.features.directories import api, archives_api, objects_api

FEATURE = Feature(
    name="directories",
    routes=(
        api.routes,
        archives_api.routes,
        objects_api.routes,
    ),
)
