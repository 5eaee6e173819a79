"""Links to this server that somebody takes elsewhere."""

from typing import Any

from launchbay.web.call import Call


def absolute(call: Call[Any, Any], path: str) -> str:
    """Return the whole address of a path: below the base address that is set, else the host that the caller asked for.

    The answer goes to the same caller, so a made-up Host fools nobody else.
    """
    base = call.services.base_url.rstrip("/") or f"http://{call.headers.get('host', 'localhost')}"
    return base + path
