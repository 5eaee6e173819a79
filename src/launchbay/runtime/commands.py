"""Commands between components, also across the boundaries of submodules (manifest-language §7).

A send-command pin reaches the components that are bound to it. One that the application itself needs is also passed up,
to what the parent instance has bound to the submodule, and from there to its own parent if it needs the command too.

Usually a job of the parent waits for the job that passes the command up. It runs the command in between, because the
parent can have no second job. It records the request in its own journal before, and all that came of it before the
called job continues. So a repetition after a crash finds it, even if the called job has ended and isn't repeated.
If no job of the parent waits, the command is a job of its own there.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from launchbay.errors import ActionFailed, WorkflowFailed, is_refusal
from launchbay.manifest.graph import Peer, Target
from launchbay.model.instance import LinkKind
from launchbay.model.job import command_path, passed_path
from launchbay.model.scalars import settled
from launchbay.model.types import PinKind
from launchbay.model.values import coerced_if_possible
from launchbay.runtime.contract import Caller, CommandCall, JobRun
from launchbay.runtime.slot import staying

INTERRUPTED = "the call was interrupted."
_REQUEST = "passedCommand"  # marks the record of a request


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCommand:
    """A command that a component sends; `interface` and `command` name its own pin.

    `path` is its place in the plan of the sender's job, `depth` the number of enclosing calls. `is_replay` marks the
    repetition of a call that failed or timed out before a crash.
    """

    sender: str
    interface: str
    command: str
    arguments: Mapping[str, Any]
    path: str
    depth: int
    is_replay: bool = False

    @property
    def pin(self) -> str:
        return f"{self.interface}.{self.command}"


async def send(job: JobRun, sent: SentCommand) -> list[Mapping[str, Any]]:
    """Send a command to every receiver and return their results in binding order.

    Those in the parent come last, and without a receiver the list is empty. All have finished when the first failure is
    raised: ActionFailed, WorkflowFailed.
    """
    manifest = job.manifest
    component = manifest.components[sent.sender]
    peers = [peer for peer in component.peers.get(sent.interface, ()) if sent.command in peer.pins]
    own = Target(sent.sender, sent.pin)
    needs = [need.key for need in manifest.needs.values() if own in need.targets]
    calls: list[Awaitable[list[Mapping[str, Any]]]] = [
        *(_deliver(job, peer, sent) for peer in peers),
        *(_pass_up(job, need, sent) for need in needs),
    ]
    if len(calls) == 1:
        return await calls[0]
    results: list[Mapping[str, Any]] = []
    for answer in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer
        results += answer
    return results


def unbound(sent: SentCommand) -> str:
    """Return why nobody got the command."""
    return (
        f"Command {sent.command!r} has no receiver: interface {sent.interface!r} of component {sent.sender!r} is "
        "unbound. Add a binding."
    )


def collect_results(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Merge the results of several receivers: by name, the list of their values."""
    names = dict.fromkeys(name for result in results for name in result)
    return {name: [result.get(name) for result in results] for name in names}


async def _deliver(job: JobRun, peer: Peer, sent: SentCommand) -> list[Mapping[str, Any]]:
    target = peer.pins[sent.command]
    receiver = job.component(target.component)
    interface, _, command = target.pin.partition(".")
    call = CommandCall(
        sender=sent.sender,
        interface=interface,
        command=command,
        arguments=sent.arguments,
        path=command_path(sent.path, peer.component, f"{peer.interface}.{sent.command}"),
        depth=sent.depth,
        is_replay=sent.is_replay,
    )
    return [await job.component_type(receiver).command(job, receiver, call)]


# The parent instance.


async def _pass_up(job: JobRun, need: str, sent: SentCommand) -> list[Mapping[str, Any]]:
    sent = replace(sent, arguments=_plain_arguments(job, sent))
    with _waiting(job.instance_id):
        found = _caller_on_parent(job)
        if found is None:
            return await job.linked_instances.call_parent(
                job, need, sent.arguments, sent.path, is_replay=sent.is_replay
            )
        caller, component = found
        return await _run_in_between(job, caller, component, need, sent)


def _plain_arguments(job: JobRun, sent: SentCommand) -> Mapping[str, Any]:
    """Return the arguments as values of the sender's types.

    They are recorded on their way to the receiver, whose types are in another job.
    """
    pin = job.component(sent.sender).pins.get(sent.pin)
    declared = {} if pin is None or pin.type.signature is None else pin.type.signature.arguments
    return {
        name: value if settled(value) is value else coerced_if_possible(declared.get(name), value)
        for name, value in sent.arguments.items()
    }


def _caller_on_parent(job: JobRun) -> tuple[Caller, str] | None:
    """Return the waiting job of the parent instance, and the submodule's component there.

    Others may be in between: an instance that uses the submodule as a service, for example.
    """
    caller = job.caller
    while caller is not None:
        for component, link in caller.job.links.items():
            if link.instance_id == job.instance_id and link.kind is LinkKind.OWN:
                return caller, component
        caller = caller.job.caller
    return None


