"""Which failures are equal: one step with one message, but for names and numbers."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
# As `engine` words the failure of a step. The error of a submodule follows the component that it is.
_OF_STEP = re.compile(r"((?:Component '[^']+': )*)[Ww]orkflow '[^']+': step '([^']+)' failed: (.*)", re.DOTALL)
_OF_COMPONENT = re.compile(r"Component '([^']+)': ")
_COMPARED_CHARS = 2_000
_ID = re.compile(r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[0-9a-f]*[0-9])[0-9a-f]{8,})\b", re.IGNORECASE)
# A number, with its unit. It is what was wrong after these words: of HTTP, a program or an operating system.
_NUMBER = re.compile(
    r"(?P<kept>\b(?:HTTP|status|code|exit|exited with|got|answered|returned|signal|errno|error)[ :=]{1,2}\d{1,5}\b)"
    r"|\d+(?:[.,:]\d+)*(?: ?(?:ns|us|ms|s|min|h|d|B|KB|MB|GB|KiB|MiB|GiB|%)\b)?",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\s+")


class Reason(NamedTuple):
    """Where a job failed, and why.

    `place` is `component · step`, `step`, a workflow or "".
    The names of submodules go before that of their component.
    """

    place: str
    text: str


def read_reason(message: str) -> Reason:
    """Return the place and the reason in the error of a job."""
    found = _OF_STEP.fullmatch(message)
    if found is None:
        return Reason("", message)
    return Reason(" · ".join([*_OF_COMPONENT.findall(found[1]), found[2]]), found[3])


class Affected(NamedTuple):
    """The names that equal failures don't share, as far as they are known."""

    instance: str = ""
    application: str = ""
    environment: str = ""


def shared_reason(message: str, affected: Affected = Affected()) -> Reason:  # noqa: B008  # it can't change
    """Return what equal failures have in common.

    `…` stands for names and IDs, `#` for numbers. A number that says what was wrong stays, such as the status of an
    answer.
    """
    place, text = read_reason(message)
    for name in sorted((name for name in affected if name and name in text), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", text)
    text = _ID.sub("…", text)
    text = _NUMBER.sub(lambda found: found["kept"] or "#", text)
    # Cut last: names of different lengths would cut equal failures at different places.
    return Reason(place, _SPACE.sub(" ", text).strip()[:_COMPARED_CHARS])


def failure_id(reason: Reason) -> str:
    """Return the ID of equal failures, in the form of all IDs."""
    return blake2b("\0".join(reason).encode(), digest_size=12).hexdigest()


@dataclass(slots=True)
class FailureGroup(Generic[T]):
    """Equal failures, the latest first. `example` is the message of the latest one."""

    id: str
    reason: Reason
    example: str
    first: datetime | None
    last: datetime | None
    items: list[T]

    @property
    def count(self) -> int:
        return len(self.items)


def group_failures(
    items: Iterable[T],
    message: Callable[[T], str],
    at: Callable[[T], datetime | None],
    affected: Callable[[T], Affected],
    place: Callable[[T], str] = lambda _: "",
) -> list[FailureGroup[T]]:
    """Return items in groups of equal failures, the latest first, then the largest.

    `place` is where an item failed whose message names no step.
    """
    found: dict[str, FailureGroup[T]] = {}
    for item in sorted(items, key=lambda each: _order(at(each)), reverse=True):
        reason, when = shared_reason(message(item), affected(item)), at(item)
        reason = reason._replace(place=reason.place or place(item))
        group = found.setdefault(key := failure_id(reason), FailureGroup(key, reason, message(item), when, when, []))
        group.items.append(item)
        group.first = when or group.first
    return sorted(found.values(), key=lambda group: (_order(group.last), group.count), reverse=True)


def _order(at: datetime | None) -> float:
    return 0.0 if at is None else at.timestamp()
