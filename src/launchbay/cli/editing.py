"""`launchbay edit`: change something in an editor, unless it has changed meanwhile."""

import difflib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from launchbay.cli.commands import connected, sharing_options
from launchbay.cli.connection import Connection
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.inputs import document
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import CommandFailed, RemoteCommand, exit_code_of, lines, printable
from launchbay.client import ApiError, ClientError, Operations, PreconditionFailed
from launchbay.client.core import Call
from launchbay.model.yaml_text import yaml_text

Write = Callable[[str, Any, Any], Call[Any]]  # ID, what was read, what the editor left


@dataclass(frozen=True)
class Kind:
    """How something is read, shown in the editor, and sent back.

    `shown` is what the editor gets of an answer: a text, or a value that is written as YAML.
    """

    of: str  # the noun that the command's argument names
    read: Callable[[str], Call[Any]]
    shown: Callable[[Any], Any]
    write: Write


def _same(answer: Any) -> Any:
    return answer


def _fields(*names: str) -> Callable[[Any], Any]:
    return lambda answer: {name: answer[name] for name in names}


def _changed_parameters(answer: Any, edited: Any) -> Mapping[str, Any]:
    """Return the parameters that the user changed: the others may be covered, and stay."""
    before, after = answer["parameters"], edited.get("parameters") or {}
    return {name: value for name, value in after.items() if name not in before or before[name] != value}


KINDS: Mapping[str, Kind] = {
    "manifest": Kind(
        "application",
        Operations.read_manifest.call,
        _same,
        lambda each, _, text: Operations.replace_manifest.call(each, text),
    ),
    "policies": Kind(
        "environment",
        Operations.read_policies.call,
        _same,
        lambda each, _, text: Operations.replace_policies.call(each, text),
    ),
    "markers": Kind(
        "environment",
        Operations.read_markers.call,
        _fields("markers"),
        lambda each, _, edited: Operations.replace_markers.call(each, markers=edited["markers"]),
    ),
    "properties": Kind(
        "environment",
        Operations.read_properties.call,
        _fields("properties"),
        lambda each, _, edited: Operations.replace_properties.call(each, properties=edited["properties"]),
    ),
    "offered-services": Kind(
        "environment",
        Operations.read_environment_services.call,
        lambda answer: {"services": [service["id"] for service in answer["services"]]},
        lambda each, _, edited: Operations.replace_environment_services.call(each, services=edited["services"]),
    ),
    "role": Kind(
        "role",
        Operations.read_role.call,
        lambda answer: answer["permissions"],
        lambda each, answer, text: Operations.update_role.call(each, name=answer["name"], permissions=text),
    ),
    "service": Kind(
        "service",
        Operations.read_service.call,
        _fields("name", "parameters"),
        lambda each, answer, edited: Operations.update_service.call(
            each, name=edited["name"], parameters=_changed_parameters(answer, edited)
        ),
    ),
    "webhook": Kind(
        "webhook",
        Operations.read_webhook.call,
        _fields("events", "format", "enabled"),
        lambda each, _, edited: Operations.update_webhook.call(each, **edited),
    ),
    "labels": Kind(
        "instance",
        Operations.read_instance_labels.call,
        _same,
        lambda each, _, edited: Operations.put_instance_labels.call(each, edited or {}),
    ),
    "user-data": Kind(
        "instance",
        Operations.read_instance.call,
        lambda answer: answer["userData"],
        lambda each, _, edited: Operations.put_user_data.call(each, edited or {}),
    ),
}


@dataclass(frozen=True)
class _Original:
    """What was read, as the editor shows it."""

    answer: Any
    text: str
    tag: str
    is_text: bool


def _read(connection: Connection, kind: Kind, object_id: str) -> _Original:
    call = kind.read(object_id)
    found = connection.client.tagged(call if call.returns is str else call.with_returns(Any))
    shown = kind.shown(found.value)
    is_text = isinstance(shown, str)
    text = shown if is_text else yaml_text(shown)
    return _Original(found.value, text if text.endswith("\n") or not text else text + "\n", found.tag, is_text)


