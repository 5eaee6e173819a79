"""Vaults in tests of the API."""

from typing import Any

from tests.api.running import Api, Caller, accepted, fresh_name

TYPE = "builtin:cobalt_secure_store"


async def made_vault(api: Api, *, offered_by: str | None = None) -> str:
    """Make a vault, which an environment may offer beside what it offers already."""
    body = {"name": fresh_name("vault"), "typeId": TYPE}
    vault = str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])
    if offered_by is not None:
        offered = accepted(await api.get(f"environments/{offered_by}/services"))["services"]
        ids = [*(row["id"] for row in offered if row["typeId"] != TYPE), vault]
        accepted(await api.put(f"environments/{offered_by}/services", {"services": ids}))
    return vault


async def told(caller: Caller, service: str, command: str, **arguments: Any) -> Any:
    """Run a command and return its final result."""
    return accepted(await caller.post(f"services/{service}/{command}", {"arguments": arguments}))[-1]
