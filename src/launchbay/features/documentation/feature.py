"""The pages of the documentation."""

from launchbay.feature import Feature
from launchbay.features.documentation import pages

FEATURE = Feature(
    name="documentation",
    pages=(pages.routes,),
)
