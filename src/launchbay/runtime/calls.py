"""Calls out of a step: a workflow of the same component, or a command to the peers of an interface (language §5)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from launchbay.actions.parameters import parse_duration_s
from launchbay.errors import ActionFailed
from launchbay.manifest.graph import Component, Peer
from launchbay.model.job import command_path
from launchbay.model.types import PinKind, Signature
from launchbay.runtime.caller import Caller
from launchbay.runtime.declared import all_as_declared
from launchbay.runtime.run import CommandCall

CALL_TIMEOUT = "commandCallTimeout"


def split_command(component: Component, action: str) -> tuple[str | None, str]:
    """Split an action `interface.command` where the component has such a send-command pin; otherwise (None, action)."""
    pin = component.pins.get(action)
    if pin is not None and pin.type.kind is PinKind.SEND_COMMAND:
        return pin.interface, pin.name
    return None, action


async def call_workflow(
    caller: Caller, step: str, name: str, arguments: Mapping[str, Any], path: str
) -> Mapping[str, Any]:
    """Run a macro or workflow of the caller's component; its return values are the outputs. Raises WorkflowFailed."""
    workflow = caller.component.workflows[name]
    inner = caller.nested(workflow, path)
    types = {parameter.name: parameter.type for parameter in workflow.parameters.values()}
    try:
        return await inner.run(all_as_declared(types, arguments))
    finally:
        caller.scope.set_inner(step, inner.scope.variables)


async def call_commands(
    caller: Caller, interface: str, command: str, parameters: Mapping[str, Any], path: str, timeout_s: float | None
) -> Mapping[str, Any]:
    """Send a command to every peer of an interface and return its results.

    One peer gives its results by name. Several give, by name, the list of theirs in binding order. `commandCallTimeout`
    in the parameters (seconds, or "5 minutes") bounds the call unless `timeout_s` does.
    Raises ActionFailed or WorkflowFailed.
    """
    pin = caller.component.pins.get(f"{interface}.{command}")
    if pin is None or pin.type.kind is not PinKind.SEND_COMMAND:
        raise ActionFailed(
            f"Component {caller.component.path!r} has no send-command pin {interface}.{command}; declare it.",
            retryable=False,
        )
    component = caller.job.manifest.components.get(caller.component.path, caller.component)
    peers = [peer for peer in component.peers.get(interface, ()) if command in peer.pins]
    if not peers:
        raise ActionFailed(
            f"Nothing is bound to interface {interface!r} of component {caller.component.path!r}, so the command "
            f"{command!r} has no receiver. Add a binding.",
            retryable=False,
        )
    arguments = dict(parameters)
    own_timeout_s = _timeout_s(arguments.pop(CALL_TIMEOUT, None))
    bound_s = own_timeout_s if timeout_s is None else timeout_s
    try:
        async with asyncio.timeout(bound_s):
            results = await _send_to_all(caller, peers, command, arguments, path)
    except TimeoutError:
        await caller.job.others.give_up(caller.job)
        raise ActionFailed(f"The command {interface}.{command} took longer than {bound_s:g} s.") from None
    named = [_named(pin.type.signature, result) for result in results]
    return named[0] if len(named) == 1 else together(named)


def together(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what several peers gave: by name, the list of theirs."""
    names = dict.fromkeys(name for result in results for name in result)
    return {name: [result.get(name) for result in results] for name in names}


def _timeout_s(value: Any) -> float | None:
    if value is None:
        return None
    try:
        return parse_duration_s(value)
    except ValueError as error:
        raise ActionFailed(f"{CALL_TIMEOUT}: {error}", retryable=False) from error


async def _send_to_all(
    caller: Caller, peers: list[Peer], command: str, arguments: Mapping[str, Any], path: str
) -> list[Mapping[str, Any]]:
    async def send(peer: Peer) -> Mapping[str, Any]:
        target = peer.pins[command]
        component = caller.job.component(target.component)
        target_interface, _, target_command = target.pin.partition(".")
        call = CommandCall(
            sender=caller.component.path,
            interface=target_interface,
            command=target_command,
            arguments=arguments,
            path=command_path(path, peer.component, f"{peer.interface}.{command}"),
            depth=caller.depth + 1,
            is_over=caller.is_over,
        )
        return await caller.job.component_type(component).command(caller.job, component, call)

    if len(peers) == 1:
        return [await send(peers[0])]
    answers = await asyncio.gather(*(send(peer) for peer in peers), return_exceptions=True)
    # Every peer has answered by now; the first failure in binding order speaks for all.
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _named(signature: Signature | None, results: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the results as the types that the pin declares, with those that the peer did not give as null."""
    declared = {} if signature is None else signature.results
    return {**dict.fromkeys(declared), **all_as_declared(declared, results)}
