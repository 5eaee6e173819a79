"""`getSignals` and `getEnvironmentProperties`: what the component consumes (manifest-language §5 "Scope", §9)."""

from collections.abc import Mapping
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import flag


class GetSignals:
    """Reads the consumed signals, as seen at the workflow's start and refreshed by `waitPeers`."""

    name = "getSignals"
    aliases: tuple[str, ...] = ()
    pure = True
    parameters: Mapping[str, ActionParameter] = {
        "multi": ActionParameter("true: result[interface][peer][signal], for several peers.", type="bool"),
    }
    outputs: Mapping[str, str] = {"result": "The signals by interface and name."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Return the view that `multi` asks for."""
        view = call.context.signals
        return {"result": view.multi() if flag(call.parameters, "multi", default=False) else view.single()}


class GetEnvironmentProperties:
    """Reads what the environment offers: markers, properties and services."""

    name = "getEnvironmentProperties"
    aliases: tuple[str, ...] = ()
    pure = True
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {"result": "The properties by interface and name, as `getSignals` gives them."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Return the signals of one peer per interface."""
        return {"result": call.context.signals.single()}
