"""What a run of Ansible tells while it goes on, from the events of ansible-runner: one JSON object a line."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_COUNTS = {
    "ok": "ok",
    "changed": "changed",
    "failures": "failed",
    "dark": "unreachable",
    "skipped": "skipped",
    "rescued": "rescued",
    "ignored": "ignored",
}
_FAILURES = frozenset(("runner_on_failed", "runner_on_unreachable", "runner_item_on_failed"))
_TASKS_TO_HALF = 10  # the number of tasks is not known before: this many count as half of the way
_TOLD_CHARS = 500
_FAILURES_TOLD = 20


class AnsibleEvents:
    """Takes the lines of a run. What a task with `no_log` gives is not in them: Ansible leaves it out."""

    def __init__(
        self, log: Callable[[str], None], progress: Callable[[int], None], covered: Callable[[str], str] = str
    ) -> None:
        self._log = log
        self._progress = progress
        self._covered = covered  # what is cut, before it is
        self._tasks = 0
        self.stats: dict[str, dict[str, int]] = {}  # by host
        self.data: dict[str, Any] = {}  # what `set_stats` gave
        self.failures: list[str] = []
        self.words: list[str] = []  # what came in between, from the programs themselves

    def take(self, line: str) -> None:
        """Take one line."""
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            self._say(line)
            return
        told = event.get("event_data")
        self._take(event["event"], told if isinstance(told, dict) else {})
        text = event.get("stdout")
        for each in _COLOURS.sub("", text if isinstance(text, str) else "").splitlines():
            if each.strip():
                self._log(each.rstrip())

    def _take(self, kind: str, told: Mapping[str, Any]) -> None:
        if kind == "playbook_on_task_start":
            self._tasks += 1
            self._progress(int(100 * self._tasks / (self._tasks + _TASKS_TO_HALF)))
        elif kind in _FAILURES and not told.get("ignore_errors") and len(self.failures) < _FAILURES_TOLD:
            self.failures.append(self._failure(told))
        elif kind == "playbook_on_stats":
            self.stats = _stats(told)
            data = told.get("artifact_data")
            self.data = data if isinstance(data, dict) else {}

    def _say(self, line: str) -> None:
        text = _COLOURS.sub("", line).strip()
        if text:
            self.words = [*self.words[-4:], self._covered(text)[:_TOLD_CHARS]]
            self._log(text)

    def _failure(self, told: Mapping[str, Any]) -> str:
        result = told.get("res")
        message = self._covered(str(result.get("msg", "")) if isinstance(result, dict) else "")
        where = f"{told.get('host', '?')}: the task {str(told.get('task') or told.get('name') or '?')!r} failed"
        return f"{where}: {message[:_TOLD_CHARS].strip()}" if message.strip() else f"{where}."


def _stats(told: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    stats: dict[str, dict[str, int]] = {}
    hosts = sorted({host for name in ("processed", *_COUNTS) for host in told.get(name) or {}})
    for host in hosts:
        stats[host] = {shown: int((told.get(name) or {}).get(host, 0)) for name, shown in _COUNTS.items()}
    return stats
