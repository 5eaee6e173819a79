"""The pages of the documentation."""

from launchbay.console.pages import documentation as pages
from launchbay.feature import Feature

FEATURE = Feature(
    name="documentation",
    pages=(pages.routes,),
)
