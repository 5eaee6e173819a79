"""`opentofu`: infrastructure as modules describe it (docs/decisions/0061-state-of-opentofu.md)."""

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.live_log import LiveLog
from launchbay.actions.parameters import optional_duration_s, optional_text, wrong_parameter
from launchbay.actions.reports import Reports
from launchbay.actions.tofu_events import TofuEvents
from launchbay.actions.tofu_module import STATE, KeptModule, given_module, read_module
from launchbay.actions.tofu_state import StateKeeper
from launchbay.errors import ActionFailed
from launchbay.model.redaction import is_secret_name
from launchbay.processes.run import Command, Ended, Line, run_program, workplace

_REMEDY = "The operator installs OpenTofu (tofu) or Terraform (terraform)."
_BINARIES = ("tofu", "terraform")
_OPERATIONS = ("apply", "plan", "destroy")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_TOLD_CHARS = 500
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
        if not _NAME.fullmatch(name) or len(name) > limits.KEPT_NAME_CHARS:
            raise wrong_parameter("name", "letters, digits, '_', '.' and '-'")
        timeout_s = optional_duration_s(call.parameters, "timeout", longest_s=limits.PROGRAM_LONGEST_S)
        kept = await call.context.documents.read(name)
        before = None if kept is None else read_module(kept.data)
        async with workplace() as directory:
            if operation == "destroy" and not {"module", "url"} & set(call.parameters):
                if before is None:
                    call.context.log("info", f"There is nothing to destroy: no state is kept as {name!r}.")
                    return {"outputs": {}, "secrets": {}, "changes": {}}
                module = before
            else:
                module = await given_module(call, directory, "" if before is None else before.state)
            keeper = StateKeeper(call.context.documents, name, module, 0 if kept is None else kept.version)
            work = _Work(call, binary, directory, limits.PROGRAM_S if timeout_s is None else timeout_s)
            return await work.run(operation, module, keeper)

    async def take_down(self, call: ActionCall, name: str) -> None:
        """Destroy what the kept state tells of."""
        kept = await call.context.documents.read(name)
        if kept is None:
            return
        binary = call.context.programs.require("opentofu", *_BINARIES, remedy=_REMEDY)
        module = read_module(kept.data)
        known = {**module.variables, **module.environment}
        call.context.learn({name: value for name, value in known.items() if is_secret_name(name)})
        async with workplace() as directory:
            keeper = StateKeeper(call.context.documents, name, module, kept.version)
            await _Work(call, binary, directory, limits.TAKE_DOWN_S).run("destroy", module, keeper)


class _Work:
    """One run of the program's commands in a private directory."""

    def __init__(self, call: ActionCall, binary: str, directory: Path, timeout_s: float) -> None:
        self._call = call
        self._binary = binary
        self._directory = directory
        self._timeout_s = timeout_s
        self._live = LiveLog(call.context.log, call.context.clock)

    async def run(self, operation: str, module: KeptModule, keeper: StateKeeper) -> Mapping[str, Any]:
        await asyncio.to_thread(module.write, self._directory)
        environment = {**_environment(), **module.environment}
        state = self._directory / STATE
        async with Reports(self._call.context) as reports:
            events = TofuEvents(self._live.write, reports.progress, self._call.context.covered)
            try:
                await self._command(events, environment, "init", "-input=false", "-no-color")
                if operation == "plan":
                    await self._command(events, environment, "plan", "-input=false", "-json", "-lock=false")
                    return {"outputs": {}, "secrets": {}, "changes": events.changes}
                async with keeper.following(state):
                    await self._command(events, environment, operation, "-input=false", "-json", "-auto-approve")
            finally:
                self._live.end()
        if operation == "destroy":
            await keeper.forget()
            return {"outputs": {}, "secrets": {}, "changes": events.changes}
        return {**await self._outputs(environment), "changes": events.changes}

    async def _outputs(self, environment: Mapping[str, str]) -> dict[str, Any]:
        ended = await self._start(environment, _ignore, "output", "-json", "-no-color")
        try:
            found = msgspec.json.decode(ended.stdout, type=dict[str, dict[str, Any]]) if ended.exit_code == 0 else None
        except msgspec.DecodeError:
            found = None
        if found is None:
            raise ActionFailed("The module's outputs cannot be read; there may be too much of them.", retryable=False)
        secrets = {name: each.get("value") for name, each in found.items() if each.get("sensitive")}
        self._call.context.learn(secrets)
        outputs = {name: each.get("value") for name, each in found.items() if not each.get("sensitive")}
        return {"outputs": outputs, "secrets": secrets}

    async def _command(self, events: TofuEvents, environment: Mapping[str, str], *arguments: str) -> None:
        """Run a command of the program; what it says is on both streams. Raises ActionFailed."""
        ended = await self._start(environment, lambda _, line: events.take(line), *arguments)
        if ended.exit_code == 0:
            return
        covered = self._call.context.covered
        tail = covered(ended.stderr.strip() or ended.stdout.strip())[-_TOLD_CHARS:]
        told = events.errors or [tail]
        raise ActionFailed(
            f"{Path(self._binary).name} {arguments[0]} ended with exit code {ended.exit_code}: "
            + covered(" ".join(told)).strip()
        )

    async def _start(self, environment: Mapping[str, str], on_line: Line, *arguments: str) -> Ended:
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


def _environment() -> dict[str, str]:
    return {
        "TF_IN_AUTOMATION": "1",
        "TF_INPUT": "0",
        "CHECKPOINT_DISABLE": "1",
        **{name: os.environ[name] for name in _OF_OPERATOR if os.environ.get(name)},
    }
