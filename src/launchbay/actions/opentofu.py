"""`opentofu`: infrastructure as modules describe it (decision 0061)."""

import asyncio
import gzip
import hashlib
import io
import os
import re
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import (
    ActionCall,
    ActionDefaults,
    ActionParameter,
    Documents,
    identity_environment,
    proxy_environment,
)
from launchbay.actions.opentofu_plan import (
    Operation,
    SavedPlan,
    ShownPlan,
    read_saved_plan,
    read_shown_plan,
    state_head,
    world_differences,
)
from launchbay.actions.output import LiveLog, ProgressReporter, parse_event, parse_json_output
from launchbay.actions.parameters import (
    choice,
    document_name,
    duration_s,
    json_text,
    one_of,
    optional_mapping,
    optional_text,
    optional_text_mapping,
    require_one,
    wrong_parameter,
)
from launchbay.actions.plan import ActionPlan, refuse_begun, refuse_difference
from launchbay.egress.archives import download_and_unpack, unpack
from launchbay.errors import ActionFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.redaction import is_secret_name
from launchbay.model.scalars import settled, with_texts
from launchbay.processes.run import Command, OnLine, ProcessResult, private_directory, run_program, write_private
from launchbay.telemetry.tracing import trace_variables

_EVENT_CHARS = 1_000
_ERRORS_REPORTED = 10
_CHANGES = ("add", "change", "remove", "import", "forget")
_INIT = ("-input=false", "-no-color")
_LOCKED = ("-lockfile=readonly",)
_HAS_CHANGES = 2  # the exit code of `plan -detailed-exitcode`
_INIT_ERROR = re.compile(r"^[\s│|╷]*(?=Error: )", re.MULTILINE)


