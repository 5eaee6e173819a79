"""`getInstanceContext`: who am I (manifest-language §9)."""

from collections.abc import Mapping
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter


class GetInstanceContext:
    """Tells the instance's id."""

    name = "getInstanceContext"
    aliases: tuple[str, ...] = ()
    pure = True
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {"instanceId": "The id of the instance whose workflow runs."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Return the id."""
        return {"instanceId": call.context.instance_id}
