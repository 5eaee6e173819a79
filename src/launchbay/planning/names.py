"""Names of workflows: which ones an instance has, and what is said of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from launchbay.errors import BadRequest
from launchbay.manifest.graph import (
    CompiledManifest,
)
from launchbay.model.findings import Hints

LAUNCH = "launch"
DESTROY = "destroy"
FORCE = "force"  # parameter of `destroy`: destroy an instance although others use it
RECONFIGURE = "reconfigure"  # the job's name in the history; no workflow of a manifest runs under it
NAMES_SHOWN = 20


def available_workflows(manifest: CompiledManifest) -> list[str]:
    """Return the names that can be run: `launch`, `destroy` and the application's commands."""
    return list(dict.fromkeys([LAUNCH, *manifest.commands, DESTROY]))


def require_workflow(manifest: CompiledManifest, workflow: str) -> None:
    """Raise BadRequest if an instance of the manifest has no such workflow."""
    if workflow not in manifest.commands and workflow not in {LAUNCH, DESTROY}:
        names = ", ".join(available_workflows(manifest))
        named = [each for each in manifest.commands if each.rpartition(".")[2] == workflow]
        meant = f" Did you mean '{named[0]}'?" if named else Hints().nearest(workflow, manifest.commands)
        raise BadRequest(f"Command is not supported: {workflow}.{meant} Available: {names}.", code="UnknownWorkflow")


def shown_names(names: list[str]) -> str:
    """Return names that a caller sent, clipped in number and length."""
    shown = [name if len(name) <= 100 else f"{name[:100]}…" for name in names[:NAMES_SHOWN]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def is_forced(parameters: Mapping[str, Any]) -> bool:
    """Return whether parameters of `destroy` force it; older clients send strings."""
    return parameters.get(FORCE) in (True, "true", "1")


def in_use(name: str, users: Sequence[str]) -> str:
    """Return why an instance isn't destroyed; `users` describe the instances that use it."""
    more = f" and {len(users) - NAMES_SHOWN} more" if len(users) > NAMES_SHOWN else ""
    return (
        f"Other instances use {name!r}: {', '.join(users[:NAMES_SHOWN])}{more}. Destroy or reconfigure them first, or "
        "force the destruction."
    )
