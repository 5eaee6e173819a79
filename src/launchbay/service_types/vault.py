"""`builtin:cobalt_secure_store`: keeps key pairs and secrets for those who may use them (manifest-language §8)."""

from collections.abc import Mapping
from typing import Any

from launchbay.service_types.contract import Passive, ServiceCall, ServiceCommand, command_pins
from launchbay.service_types.vault_keys import KEY_COMMANDS, run_key_command
from launchbay.service_types.vault_secrets import SECRET_COMMANDS, run_secret_command

# What manifests reach. What changes a vault is for people, through the API: who may launch shall not change keys.
_FOR_MANIFESTS = frozenset({"get-keypair", "get-public-key", "get-secret"})


class SecureStore(Passive):
    """The store that every organization has; it takes no parameters. What it keeps is sealed in the database."""

    id = "builtin:cobalt_secure_store"
    name = "Credentials service"
    commands: Mapping[str, ServiceCommand] = {**KEY_COMMANDS, **SECRET_COMMANDS}
    interfaces = command_pins({name: command for name, command in commands.items() if name in _FOR_MANIFESTS})

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        """Carry out one of the commands. Raises FieldErrors and Conflict."""
        return await (run_key_command if command in KEY_COMMANDS else run_secret_command)(command, call)
