"""Change sets, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.change_sets import api, pages, rows
from launchbay.features.change_sets.later import ChangeSetWork, ReplanWork
from launchbay.features.change_sets.usecases import count_asking, require_change_set
from launchbay.usecases.context import Ports

FEATURE = Feature(
    name="change_sets",
    routes=(api.routes,),
    sealed={rows.sealed_acts: lambda change_set_id, _: rows.act_purpose(change_set_id)},
    traces=rows.traces,
    locks={"change-sets": rows.lock_change_set},
    pages=(pages.routes,),
    later=(ChangeSetWork, ReplanWork),
    change_rules=(require_change_set,),
    ports=Ports(count_asking=count_asking),
)