class TofuEvents:
    """Reads the lines of one command. `changes` is made of its last summary.

    `move` and `outputs` count what the summary omits: addresses that change, and outputs that get another value.
    """

    def __init__(
        self, log: Callable[[str], None], progress: Callable[[int], None], redact: Callable[[str], str] = str
    ) -> None:
        self._log = log
        self._progress = progress
        self._redact = redact  # applied before a text is cut
        self._planned = self._done = 0
        self._summary: dict[str, int] = {}
        self._moves = self._outputs = self._forgets = 0
        self.errors: list[str] = []

    @property
    def changes(self) -> dict[str, int]:
        if not self._summary:
            return {}
        forgets = max(self._summary["forget"], self._forgets)  # Terraform's summary has no such count
        return {**self._summary, "forget": forgets, "move": self._moves, "outputs": self._outputs}

    def handle_line(self, line: str) -> None:
        event = parse_event(line)
        if event is None:
            if line.strip():
                self._log(line.rstrip())
            return
        message = event.get("@message")
        if isinstance(message, str) and message.strip() and event.get("type") != "diagnostic":
            self._log(message.strip())
        self._handle_event(event)

    def _handle_event(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "planned_change":
                self._planned += 1
                self._count(event.get("change"))
            case "outputs":
                self._count_outputs(event.get("outputs"))
            case "apply_complete" | "apply_errored":
                self._done += 1
                self._progress(int(100 * self._done / max(self._planned, self._done)))
            case "change_summary":
                changes = event.get("changes")
                if isinstance(changes, dict):
                    self._summary = {name: int(changes.get(name) or 0) for name in _CHANGES}
            case "diagnostic":
                self._diagnose(event.get("diagnostic"))

    def _count(self, change: object) -> None:
        if not isinstance(change, dict):
            return
        self._moves += change.get("action") == "move" or bool(change.get("previous_resource"))
        self._forgets += change.get("action") in {"forget", "remove"}

    def _count_outputs(self, outputs: object) -> None:
        if isinstance(outputs, dict):
            actions = [each.get("action") for each in outputs.values() if isinstance(each, dict)]
            self._outputs = sum(action not in {None, "noop"} for action in actions)

    def _diagnose(self, diagnostic: object) -> None:
        """Log what a diagnostic says, and where."""
        if not isinstance(diagnostic, dict):
            return
        texts = [str(diagnostic.get(name) or "").strip() for name in ("summary", "detail")]
        snippet = diagnostic.get("snippet")
        # A check has no address, but the context of its text names it.
        where = diagnostic.get("address") or (snippet.get("context") if isinstance(snippet, dict) else None)
        text = self._redact(": ".join(text for text in texts if text))[:_EVENT_CHARS]
        full = f"{where}: {text}" if isinstance(where, str) and where else text
        is_error = diagnostic.get("severity") == "error"
        for number, line in enumerate(f"{full}{_place(diagnostic)}".splitlines()):
            self._log(f"{'Error' if is_error else 'Warning'}: {line}" if number == 0 else line)
        if is_error and len(self.errors) < _ERRORS_REPORTED:
            self.errors.append(full)


def _place(diagnostic: Mapping[str, Any]) -> str:
    """Return file and line of a diagnostic in parentheses."""
    found = diagnostic.get("range")
    start = found.get("start") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(start, dict):
        return ""
    return f" ({found.get('filename')}, line {start.get('line')})"


STATE = "terraform.tfstate"
_PLAN, _LOOK, _LOCK = "launchbay.plan", "launchbay.look", ".terraform.lock.hcl"
_MAIN = "main.tf"
_VARIABLES = "launchbay.auto.tfvars.json"
_BACKEND = "launchbay_override.tf.json"
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN_NAMES = frozenset(("PATH", "HOME", "TMPDIR", "LANG", "TF_DATA_DIR", "TF_CLI_CONFIG_FILE"))
_ENVIRONMENT = "a map from names such as AWS_ACCESS_KEY_ID to strings"


class StoredModule(msgspec.Struct, frozen=True):
    """A module with its state.

    `archive` is a tar.gz; `state` is the text of OpenTofu's state, empty at first.
    """

    archive: bytes
    variables: dict[str, Any] = {}
    environment: dict[str, str] = {}
    state: str = ""

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def digest(self) -> bytes:
        """Return the digest of what a plan depends on, apart from the state."""
        given = {name: value for name, value in self.environment.items() if name.startswith("TF_VAR_")}
        digest = hashlib.sha256(gzip.decompress(self.archive))  # the packed form has a time
        digest.update(msgspec.json.encode([self.variables, given], order="deterministic"))
        return digest.digest()

    def write(self, directory: Path) -> None:
        """Write the module to a directory, ready for `init`."""
        top = unpack(self.archive, directory / "unpacked")
        top.rename(directory / "module")
        module = directory / "module"
        # The state belongs to the instance, regardless of the backend in the module.
        # Its path is relative, because a plan keeps it and is applied in another directory.
        backend = {"terraform": {"backend": {"local": {"path": f"../{STATE}"}}}}
        write_private(module / _BACKEND, msgspec.json.encode(backend).decode())
        write_private(module / _VARIABLES, msgspec.json.encode(self.variables).decode())
        if self.state:
            write_private(directory / STATE, self.state)


def read_module(data: bytes) -> StoredModule:
    return _decoder.decode(data)


def adopted_module(state: str) -> bytes:
    """Return the document of a state that another program has made.

    The first run of a step writes its module next to it.
    """
    return StoredModule(_packed({_MAIN: b""}), state=state).encoded()


async def module_from_parameters(call: ActionCall, directory: Path, state: str) -> StoredModule:
    """Return the module in a step's parameters, with the given state. Raises ActionFailed."""
    parameters = call.parameters
    url = optional_text(parameters, "url", "the URL of a tar.gz")
    require_one(parameters, "module", "url")
    if url is None:
        files = _inline(parameters["module"])
    else:
        top = await download_and_unpack(call.context.egress, url, directory / "fetched")
        files = _files_below(top / _directory(parameters))
    given = optional_mapping(parameters, "variables", "a map from names to values")
    texts = _string_variables(files)
    variables = {name: (with_texts if name in texts else settled)(value) for name, value in given.items()}
    json_text(variables, "variables")  # raises early, before they are stored
    return StoredModule(_packed(files), variables, _module_environment(parameters), state)


# `variable "version" { … type = string`, also of lists, sets and maps of strings; nested blocks come after the type or
# have balanced braces. OpenTofu itself would turn the number 1.10 into "1.1".
_VARIABLE = re.compile(r'^[ \t]*variable[ \t]+"?([\w-]+)"?[ \t]*\{((?:[^{}]|\{[^{}]*\})*)', re.MULTILINE)
_STRING = re.compile(r"(?:^|;)[ \t]*type[ \t]*=[ \t]*(?:(?:list|set|map)\([ \t]*)?string\b", re.MULTILINE)


def _string_variables(files: Mapping[str, bytes]) -> frozenset[str]:
    """Return the variables that the module declares as strings, or collections of them."""
    texts = [content.decode("utf-8", "replace") for name, content in files.items() if name.endswith((".tf", ".tofu"))]
    declared = (found for text in texts if "variable" in text for found in _VARIABLE.finditer(text))
    return frozenset(found[1] for found in declared if _STRING.search(found[2]))


def _inline(module: object) -> dict[str, bytes]:
    files = {_MAIN: module} if isinstance(module, str) else module
    expected = "the text of main.tf, or a map from file names to their texts"
    if not isinstance(files, Mapping) or not files:
        raise wrong_parameter("module", expected)
    for name, text in files.items():
        if not isinstance(name, str) or not _FILE.fullmatch(name) or not isinstance(text, str):
            raise wrong_parameter("module", expected)
    return {name: text.encode("utf-8", "replace") for name, text in files.items()}


def _directory(parameters: Mapping[str, Any]) -> str:
    directory = optional_text(parameters, "directory", "a directory of the archive") or "."
    path = PurePosixPath(directory)
    if path.is_absolute() or ".." in path.parts:
        raise wrong_parameter("directory", "a directory of the archive")
    return str(path)


def _files_below(top: Path) -> dict[str, bytes]:
    files = {str(file.relative_to(top)): file.read_bytes() for file in sorted(top.rglob("*")) if file.is_file()}
    if not any(name.endswith((".tf", ".tf.json", ".tofu")) and "/" not in name for name in files):
        raise ActionFailed("The archive has no module in this directory: no file ends with .tf.", retryable=False)
    return files


def _packed(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, content in files.items():
            # In a top directory, so that the result of `unpack` doesn't depend on the files.
            member = tarfile.TarInfo(f"module/{name}")
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    if written.tell() > limits.TOFU_MODULE_BYTES:
        raise ActionFailed(
            f"The packed module has {written.tell()} bytes. Limit: {limits.TOFU_MODULE_BYTES} bytes.",
            "Remove files that the module doesn't need from the archive.",
            retryable=False,
        )
    return written.getvalue()


def _module_environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    variables = optional_text_mapping(parameters, "environment", _ENVIRONMENT)
    for name, value in variables.items():
        is_allowed = _VARIABLE_NAME.fullmatch(name) and name not in _OWN_NAMES and not name.startswith("LD_")
        if not is_allowed or "\0" in value:
            raise wrong_parameter(f"environment.{name}", f"{_ENVIRONMENT}; not {', '.join(sorted(_OWN_NAMES))}, LD_*")
    return variables


_decoder = msgspec.msgpack.Decoder(StoredModule)
POLL_S = 0.5


class StateSaver:
    """Copies OpenTofu's state file to the database whenever it changes.

    OpenTofu writes its state after every resource. If this server dies, only the changes since the last poll are lost.
    """

    def __init__(self, documents: Documents, name: str, module: StoredModule, version: int) -> None:
        self._documents = documents
        self._name = name
        self._module = module
        self._version = version
        self._written: str | None = None
        self._writing = asyncio.Lock()  # a cancelled poll continues to write, and the last save waits for it

    @asynccontextmanager
    async def saving_changes(self, state: Path) -> AsyncIterator[None]:
        """Save the module before the block, its state during the block, and the last state after any end."""
        await self._save(self._module.state)
        poller = asyncio.create_task(self._poll(state))
        try:
            yield
        finally:
            poller.cancel()
            with suppress(asyncio.CancelledError):
                await poller
            await asyncio.shield(self._save_if_changed(state))

    async def delete(self) -> None:
        await self._documents.delete(self._name)

    async def _poll(self, state: Path) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await asyncio.shield(self._save_if_changed(state))

    async def _save_if_changed(self, state: Path) -> None:
        async with self._writing:
            text = await asyncio.to_thread(_complete_state, state)
            if text is not None and text != self._written:
                await self._save(text)

    async def _save(self, text: str) -> None:
        module = msgspec.structs.replace(self._module, state=text)
        self._version = await self._documents.write(self._name, module.encoded(), self._version)
        self._written = text


def _complete_state(state: Path) -> str | None:
    """Return the file's text, or None if the file is missing or incomplete."""
    try:
        text = state.read_text("utf-8")
        msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return None
    return text


_REMEDY = "An administrator can install OpenTofu (tofu) or Terraform (terraform)."
_BINARIES = ("tofu", "terraform")
_OPERATIONS = ("apply", "plan", "destroy")
_OF_OPERATOR = ("TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR")  # the source of providers is the operator's choice


class OpenTofu(ActionDefaults):
    """Applies or destroys a module. Its encrypted state ends with the instance."""

    name = "opentofu"
    parameters: Mapping[str, ActionParameter] = {
        "operation": ActionParameter(
            "apply, plan or destroy. Default: apply.", type="string", needs_value=True, check=one_of(*_OPERATIONS)
        ),
        "module": ActionParameter("The text of main.tf, or a map from file names to texts."),
        "url": ActionParameter("Instead of a module: the URL of a tar.gz that contains it.", type="string"),
        "directory": ActionParameter("The directory of the module in the archive.", type="string", needs_value=True),
        "name": ActionParameter(
            "The name of the state in the component. Default: default.", type="string", needs_value=True
        ),
        "variables": ActionParameter(
            "The module's variables by name.", type="map<string,object>", needs_value=True, numbers="written"
        ),
        "environment": ActionParameter(
            "Environment variables, such as credentials.", type="map<string,string>", needs_value=True
        ),
        "timeout": ActionParameter(
            'The maximum duration, in seconds or as a string such as "1 hour". Default: 1 hour.',
            check=parse_duration_s,
        ),
    }
    outputs: Mapping[str, str] = {
        "outputs": "The module's outputs by name, without the sensitive ones.",
        "secrets": "The sensitive outputs by name.",
        "changes": "Number of resources to add, change, remove, import, forget, move, and of changed outputs.",
        "hasChanges": "Of a plan: whether an apply would do anything, such as change an output.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        async with self._prepared(call) as prepared:
            if prepared is None:
                return {"outputs": {}, "secrets": {}, "changes": {}}
            operation, module, saver, work = prepared
            plan = _as_approved(call, operation, module)
            return await work.run(operation, module, saver, plan)

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return what the program plans. The plan file is the artifact."""
        async with self._prepared(call) as prepared:
            if prepared is None:
                return ActionPlan(artifact=_saved("destroy", None).encoded())
            operation, module, _, work = prepared
            if operation == "plan":
                return ActionPlan(artifact=_saved("plan", module).encoded())
            if operation != "destroy":
                return await work.plan("apply", module)
            plan = await work.plan("destroy", module)
            return msgspec.structs.replace(plan, destroys=document_name(call.parameters))

    @asynccontextmanager
    async def _prepared(self, call: ActionCall) -> "AsyncIterator[tuple[str, StoredModule, StateSaver, _Work] | None]":
        """Lend what the parameters ask for; None if there is nothing to destroy."""
        binary = call.context.programs.require("opentofu", *_BINARIES, remedy=_REMEDY)
        operation = choice(call.parameters, "operation", _OPERATIONS)
        name = document_name(call.parameters)
        timeout_s = duration_s(call.parameters, "timeout", limits.PROGRAM_S, longest_s=limits.PROGRAM_LONGEST_S)
        stored = await call.context.documents.read(name)
        before = None if stored is None else read_module(stored.data)
        async with private_directory() as directory:
            if operation == "destroy" and not {"module", "url"} & set(call.parameters):
                if before is None:
                    call.context.log("info", f"Nothing to destroy: no state is stored as {name!r}.")
                    yield None
                    return
                module = before
            else:
                module = await module_from_parameters(call, directory, "" if before is None else before.state)
            _register_secrets(call, module)
            saver = StateSaver(call.context.documents, name, module, 0 if stored is None else stored.version)
            yield operation, module, saver, _Work(call, binary, directory, timeout_s)

    async def teardown(self, call: ActionCall, name: str) -> None:
        async with self._stored(call, name) as stored:
            if stored is not None:
                module, saver, work = stored
                plan = _as_approved(call, "destroy", module)
                await work.run("destroy", module, saver, plan)

    async def plan_teardown(self, call: ActionCall, name: str) -> ActionPlan:
        """Return what the program plans to destroy."""
        async with self._stored(call, name) as stored:
            if stored is None:
                return ActionPlan(artifact=_saved("destroy", None).encoded())
            module, _, work = stored
            return await work.plan("destroy", module)

    @asynccontextmanager
    async def _stored(
        self, call: ActionCall, name: str
    ) -> "AsyncIterator[tuple[StoredModule, StateSaver, _Work] | None]":
        """Lend a module as it was stored; None if it is gone."""
        stored = await call.context.documents.read(name)
        if stored is None:
            yield None
            return
        binary = call.context.programs.require("opentofu", *_BINARIES, remedy=_REMEDY)
        module = read_module(stored.data)
        _register_secrets(call, module)
        async with private_directory() as directory:
            saver = StateSaver(call.context.documents, name, module, stored.version)
            yield module, saver, _Work(call, binary, directory, limits.TEARDOWN_S)


def _register_secrets(call: ActionCall, module: StoredModule) -> None:
    known = {**module.variables, **module.environment}
    if secrets := {name: value for name, value in known.items() if is_secret_name(name)}:
        call.context.register_secret(secrets)


class _Work:
    """One run of the program's commands in a private directory."""

    def __init__(self, call: ActionCall, binary: str, directory: Path, timeout_s: float) -> None:
        self._call = call
        self._binary = binary
        self._directory = directory
        self._timeout_s = timeout_s

    async def run(
        self, operation: str, module: StoredModule, saver: StateSaver, approved: SavedPlan | None = None
    ) -> Mapping[str, Any]:
        """Run an operation, or exactly the plan that somebody approved."""
        environment = await self._written(module, approved)
        async with ProgressReporter(self._call.context) as reporter:
            with LiveLog(self._call.context.log, self._call.context.clock) as live:
                events = TofuEvents(live.write, reporter.progress, self._call.context.redact)
                await self._command(events, environment, "init", *_INIT, *(_LOCKED if approved else ()))
                if operation == "plan":
                    options = ("-input=false", "-json", "-lock=false", "-detailed-exitcode")
                    code = await self._command(events, environment, "plan", *options)
                    return {"outputs": {}, "secrets": {}, "changes": events.changes, "hasChanges": code == _HAS_CHANGES}
                if approved is not None:
                    await self._look(environment, module, approved)
                    await self._call.begin()
                # A saved plan knows itself whether it destroys.
                command = (operation,) if approved is None else ("apply",)
                file = () if approved is None else (f"../{_PLAN}",)
                async with saver.saving_changes(self._directory / STATE):
                    await self._command(events, environment, *command, "-input=false", "-json", "-auto-approve", *file)
        if operation == "destroy":
            await saver.delete()
            return {"outputs": {}, "secrets": {}, "changes": events.changes}
        return {**await self._outputs(environment), "changes": events.changes}

    async def plan(self, operation: Operation, module: StoredModule) -> ActionPlan:
        """Return the effects of an operation, with the plan file as their artifact."""
        environment = await self._written(module, None)
        with LiveLog(self._call.context.log, self._call.context.clock) as live:
            events = TofuEvents(live.write, lambda _: None, self._call.context.redact)
            await self._command(events, environment, "init", *_INIT)
        shown = await self._planned(environment, operation, _PLAN)
        plan = await asyncio.to_thread((self._directory / _PLAN).read_bytes)
        lock = self._directory / "module" / _LOCK
        chosen = await asyncio.to_thread(lock.read_bytes) if lock.exists() else b""
        saved = _saved(operation, module, plan, chosen)
        return ActionPlan(effects=shown.effects(), artifact=saved.encoded(), warnings=shown.warnings())

    async def _look(self, environment: Mapping[str, str], module: StoredModule, approved: SavedPlan) -> None:
        """Raise NotApproved if a new plan finds another world.

        To apply a plan file doesn't look at it.
        """
        then = await self._shown(environment, _PLAN)
        now = await self._planned(environment, approved.operation, _LOOK)
        refuse_difference(world_differences(then, now, module.state, self._call.context.redact))

    async def _planned(self, environment: Mapping[str, str], operation: Operation, file: str) -> ShownPlan:
        """Make a plan file, and return what it says."""
        destroys = ("-destroy",) if operation == "destroy" else ()
        # Its own messages could show a sensitive value before it is known as one.
        events = TofuEvents(lambda _: None, lambda _: None, self._call.context.redact)
        await self._command(
            events, environment, "plan", "-input=false", "-json", "-lock=false", f"-out=../{file}", *destroys
        )
        return await self._shown(environment, file)

    async def _shown(self, environment: Mapping[str, str], file: str) -> ShownPlan:
        # Nothing is logged, because the plan has sensitive values.
        result = await self._start(environment, lambda _stream, _line: None, "show", "-json", f"../{file}")
        try:
            if result.exit_code == 0:
                shown = read_shown_plan(result.stdout.encode())
                self._call.context.register_secret(shown.secrets())
                return shown
        except (ValueError, msgspec.ValidationError):
            pass
        raise ActionFailed(
            "Can't read the plan. It may be too large.", "Split the module into smaller ones.", retryable=False
        )

    async def _written(self, module: StoredModule, approved: SavedPlan | None) -> Mapping[str, str]:
        """Write the module and an approved plan, and return the variables of the program."""
        await asyncio.to_thread(module.write, self._directory)
        if approved is not None:
            write_private(self._directory / _PLAN, approved.plan)
            if approved.lock:
                write_private(self._directory / "module" / _LOCK, approved.lock)
        return {
            **_process_environment(),
            **proxy_environment(self._call.context),
            **identity_environment(self._call.context, self._directory),
            **module.environment,
        }

    async def _outputs(self, environment: Mapping[str, str]) -> dict[str, Any]:
        # Nothing is logged, because outputs may be secret.
        result = await self._start(environment, lambda _stream, _line: None, "output", "-json", "-no-color")
        try:
            found = (
                msgspec.convert(parse_json_output(result.stdout), dict[str, dict[str, Any]])
                if result.exit_code == 0
                else None
            )
        except (ValueError, msgspec.ValidationError):
            found = None
        if found is None:
            raise ActionFailed("Can't read the module's outputs. They may be too large.", retryable=False)
        secrets = {name: each.get("value") for name, each in found.items() if each.get("sensitive")}
        self._call.context.register_secret(secrets)
        outputs = {name: each.get("value") for name, each in found.items() if not each.get("sensitive")}
        return {"outputs": outputs, "secrets": secrets}

    async def _command(self, events: TofuEvents, environment: Mapping[str, str], *arguments: str) -> int:
        """Run a command of the program, which writes events to both streams. Raises ActionFailed."""
        result = await self._start(environment, lambda _, line: events.handle_line(line), *arguments)
        if result.exit_code == 0 or (result.exit_code == _HAS_CHANGES and "-detailed-exitcode" in arguments):
            return result.exit_code
        redact = self._call.context.redact
        reason = redact(" ".join(events.errors)).strip() or _first_error(result, redact)
        raise ActionFailed(
            f"{Path(self._binary).name} {arguments[0]} ended with exit code {result.exit_code}: {reason}"
        )

    async def _start(self, environment: Mapping[str, str], on_line: OnLine, *arguments: str) -> ProcessResult:
        command = Command(
            argv=(self._binary, *arguments),
            directory=self._directory,
            work=self._directory / "module",
            environment=environment,
            timeout_s=self._timeout_s,
            line_chars=limits.PROGRAM_EVENT_CHARS,
            keep_bytes=limits.STEP_OUTPUT_BYTES,
            grace_s=limits.TOFU_GRACE_S,
        )
        return await run_program(command, on_line)


def _saved(operation: Operation, module: StoredModule | None, plan: bytes = b"", lock: bytes = b"") -> SavedPlan:
    state = "" if module is None else module.state
    serial, lineage = state_head(state)
    return SavedPlan(
        operation=operation,
        plan=plan,
        lock=lock,
        module=b"" if module is None else module.digest(),
        state=hashlib.sha256(state.encode()).digest(),
        serial=serial,
        lineage=lineage,
    )


def _as_approved(call: ActionCall, operation: str, module: StoredModule) -> SavedPlan | None:
    """Return the approved plan; None if nobody approved one, or it changes nothing.

    Raises NotApproved, which says what differs, or that the step has begun before: then that may be its own doing.
    """
    if call.approved is None:
        return None
    refuse_begun(call)
    saved = read_saved_plan(call.approved)
    differs: list[str] = []
    if saved.operation != operation:
        differs.append(f"the operation is {operation} instead of {saved.operation}")
    if not saved.module:
        differs.append("there was nothing to destroy")
    elif saved.module != module.digest():
        differs.append("the module or its variables changed")
    if operation != "plan" and saved.state != hashlib.sha256(module.state.encode()).digest():
        serial, lineage = state_head(module.state)
        if lineage != saved.lineage:
            differs.append(f"the state is another one ({lineage or 'none'} instead of {saved.lineage or 'none'})")
        else:
            differs.append(f"the state changed (serial {serial} instead of {saved.serial})")
    refuse_difference(differs)
    return saved if saved.plan else None


def _first_error(result: ProcessResult, redact: Callable[[str], str]) -> str:
    """Return what `init` wrote, from its first error on."""
    text = redact(result.stderr.strip() or result.stdout.strip())
    found = _INIT_ERROR.search(text)
    lines = (text if found is None else text[found.end() :]).splitlines()
    return " ".join(filter(None, (line.strip(" │╷╵|") for line in lines)))[:_EVENT_CHARS]


def _process_environment() -> dict[str, str]:
    return {
        "TF_IN_AUTOMATION": "1",
        "TF_INPUT": "0",
        "CHECKPOINT_DISABLE": "1",
        **{name: os.environ[name] for name in _OF_OPERATOR if os.environ.get(name)},
        **trace_variables(),
    }
