"""Promotion, as the rest of Launchbay sees it."""

from launchbay.feature import Feature
from launchbay.features.directories.organization import StoredOrders
from launchbay.features.promotion import api, pages, rows
from launchbay.features.promotion.later import PromotionWork
from launchbay.features.promotion.usecases import read_own_order, refuse_unready, replace_order
from launchbay.usecases.later import PutOff

FEATURE = Feature(
    name="promotion",
    routes=(api.routes,),
    pages=(pages.routes,),
    traces=rows.traces,
    later=(PromotionWork,),
    change_rules=(refuse_unready,),
    offers=(PutOff(rows.wake), StoredOrders(read_own_order, replace_order)),
)
