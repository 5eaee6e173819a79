"""The commands of the CLI: one for each endpoint, which has its name."""

from generators.client_operations import by_family
from generators.client_types import ABOUT
from generators.words import Schema
from launchbay.app.features import ENDPOINTS


def commands_module(document: Schema) -> str:
    """Return the text of `cli/operation_commands.py`."""
    commands = {each.operation_id: each.command or each.rule_command for each in ENDPOINTS}
    lines = [
        '"""The noun and verb of each operation, by its id.',
        "",
        ABOUT,
        '"""',
        "",
        "from collections.abc import Mapping",
        "",
        "COMMANDS: Mapping[str, str] = {",
        *(f'    "{each.id}": "{commands[each.id]}",' for members in by_family(document).values() for each in members),
        "}",
    ]
    return "\n".join(lines) + "\n"
