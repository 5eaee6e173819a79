"""Waiting for an instance: by its event stream, and by asking again and again where there is none."""

import time
from collections.abc import Collection

from launchbay.client.core import Core
from launchbay.client.effects import Close, Failure, Pause, Steps, read
from launchbay.client.errors import ApiError, ConnectionFailed, InstanceFailed, WaitTimedOut
from launchbay.client.events import SILENCE_S, EventParser
from launchbay.client.operations.instances import read_instance
from launchbay.client.operations.jobs import watch_instance
from launchbay.client.types import InstanceDocument

SETTLED = frozenset({"Running", "Failed", "Destroyed"})
_ASK_FIRST_S = 0.2
_ASK_LONGEST_S = 3.0
_STREAM_AGAIN_AFTER = 10  # questions
_LISTEN_LONGEST_S = 30.0  # then the instance is read again, whatever was heard


def waiting(
    core: Core,
    instance_id: str,
    *,
    until: str | Collection[str] = ("Running", "Destroyed"),
    timeout_s: float | None = None,
) -> Steps[InstanceDocument]:
    """Wait until the instance has one of these statuses and return it; `timeout_s` None waits as long as it takes.

    Raises InstanceFailed when it is Failed or Destroyed and that was not waited for, WaitTimedOut, and what every
    call raises.
    """
    wanted = {until} if isinstance(until, str) else set(until)
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    questions, pause_s = 0, _ASK_FIRST_S
    while True:
        instance = yield from core.answer(read_instance.call(instance_id))
        if instance.status in wanted:
            return instance
        if instance.status in {"Failed", "Destroyed"}:
            raise _failed(instance)
        left_s = None if deadline_s is None else deadline_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise WaitTimedOut(f"'{instance.name}' is still {instance.status} after {timeout_s:g} s.", instance.status)
        has_news = questions % _STREAM_AGAIN_AFTER == 0 and (yield from _news(core, instance_id, wanted, left_s))
        questions += 1
        if has_news:
            questions, pause_s = 0, _ASK_FIRST_S
        else:
            yield Pause(pause_s if left_s is None else min(pause_s, max(left_s, 0.01)))
            pause_s = min(2 * pause_s, _ASK_LONGEST_S)


def _news(core: Core, instance_id: str, wanted: set[str], left_s: float | None) -> Steps[bool]:
    """Listen for a while, or until the status is one that ends the waiting.

    False where the stream cannot be had or breaks off.
    """
    silence_s = SILENCE_S if left_s is None else min(SILENCE_S, max(left_s, 0.05))
    deadline_s = time.monotonic() + (_LISTEN_LONGEST_S if left_s is None else min(left_s, _LISTEN_LONGEST_S))
    try:
        yield from core.opened(watch_instance.call(instance_id), timeout_s=silence_s)
    except (ApiError, ConnectionFailed):
        return False
    parser = EventParser()
    while True:
        piece = yield from read()
        if isinstance(piece, Failure) or not piece:
            yield Close()
            return False
        statuses = [event.data.get("status") for event in parser.feed(piece) if event.name == "status"]
        has_ended = any(status in wanted or status in {"Failed", "Destroyed"} for status in statuses)
        if has_ended or time.monotonic() >= deadline_s:
            yield Close()
            return True


def _failed(instance: InstanceDocument) -> InstanceFailed:
    reason = f": {instance.error_message}" if instance.error_message else "."
    return InstanceFailed(f"'{instance.name}' is {instance.status}{reason}", instance.status, instance.error_message)
