"""Rollouts, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.rollouts import api, pages, rows
from launchbay.features.rollouts.later import RolloutWork
from launchbay.usecases.later import PutOff

FEATURE = Feature(
    name="rollouts",
    routes=(api.routes,),
    traces=rows.traces,
    locks={"rollouts": rows.lock_rollout},
    pages=(pages.routes,),
    later=(RolloutWork,),
    offers=(PutOff(rows.wake),),
)
