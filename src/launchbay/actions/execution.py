"""Programs on machines and in containers: `execrun`, `chefsolo` and `chefrun`, `container.run` (language §9)."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from launchbay import limits
from launchbay.actions.contract import IDENTITY_VARIABLE, ActionCall, ActionDefaults, ActionParameter, StepContext
from launchbay.actions.output import LiveLog, describe_exit, parse_json_output
from launchbay.actions.own_plan import PLAN, bounded_answer, has_plan, no_plan, plan_of_answers, read_answers
from launchbay.actions.parameters import (
    filled_texts,
    flag,
    optional_duration_s,
    optional_mapping,
    optional_roles,
    optional_text,
    optional_text_mapping,
    optional_texts,
    refuse_no_choice,
    required,
    required_text,
    text_or_default,
    whole_number,
    wrong_parameter,
)
from launchbay.actions.plan import ActionPlan, refuse_difference
from launchbay.concurrency import gather_bounded
from launchbay.errors import ActionFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.effect import Effect
from launchbay.model.machine import ChefRun, CommandResult, ImageRun, Machine, PlannedImageRun, RemoteCommand
from launchbay.model.scalars import text_of

T = TypeVar("T")
_ROLES = ActionParameter("The roles of the machines. Default: all roles.", type="list<string>", needs_value=True)


async def gather_on_machines(
    machines: Sequence[Machine], work: Callable[[Machine], Awaitable[T]], *, batch: int | None = None
) -> dict[str, T]:
    """Do the work on every machine and return the results by address.

    Works on `batch` machines at a time. A failure fails the batch after its last machine, and no further batch starts.
    """
    size = min(batch or limits.MACHINES_AT_ONCE, limits.MACHINES_AT_ONCE)
    results: dict[str, T] = {}
    for begin in range(0, len(machines), size):
        at_once = machines[begin : begin + size]
        found = await gather_bounded(map(work, at_once), size)
        results |= zip((machine.host for machine in at_once), found, strict=True)
    return results


_COMMAND = "a list of strings: one is a shell line or a script, more are a program and its arguments"


def _check_command(value: Any) -> None:
    """Raise ValueError for what isn't a command."""
    elements = [text_of(each) for each in (value if isinstance(value, list | tuple) else [value])]
    if not elements or None in elements or not str(elements[0]).strip():
        raise ValueError(f"Expected {_COMMAND}.")


_PLAN = ActionParameter(
    "A command that only reads, in the form of execrun. A plan runs it on each machine and shows what it prints.",
    needs_value=True,
    numbers="text",
    check=_check_command,
)


