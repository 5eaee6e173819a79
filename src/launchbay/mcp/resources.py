"""What models read by address: manifests, instances and logs, as the tools show them."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from launchbay.ids import is_id
from launchbay.mcp.tools import TOOLS, Caller, Refused

_ADDRESS = re.compile(r"launchbay://(applications|instances|jobs|change-sets)/([0-9a-f]{24})(/[a-z]+)?")


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of resource, and the tool that shows it."""

    address: str
    name: str
    description: str
    tool: str
    argument: str


TEMPLATES = (
    Template(
        "launchbay://applications/{id}/manifest",
        "manifest",
        "The newest manifest of an application: its first lines.",
        "read_manifest",
        "application",
    ),
    Template("launchbay://applications/{id}", "application", "An application.", "read_application", "application"),
    Template("launchbay://instances/{id}", "instance", "An instance.", "read_instance", "instance"),
    Template("launchbay://instances/{id}/log", "log", "The last lines of an instance's log.", "read_log", "instance"),
    Template("launchbay://jobs/{id}", "job", "A job with its steps.", "read_job", "job"),
    Template("launchbay://change-sets/{id}", "change set", "A change set.", "read_change_set", "change_set"),
)


async def read_resource(caller: Caller, address: str) -> Any:
    """Return what is at an address. Raises Refused, and the exceptions of the client."""
    found = _ADDRESS.fullmatch(address)
    if found is not None and is_id(found[2]):
        form = address.replace(found[2], "{id}")
        for template in TEMPLATES:
            if template.address == form:
                tool = TOOLS[template.tool]
                handler: Callable[[Caller, Any], Awaitable[Any]] = tool.handler
                return await handler(caller, tool.read({template.argument: found[2]}))
    forms = ", ".join(template.address for template in TEMPLATES)
    raise Refused(f"Unknown address {address[:200]!r}. Addresses: {forms}.")
