"""Sleep windows, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.sleep_windows import api, rows
from launchbay.features.sleep_windows.later import SleepWork
from launchbay.usecases.later import PutOff

FEATURE = Feature(
    name="sleep_windows",
    routes=(api.routes,),
    later=(SleepWork,),
    offers=(PutOff(rows.wake),),
)
