"""Freezes, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.freezes import api
from launchbay.features.freezes.usecases import refuse_frozen

FEATURE = Feature(name="freezes", routes=(api.routes,), change_rules=(refuse_frozen,))
