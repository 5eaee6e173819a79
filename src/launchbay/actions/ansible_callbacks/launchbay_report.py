"""A callback plugin that Ansible loads: it reports failures and totals of a playbook.

It runs in Ansible's process and environment, not in the server's. What it writes goes into the directory that the
variable LAUNCHBAY_REPORT names: `failures.jsonl`, a line for each failure that the playbook doesn't ignore, and
`totals.json` when the playbook ends. Ansible has removed what `no_log` hides.
"""

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: launchbay_report
    type: notification
    short_description: Reports failures and totals to Launchbay
    description: Writes what failed, and the data of set_stats.
"""

_MESSAGE_CHARS = 4_000
_RUN = "_run"  # where Ansible keeps what set_stats sets without per_host
_COUNTS = {"failures": "failed"}


class CallbackModule(CallbackBase):  # type: ignore[misc] # Ansible ships no type hints
    """The class of this name is what Ansible loads."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "launchbay_report"
    CALLBACK_NEEDS_ENABLED = False

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002 - Ansible calls it so
        if not ignore_errors:
            self._report(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._report(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._report(result, item=True)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        counts = {host: stats.summarize(host) for host in sorted(stats.processed)}
        totals = {
            "stats": {
                host: {_COUNTS.get(name, name): number for name, number in counted.items()}
                for host, counted in counts.items()
            },
            "data": stats.custom.get(_RUN, {}),
            "hostData": {host: data for host, data in stats.custom.items() if host != _RUN},
        }
        self._write("totals.json", "w", json.dumps(totals, default=_text, skipkeys=True))

    def _report(self, result: Any, *, item: bool = False) -> None:
        # Ansible has public names for these only since 2.19.
        host, task, found = result._host, result._task, result._result  # noqa: SLF001 - see above
        message = found.get("msg")
        error = found.get("stderr") or found.get("stdout") if message == "non-zero return code" else None
        line = {
            "host": host.get_name(),
            "task": task.get_name()[:_MESSAGE_CHARS],
            "id": task._uuid,  # noqa: SLF001 - it has no public name
            "message": _short(message) + (": " + str(error).strip()[-_MESSAGE_CHARS:] if error else ""),
            "item": item,
        }
        self._write("failures.jsonl", "a", json.dumps(line) + "\n")

    def _write(self, name: str, mode: str, text: str) -> None:
        directory = os.environ.get("LAUNCHBAY_REPORT")
        if directory:
            with Path(directory, name).open(mode, encoding="utf-8") as file:
                file.write(text)


def _short(message: object) -> str:
    return "" if message is None else str(message)[:_MESSAGE_CHARS]


def _text(value: Any) -> str:
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
