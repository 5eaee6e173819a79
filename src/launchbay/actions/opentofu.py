"""`opentofu`: infrastructure as modules describe it (docs/decisions/0061-state-of-opentofu.md)."""

import asyncio
import io
import json
import os
import re
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter, Documents
from launchbay.actions.output import LiveLog, ProgressReporter
from launchbay.actions.parameters import optional_duration_s, optional_mapping, optional_text, text_of, wrong_parameter
from launchbay.egress.archives import download_and_unpack, unpack
from launchbay.errors import ActionFailed
from launchbay.model.redaction import is_secret_name
from launchbay.processes.run import Command, OnLine, ProcessResult, private_directory, run_program, write_private

_EVENT_CHARS = 1_000
_ERRORS_REPORTED = 10
_CHANGES = ("add", "change", "remove")


class TofuEvents:
    """Takes the lines of one command. `changes` is the last summary: how much is added, changed, removed."""

    def __init__(
        self, log: Callable[[str], None], progress: Callable[[int], None], redact: Callable[[str], str] = str
    ) -> None:
        self._log = log
        self._progress = progress
        self._redact = redact  # what is cut, before it is
        self._planned = self._done = 0
        self.changes: dict[str, int] = {}
        self.errors: list[str] = []

    def handle_line(self, line: str) -> None:
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
        self._handle_event(event)

    def _handle_event(self, event: dict[str, Any]) -> None:
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
        if not isinstance(told, dict) or told.get("severity") != "error" or len(self.errors) >= _ERRORS_REPORTED:
            return
        texts = [str(told.get(name) or "").strip() for name in ("summary", "detail")]
        where = told.get("address")
        text = self._redact(": ".join(text for text in texts if text))[:_EVENT_CHARS]
        self.errors.append(f"{where}: {text}" if isinstance(where, str) and where else text)


STATE = "terraform.tfstate"
_MAIN = "main.tf"
_VARIABLES = "launchbay.auto.tfvars.json"
_BACKEND = "launchbay_override.tf.json"
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_MODULE_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN_NAMES = frozenset(("PATH", "HOME", "TMPDIR", "LANG", "TF_DATA_DIR", "TF_CLI_CONFIG_FILE"))
_ENVIRONMENT = "a map from names such as AWS_ACCESS_KEY_ID to texts"


class StoredModule(msgspec.Struct, frozen=True):
    """`archive` is the module, a tar.gz; `state` the text of OpenTofu's own document, empty before the first one."""

    archive: bytes
    variables: dict[str, Any] = {}
    environment: dict[str, str] = {}
    state: str = ""

    def encoded(self) -> bytes:
        """Return the form that is kept."""
        return msgspec.msgpack.encode(self)

    def write(self, directory: Path) -> None:
        """Put the module into a directory, ready to be initialised there."""
        top = unpack(self.archive, directory / "unpacked")
        top.rename(directory / "module")
        module = directory / "module"
        # The state belongs to the instance, whatever backend the module names.
        backend = {"terraform": {"backend": {"local": {"path": str(directory / STATE)}}}}
        write_private(module / _BACKEND, msgspec.json.encode(backend).decode())
        write_private(module / _VARIABLES, msgspec.json.encode(self.variables).decode())
        if self.state:
            write_private(directory / STATE, self.state)


def read_module(data: bytes) -> StoredModule:
    """Return a module from the form that is kept."""
    return _decoder.decode(data)


