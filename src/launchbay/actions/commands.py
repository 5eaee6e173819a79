"""`serviceCall` and `commandCall`: send a command to the peers of an interface (manifest-language §9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import optional_duration_s, optional_mapping, required_text


@dataclass(frozen=True)
class CommandCall:
    """Calls a command by the name of an interface; the same work under two names."""

    name: str
    aliases: tuple[str, ...] = ()
    pure: bool = True  # what it calls keeps its own records, and is repeated to bring back what it changed

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """The documented parameters by name."""
        return {
            "service": ActionParameter("The interface that has the command.", type="string", required=True),
            "command": ActionParameter("The command's name.", type="string", required=True),
            "arguments": ActionParameter("The command's arguments by name.", type="map<string,object>"),
            "timeout": ActionParameter('How long it may take: seconds, or a text such as "5 minutes".'),
        }

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name."""
        return {"result": "The command's results by name."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Send the command and wait for its results."""
        interface = required_text(call.parameters, "service", "the name of an interface of this component")
        command = required_text(call.parameters, "command", "the name of a command of that interface")
        arguments = optional_mapping(call.parameters, "arguments", "a map from argument names to values")
        timeout_s = optional_duration_s(call.parameters, "timeout")
        return {"result": await call.context.call_command(interface, command, arguments, timeout_s)}
