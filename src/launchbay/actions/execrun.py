"""`execrun`: a command on every machine of some roles (manifest-language §9)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.foreign_data import parsed_json
from launchbay.actions.live_log import LiveLog
from launchbay.actions.on_machines import on_each
from launchbay.actions.parameters import (
    flag,
    optional_duration_s,
    optional_texts,
    required,
    text_of,
    whole_number,
    wrong_parameter,
)
from launchbay.errors import ActionFailed
from launchbay.model.machine import CommandResult, Machine, RemoteCommand, shell_line

_COMMAND = "a list of texts: one is a shell line or a script, more are a program and its arguments"
_TOLD_CHARS = 400  # of what a failed command has written


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
        at_once = None if batch is None else whole_number(batch, "batchSize", least=1, most=limits.ROLE_MACHINES)
        line = shell_line(_elements(parameters))
        sudo = flag(parameters, "isSudo", default=False)
        timeout_s = optional_duration_s(parameters, "timeout")
        targets = machines.to_reach(optional_texts(parameters, "roles", "a list of roles"))
        live = LiveLog(call.context.log, call.context.clock)
        keep_bytes = kept_bytes(len(targets))

        async def run(machine: Machine) -> CommandResult:
            sink = live.of(machine.host)
            command = RemoteCommand(line=line, sudo=sudo, timeout_s=timeout_s, sink=sink, keep_bytes=keep_bytes)
            result = await machines.run(machine, command)
            if result.exit_code != 0:
                raise ActionFailed(_failure(machine, result, call.context.covered))
            return result

        try:
            results = await on_each(targets, run, batch=at_once)
        finally:
            live.end()
        return {
            "stdout": {host: output_of(result.stdout) for host, result in results.items()},
            "stderr": {host: output_of(result.stderr) for host, result in results.items()},
            "exitCode": {host: result.exit_code for host, result in results.items()},
        }


def kept_bytes(machines: int) -> int:
    """Return how much of each output is kept, so that all of them together are no more than a step may give.

    Escaped as JSON a byte may become six, and there are two outputs of every machine.
    """
    return min(limits.COMMAND_KEPT_BYTES, limits.STEP_OUTPUT_BYTES // (13 * max(1, machines)))


def output_of(text: str) -> Any:
    """Return an output as expressions see it: without its last line break, and parsed where it is a JSON map or list.

    A number or word stays text: a password of digits must not become a number.
    """
    text = text.rstrip("\r\n")
    if text.lstrip().startswith(("{", "[")):
        try:
            return parsed_json(text)
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


def _failure(machine: Machine, result: CommandResult, covered: Callable[[str], str]) -> str:
    # Before it is cut: a secret may stand where the rest begins.
    told = covered(result.stderr.strip() or result.stdout.strip())[-_TOLD_CHARS:]
    return f"On {machine.host} the command ended with exit code {result.exit_code}" + (f": {told}" if told else ".")
