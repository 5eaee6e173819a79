"""A callback plugin that Ansible loads: it reports failures and totals of a playbook.

It runs in Ansible's process and environment, not in the server's. What it writes goes into the directory that the
variable LAUNCHBAY_REPORT names: `failures.jsonl`, a line for each failure that the playbook doesn't ignore, and
`totals.json` when the playbook ends. In check mode, `checked.jsonl` has a line for each task that would change
something, can't say so or fails. Ansible has removed what `no_log` hides.
"""

import hashlib
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
_DIFF_CHARS = 16_000  # of one task or item; of a longer difference, only the digest is written
_TIMES = ("atime", "mtime")  # differ in each check
_REASONS = ("skip_reason", "skipped_reason", "false_condition")  # of what is skipped in a run too
_MODE = "ansible_check_mode"  # a condition with this variable may be another one in a run
_NOT_NEEDED = ("matching creates option", "matching removes option", "skipped, since", "No hosts matched")


class CallbackModule(CallbackBase):  # type: ignore[misc] # Ansible ships no type hints
    """The class of this name is what Ansible loads."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "launchbay_report"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self._exempt: set[str] = set()  # IDs of tasks that the playbook exempts from check mode

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002, FBT001 - Ansible calls it so
        self._keep_from_running(task)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._keep_from_running(task)

    def _keep_from_running(self, task: Any) -> None:
        """Let a check change nothing.

        `check_mode: false` would run the task. Workers get it after this call.
        """
        if os.environ.get("LAUNCHBAY_CHECK") and task.check_mode is not True:
            self._exempt.add(task._uuid)  # noqa: SLF001 - it has no public name
            task.check_mode = True

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002 - Ansible calls it so
        if not ignore_errors:
            self._report(result)
        self._check(result, "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._report(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._report(result, item=True)

    def v2_runner_on_ok(self, result: Any) -> None:
        if "results" not in result._result:  # noqa: SLF001 - see below; the items of a loop come one by one
            self._check(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._check(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        if "results" not in result._result:  # noqa: SLF001 - see below; items come one by one
            self._check(result, "skipped")

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        self._check(result, "skipped")

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

    def _check(self, result: Any, ended: str = "ok") -> None:
        most_bytes = int(os.environ.get("LAUNCHBAY_CHECK", "0"))  # of all lines; with more, nobody reads them
        task, found = result._task, result._result  # noqa: SLF001 - see above
        status = _status(found, ended) if most_bytes else None
        if status == "unknown" and task._uuid in self._exempt:  # noqa: SLF001 - it has no public name
            status = "exempt"
        if status is None or self._size("checked.jsonl") > most_bytes:
            return
        arguments = (found.get("invocation") or {}).get("module_args") or {}
        item = found.get("_ansible_item_label", found.get("item"))
        differences = _differences(found.get("diff"))
        line = {
            "host": result._host.get_name(),  # noqa: SLF001 - see above
            "task": task.get_name()[:_MESSAGE_CHARS],
            "item": "" if item is None or "censored" in found else _short(item),
            "status": status,
            "module": str(task.action),
            "state": str(arguments.get("state") or "") if isinstance(arguments, dict) else "",
            "hidden": "censored" in found,
            "differences": differences,
            "digest": hashlib.sha256(json.dumps(_lasting(differences), default=_text).encode()).hexdigest(),
        }
        text = json.dumps(line, default=_text, skipkeys=True)
        if len(text) > _DIFF_CHARS:
            text = json.dumps({**line, "differences": [], "long": True}, default=_text, skipkeys=True)
        self._write("checked.jsonl", "a", text + "\n")

    def _size(self, name: str) -> int:
        file = Path(os.environ.get("LAUNCHBAY_REPORT", ""), name)
        return file.stat().st_size if file.exists() else 0

    def _write(self, name: str, mode: str, text: str) -> None:
        directory = os.environ.get("LAUNCHBAY_REPORT")
        if directory:
            with Path(directory, name).open(mode, encoding="utf-8") as file:
                file.write(text)


def _short(message: object) -> str:
    return "" if message is None else str(message)[:_MESSAGE_CHARS]


def _text(value: Any) -> str:
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _status(found: dict[str, Any], ended: str) -> str | None:
    """Return what a task says in check mode; None for nothing."""
    if ended == "failed":
        return "failed"
    if ended != "skipped":
        return "changed" if found.get("changed") else None
    if _MODE in str(found.get("false_condition")):
        return "skipped"
    if any(name in found for name in _REASONS) or any(text in str(found.get("msg")) for text in _NOT_NEEDED):
        return None
    return "unknown"


def _differences(diff: Any) -> list[dict[str, Any]]:
    several = diff if isinstance(diff, list) else [diff]
    return [
        {
            "path": _short(each.get("before_header")),
            "before": each.get("before"),
            "after": each.get("prepared", each.get("after")),
        }
        for each in several
        if isinstance(each, dict) and each
    ]


def _lasting(value: Any) -> Any:
    """Return differences without the times, which are other ones in the next check."""
    if isinstance(value, dict):
        return {str(name): _lasting(each) for name, each in sorted(value.items()) if name not in _TIMES}
    return [_lasting(each) for each in value] if isinstance(value, list) else value
