"""What an environment offered when an instance was launched or last reconfigured (manifest-language §8).

The instance keeps this copy: changed policies, markers and properties reach it with its next reconfiguration.
"""

from typing import Any

import msgspec


class EnvironmentView(msgspec.Struct, frozen=True):
    """Policies by dotted name, markers by name, properties by name with their values."""

    policies: dict[str, Any] = {}
    markers: list[str] = []
    properties: dict[str, Any] = {}

    def to_text(self) -> str:
        """Return the stored form."""
        return msgspec.json.encode(self).decode()

    def step_policies(self, action: str) -> dict[str, Any]:
        """Return the parameters that policies set for every step with this action: `action.parameter: value`."""
        prefix = f"{action}."
        return {name[len(prefix) :]: value for name, value in self.policies.items() if name.startswith(prefix)}


def read_environment_view(text: str) -> EnvironmentView:
    """Return the view from its stored form."""
    return _decoder.decode(text)


_decoder = msgspec.json.Decoder(EnvironmentView)
