"""The operation that each noun and verb of the CLI calls; endpoints name them."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from launchbay.cli.operation_commands import COMMANDS
from launchbay.client import Operations
from launchbay.client.operation import EventOperation, ListOperation, Operation

AnyOperation = Operation[Any, Any] | ListOperation[Any, Any] | EventOperation[Any]


def all_operations() -> Mapping[str, AnyOperation]:
    return {
        name: found
        for name, found in vars(Operations).items()
        if isinstance(found, Operation | ListOperation | EventOperation)
    }


@cache
def nouns() -> Mapping[str, Mapping[str, str]]:
    """Return noun → verb → operation id."""
    found: dict[str, dict[str, str]] = {}
    for name, command in COMMANDS.items():
        noun, _, verb = command.partition(" ")
        found.setdefault(noun, {})[verb] = name
    return MappingProxyType(found)
