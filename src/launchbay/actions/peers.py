"""`waitPeers`: wait for the components at the other end of interfaces (manifest-language §9)."""

from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import optional_duration_s, optional_mapping, required, whole_number

_INTERFACES = "a map from interface names to how many peers to wait for"


class WaitPeers:
    """Waits until every named interface has so many peers, then refreshes what `getSignals` sees."""

    name = "waitPeers"
    aliases: tuple[str, ...] = ()
    pure = True  # it changes nothing, and a recovery must refresh the signals again
    parameters: Mapping[str, ActionParameter] = {
        "interfaces": ActionParameter("How many peers each interface needs.", type="map<string,int>", required=True),
        "timeout": ActionParameter('How long to wait: seconds, or a text such as "20 minutes".'),
    }
    outputs: Mapping[str, str] = {}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Wait."""
        required(call.parameters, "interfaces", _INTERFACES)
        wanted = optional_mapping(call.parameters, "interfaces", _INTERFACES)
        interfaces = {
            interface: whole_number(count, f"interfaces.{interface}", least=0, most=limits.PEERS_MAX)
            for interface, count in wanted.items()
        }
        await call.context.wait_peers(interfaces, optional_duration_s(call.parameters, "timeout"))
        return {}
