"""The logging family: accepted so that old manifests run, without effect (manifest-language §9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter


@dataclass(frozen=True)
class WithoutEffect:
    """Does nothing and says so in the step's log: steps have a log of their own here."""

    name: str
    aliases: tuple[str, ...] = ()
    pure: bool = True

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """None is looked at."""
        return {}

    @property
    def outputs(self) -> Mapping[str, str]:
        """There are none."""
        return {}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Say that nothing is done."""
        call.context.log("info", f"The action '{self.name}' is accepted and does nothing here.")
        return {}


LOGGING_ACTIONS = tuple(
    WithoutEffect(name) for name in ("registerLogPath", "unregisterLogPath", "collectLogs", "logging")
)
