"""Promotion, as the rest of Launchbay sees it."""

from launchbay.feature import Feature
from launchbay.features.promotion import api, pages, rows
from launchbay.features.promotion.later import PromotionWork
from launchbay.features.promotion.usecases import refuse_unready

FEATURE = Feature(
    name="promotion",
    routes=(api.routes,),
    pages=(pages.routes,),
    traces=rows.traces,
    later=(PromotionWork,),
    change_rules=(refuse_unready,),
)
