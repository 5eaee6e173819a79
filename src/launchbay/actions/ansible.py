"""`ansible`: run a playbook or a role on machines (decision 0060)."""

import asyncio
import hashlib
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from launchbay import limits
from launchbay.actions.ansible_plan import ApprovedCheck, Checked, read_approved_check, read_checked
from launchbay.actions.contract import (
    ActionCall,
    ActionDefaults,
    ActionParameter,
    identity_environment,
    proxy_environment,
)
from launchbay.actions.output import REPORTED_CHARS, LiveLog, ProgressReporter, parse_event, parse_json_output
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
from launchbay.actions.plan import ActionPlan, refuse_begun, unknown
from launchbay.egress.archives import download_and_unpack
from launchbay.errors import ActionFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.effect import Effect
from launchbay.model.machine import Machine, SshAccess
from launchbay.model.redaction import secrets_in
from launchbay.processes.run import Command, ProcessResult, private_directory, run_program, write_private
from launchbay.telemetry.tracing import trace_variables

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_TASKS_TO_HALF = 10  # the total is unknown, so this number of tasks is shown as 50 %
_FAILURES_REPORTED = 20
_ITEMS_REPORTED = 3
_LONG_EVENT = "(A result of Ansible with more than {} MiB isn't in this log.)"


class AnsibleEvents:
    """Reads the log and the progress from ansible-runner's lines. Ansible omits what `no_log` hides."""

    def __init__(
        self, log: Callable[[str], None], progress: Callable[[int], None], redact: Callable[[str], str] = str
    ) -> None:
        self._log = log
        self._progress = progress
        self._redact = redact  # applied before a text is cut
        self._tasks = 0
        self.messages: list[str] = []  # the last lines that aren't events, from the programs themselves

    def handle_line(self, line: str) -> None:
        if len(line) >= limits.PROGRAM_EVENT_CHARS:  # cut, so it can't be read
            self._log(_LONG_EVENT.format(limits.PROGRAM_EVENT_CHARS // limits.MIB))
            return
        event = parse_event(line)
        if event is None or not isinstance(event.get("event"), str):
            self._handle_message(line)
            return
        if event["event"] == "playbook_on_task_start":
            self._tasks += 1
            self._progress(int(100 * self._tasks / (self._tasks + _TASKS_TO_HALF)))
        text = event.get("stdout")
        for each in _COLORS.sub("", text if isinstance(text, str) else "").splitlines():
            if each.strip():
                self._log(each.rstrip())

    def _handle_message(self, line: str) -> None:
        text = _COLORS.sub("", line).strip()
        if text:
            self.messages = [*self.messages[-4:], self._redact(text)[:REPORTED_CHARS]]
            self._log(text)


class _Failure(msgspec.Struct, frozen=True):
    """A task, or an item of its loop, that failed on a host."""

    host: str
    task: str
    id: str  # of the task
    message: str
    item: bool = False


class AnsibleReport:
    """Reads what the callback plugin writes (`ansible_callbacks/launchbay_report.py`).

    Its lines have bounded lengths, whatever the results of tasks are, and Ansible itself has added up `set_stats`.
    """

    def __init__(self, directory: Path) -> None:
        self._failures = directory / "failures.jsonl"
        self._totals = directory / "totals.json"
        self._checked = directory / "checked.jsonl"

    def totals(self) -> dict[str, Any]:
        """Return the step's outputs, empty before the end of a playbook. Raises ActionFailed."""
        none: dict[str, Any] = {"stats": {}, "data": {}, "hostData": {}}
        try:
            size = self._totals.stat().st_size
        except FileNotFoundError:
            return none
        if size > limits.STEP_OUTPUT_BYTES:
            raise ActionFailed(
                f"The data of set_stats has {size} bytes. Limit: {limits.STEP_OUTPUT_BYTES} bytes for all hosts.",
                "Let the playbook write large results to files, and set only what later steps need.",
                retryable=False,
            )
        try:
            found = parse_json_output(self._totals.read_text("utf-8"))
        except ValueError as error:
            raise ActionFailed(f"The data of set_stats isn't JSON: {error}.", retryable=False) from None
        return {**none, **found}

    def checked(self) -> list[Checked]:
        """Return what the tasks would do. Raises ActionFailed beyond the limit of a plan."""
        try:
            size = self._checked.stat().st_size
        except FileNotFoundError:
            return []
        if size > limits.ANSIBLE_CHECK_BYTES:
            raise ActionFailed(
                f"The check of the playbook reports more than {limits.ANSIBLE_CHECK_BYTES} bytes.",
                "Split the playbook or its hosts into several steps, or make the change without a plan.",
                retryable=False,
            )
        try:
            return [read_checked(line) for line in self._checked.read_bytes().splitlines()]
        except msgspec.DecodeError as error:
            raise ActionFailed(f"Can't read the check of the playbook: {error}.", retryable=False) from error

    def causes(self, redact: Callable[[str], str]) -> list[str]:
        """Return what ended the playbook: the last failure of each failed host."""
        last: dict[str, _Failure] = {}
        items: dict[tuple[str, str], list[str]] = {}
        for failure in self._read_failures():
            if failure.item:
                items.setdefault((failure.host, failure.id), []).append(failure.message)
            else:
                last.pop(failure.host, None)  # to be the last in the order, too
                last[failure.host] = failure
        stats = self.totals()["stats"]
        ended = [each for each in last.values() if not stats or _has_failed(stats.get(each.host, {}))]
        causes = [_cause(each, items.get((each.host, each.id), []), redact) for each in ended[:_FAILURES_REPORTED]]
        if len(ended) > _FAILURES_REPORTED:
            causes.append(f"{len(ended) - _FAILURES_REPORTED} more hosts failed.")
        return causes

    def _read_failures(self) -> Iterator[_Failure]:
        try:
            with self._failures.open("rb") as lines:
                for line in lines:
                    with suppress(msgspec.DecodeError):  # the last line of a run that was killed
                        yield msgspec.json.decode(line, type=_Failure)
        except FileNotFoundError:
            return


def _has_failed(counts: Mapping[str, int]) -> bool:
    return bool(counts.get("failed") or counts.get("unreachable"))


def _cause(failure: _Failure, items: Sequence[str], redact: Callable[[str], str]) -> str:
    # Of a loop, Ansible says only "One or more items failed".
    texts = [redact(text).strip()[:REPORTED_CHARS] for text in (items[:_ITEMS_REPORTED] or [failure.message])]
    more = f" ({len(items) - _ITEMS_REPORTED} more items failed)" if len(items) > _ITEMS_REPORTED else ""
    where = f"{failure.host}: the task {failure.task!r} failed"
    message = "; ".join(filter(None, texts))
    return f"{where}: {message}{more}" if message else f"{where}."


_REMEDY = "An administrator can install Launchbay with its extra 'ansible', or ansible-runner and ansible-core."
_ROLE = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_GROUP = re.compile(r"[^A-Za-z0-9_]")
_INLINE = "launchbay-playbook.yml"
_CALLBACKS = Path(__file__).with_name("ansible_callbacks")


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
        "data": "The data that the playbook set with set_stats, added up over tasks and hosts as Ansible does.",
        "hostData": "By host: the data that it set with set_stats and per_host.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        async with self._prepared(call) as prepared:
            if prepared is None:
                return {"stats": {}, "data": {}, "hostData": {}}
            if call.approved is not None:
                refuse_begun(call)
                await _require(call, prepared, read_approved_check(call.approved))
                await call.begin()
            async with ProgressReporter(call.context) as reporter:
                with LiveLog(call.context.log, call.context.clock) as live:
                    events = AnsibleEvents(live.write, reporter.progress, call.context.redact)
                    result, report = await prepared.run(events)
            if result.exit_code != 0:
                causes = await asyncio.to_thread(report.causes, call.context.redact)
                raise _failed(call, causes, events, result)
            totals = await asyncio.to_thread(report.totals)
            if idle := _idle(prepared, totals):
                call.context.log("warning", idle)
            return totals

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return what the tasks say in check mode."""
        async with self._prepared(call) as prepared:
            if prepared is None:
                return unknown(call.context.step_path, "Unknown: there are no machines yet.")
            inputs = await asyncio.to_thread(prepared.digest)
            checked, effects, totals = await _check(call, prepared)
            idle = _idle(prepared, totals)
        approved = ApprovedCheck(inputs, [each.outcome() for each in checked])
        warnings = (idle,) if idle else ()
        return ActionPlan(effects=tuple(effects), artifact=approved.encoded(), warnings=warnings)

    @asynccontextmanager
    async def _prepared(self, call: ActionCall) -> "AsyncIterator[_Prepared | None]":
        """Lend a prepared playbook; None without hosts."""
        runner = call.context.programs.require("ansible", "ansible-runner", remedy=_REMEDY)
        timeout_s = duration_s(call.parameters, "timeout", limits.PROGRAM_S, longest_s=limits.PROGRAM_LONGEST_S)
        async with private_directory() as directory:
            inventory = await _inventory(call, directory)
            if not inventory["all"]["hosts"]:
                yield None
                return
            playbook = await _project(call, directory)
            _write_data(directory / "inventory" / "hosts.yml", inventory)
            variables = optional_mapping(call.parameters, "variables", "a map from names to values")
            call.context.register_secret(secrets_in(variables))
            _write_data(directory / "env" / "extravars", variables)
            yield _Prepared(runner, directory, playbook, timeout_s, _environment(call, directory), inventory)


class _Prepared(NamedTuple):
    """A playbook with its inventory and variables, in files."""

    runner: str
    directory: Path
    playbook: str
    timeout_s: float
    environment: Mapping[str, str]
    inventory: Mapping[str, Any]

    async def run(self, events: AnsibleEvents, *, check: bool = False) -> tuple[ProcessResult, AnsibleReport]:
        """Run the playbook, or let its tasks say what they would do."""
        name = "check" if check else "run"
        report = self.directory / f"report-{name}"
        report.mkdir()
        variables = {"LAUNCHBAY_CHECK": str(limits.ANSIBLE_CHECK_BYTES), "ANSIBLE_DIFF_ALWAYS": "True"} if check else {}
        options = self.directory / "env" / "cmdline"
        if check:
            # Not as an argument: the runner keeps that in this file, so that a later run were a check too.
            write_private(options, "--check")
        else:
            options.unlink(missing_ok=True)
        command = Command(
            argv=(self.runner, "run", str(self.directory), "--playbook", self.playbook, "--json", "--ident", name),
            directory=self.directory,
            environment={**self.environment, **variables, "LAUNCHBAY_REPORT": str(report)},
            timeout_s=self.timeout_s,
            line_chars=limits.PROGRAM_EVENT_CHARS,
        )
        return await run_program(command, lambda _, line: events.handle_line(line)), AnsibleReport(report)

    def digest(self) -> bytes:
        """Return the digest of project, variables, options and hosts."""
        project = self.directory / "project"
        found = hashlib.sha256()
        for file in (*sorted(each for each in project.rglob("*") if each.is_file()), self.directory / "env/extravars"):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            found.update(msgspec.json.encode([str(file.relative_to(self.directory)), content]))
        every = self.inventory["all"]
        hosts = {host: [given.get(name) for name in _PLACE] for host, given in every["hosts"].items()}
        groups = {name: sorted(group["hosts"]) for name, group in every.get("children", {}).items()}
        options = [self.environment.get(name) for name in _OPTIONS]
        found.update(msgspec.json.encode([self.playbook, hosts, groups, options], order="deterministic"))
        return found.digest()


_PLACE = ("ansible_host", "ansible_port", "ansible_user", "ansible_connection")
_OPTIONS = ("ANSIBLE_BECOME", "ANSIBLE_RUN_TAGS")


def _idle(prepared: _Prepared, totals: Mapping[str, Any]) -> str:
    """Return a warning about a playbook that ran no task on any host, which Ansible calls a success; or ""."""
    if totals["stats"]:
        return ""
    groups = ", ".join(["all", *sorted(prepared.inventory["all"].get("children", {}))])
    tags = prepared.environment.get("ANSIBLE_RUN_TAGS")
    narrowed = f", or no task has one of the tags {tags}" if tags else ""
    return f"The playbook ran no task on any host. The 'hosts' of its plays may match none of {groups}{narrowed}."


async def _check(call: ActionCall, prepared: _Prepared) -> tuple[list[Checked], list[Effect], Mapping[str, Any]]:
    """Return what tasks say in check mode, with the effects and totals.

    A task often fails only because an earlier one did nothing. Then what comes after it is unknown. Raises ActionFailed
    if nothing came before, if a host isn't reached, or if the playbook doesn't begin.
    """
    # Nothing is logged: it would look as if it had happened.
    events = AnsibleEvents(lambda _: None, lambda _: None, call.context.redact)
    result, report = await prepared.run(events, check=True)
    checked = await asyncio.to_thread(report.checked)
    totals = await asyncio.to_thread(report.totals)
    if result.exit_code == 0:
        return checked, [each.effect() for each in checked], totals
    stats = totals["stats"]
    causes = await asyncio.to_thread(report.causes, call.context.redact)
    ended = [host for host, counts in stats.items() if counts.get("failed")]
    ends = {each.host: each for each in checked if each.status == "failed" and each.host in ended}
    checked = [each for each in checked if each is not ends.get(each.host)]
    if not stats or not checked or any(counts.get("unreachable") for counts in stats.values()):
        raise _failed(call, causes, events, result)
    notes = "The check ends here: " + " ".join(causes)
    effects = [
        Effect(kind="unknown", address=f"{host}: what follows", certainty="unknown", note=notes) for host in ended
    ]
    failures = [Checked(host, "(ended)", "unknown", "") for host in ended]
    return [*checked, *failures], [*(each.effect() for each in checked), *effects], totals


async def _require(call: ActionCall, prepared: _Prepared, approved: ApprovedCheck) -> None:
    """Raise NotApproved unless the tasks say what they said when the plan was made."""
    approved.require_inputs(await asyncio.to_thread(prepared.digest))
    call.context.log("info", "Checking first whether the tasks would still do what was approved.")
    checked, _, _ = await _check(call, prepared)
    approved.require([each.outcome() for each in checked])


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
    ssh = _SshFiles(directory)
    for machine in machines:
        access = await call.context.machines.ssh_access(machine)
        hosts[machine.host] = ssh.variables(access)
        groups.setdefault(_group(machine), {"hosts": {}})["hosts"][machine.host] = {}
    ssh.write()
    return {"all": {"hosts": hosts, "children": groups}}


class _SshFiles:
    """The keys, host keys and jump hosts of all machines, in files for `ssh`."""

    def __init__(self, directory: Path) -> None:
        self._config, self._known_hosts = directory / "ssh_config", directory / "known_hosts"
        self._keys = directory / "keys"
        self._known: list[str] = []
        self._jump_hosts: list[str] = []

    def variables(self, access: SshAccess) -> dict[str, Any]:
        """Return the variables of a host."""
        before = ""
        for each in access.jump:
            alias, options = self._options(each)
            options |= {
                "HostName": each.address.replace("%", "%%"),
                "Port": each.port,
                "User": each.login,
                "BatchMode": "yes",
            }
            if before:
                options["ProxyJump"] = before
            self._jump_hosts += [f"Host {alias}", *(f"    {name} {value}" for name, value in options.items())]
            before = alias
        alias, options = self._options(access)
        if before:
            options["ProxyJump"] = before
        become = {"ansible_become_password": access.sudo_password} if access.sudo_password else {}
        return {
            **become,
            "ansible_host": access.address,
            "ansible_port": access.port,
            "ansible_user": access.login,
            "ansible_ssh_private_key_file": str(self._keys / alias),
            "ansible_ssh_common_args": " ".join(
                ("-F", str(self._config), *(f"-o {name}={value}" for name, value in options.items()))
            ),
        }

    def write(self) -> None:
        """Write what all hosts share.

        `ssh` starts another `ssh` for a jump host, which gets nothing but `-F`.
        """
        write_private(self._known_hosts, "".join(f"{line}\n" for line in self._known))
        write_private(self._config, "".join(f"{line}\n" for line in self._jump_hosts))

    def _options(self, access: SshAccess) -> tuple[str, dict[str, Any]]:
        """Write the key of a server; return an alias and the options.

        It has an alias because two networks may use one address.
        """
        alias = f"launchbay-{len(self._known)}"
        self._known.append(f"{alias} {access.host_key}")
        write_private(self._keys / alias, access.private_key.rstrip() + "\n")
        if access.certificate:  # `ssh` looks for it there
            write_private(self._keys / f"{alias}-cert.pub", access.certificate.rstrip() + "\n")
        return alias, {
            "HostKeyAlias": alias,
            "UserKnownHostsFile": self._known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "CheckHostIP": "no",
            "IdentityFile": self._keys / alias,
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
        }


def _group(machine: Machine) -> str:
    """Return the role as the name of a group: characters other than letters and digits become `_`."""
    name = _GROUP.sub("_", machine.role)
    return f"_{name}" if name[:1].isdigit() else name or "_"


def _environment(call: ActionCall, directory: Path) -> dict[str, str]:
    tags = filled_texts(call.parameters, "tags", "a list of tags") or []
    return {
        "ANSIBLE_CALLBACK_PLUGINS": str(_CALLBACKS),
        "ANSIBLE_HOME": str(directory / ".ansible"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(directory / "cp"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_BECOME": str(flag(call.parameters, "isSudo", default=False)),
        "ANSIBLE_PYTHON_INTERPRETER": "auto_silent",
        **({"ANSIBLE_RUN_TAGS": ",".join(tags)} if tags else {}),
        **proxy_environment(call.context),
        **identity_environment(call.context, directory),
        **trace_variables(),
    }


def _failed(call: ActionCall, causes: Sequence[str], events: AnsibleEvents, result: ProcessResult) -> ActionFailed:
    reason = " ".join(events.messages) or call.context.redact(result.stderr.strip())[-REPORTED_CHARS:]
    messages = causes or [f"Ansible ended with exit code {result.exit_code}: {reason}"]
    return ActionFailed(*map(call.context.redact, messages))


def _write(file: Path, value: Sequence[Any]) -> None:
    """Write JSON, which is YAML too."""
    write_private(file, json_text(value, file.name))


def _write_data(file: Path, values: Mapping[str, Any]) -> None:
    """Write values that Ansible takes as they are.

    A plain string in a file of variables is a template of Jinja2: Ansible would evaluate `{{ … }}` in a password.
    """
    json_text(values, file.name)  # raises for what isn't JSON
    write_private(file, as_data(values))


def as_data(value: Any) -> str:
    """Return a JSON value as YAML that Ansible doesn't evaluate.

    Strings and keys that could be templates are `!unsafe`. The others aren't: Ansible resolves what follows `!unsafe`
    again, without its quotes, so that "0400" were 256.
    """
    match value:
        case str():
            return f"!unsafe {_quoted(value)}" if _TEMPLATE.search(value) else _quoted(value)
        case Mapping():
            return "{" + ", ".join(f"{as_data(str(key))}: {as_data(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(as_data, value)) + "]"
        case float():
            return f'!!float "{value!r}"'  # YAML 1.1 reads 1e+16 as a string
        case _:
            return json.dumps(value)


_TEMPLATE = re.compile(r"[{#]")  # all delimiters of Jinja2, and `#jinja2:`, which changes them
_ESCAPED = re.compile(r'["\\]|[^ -~]')


def _quoted(text: str) -> str:
    """Return a string in YAML's double quotes; what isn't printable ASCII is escaped."""
    return '"' + _ESCAPED.sub(lambda found: f"\\U{ord(found.group()):08x}", text) + '"'
