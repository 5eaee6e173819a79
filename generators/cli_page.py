"""The reference of the command line: every command with its arguments and options."""

import inspect
from collections.abc import Iterator

import click

from launchbay.cli.commands import sharing_options
from launchbay.cli.main import SECTIONS, main
from launchbay.cli.verbs import nouns


def cli_reference() -> str:
    """Return the commands in the order of the help."""
    lines: list[str] = []
    shared: set[str | None] = {option.name for option in sharing_options()}
    root = click.Context(main, info_name="launchbay", **main.context_settings)
    for title, entries in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in entries:
            command = main.get_command(root, name)
            assert command is not None, f"{name} is an entry"
            context = click.Context(command, parent=root, info_name=name)
            for found in _leaves(context):
                lines += [*_command(found, shared), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _leaves(context: click.Context) -> Iterator[click.Context]:
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None, f"{name} was listed"
        yield from _leaves(click.Context(inner, parent=context, info_name=name))


def _command(context: click.Context, shared: set[str | None]) -> Iterator[str]:
    command = context.command
    arguments = " ".join(
        parameter.make_metavar(context) for parameter in command.params if isinstance(parameter, click.Argument)
    )
    yield f"### {context.command_path}"
    yield ""
    yield f"`{' '.join([context.command_path, *([arguments] if arguments else [])])}`"
    yield ""
    yield _flowing(inspect.cleandoc(command.help or ""))
    noun, _, verb = context.command_path.removeprefix("launchbay ").partition(" ")
    operation = nouns().get(noun, {}).get(verb)
    if operation:
        yield f"Operation: [{operation}](api.md#{operation})."
    yield ""
    options = [each for each in command.params if isinstance(each, click.Option) and each.name not in shared]
    shown = [record for record in (each.get_help_record(context) for each in options) if record is not None]
    if shown:
        yield "| option | |"
        yield "|---|---|"
        for flags, about in shown:
            yield f"| `{flags.replace('|', chr(92) + '|')}` | {' '.join(about.split()).replace('|', chr(92) + '|')} |"


def _flowing(text: str) -> str:
    """Return the paragraphs of a help text, each in one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n")) + "\n"