def _edit(kind: str, name: str, **given: Any) -> None:
    connection = connected(given)
    chosen = KINDS[kind]
    object_id = getattr(connection.names, chosen.of)(name)
    original = _read(connection, chosen, object_id)
    handle, file = tempfile.mkstemp(prefix=f"launchbay-{kind}-", suffix=".yaml")
    os.close(handle)
    path = Path(file)
    path.write_text(original.text, "utf-8")
    edits = True
    while True:
        if edits:
            click.edit(filename=str(path))
        text = path.read_text("utf-8")
        if text == original.text:
            path.unlink()
            click.echo("Nothing has changed.", err=True)
            return
        try:
            edited = text if original.is_text else document(text, "The text")
            call = chosen.write(object_id, original.answer, edited).on_condition(original.tag)
            connection.client.send(call.with_returns(Any))
        except PreconditionFailed:
            now = _read_again(connection, chosen, object_id, path)
            is_other_part = now.text == original.text  # of the same object, such as the status of an instance
            if not is_other_part:
                _show_difference(original.text, now.text)
            original = now
            edits = not is_other_part and _choose(path, ExitCode.CONFLICT, can_overwrite=True)
        except ApiError as error:
            click.echo(printable("\n".join(lines(error))), err=True)
            edits = _choose(path, exit_code_of(error), can_overwrite=False)
        except ClientError as error:
            # The answer may be lost after the change was made.
            raise CommandFailed(
                f"{printable(str(error))} It is unknown whether the change was made. Your text is in {path}.",
                exit_code_of(error),
            ) from error
        except (click.UsageError, KeyError, TypeError) as error:
            click.echo(f"The text isn't what is expected here: {printable(str(error))}", err=True)
            edits = _choose(path, ExitCode.REFUSED, can_overwrite=False)
        else:
            path.unlink()
            return


def _read_again(connection: Connection, kind: Kind, object_id: str, path: Path) -> _Original:
    try:
        return _read(connection, kind, object_id)
    except ClientError as error:
        text = f"{printable(str(error))} Nothing was changed. Your text is in {path}."
        raise CommandFailed(text, exit_code_of(error)) from error


def _show_difference(before: str, after: str) -> None:
    """Print what others have changed since the text was read."""
    click.echo("Somebody else has changed it since you began:", err=True)
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), "when you began", "now", lineterm="", n=2)
    click.echo(printable(os.linesep.join(found)), err=True)


def _choose(path: Path, code: ExitCode, *, can_overwrite: bool) -> bool:
    """Ask what to do. Return whether to edit again; False sends the text.

    Raises CommandFailed if the user gives up. The text stays in its file.
    """
    choices = ["edit", "overwrite", "quit"] if can_overwrite else ["edit", "quit"]
    try:
        chosen = click.prompt("Edit your text again, or give up?", type=click.Choice(choices), err=True)
    except click.Abort:
        chosen = "quit"
    if chosen == "quit":
        raise CommandFailed(f"Nothing was changed. Your text is in {path}.", code)
    return bool(chosen == "edit")


edit = RemoteCommand(
    "edit",
    callback=_edit,
    short_help="Edit a manifest, a role, an environment's policies and so on.",
    help="Edit an object in $EDITOR, and save it if nobody else has changed it in the meantime.\n\nOtherwise, see "
    "their change, then edit your text again, or overwrite theirs. Your text stays in a file until it is saved."
    f"\n\nKIND is {', '.join(KINDS)}. NAME is that of the application (manifest), environment (policies, markers, "
    "properties, offered-services), instance (labels, user-data), role, service or webhook.",
    params=[
        click.Argument(["kind"], type=click.Choice(list(KINDS)), metavar="KIND"),
        click.Argument(["name"], metavar="NAME"),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