class _PlansByCommand(ActionDefaults):
    """An action on machines whose step may have a command as `plan`."""

    is_sudo = False  # unless the step says otherwise

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return what the command of the parameter `plan` prints on each machine."""
        return plan_of_answers(call, await self._answers(call)) if has_plan(call) else no_plan(call)

    async def require_approved(self, call: ActionCall) -> None:
        """Raise NotApproved if the command prints something else than what was approved.

        After a crash, the machines continue what the same attempt had begun, so nobody looks at what that changes.
        """
        if call.approved is not None and not call.continues:
            read_answers(call.approved).require(call, await self._answers(call) if has_plan(call) else {})
            await call.begin()

    async def _answers(self, call: ActionCall) -> dict[str, Any]:
        machines, parameters = call.context.machines, call.parameters
        line, *arguments = _elements(parameters, PLAN)
        command = RemoteCommand(
            line=line,
            arguments=arguments,
            shell=optional_text(parameters, "shell", "the name or path of a shell, such as bash") or "",
            sudo=flag(parameters, "isSudo", default=self.is_sudo),
            timeout_s=optional_duration_s(parameters, "timeout"),
            keep_bytes=limits.PLAN_VALUE_BYTES + 1,
            purpose=PLAN,
        )

        async def ask(machine: Machine) -> Any:
            result = await machines.run(machine, command)
            if result.exit_code != 0:
                what = describe_exit(f"The command of 'plan' on {machine.host}", result, call.context.redact)
                raise ActionFailed(what, retryable=False)
            return parse_output(bounded_answer(machine.host, result.stdout, call.context.redact))

        return await gather_on_machines(machines.targets(optional_roles(call)), ask)


_RUN_LIST = "a list of recipes and roles of Chef"


class Chef(_PlansByCommand):
    """Runs Chef on every machine of some roles, under two names."""

    on_machines = True
    parameters: Mapping[str, ActionParameter] = {
        "roles": _ROLES,
        "runList": ActionParameter("Recipes and roles of Chef.", type="list<string>", required=True),
        "recipeUrl": ActionParameter("The URL of the archive of cookbooks.", type="string"),
        "jattrs": ActionParameter("Attributes of the node.", type="map<string,object>"),
        "version": ActionParameter("The version of Chef.", type="string"),
        "isSolo": ActionParameter("Run without a Chef server. Default: true.", type="bool"),
        "isSudo": ActionParameter("Run as the superuser. Default: true.", type="bool"),
        PLAN: _PLAN,
    }
    outputs: Mapping[str, str] = {"chefState": "The attributes of the node after the run, by address."}

    is_sudo = True

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        machines, parameters = call.context.machines, call.parameters
        required(parameters, "runList", _RUN_LIST)
        chef = ChefRun(
            run_list=optional_texts(parameters, "runList", _RUN_LIST) or [],
            recipe_url=text_or_default(parameters, "recipeUrl", "the URL of an archive of cookbooks"),
            attributes=optional_mapping(parameters, "jattrs", "a map of attributes"),
            version=text_or_default(parameters, "version", "a version of Chef"),
            solo=flag(parameters, "isSolo", default=True),
            sudo=flag(parameters, "isSudo", default=True),
            identity=call.context.identity,
        )
        await self.require_approved(call)
        targets = machines.targets(optional_roles(call))
        with LiveLog(call.context.log, call.context.clock) as live:

            async def converge(machine: Machine) -> Mapping[str, Any]:
                return await machines.converge(machine, replace(chef, sink=live.for_host(machine.host)))

            return {"chefState": await gather_on_machines(targets, converge)}


class ExecRun(_PlansByCommand):
    """Runs a command; an exit code other than 0 fails the step."""

    name = "execrun"
    on_machines = True
    parameters: Mapping[str, ActionParameter] = {
        "roles": _ROLES,
        "command": ActionParameter(
            "A list: one element is a shell line or script, more are a program and its arguments.",
            required=True,
            numbers="text",
        ),
        "shell": ActionParameter(
            "The shell that reads the line, such as bash. The other elements are its arguments. Default: sh.",
            type="string",
        ),
        "isSudo": ActionParameter("Run as the superuser.", type="bool"),
        "batchSize": ActionParameter(
            "The number of machines at a time. The next ones start when these have succeeded.", type="int"
        ),
        "timeout": ActionParameter(
            'The maximum duration per machine, in seconds or as a string such as "5 minutes".', check=parse_duration_s
        ),
        PLAN: _PLAN,
    }
    outputs: Mapping[str, str] = {
        "stdout": "The output by address: a string, or a value if it is a JSON map or list.",
        "stderr": "The same for the errors.",
        "exitCode": "The exit code by address.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        machines, parameters = call.context.machines, call.parameters
        batch = parameters.get("batchSize")
        at_once = None if batch is None else whole_number(batch, "batchSize", minimum=1, maximum=limits.ROLE_MACHINES)
        line, *arguments = _elements(parameters, "command")
        shell = optional_text(parameters, "shell", "the name or path of a shell, such as bash") or ""
        sudo = flag(parameters, "isSudo", default=False)
        timeout_s = optional_duration_s(parameters, "timeout")
        await self.require_approved(call)
        targets = machines.targets(optional_roles(call))
        keep_bytes = output_limit_bytes(len(targets))
        with LiveLog(call.context.log, call.context.clock) as live:

            async def run(machine: Machine) -> CommandResult:
                sink = live.for_host(machine.host)
                command = RemoteCommand(
                    line=line,
                    arguments=arguments,
                    shell=shell,
                    sudo=sudo,
                    timeout_s=timeout_s,
                    sink=sink,
                    keep_bytes=keep_bytes,
                    identity=call.context.identity,
                )
                result = await machines.run(machine, command)
                if result.exit_code != 0:
                    notes = (result.note,) if result.note else ()
                    what = describe_exit(f"The command on {machine.host}", result, call.context.redact)
                    raise ActionFailed(what, *notes)
                return result

            results = await gather_on_machines(targets, run, batch=at_once)
        return {
            "stdout": {host: parse_output(result.stdout) for host, result in results.items()},
            "stderr": {host: parse_output(result.stderr) for host, result in results.items()},
            "exitCode": {host: result.exit_code for host, result in results.items()},
        }


def output_limit_bytes(machines: int) -> int:
    """Return the limit of each output; all fit into the limit of a step.

    Escaped as JSON a byte may become six, and every machine has two outputs.
    """
    return min(limits.COMMAND_RESULT_BYTES, limits.STEP_OUTPUT_BYTES // (13 * max(1, machines)))


def parse_output(text: str) -> Any:
    """Return an output for expressions: without the last line break, and parsed if it is a JSON map or list.

    A number or word stays a string: a password of digits must not become a number.
    """
    text = text.rstrip("\r\n")
    if text.lstrip().startswith(("{", "[")):
        try:
            return parse_json_output(text)
        except ValueError:
            return text
    return text


def _elements(parameters: Mapping[str, Any], name: str) -> Sequence[str]:
    value = required(parameters, name, _COMMAND)
    elements = [text_of(each) for each in (value if isinstance(value, list | tuple) else [value])]
    found = [element for element in elements if element is not None]
    if not found or len(found) < len(elements) or not found[0].strip():
        raise wrong_parameter(name, _COMMAND)
    return found


class ContainerRun(ActionDefaults):
    """Runs a command in a container of this server's engine; an exit code other than 0 fails the step."""

    name = "container.run"
    parameters: Mapping[str, ActionParameter] = {
        "image": ActionParameter("An image that the engine has, such as debian:12.", type="string", required=True),
        "command": ActionParameter(
            "The program and its arguments; a single string is a program. Default: the command of the image.",
            is_choice=True,
            numbers="text",
        ),
        "environment": ActionParameter(
            "Environment variables of the command.", type="map<string,string>", needs_value=True
        ),
        "directory": ActionParameter("The working directory in the image.", type="string", needs_value=True),
        "size": ActionParameter(
            "Processors and memory, such as 0.5x256m. Default: the limit in the settings.", is_choice=True
        ),
        "network": ActionParameter("One of the networks in the settings.", type="string", is_choice=True),
        "timeout": ActionParameter(
            'The maximum duration, in seconds or as a string such as "5 minutes".', check=parse_duration_s
        ),
        "failOnExitCode": ActionParameter("false: any exit code is a success.", type="bool"),
    }
    outputs: Mapping[str, str] = {
        "stdout": "The output: a string, or a value if it is a JSON map or list.",
        "stderr": "The same for the errors.",
        "exitCode": "The exit code.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        parameters, context = call.parameters, call.context
        refuse_no_choice(call, self.parameters)
        fails = flag(parameters, "failOnExitCode", default=True)
        run = _image_run(parameters)
        if call.approved is not None:
            approved = read_approved_run(call.approved)
            if not call.continues:  # else the container runs, and is followed to its end
                approved.require(_approved_run(run, await context.plan_image(run)))
                await call.begin()
            run = replace(run, image_id=approved.image_id)
        with LiveLog(context.log, context.clock) as live:
            environment = {**run.environment, **_identity(context)}
            result = await context.run_image(replace(run, environment=environment, sink=live.for_host(run.image)))
        if fails and result.exit_code != 0:
            raise ActionFailed(describe_exit(f"The command in {run.image}", result, context.redact))
        return {
            "stdout": parse_output(result.stdout),
            "stderr": parse_output(result.stderr),
            "exitCode": result.exit_code,
        }

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return the container that the step would start. Nobody knows what its command does."""
        refuse_no_choice(call, self.parameters)
        flag(call.parameters, "failOnExitCode", default=True)
        run = _image_run(call.parameters)
        planned = await call.context.plan_image(run)
        after = {
            "image": run.image,
            "imageId": planned.image_id,
            "command": list(run.command),
            "environment": dict(run.environment),
            "directory": run.directory,
            "size": f"{planned.cpus:g}x{planned.memory_mb}m",
            "network": planned.network,
        }
        effect = Effect(
            kind="run",
            address=call.context.step_path,
            after={name: value for name, value in after.items() if value},
            certainty="estimated",
            note="a container that is removed at its end; nobody knows what its command does",
        )
        return ActionPlan(effects=(effect,), artifact=msgspec.msgpack.encode(_approved_run(run, planned)))


class ApprovedRun(msgspec.Struct, frozen=True):
    """The artifact: the ID of the image, and digests of command and limits."""

    image_id: str
    command: bytes
    limits: bytes

    def require(self, found: "ApprovedRun") -> None:
        """Raise NotApproved unless the same would run."""
        differs: list[str] = []
        if found.image_id != self.image_id:
            differs.append(f"the image is {found.image_id} instead of {self.image_id}")
        if found.command != self.command:
            differs.append("the parameters of the step changed")
        if found.limits != self.limits:
            differs.append("the size or network of the container changed")
        refuse_difference(differs)


read_approved_run = msgspec.msgpack.Decoder(ApprovedRun).decode


def _approved_run(run: ImageRun, planned: PlannedImageRun) -> ApprovedRun:
    command = [run.image, list(run.command), dict(run.environment), run.directory, run.timeout_s]
    return ApprovedRun(planned.image_id, _digest(command), _digest([planned.cpus, planned.memory_mb, planned.network]))


def _digest(value: Any) -> bytes:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).digest()


def _image_run(parameters: Mapping[str, Any]) -> ImageRun:
    """Return what the parameters say, without the step's token."""
    return ImageRun(
        image=required_text(parameters, "image", "the name of an image that the engine has"),
        command=tuple(filled_texts(parameters, "command", "a program and its arguments, a list of strings") or ()),
        environment=_environment(parameters),
        directory=optional_text(parameters, "directory", "a path in the image") or "",
        size=optional_text(parameters, "size", "a size such as 0.5x256m") or "",
        network=optional_text(parameters, "network", "the name of a network") or "",
        timeout_s=optional_duration_s(parameters, "timeout"),
        keep_bytes=output_limit_bytes(1),
    )


def _identity(context: StepContext) -> dict[str, str]:
    """Return the variable with the step's token. A container has no file for it."""
    return {} if context.identity is None else {IDENTITY_VARIABLE: context.identity}


def _environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    variables = optional_text_mapping(parameters, "environment", "a map from names to strings")
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise wrong_parameter(f"environment.{name}", "a string")
    return variables
