"""`container.run`: a command in an image, to its end."""

from collections.abc import Mapping
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.execrun import kept_bytes, output_of
from launchbay.actions.live_log import LiveLog
from launchbay.actions.parameters import (
    flag,
    optional_duration_s,
    optional_mapping,
    optional_text,
    optional_texts,
    required_text,
    text_of,
    wrong_parameter,
)
from launchbay.errors import ActionFailed
from launchbay.model.machine import ImageRun

_ENVIRONMENT = "a map from names to texts"
_TOLD_CHARS = 400


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
            sink=live.of(image),
            keep_bytes=kept_bytes(1),
        )
        try:
            result = await context.run_image(asked)
        finally:
            live.end()
        if fails and result.exit_code != 0:
            told = context.covered(result.stderr.strip() or result.stdout.strip())[-_TOLD_CHARS:]
            raise ActionFailed(
                f"The command in {image} ended with exit code {result.exit_code}" + (f": {told}" if told else ".")
            )
        return {
            "stdout": output_of(result.stdout),
            "stderr": output_of(result.stderr),
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
