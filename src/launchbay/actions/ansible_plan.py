"""What a playbook would do, and what an approval holds of it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from launchbay.actions.plan import refuse_difference
from launchbay.model.effect import NOT_SHOWN, Effect, EffectKind

_ABSENT = "absent"
_GONE = frozenset((_ABSENT, "removed", "deleted"))
_HIDDEN = "hidden by no_log"
_UNKNOWN: Mapping[str, str] = {
    "unknown": "{} can't say what it would do",
    "exempt": "it has check_mode: false, so a check would run it; this one doesn't",
    "skipped": "the check skips it, because its condition asks for ansible_check_mode",
    "failed": "it fails in the check, and the playbook continues",
}


class Difference(msgspec.Struct, frozen=True):
    """What a task would change of one thing, such as a file."""

    path: str = ""
    before: Any = None
    after: Any = None


class Checked(msgspec.Struct, frozen=True):
    """What a task or an item of its loop says on one host.

    It is a line of `checked.jsonl`. `exempt` is what the playbook exempts from check mode and can't say what it would
    do, `skipped` what it runs only without. After a task that `failed`, the playbook continues. `digest` covers the
    differences, also those that are too long.
    """

    host: str
    task: str
    status: Literal["changed", "unknown", "exempt", "skipped", "failed"]
    digest: str
    item: str = ""
    module: str = ""
    state: str = ""
    hidden: bool = False
    long: bool = False
    differences: list[Difference] = []

    @property
    def address(self) -> str:
        return f"{self.host}: {self.task}" + (f" ({self.item})" if self.item else "")

    def effect(self) -> Effect:
        """Return the effect.

        No task promises to do what it says, so each is an estimate.
        """
        if self.status in _UNKNOWN:
            note = _UNKNOWN[self.status].format(self.module)
            return Effect(kind="unknown", address=self.address, certainty="unknown", note=note)
        return Effect(
            kind=self._kind(),
            address=self.address,
            before=NOT_SHOWN if self.long else _values([each.before for each in self.differences]),
            after=NOT_SHOWN if self.long else _values([each.after for each in self.differences]),
            certainty="estimated",
            note="; ".join(filter(None, (self.module, *_paths(self.differences), _HIDDEN if self.hidden else ""))),
        )

    def _kind(self) -> EffectKind:
        sides = [(_state(each.before), _state(each.after)) for each in self.differences]
        if self.state in _GONE or any(after == _ABSENT for _, after in sides):
            return "delete"
        return "create" if any(before == _ABSENT for before, _ in sides) else "change"

    def outcome(self) -> "Outcome":
        return Outcome(self.host, self.task, self.item, self.status, self.digest)


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What is held of one task."""

    host: str
    task: str
    item: str
    status: str
    digest: str


class ApprovedCheck(msgspec.Struct, frozen=True):
    """The artifact: the digest of what was given, and what each task said."""

    inputs: bytes
    outcomes: list[Outcome]

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def require_inputs(self, inputs: bytes) -> None:
        """Raise NotApproved unless playbook, variables and hosts are the same."""
        refuse_difference([] if inputs == self.inputs else ["the playbook, its variables or its hosts changed"])

    def require(self, outcomes: Sequence[Outcome]) -> None:
        """Raise NotApproved unless each task says the same as before."""
        before, now = _by_task(self.outcomes), _by_task(outcomes)
        refuse_difference(
            [
                f"on {host}, the task {task!r} would do something else"
                for host, task in dict.fromkeys((*before, *now))
                if before.get((host, task)) != now.get((host, task))
            ]
        )


def _by_task(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    found: dict[tuple[str, str], list[Outcome]] = {}
    for each in outcomes:
        found.setdefault((each.host, each.task), []).append(each)
    return found


read_approved_check = msgspec.msgpack.Decoder(ApprovedCheck).decode
read_checked = msgspec.json.Decoder(Checked).decode


def _state(side: Any) -> str:
    return str(side.get("state") or "") if isinstance(side, dict) else ""


def _values(values: list[Any]) -> Any:
    found = [value for value in values if value not in (None, "")]
    return found[0] if len(found) == 1 else found or None


def _paths(differences: Iterable[Difference]) -> list[str]:
    return list(dict.fromkeys(each.path for each in differences if each.path))