async def _run_in_between(
    job: JobRun, caller: Caller, component: str, need: str, sent: SentCommand
) -> list[Mapping[str, Any]]:
    outer = caller.job
    pin = outer.component(component).pins.get(need)
    if pin is None or pin.type.kind is not PinKind.SEND_COMMAND:
        return []  # the parent doesn't declare that part of the submodule
    origin = sent.path if job.caller == caller else f"{job.instance_id} {sent.path}"
    path = passed_path(caller.path, origin)
    key_origin = job.key_path(sent.path) if job.caller == caller else f"{job.instance_id} {job.key_path(sent.path)}"
    key_path = passed_path(outer.key_path(caller.path), key_origin)
    if key_path != path:
        outer.key_paths[path] = key_path
    known = outer.passed.outcomes.get(path)
    if known is None:
        arguments = outer.secrets.opened(job.secrets.sealed(sent.arguments))
        if outer.journal.find(path) is None:
            if sent.is_replay:
                raise WorkflowFailed(INTERRUPTED)
            request = {"call": caller.path, "component": component, "need": need, "arguments": arguments}
            number = len(outer.passed.outcomes) + sum(map(len, _recorded(outer).values()))
            await outer.journal.start(path, need, 1, outer.deps.clock.now(), durable=False)
            outer.journal.succeed(path, {_REQUEST: {**request, "depth": sent.depth, "number": number}})
        received = SentCommand(
            sender=component,
            interface=pin.interface,
            command=pin.name,
            arguments=arguments,
            path=path,
            depth=sent.depth + 1,
            is_replay=sent.is_replay,
        )
        known = await _outcome(outer, received)
        with staying():
            await outer.journal.flush()
    if isinstance(known, WorkflowFailed):
        raise known
    return [job.secrets.opened(outer.secrets.sealed(result)) for result in known]


async def _outcome(outer: JobRun, received: SentCommand) -> list[Mapping[str, Any]] | WorkflowFailed:
    """Run a command that was passed up, and remember what came of it."""
    outcomes = outer.passed.outcomes
    outcomes[received.path] = WorkflowFailed(INTERRUPTED)  # until it has ended
    try:
        outcomes[received.path] = await send(outer, received)
    except (ActionFailed, WorkflowFailed) as failure:
        text = outer.secrets.redact(str(failure))
        outcomes[received.path] = WorkflowFailed(text, is_refusal=is_refusal(failure))
    return outcomes[received.path]


async def replay_passed(outer: JobRun, call: str) -> None:
    """Repeat the commands that an ended job, called at this path, passed up.

    Nothing starts again: it brings back what they changed in the instance's state.
    """
    for path, request in _recorded(outer).get(call, ()):
        pin = outer.component(request["component"]).pins.get(request["need"])
        if path in outer.passed.outcomes or pin is None:
            continue
        received = SentCommand(
            sender=request["component"],
            interface=pin.interface,
            command=pin.name,
            arguments=request["arguments"],
            path=path,
            depth=request["depth"] + 1,
            is_replay=True,
        )
        await _outcome(outer, received)


def _recorded(outer: JobRun) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """Return the requests that earlier claims recorded, by call and in their order."""
    if outer.passed.recorded is None:
        found: list[tuple[str, Mapping[str, Any]]] = []
        for path in outer.journal.traces():
            record = outer.journal.find(path)
            if record is not None and record.outputs is not None and _REQUEST in record.outputs:
                found.append((path, record.outputs[_REQUEST]))
        outer.passed.recorded = {}
        for path, request in sorted(found, key=lambda each: each[1]["number"]):
            outer.passed.recorded.setdefault(request["call"], []).append((path, request))
    return outer.passed.recorded


async def cancel_abandoned(job: JobRun) -> None:
    """End the child jobs that a call has started before it took too long.

    They may belong to this job or, for a passed command, to one that waits for it.
    """
    waiting: JobRun | None = job
    while waiting is not None:
        await waiting.linked_instances.cancel_abandoned(waiting)
        waiting = None if waiting.caller is None else waiting.caller.job


# The instances whose jobs wait for the command that this code runs.
_waiting_instances: ContextVar[frozenset[str]] = ContextVar("instances that wait for a passed command")


@contextmanager
def _waiting(instance_id: str) -> Iterator[None]:
    token = _waiting_instances.set(_waiting_instances.get(frozenset()) | {instance_id})
    try:
        yield
    finally:
        _waiting_instances.reset(token)


def refuse_deadlock(instance_id: str, workflow: str) -> None:
    """Raise WorkflowFailed if the instance waits for the command that this code runs."""
    if instance_id in _waiting_instances.get(frozenset()):
        raise WorkflowFailed(
            f"deadlock: can't run {workflow!r} on the submodule that waits for this command. Return the values instead."
        )