async def module_from_parameters(call: ActionCall, directory: Path, state: str) -> StoredModule:
    """Return the module that a step's parameters give, with a state from before. Raises ActionFailed."""
    parameters = call.parameters
    url = optional_text(parameters, "url", "the URL of a tar.gz")
    module = parameters.get("module")
    if (url is None) == (module is None):
        raise ActionFailed("Give either 'module' or 'url', and not both.", retryable=False)
    if url is None:
        files = _inline(module)
    else:
        top = await download_and_unpack(call.context.egress, url, directory / "fetched")
        files = _files_below(top / _directory(parameters))
    variables = dict(optional_mapping(parameters, "variables", "a map from names to values"))
    try:
        json.dumps(variables, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong_parameter("variables", f"data that JSON can hold ({error})") from error
    return StoredModule(_packed(files), variables, _module_environment(parameters), state)


def _inline(module: object) -> dict[str, bytes]:
    files = {_MAIN: module} if isinstance(module, str) else module
    expected = "the text of main.tf, or a map from names of files to their texts"
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
        raise ActionFailed("The archive has no module there: no file that ends with .tf.", retryable=False)
    return files


def _packed(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, content in files.items():
            # Below a directory of its own, so that it unpacks to the same whatever is in it.
            member = tarfile.TarInfo(f"module/{name}")
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    if written.tell() > limits.TOFU_MODULE_BYTES:
        raise ActionFailed(
            f"The module has {written.tell()} bytes, packed; at most {limits.TOFU_MODULE_BYTES} are kept.",
            "Leave out of the archive what the module does not need.",
            retryable=False,
        )
    return written.getvalue()


def _module_environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in optional_mapping(parameters, "environment", _ENVIRONMENT).items():
        text = text_of(value)
        if (
            text is None
            or not _MODULE_VARIABLE_NAME.fullmatch(name)
            or "\0" in text
            or name in _OWN_NAMES
            or name.startswith("LD_")
        ):
            raise wrong_parameter(f"environment.{name}", f"{_ENVIRONMENT}; not {', '.join(sorted(_OWN_NAMES))}, LD_*")
        found[name] = text
    return found


_decoder = msgspec.msgpack.Decoder(StoredModule)

# Keeps the state of OpenTofu while it works: whenever the program writes its file, the file goes into the database.
#
# The program writes its state after every resource, so what is lost when this server dies is at most what was made
# since the last look.

POLL_S = 0.5


class StateSaver:
    """Writes one kept document, over the version that was read."""

    def __init__(self, documents: Documents, name: str, module: StoredModule, version: int) -> None:
        self._documents = documents
        self._name = name
        self._module = module
        self._version = version
        self._written: str | None = None
        self._writing = asyncio.Lock()  # a look that is broken off goes on writing, and the last one waits for it

    @asynccontextmanager
    async def saving_changes(self, state: Path) -> AsyncIterator[None]:
        """Keep the module before anything is made, then its state as it changes, and at the end however that comes."""
        await self._keep(self._module.state)
        looking = asyncio.create_task(self._save_if_changed(state))
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            await asyncio.shield(self._keep_file(state))

    async def delete(self) -> None:
        """Drop the document: nothing is left of what it tells."""
        await self._documents.delete(self._name)

    async def _save_if_changed(self, state: Path) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await asyncio.shield(self._keep_file(state))

    async def _keep_file(self, state: Path) -> None:
        async with self._writing:
            text = await asyncio.to_thread(_complete_state, state)
            if text is not None and text != self._written:
                await self._keep(text)

    async def _keep(self, text: str) -> None:
        kept = msgspec.structs.replace(self._module, state=text)
        self._version = await self._documents.write(self._name, kept.encoded(), self._version)
        self._written = text


def _complete_state(state: Path) -> str | None:
    """Return the file's text, None where there is none or it is being written just now."""
    try:
        text = state.read_text("utf-8")
        msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return None
    return text


_REMEDY = "The operator installs OpenTofu (tofu) or Terraform (terraform)."
_BINARIES = ("tofu", "terraform")
_OPERATIONS = ("apply", "plan", "destroy")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_REPORTED_CHARS = 500
_OF_OPERATOR = ("TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR")  # where providers come from is the operator's to say


class OpenTofu:
    """Applies or destroys a module; its state is kept with the instance, sealed, and it ends with the instance."""

    name = "opentofu"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "operation": ActionParameter("apply, plan or destroy; apply if left out.", type="string"),
        "module": ActionParameter("The text of main.tf, or a map from names of files to texts."),
        "url": ActionParameter("In its place, where the module is, a tar.gz.", type="string"),
        "directory": ActionParameter("The directory of the archive that the module is in.", type="string"),
        "name": ActionParameter("Which state of the component this is; default if left out.", type="string"),
        "variables": ActionParameter("The module's variables by name.", type="map<string,object>"),
        "environment": ActionParameter("Variables of the environment, such as credentials.", type="map<string,string>"),
        "timeout": ActionParameter('How long it may take: seconds, or a text such as "1 hour"; 1 hour if left out.'),
    }
    outputs: Mapping[str, str] = {
        "outputs": "The module's outputs by name, without the sensitive ones.",
        "secrets": "The sensitive outputs by name.",
        "changes": "How many resources the operation adds, changes, removes.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Apply, plan or destroy."""
        binary = call.context.programs.require("opentofu", *_BINARIES, remedy=_REMEDY)
        operation = optional_text(call.parameters, "operation", "one of apply, plan, destroy") or "apply"
        if operation not in _OPERATIONS:
            raise wrong_parameter("operation", f"one of {', '.join(_OPERATIONS)}")
        name = optional_text(call.parameters, "name", "a name") or "default"
        if not _NAME.fullmatch(name) or len(name) > limits.DOCUMENT_NAME_CHARS:
            raise wrong_parameter("name", "letters, digits, '_', '.' and '-'")
        timeout_s = optional_duration_s(call.parameters, "timeout", longest_s=limits.PROGRAM_LONGEST_S)
        kept = await call.context.documents.read(name)
        before = None if kept is None else read_module(kept.data)
        async with private_directory() as directory:
            if operation == "destroy" and not {"module", "url"} & set(call.parameters):
                if before is None:
                    call.context.log("info", f"There is nothing to destroy: no state is kept as {name!r}.")
                    return {"outputs": {}, "secrets": {}, "changes": {}}
                module = before
            else:
                module = await module_from_parameters(call, directory, "" if before is None else before.state)
            keeper = StateSaver(call.context.documents, name, module, 0 if kept is None else kept.version)
            work = _Work(call, binary, directory, limits.PROGRAM_S if timeout_s is None else timeout_s)
            return await work.run(operation, module, keeper)

    async def teardown(self, call: ActionCall, name: str) -> None:
        """Destroy what the kept state tells of."""
        kept = await call.context.documents.read(name)
        if kept is None:
            return
        binary = call.context.programs.require("opentofu", *_BINARIES, remedy=_REMEDY)
        module = read_module(kept.data)
        known = {**module.variables, **module.environment}
        call.context.register_secret({name: value for name, value in known.items() if is_secret_name(name)})
        async with private_directory() as directory:
            keeper = StateSaver(call.context.documents, name, module, kept.version)
            await _Work(call, binary, directory, limits.TEARDOWN_S).run("destroy", module, keeper)


class _Work:
    """One run of the program's commands in a private directory."""

    def __init__(self, call: ActionCall, binary: str, directory: Path, timeout_s: float) -> None:
        self._call = call
        self._binary = binary
        self._directory = directory
        self._timeout_s = timeout_s
        self._live = LiveLog(call.context.log, call.context.clock)

    async def run(self, operation: str, module: StoredModule, keeper: StateSaver) -> Mapping[str, Any]:
        await asyncio.to_thread(module.write, self._directory)
        environment = {**_process_environment(), **module.environment}
        state = self._directory / STATE
        async with ProgressReporter(self._call.context) as reports:
            events = TofuEvents(self._live.write, reports.progress, self._call.context.redact)
            try:
                await self._command(events, environment, "init", "-input=false", "-no-color")
                if operation == "plan":
                    await self._command(events, environment, "plan", "-input=false", "-json", "-lock=false")
                    return {"outputs": {}, "secrets": {}, "changes": events.changes}
                async with keeper.saving_changes(state):
                    await self._command(events, environment, operation, "-input=false", "-json", "-auto-approve")
            finally:
                self._live.close()
        if operation == "destroy":
            await keeper.delete()
            return {"outputs": {}, "secrets": {}, "changes": events.changes}
        return {**await self._outputs(environment), "changes": events.changes}

    async def _outputs(self, environment: Mapping[str, str]) -> dict[str, Any]:
        result = await self._start(environment, _ignore, "output", "-json", "-no-color")
        try:
            found = (
                msgspec.json.decode(result.stdout, type=dict[str, dict[str, Any]]) if result.exit_code == 0 else None
            )
        except msgspec.DecodeError:
            found = None
        if found is None:
            raise ActionFailed("The module's outputs cannot be read; there may be too much of them.", retryable=False)
        secrets = {name: each.get("value") for name, each in found.items() if each.get("sensitive")}
        self._call.context.register_secret(secrets)
        outputs = {name: each.get("value") for name, each in found.items() if not each.get("sensitive")}
        return {"outputs": outputs, "secrets": secrets}

    async def _command(self, events: TofuEvents, environment: Mapping[str, str], *arguments: str) -> None:
        """Run a command of the program; what it says is on both streams. Raises ActionFailed."""
        result = await self._start(environment, lambda _, line: events.handle_line(line), *arguments)
        if result.exit_code == 0:
            return
        covered = self._call.context.redact
        tail = covered(result.stderr.strip() or result.stdout.strip())[-_REPORTED_CHARS:]
        told = events.errors or [tail]
        raise ActionFailed(
            f"{Path(self._binary).name} {arguments[0]} ended with exit code {result.exit_code}: "
            + covered(" ".join(told)).strip()
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


def _ignore(_stream: str, _line: str) -> None:
    """Log nothing: it may be a secret."""


def _process_environment() -> dict[str, str]:
    return {
        "TF_IN_AUTOMATION": "1",
        "TF_INPUT": "0",
        "CHECKPOINT_DISABLE": "1",
        **{name: os.environ[name] for name in _OF_OPERATOR if os.environ.get(name)},
    }
