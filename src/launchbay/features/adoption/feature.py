"""Adoption of what runs, as the rest of Launchbay sees it."""

from launchbay.feature import Feature
from launchbay.features.adoption import api
from launchbay.features.adoption.usecases import refuse_observed

FEATURE = Feature(name="adoption", routes=(api.routes,), change_rules=(refuse_observed,))
