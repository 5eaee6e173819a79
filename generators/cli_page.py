"""The reference of the command line: an index, a page for each noun, and one for each group of other commands."""

import inspect
from collections.abc import Iterator, Mapping

import click

from generators.words import table_row
from launchbay.cli.commands import sharing_options
from launchbay.cli.main import SECTIONS, main
from launchbay.cli.verbs import nouns

# Section of the help → page with its commands that have no verbs.
_SECTION_PAGES = {
    "Get started": "get-started",
    "Common commands": "common",
    "Manifests (no server needed)": "offline",
    "Administration": "administration",
}


def cli_pages(operations: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return name of a page → its title and text, in the order of the help; the index is `index`, without a title."""
    shared: set[str | None] = {option.name for option in sharing_options()}
    titles: dict[str, str] = {}
    texts: dict[str, list[str]] = {}
    index: list[str] = []
    root = click.Context(main, info_name="launchbay", **main.context_settings)
    for section, entries in SECTIONS.items():
        index += [f"## {section}", "", "| command | |", "|---|---|"]
        for name in entries:
            command = main.get_command(root, name)
            assert command is not None, f"{name} is an entry"
            is_noun = isinstance(command, click.Group)
            page = name if is_noun else _SECTION_PAGES[section]
            titles.setdefault(page, f"Command line: {name if is_noun else section}")
            for found in _leaves(click.Context(command, parent=root, info_name=name)):
                texts.setdefault(page, []).extend([*_command(found, shared, operations), ""])
                path = found.command_path
                anchor = path.replace(" ", "-")
                about = found.command.get_short_help_str(200)
                index.append(table_row(f'<a id="{anchor}"></a>[{path}]({page}.md#{anchor})', about))
        index.append("")
    pages = {page: (titles[page], _text(lines)) for page, lines in texts.items()}
    return {**pages, "index": ("", _text(index))}


def _text(lines: list[str]) -> str:
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


def _command(context: click.Context, shared: set[str | None], operations: Mapping[str, str]) -> Iterator[str]:
    command = context.command
    arguments = " ".join(
        parameter.make_metavar(context) for parameter in command.params if isinstance(parameter, click.Argument)
    )
    yield f"## {context.command_path}"
    yield ""
    yield f"`{' '.join([context.command_path, *([arguments] if arguments else [])])}`"
    yield ""
    yield _flowing(inspect.cleandoc(command.help or ""))
    noun, _, verb = context.command_path.removeprefix("launchbay ").partition(" ")
    operation = nouns().get(noun, {}).get(verb)
    if operation:
        yield f"Operation: [{operation}](../api/{operations[operation]})."
    yield ""
    options = [each for each in command.params if isinstance(each, click.Option) and each.name not in shared]
    shown = [record for record in (each.get_help_record(context) for each in options) if record is not None]
    if shown:
        yield "| option | |"
        yield "|---|---|"
        for flags, about in shown:
            yield table_row(f"`{flags}`", about)


_KEPT = "\b\n"  # the first line of such a paragraph


def _flowing(text: str) -> str:
    """Return the paragraphs of a help text, each in one line.

    Lines that Click keeps as they are become code.
    """
    return "\n\n".join(map(_paragraph, text.split("\n\n"))) + "\n"


def _paragraph(text: str) -> str:
    if text.startswith(_KEPT):
        return f"```sh\n{inspect.cleandoc(text.removeprefix(_KEPT))}\n```"
    return " ".join(text.split())
