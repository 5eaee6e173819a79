"""Bulk runs, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.bulk import api, pages, rows
from launchbay.features.bulk.later import BulkWork
from launchbay.features.bulk.usecases import seal_acts
from launchbay.usecases.later import PutOff

FEATURE = Feature(
    name="bulk",
    routes=(api.of_failures, api.routes),
    sealed={rows.sealed_acts: lambda bulk_id, _: rows.act_purpose(bulk_id)},
    traces=rows.traces,
    locks={"bulk": rows.lock_bulk},
    pages=(pages.routes,),
    start=seal_acts,
    later=(BulkWork,),
    offers=(PutOff(rows.wake),),
)
