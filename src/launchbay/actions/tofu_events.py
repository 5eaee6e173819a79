"""What OpenTofu tells while it works, with `-json`: one JSON object a line."""

from collections.abc import Callable
from typing import Any

import msgspec

_TOLD_CHARS = 1_000
_ERRORS_TOLD = 10
_CHANGES = ("add", "change", "remove")


class TofuEvents:
    """Takes the lines of one command. `changes` is the last summary: how much is added, changed, removed."""

    def __init__(
        self, log: Callable[[str], None], progress: Callable[[int], None], covered: Callable[[str], str] = str
    ) -> None:
        self._log = log
        self._progress = progress
        self._covered = covered  # what is cut, before it is
        self._planned = self._done = 0
        self.changes: dict[str, int] = {}
        self.errors: list[str] = []

    def take(self, line: str) -> None:
        """Take one line."""
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            event = None
        if not isinstance(event, dict):
            if line.strip():
                self._log(line.rstrip())
            return
        message = event.get("@message")
        if isinstance(message, str) and message.strip():
            self._log(message.strip())
        self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "planned_change":
                self._planned += 1
            case "apply_complete" | "apply_errored":
                self._done += 1
                self._progress(int(100 * self._done / max(self._planned, self._done)))
            case "change_summary":
                changes = event.get("changes")
                if isinstance(changes, dict):
                    self.changes = {name: changes[name] for name in _CHANGES if isinstance(changes.get(name), int)}
            case "diagnostic":
                self._diagnose(event.get("diagnostic"))

    def _diagnose(self, told: object) -> None:
        if not isinstance(told, dict) or told.get("severity") != "error" or len(self.errors) >= _ERRORS_TOLD:
            return
        texts = [str(told.get(name) or "").strip() for name in ("summary", "detail")]
        where = told.get("address")
        text = self._covered(": ".join(text for text in texts if text))[:_TOLD_CHARS]
        self.errors.append(f"{where}: {text}" if isinstance(where, str) and where else text)
