"""`chefsolo` and `chefrun`: Chef brings machines to the state that recipes describe (manifest-language §9)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.output import LiveLog, parse_json_output
from launchbay.actions.parameters import (
    flag,
    optional_duration_s,
    optional_mapping,
    optional_text,
    optional_texts,
    required,
    required_text,
    text_of,
    whole_number,
    wrong_parameter,
)
from launchbay.errors import ActionFailed
from launchbay.model.machine import ChefRun, CommandResult, ImageRun, Machine, RemoteCommand, shell_line

T = TypeVar("T")


async def gather_on_machines(
    machines: Sequence[Machine], work: Callable[[Machine], Awaitable[T]], *, batch: int | None = None
) -> dict[str, T]:
    """Do the work on every machine and return what it gave by address.

    With a `batch` only so many machines are worked on at the same time, and the next ones begin when these have ended:
    after a failure no further batch begins. Raises ActionFailed with the failures of all machines of the batch.
    """
    size = min(batch or limits.MACHINES_AT_ONCE, limits.MACHINES_AT_ONCE)
    found: dict[str, T] = {}
    for begin in range(0, len(machines), size):
        at_once = machines[begin : begin + size]
        results = await asyncio.gather(*(work(machine) for machine in at_once), return_exceptions=True)
        failures: list[ActionFailed] = []
        for machine, result in zip(at_once, results, strict=True):
            if isinstance(result, ActionFailed):
                failures.append(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                found[machine.host] = result
        if failures:
            sentences = dict.fromkeys(sentence for failure in failures for sentence in failure.messages)
            raise ActionFailed(*sentences, retryable=any(failure.retryable for failure in failures))
    return found


_RUN_LIST = "a list of recipes and roles of Chef"


@dataclass(frozen=True)
class Chef:
    """Runs Chef on every machine of some roles; the same work under two names."""

    name: str
    aliases: tuple[str, ...] = ()
    pure: bool = False
    on_machines: bool = True

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """The documented parameters by name."""
        return {
            "roles": ActionParameter("The roles whose machines do it; all where it is left out.", type="list<string>"),
            "runList": ActionParameter("Recipes and roles of Chef.", type="list<string>", required=True),
            "recipeUrl": ActionParameter("Where the archive of cookbooks is.", type="string"),
            "jattrs": ActionParameter("Attributes of the node.", type="map<string,object>"),
            "version": ActionParameter("The version of Chef.", type="string"),
            "isSolo": ActionParameter("Without a Chef server; true where it is left out.", type="bool"),
            "isSudo": ActionParameter("Run as the superuser; true where it is left out.", type="bool"),
        }

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name."""
        return {"chefState": "Address to the attributes that the node has afterwards."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Run Chef."""
        machines, parameters = call.context.machines, call.parameters
        required(parameters, "runList", _RUN_LIST)
        live = LiveLog(call.context.log, call.context.clock)
        chef = ChefRun(
            run_list=optional_texts(parameters, "runList", _RUN_LIST) or [],
            recipe_url=optional_text(parameters, "recipeUrl", "the URL of an archive of cookbooks") or "",
            attributes=optional_mapping(parameters, "jattrs", "a map of attributes"),
            version=optional_text(parameters, "version", "a version of Chef") or "",
            solo=flag(parameters, "isSolo", default=True),
            sudo=flag(parameters, "isSudo", default=True),
        )
        targets = machines.targets(optional_texts(parameters, "roles", "a list of roles"))

        async def converge(machine: Machine) -> Mapping[str, Any]:
            return await machines.converge(machine, replace(chef, sink=live.for_host(machine.host)))

        try:
            return {"chefState": await gather_on_machines(targets, converge)}
        finally:
            live.close()


_COMMAND = "a list of texts: one is a shell line or a script, more are a program and its arguments"
_REPORTED_CHARS = 400  # of what a failed command has written


class ExecRun:
    """Runs a command; an exit code that is not 0 fails the step."""

    name = "execrun"
    aliases: tuple[str, ...] = ()
    pure = False
    on_machines = True
    parameters: Mapping[str, ActionParameter] = {
        "roles": ActionParameter("The roles whose machines do it; all where it is left out.", type="list<string>"),
        "command": ActionParameter(
            "A list: one element is a shell line or script, more are a program and its arguments.", required=True
        ),
        "isSudo": ActionParameter("Run as the superuser.", type="bool"),
        "batchSize": ActionParameter(
            "How many machines at the same time; the next ones wait for these to succeed.", type="int"
        ),
        "timeout": ActionParameter('How long it may take on one machine: seconds, or a text such as "5 minutes".'),
    }
    outputs: Mapping[str, str] = {
        "stdout": "Address to text, or to the value where the text is a JSON map or list.",
        "stderr": "The same for the errors.",
        "exitCode": "Address to exit code.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Run the command."""
        machines, parameters = call.context.machines, call.parameters
        batch = parameters.get("batchSize")
        at_once = None if batch is None else whole_number(batch, "batchSize", minimum=1, maximum=limits.ROLE_MACHINES)
        line = shell_line(_elements(parameters))
        sudo = flag(parameters, "isSudo", default=False)
        timeout_s = optional_duration_s(parameters, "timeout")
        targets = machines.targets(optional_texts(parameters, "roles", "a list of roles"))
        live = LiveLog(call.context.log, call.context.clock)
        keep_bytes = output_limit_bytes(len(targets))

        async def run(machine: Machine) -> CommandResult:
            sink = live.for_host(machine.host)
            command = RemoteCommand(line=line, sudo=sudo, timeout_s=timeout_s, sink=sink, keep_bytes=keep_bytes)
            result = await machines.run(machine, command)
            if result.exit_code != 0:
                raise ActionFailed(_failure(machine, result, call.context.redact))
            return result

        try:
            results = await gather_on_machines(targets, run, batch=at_once)
        finally:
            live.close()
        return {
            "stdout": {host: parse_output(result.stdout) for host, result in results.items()},
            "stderr": {host: parse_output(result.stderr) for host, result in results.items()},
            "exitCode": {host: result.exit_code for host, result in results.items()},
        }


def output_limit_bytes(machines: int) -> int:
    """Return how much of each output is kept, so that all of them together are no more than a step may give.

    Escaped as JSON a byte may become six, and there are two outputs of every machine.
    """
    return min(limits.COMMAND_RESULT_BYTES, limits.STEP_OUTPUT_BYTES // (13 * max(1, machines)))


def parse_output(text: str) -> Any:
    """Return an output as expressions see it: without its last line break, and parsed where it is a JSON map or list.

    A number or word stays text: a password of digits must not become a number.
    """
    text = text.rstrip("\r\n")
    if text.lstrip().startswith(("{", "[")):
        try:
            return parse_json_output(text)
        except ValueError:
            return text
    return text


def _elements(parameters: Mapping[str, Any]) -> Sequence[str]:
    value = required(parameters, "command", _COMMAND)
    elements = [text_of(each) for each in (value if isinstance(value, list | tuple) else [value])]
    found = [element for element in elements if element is not None]
    if not found or len(found) < len(elements) or not found[0].strip():
        raise wrong_parameter("command", _COMMAND)
    return found


def _failure(machine: Machine, result: CommandResult, redact: Callable[[str], str]) -> str:
    # Before it is cut: a secret may stand where the rest begins.
    told = redact(result.stderr.strip() or result.stdout.strip())[-_REPORTED_CHARS:]
    return f"On {machine.host} the command ended with exit code {result.exit_code}" + (f": {told}" if told else ".")


_ENVIRONMENT = "a map from names to texts"


class ContainerRun:
    """Runs a command in a container of this server's engine; an exit code that is not 0 fails the step."""

    name = "container.run"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "image": ActionParameter("An image that the engine has, such as debian:12.", type="string", required=True),
        "command": ActionParameter(
            "The program and its arguments; a single text is a program. Left out: what the image runs."
        ),
        "environment": ActionParameter("Variables of the command's environment.", type="map<string,string>"),
        "directory": ActionParameter("Where in the image the command starts.", type="string"),
        "size": ActionParameter("Processors and memory, such as 0.5x256m; the operator's bound if left out."),
        "network": ActionParameter("One of the networks that the operator allows.", type="string"),
        "timeout": ActionParameter('How long it may take: seconds, or a text such as "5 minutes".'),
        "failOnExitCode": ActionParameter("false: any exit code is a success.", type="bool"),
    }
    outputs: Mapping[str, str] = {
        "stdout": "What the command has written: text, or the value where it is a JSON map or list.",
        "stderr": "The same of its errors.",
        "exitCode": "Its exit code.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Run the command."""
        parameters, context = call.parameters, call.context
        fails = flag(parameters, "failOnExitCode", default=True)
        image = required_text(parameters, "image", "the name of an image that the engine has")
        live = LiveLog(context.log, context.clock)
        asked = ImageRun(
            image=image,
            command=tuple(optional_texts(parameters, "command", "a program and its arguments, a list of texts") or ()),
            environment=_environment(parameters),
            directory=optional_text(parameters, "directory", "a path in the image") or "",
            size=optional_text(parameters, "size", "a size such as 0.5x256m") or "",
            network=optional_text(parameters, "network", "the name of a network") or "",
            timeout_s=optional_duration_s(parameters, "timeout"),
            sink=live.for_host(image),
            keep_bytes=output_limit_bytes(1),
        )
        try:
            result = await context.run_image(asked)
        finally:
            live.close()
        if fails and result.exit_code != 0:
            told = context.redact(result.stderr.strip() or result.stdout.strip())[-_REPORTED_CHARS:]
            raise ActionFailed(
                f"The command in {image} ended with exit code {result.exit_code}" + (f": {told}" if told else ".")
            )
        return {
            "stdout": parse_output(result.stdout),
            "stderr": parse_output(result.stderr),
            "exitCode": result.exit_code,
        }


def _environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in optional_mapping(parameters, "environment", _ENVIRONMENT).items():
        text = text_of(value)
        if text is None or not name or "=" in name or "\0" in name + text:
            raise wrong_parameter(f"environment.{name}", "a text")
        found[name] = text
    return found
