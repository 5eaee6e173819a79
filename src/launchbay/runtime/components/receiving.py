"""What a component waits for in the course of the instance's launch: the launch of others.

A command waits until its receiver has been launched, and a submodule until those have that fill what its application
requires.
"""

import asyncio
from collections.abc import Collection

from launchbay import limits
from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.planning import LAUNCH
from launchbay.runtime.run import CommandCall, JobRun
from launchbay.runtime.signals import required_components


async def wait_for_launch(job: JobRun, component: Component, call: CommandCall) -> None:
    """Wait until the receiver of a command has been launched. Raises WorkflowFailed when it will not be."""
    state, path = job.state, component.path
    if job.plan.kind != LAUNCH or state.is_launched(path) or call.sender is None or call.sender == path:
        return
    if call.sender in _waited_for(job, path):
        raise WorkflowFailed(
            f"component {call.sender!r} sends {call.command!r} to {path!r}, whose own launch waits for "
            f"{call.sender!r}; send the command after the launch, or drop the interface from `required`."
        )
    try:
        with state.awaiting_launch(call.sender, path):
            async with asyncio.timeout(limits.COMMAND_WAITS_FOR_LAUNCH_S):
                while not state.is_launched(path):
                    if state.is_given_up(path) or (call.is_over and not _was_begun(job, call)):
                        raise WorkflowFailed(f"component {path!r} was not launched, so it cannot run {call.command!r}.")
                    await state.changed()
    except TimeoutError:
        raise WorkflowFailed(
            f"component {path!r} was not launched within {limits.COMMAND_WAITS_FOR_LAUNCH_S:g} s, "
            f"so it cannot run {call.command!r}."
        ) from None


async def wait_for_providers(job: JobRun, component: Component, needs: Collection[str]) -> None:
    """Wait until the components that give these signals, `interface.pin`, have been launched.

    Those that wait for this one are not waited for. Raises WorkflowFailed when one will not be launched.
    """
    state = job.state
    for interface, peers in component.peers.items():
        for peer in peers:
            for pin, target in peer.pins.items():
                path = target.component
                key = f"{interface}.{pin}"
                if key not in needs or state.is_launched(path) or component.path in _waited_for(job, path):
                    continue
                with state.awaiting_launch(component.path, path):
                    while not state.is_launched(path):
                        if state.is_given_up(path):
                            raise WorkflowFailed(f"{key}: component {path!r} was not launched.")
                        await state.changed()


def _was_begun(job: JobRun, call: CommandCall) -> bool:
    """Tell whether a call that is over got through to its receiver, so that the receiver had been launched then."""
    return any(path.startswith(call.path) for path in job.journal.traces())


def _waited_for(job: JobRun, path: str) -> set[str]:
    """Return every component that must be launched before this one is.

    Those are the ones it requires, and the ones whose launch its commands wait for.
    """
    found: set[str] = set()
    open_paths = [path]
    while open_paths:
        each = open_paths.pop()
        for provider in (required_components(job.component(each)) | job.state.awaited_by(each)) - found:
            found.add(provider)
            open_paths.append(provider)
    return found
