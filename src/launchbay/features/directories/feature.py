"""Organizations as files: directories and archives."""

from launchbay.feature import Feature
from launchbay.web.api import archives, directory

FEATURE = Feature(
    name="directories",
    routes=(
        archives.routes,
        directory.routes,
    ),
)
