"""`builtin:cobalt_secure_store`: keeps keys for those who may use them (manifest-language §8)."""

from collections.abc import Mapping
from typing import Any

from launchbay.errors import Conflict
from launchbay.model.types import OBJECT, STRING
from launchbay.service_types.contract import CommandArgument, Passive, ServiceCall, ServiceCommand, command_pins


class SecureStore(Passive):
    """The store that every organization has; it takes no parameters.

    Public manifests are bound to it for `get-keypair`, and most of them never call it.
    """

    id = "builtin:cobalt_secure_store"
    name = "Credentials service"
    commands: Mapping[str, ServiceCommand] = {
        "get-keypair": ServiceCommand(
            "keypair-store",
            "Returns a private key. This version keeps no keys, so it refuses.",
            arguments={"id": CommandArgument(STRING, "The id of the key pair.", required=True)},
            results={"privateKey": OBJECT},
            changes=False,
        ),
    }
    interfaces = command_pins(commands)

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:  # noqa: ARG002 - contract
        """Refuse: there are no keys. Raises Conflict."""
        raise Conflict(
            f"There is no key pair {call.arguments['id'][:80]!r}: the credentials service of this version keeps none.",
            "Give the key to the application in another way, such as a parameter.",
            code="NoKeyPairs",
        )
