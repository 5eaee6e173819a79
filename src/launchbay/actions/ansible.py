"""`ansible`: run a playbook or a role on machines (docs/decisions/0060-ansible-as-a-program.md)."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.output import LiveLog, ProgressReporter
from launchbay.actions.parameters import (
    flag,
    optional_duration_s,
    optional_mapping,
    optional_text,
    optional_texts,
    wrong_parameter,
)
from launchbay.egress.archives import download_and_unpack
from launchbay.errors import ActionFailed
from launchbay.model.machine import Machine, SshAccess
from launchbay.processes.run import Command, ProcessResult, private_directory, run_program, write_private

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
_REPORTED_CHARS = 500
_FAILURES_REPORTED = 20


class AnsibleEvents:
    """Takes the lines of a run. What a task with `no_log` gives is not in them: Ansible leaves it out."""

    def __init__(
        self, log: Callable[[str], None], progress: Callable[[int], None], redact: Callable[[str], str] = str
    ) -> None:
        self._log = log
        self._progress = progress
        self._redact = redact  # what is cut, before it is
        self._tasks = 0
        self.stats: dict[str, dict[str, int]] = {}  # by host
        self.data: dict[str, Any] = {}  # what `set_stats` gave
        self.failures: list[str] = []
        self.words: list[str] = []  # what came in between, from the programs themselves

    def handle_line(self, line: str) -> None:
        """Take one line."""
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            self._say(line)
            return
        told = event.get("event_data")
        self._handle_event(event["event"], told if isinstance(told, dict) else {})
        text = event.get("stdout")
        for each in _COLOURS.sub("", text if isinstance(text, str) else "").splitlines():
            if each.strip():
                self._log(each.rstrip())

    def _handle_event(self, kind: str, told: Mapping[str, Any]) -> None:
        if kind == "playbook_on_task_start":
            self._tasks += 1
            self._progress(int(100 * self._tasks / (self._tasks + _TASKS_TO_HALF)))
        elif kind in _FAILURES and not told.get("ignore_errors") and len(self.failures) < _FAILURES_REPORTED:
            self.failures.append(self._failure(told))
        elif kind == "playbook_on_stats":
            self.stats = _stats(told)
            data = told.get("artifact_data")
            self.data = data if isinstance(data, dict) else {}

    def _say(self, line: str) -> None:
        text = _COLOURS.sub("", line).strip()
        if text:
            self.words = [*self.words[-4:], self._redact(text)[:_REPORTED_CHARS]]
            self._log(text)

    def _failure(self, told: Mapping[str, Any]) -> str:
        result = told.get("res")
        message = self._redact(str(result.get("msg", "")) if isinstance(result, dict) else "")
        where = f"{told.get('host', '?')}: the task {str(told.get('task') or told.get('name') or '?')!r} failed"
        return f"{where}: {message[:_REPORTED_CHARS].strip()}" if message.strip() else f"{where}."


def _stats(told: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    stats: dict[str, dict[str, int]] = {}
    hosts = sorted({host for name in ("processed", *_COUNTS) for host in told.get(name) or {}})
    for host in hosts:
        stats[host] = {shown: int((told.get(name) or {}).get(host, 0)) for name, shown in _COUNTS.items()}
    return stats


_REMEDY = "The operator installs Launchbay with its extra 'ansible', or ansible-runner and ansible-core."
_ROLE = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_GROUP = re.compile(r"[^A-Za-z0-9_]")
_INLINE = "launchbay-playbook.yml"


class Ansible:
    """Runs Ansible as a program of this server, with an inventory made from the component's roles."""

    name = "ansible"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "playbook": ActionParameter("The playbook: a list of plays, its text, or with url a file of the archive."),
        "role": ActionParameter("In place of a playbook: a role of the archive, for all hosts.", type="string"),
        "url": ActionParameter("Where the project is, a tar.gz with playbooks, roles, collections.", type="string"),
        "roles": ActionParameter(
            "The roles whose machines are the hosts; all where it is left out.", type="list<string>"
        ),
        "onServer": ActionParameter("true: the only host is this server.", type="bool"),
        "variables": ActionParameter("Extra variables by name.", type="map<string,object>"),
        "tags": ActionParameter("Only tasks with these tags.", type="list<string>"),
        "isSudo": ActionParameter("Become the superuser on the hosts.", type="bool"),
        "timeout": ActionParameter('How long it may take: seconds, or a text such as "1 hour"; 1 hour if left out.'),
    }
    outputs: Mapping[str, str] = {
        "stats": "Host to how many tasks were ok, changed, failed, unreachable, skipped, rescued, ignored.",
        "data": "What the playbook gave with set_stats.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Prepare a private directory, run Ansible in it, and judge how it ended."""
        runner = call.context.programs.require("ansible", "ansible-runner", remedy=_REMEDY)
        timeout_s = optional_duration_s(call.parameters, "timeout", longest_s=limits.PROGRAM_LONGEST_S)
        async with private_directory() as directory:
            playbook = await _project(call, directory)
            _write(directory / "inventory" / "hosts.json", await _inventory(call, directory))
            variables = optional_mapping(call.parameters, "variables", "a map from names to values")
            _write(directory / "env" / "extravars", dict(variables))
            command = Command(
                argv=(runner, "run", str(directory), "--playbook", playbook, "--json", "--ident", "run"),
                directory=directory,
                environment=_environment(call, directory),
                timeout_s=limits.PROGRAM_S if timeout_s is None else timeout_s,
                line_chars=limits.PROGRAM_EVENT_CHARS,
            )
            live = LiveLog(call.context.log, call.context.clock)
            async with ProgressReporter(call.context) as reports:
                events = AnsibleEvents(live.write, reports.progress, call.context.redact)
                try:
                    result = await run_program(command, lambda _, line: events.handle_line(line))
                finally:
                    live.close()
        _check_result(call, events, result)
        return {"stats": events.stats, "data": events.data}


async def _project(call: ActionCall, directory: Path) -> str:
    """Put the project into the directory and return the playbook's place in it."""
    url = optional_text(call.parameters, "url", "the URL of a tar.gz")
    role = optional_text(call.parameters, "role", "the name of a role")
    playbook = call.parameters.get("playbook")
    if (role is None) == (playbook is None):
        raise ActionFailed("Give either 'playbook' or 'role', and not both.", retryable=False)
    project = directory / "project"
    if url is not None:
        top = await download_and_unpack(call.context.egress, url, directory / "unpacked")
        top.rename(project)
    if role is not None:
        if not _ROLE.fullmatch(role) or url is None:
            raise wrong_parameter("role", "the name of a role in the archive of 'url'")
        _write(project / _INLINE, [{"hosts": "all", "roles": [role]}])
        return _INLINE
    if url is not None:
        return _file_of(playbook)
    write_private(project / _INLINE, playbook if isinstance(playbook, str) else _json(playbook, "playbook"))
    return _INLINE


def _file_of(playbook: object) -> str:
    expected = "with 'url', the name of a file in its archive, such as site.yml"
    path = PurePosixPath(playbook if isinstance(playbook, str) and len(playbook) < 500 else "/")
    if path.is_absolute() or ".." in path.parts or str(path).startswith("-") or not path.name:
        raise wrong_parameter("playbook", expected)
    return str(path)


async def _inventory(call: ActionCall, directory: Path) -> dict[str, Any]:
    """Return the inventory: a group for each role, and in it what Ansible needs to get into the machines."""
    roles = optional_texts(call.parameters, "roles", "a list of roles")
    if flag(call.parameters, "onServer", default=False):
        return {
            "all": {
                "hosts": {"localhost": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
            }
        }
    machines = call.context.machines.targets(roles)
    hosts: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    known: list[str] = []
    for number, machine in enumerate(machines):
        way = await call.context.machines.ssh_access(machine)
        key = directory / "keys" / str(number)
        write_private(key, way.private_key.rstrip() + "\n")
        known.append(f"{_known_name(way)} {way.host_key}")
        hosts[machine.host] = _variables(way, key, directory)
        groups.setdefault(_group(machine), {"hosts": {}})["hosts"][machine.host] = {}
    write_private(directory / "known_hosts", "".join(f"{line}\n" for line in known))
    return {"all": {"hosts": hosts, "children": groups}}


def _variables(way: SshAccess, key: Path, directory: Path) -> dict[str, Any]:
    options = {
        "UserKnownHostsFile": directory / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
    }
    return {
        "ansible_host": way.address,
        "ansible_port": way.port,
        "ansible_user": way.login,
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": "-F /dev/null " + " ".join(f"-o {name}={value}" for name, value in options.items()),
    }


def _known_name(way: SshAccess) -> str:
    return way.address if way.port == 22 else f"[{way.address}]:{way.port}"


def _group(machine: Machine) -> str:
    """Return a role's name as a group's: other characters than letters and digits become `_`."""
    name = _GROUP.sub("_", machine.role)
    return f"_{name}" if name[:1].isdigit() else name or "_"


def _environment(call: ActionCall, directory: Path) -> dict[str, str]:
    tags = optional_texts(call.parameters, "tags", "a list of tags") or []
    return {
        "ANSIBLE_HOME": str(directory / ".ansible"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(directory / "cp"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_BECOME": str(flag(call.parameters, "isSudo", default=False)),
        "ANSIBLE_PYTHON_INTERPRETER": "auto_silent",
        **({"ANSIBLE_RUN_TAGS": ",".join(tags)} if tags else {}),
    }


def _check_result(call: ActionCall, events: AnsibleEvents, result: ProcessResult) -> None:
    if result.exit_code == 0:
        return
    words = " ".join(events.words) or call.context.redact(result.stderr)[-_REPORTED_CHARS:].strip()
    told = events.failures or [f"Ansible ended with exit code {result.exit_code}: {words}"]
    raise ActionFailed(*(call.context.redact(sentence) for sentence in told))


def _write(file: Path, value: Mapping[str, Any] | Sequence[Any]) -> None:
    write_private(file, _json(value, file.name))


def _json(value: Any, name: str) -> str:
    """Return JSON, which is YAML too; nothing of it ever passes a shell."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong_parameter(name, f"data that JSON can hold ({error})") from error
