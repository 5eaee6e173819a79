"""`ansible`: run a playbook or a role on machines (docs/decisions/0060-ansible-as-a-program.md)."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter
from launchbay.actions.output import REPORTED_CHARS, LiveLog, ProgressReporter, parse_event
from launchbay.actions.parameters import (
    duration_s,
    filled_texts,
    flag,
    json_text,
    optional_mapping,
    optional_roles,
    optional_text,
    require_one,
    wrong_parameter,
)
from launchbay.egress.archives import download_and_unpack
from launchbay.errors import ActionFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.machine import SSH_PORT, Machine, SshAccess
from launchbay.processes.run import Command, ProcessResult, private_directory, run_program, write_private
from launchbay.telemetry.tracing import trace_variables

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
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
_TASKS_TO_HALF = 10  # the total is unknown, so this number of tasks is shown as 50 %
_FAILURES_REPORTED = 20


class AnsibleEvents:
    """Reads the lines of a run. Ansible omits the results of tasks with `no_log`."""

    def __init__(
        self, log: Callable[[str], None], progress: Callable[[int], None], redact: Callable[[str], str] = str
    ) -> None:
        self._log = log
        self._progress = progress
        self._redact = redact  # applied before a text is cut
        self._tasks = 0
        self.stats: dict[str, dict[str, int]] = {}  # by host
        self.data: dict[str, Any] = {}  # from `set_stats`
        self.failures: list[str] = []
        self.messages: list[str] = []  # the last lines that aren't events, from the programs themselves

    def handle_line(self, line: str) -> None:
        event = parse_event(line)
        if event is None or not isinstance(event.get("event"), str):
            self._handle_message(line)
            return
        data = event.get("event_data")
        self._handle_event(event["event"], data if isinstance(data, dict) else {})
        text = event.get("stdout")
        for each in _COLORS.sub("", text if isinstance(text, str) else "").splitlines():
            if each.strip():
                self._log(each.rstrip())

    def _handle_event(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "playbook_on_task_start":
            self._tasks += 1
            self._progress(int(100 * self._tasks / (self._tasks + _TASKS_TO_HALF)))
        elif kind in _FAILURES and not data.get("ignore_errors") and len(self.failures) < _FAILURES_REPORTED:
            self.failures.append(self._failure(data))
        elif kind == "playbook_on_stats":
            self.stats = _stats(data)
            artifacts = data.get("artifact_data")
            self.data = artifacts if isinstance(artifacts, dict) else {}

    def _handle_message(self, line: str) -> None:
        text = _COLORS.sub("", line).strip()
        if text:
            self.messages = [*self.messages[-4:], self._redact(text)[:REPORTED_CHARS]]
            self._log(text)

    def _failure(self, data: Mapping[str, Any]) -> str:
        result = data.get("res")
        message = self._redact(str(result.get("msg", "")) if isinstance(result, dict) else "")
        where = f"{data.get('host', '?')}: the task {str(data.get('task') or data.get('name') or '?')!r} failed"
        return f"{where}: {message[:REPORTED_CHARS].strip()}" if message.strip() else f"{where}."


def _stats(data: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    hosts = sorted({host for name in ("processed", *_COUNTS) for host in data.get(name) or {}})
    return {
        host: {shown: int((data.get(name) or {}).get(host, 0)) for name, shown in _COUNTS.items()} for host in hosts
    }


_REMEDY = "An administrator can install Launchbay with its extra 'ansible', or ansible-runner and ansible-core."
_ROLE = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_GROUP = re.compile(r"[^A-Za-z0-9_]")
_INLINE = "launchbay-playbook.yml"


class Ansible(ActionDefaults):
    """Runs Ansible as a program on this server, with an inventory of the component's roles."""

    name = "ansible"
    parameters: Mapping[str, ActionParameter] = {
        "playbook": ActionParameter("The playbook: a list of plays, YAML text, or a file of the archive in 'url'."),
        "role": ActionParameter("Instead of a playbook: a role of the archive, for all hosts.", type="string"),
        "url": ActionParameter("The URL of a tar.gz with playbooks, roles and collections.", type="string"),
        "roles": ActionParameter(
            "The roles whose machines are the hosts. Default: all roles.", type="list<string>", needs_value=True
        ),
        "onServer": ActionParameter("true: the only host is this server.", type="bool", needs_value=True),
        "variables": ActionParameter("Extra variables by name.", type="map<string,object>", needs_value=True),
        "tags": ActionParameter("Run only tasks with these tags.", type="list<string>", needs_value=True),
        "isSudo": ActionParameter("Become the superuser on the hosts.", type="bool"),
        "timeout": ActionParameter(
            'The maximum duration, in seconds or as a string such as "1 hour". Default: 1 hour.',
            check=parse_duration_s,
        ),
    }
    outputs: Mapping[str, str] = {
        "stats": "By host: number of tasks that were ok, changed, failed, unreachable, skipped, rescued, ignored.",
        "data": "The data that the playbook set with set_stats.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        runner = call.context.programs.require("ansible", "ansible-runner", remedy=_REMEDY)
        timeout_s = duration_s(call.parameters, "timeout", limits.PROGRAM_S, longest_s=limits.PROGRAM_LONGEST_S)
        async with private_directory() as directory:
            inventory = await _inventory(call, directory)
            if not inventory["all"]["hosts"]:
                return {"stats": {}, "data": {}}
            playbook = await _project(call, directory)
            _write(directory / "inventory" / "hosts.json", inventory)
            variables = optional_mapping(call.parameters, "variables", "a map from names to values")
            _write(directory / "env" / "extravars", dict(variables))
            command = Command(
                argv=(runner, "run", str(directory), "--playbook", playbook, "--json", "--ident", "run"),
                directory=directory,
                environment=_environment(call, directory),
                timeout_s=timeout_s,
                line_chars=limits.PROGRAM_EVENT_CHARS,
            )
            async with ProgressReporter(call.context) as reporter:
                with LiveLog(call.context.log, call.context.clock) as live:
                    events = AnsibleEvents(live.write, reporter.progress, call.context.redact)
                    result = await run_program(command, lambda _, line: events.handle_line(line))
        _check_result(call, events, result)
        return {"stats": events.stats, "data": events.data}


async def _project(call: ActionCall, directory: Path) -> str:
    """Write the project into the directory and return the path of the playbook in it."""
    url = optional_text(call.parameters, "url", "the URL of a tar.gz")
    role = optional_text(call.parameters, "role", "the name of a role")
    playbook = call.parameters.get("playbook")
    require_one(call.parameters, "playbook", "role")
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
        return _playbook_path(playbook)
    write_private(project / _INLINE, playbook if isinstance(playbook, str) else json_text(playbook, "playbook"))
    return _INLINE


def _playbook_path(playbook: object) -> str:
    expected = "with 'url', the name of a file in its archive, such as site.yml"
    path = PurePosixPath(playbook if isinstance(playbook, str) and len(playbook) < 500 else "/")
    if path.is_absolute() or ".." in path.parts or str(path).startswith("-") or not path.name:
        raise wrong_parameter("playbook", expected)
    return str(path)


async def _inventory(call: ActionCall, directory: Path) -> dict[str, Any]:
    """Return the inventory: the hosts with their SSH access, and a group for each role."""
    roles = optional_roles(call)
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
        access = await call.context.machines.ssh_access(machine)
        key = directory / "keys" / str(number)
        write_private(key, access.private_key.rstrip() + "\n")
        name = access.address if access.port == SSH_PORT else f"[{access.address}]:{access.port}"
        known.append(f"{name} {access.host_key}")
        hosts[machine.host] = _variables(access, key, directory)
        groups.setdefault(_group(machine), {"hosts": {}})["hosts"][machine.host] = {}
    write_private(directory / "known_hosts", "".join(f"{line}\n" for line in known))
    return {"all": {"hosts": hosts, "children": groups}}


def _variables(access: SshAccess, key: Path, directory: Path) -> dict[str, Any]:
    options = {
        "UserKnownHostsFile": directory / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
    }
    return {
        "ansible_host": access.address,
        "ansible_port": access.port,
        "ansible_user": access.login,
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": "-F /dev/null " + " ".join(f"-o {name}={value}" for name, value in options.items()),
    }


def _group(machine: Machine) -> str:
    """Return the role as the name of a group: characters other than letters and digits become `_`."""
    name = _GROUP.sub("_", machine.role)
    return f"_{name}" if name[:1].isdigit() else name or "_"


def _environment(call: ActionCall, directory: Path) -> dict[str, str]:
    tags = filled_texts(call.parameters, "tags", "a list of tags") or []
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
        **trace_variables(),
    }


def _check_result(call: ActionCall, events: AnsibleEvents, result: ProcessResult) -> None:
    if result.exit_code == 0:
        return
    reason = " ".join(events.messages) or call.context.redact(result.stderr.strip())[-REPORTED_CHARS:]
    messages = events.failures or [f"Ansible ended with exit code {result.exit_code}: {reason}"]
    raise ActionFailed(*map(call.context.redact, messages))


def _write(file: Path, value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write JSON, which is YAML too."""
    write_private(file, json_text(value, file.name))
