"""`wait`: let time pass (manifest-language §9)."""

from collections.abc import Mapping
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import required_duration_s

_REPORTS = 20  # of progress, at most
_SHORTEST_NAP_S = 1.0


class Wait:
    """Waits `delay`, counted from the step's first start: after a crash only the rest is waited."""

    name = "wait"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "delay": ActionParameter('How long: seconds, or a text such as "2 minutes".', required=True),
    }
    outputs: Mapping[str, str] = {}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Wait, reporting the share that has passed."""
        delay_s = required_duration_s(call.parameters, "delay")
        context = call.context
        # The wall clock is read once, for what passed before this attempt: a step of it later changes nothing.
        before_s = (context.clock.now() - context.started_at).total_seconds()
        rest_s = min(max(delay_s - before_s, 0.0), delay_s)
        begin_s = context.clock.monotonic_s()
        nap_s = max(delay_s / _REPORTS, _SHORTEST_NAP_S)
        while (left_s := rest_s - (context.clock.monotonic_s() - begin_s)) > 0:
            await context.progress(min(int(100 * (delay_s - left_s) / delay_s), 99))
            # At least a millisecond: a clock may not tell shorter naps from none.
            await context.sleep(max(min(left_s, nap_s), 0.001))
        return {}
