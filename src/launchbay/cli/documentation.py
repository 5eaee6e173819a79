"""`launchbay explain` and `launchbay docs`: the documentation, in the package and on a server."""

import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from launchbay import documentation
from launchbay.cli.connection import OUTPUTS, Profile, chosen_name, read_configuration, validate_output
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.lazy import HELP_OPTIONS, load, unknown_name
from launchbay.cli.output import CommandFailed, show
from launchbay.documentation import DocumentedName

_START = "index"
_MOST_HITS = 10
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def page_address(place: str, profile: str | None = None) -> str | None:
    """Return the URL of a page on the profile's server, or None."""
    configuration = read_configuration()
    known = configuration.profiles.get(chosen_name(profile, configuration), Profile())
    server = os.environ.get("LAUNCHBAY_URL") or known.url
    return f"{server.rstrip('/')}/docs/{place}" if server else None


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    start = incomplete.lower()
    names = sorted({entry.name for entry in documentation.entries()})
    return [CompletionItem(name) for name in names if name.lower().startswith(start) and " " not in name]


@click.command(context_settings=HELP_OPTIONS)
@click.argument("name", nargs=-1, required=True, shell_complete=_complete)
@click.option("--profile", help="Use this profile.", metavar="NAME")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), help="Output format.  [default: table]")
def explain(name: Sequence[str], profile: str | None, output: str | None) -> None:
    """Explain an error code, finding, setting, permission, action, command, metric, alert or exit code.

    The text is that of the documentation. It comes with this program and needs no server. An HTTP status such as
    409 shows all its errors.
    """
    words = " ".join(name)
    output = validate_output(output or os.environ.get("LAUNCHBAY_OUTPUT") or OUTPUTS[0])
    found = documentation.explained(words)
    if not found:
        raise CommandFailed(_unknown(words), ExitCode.NOT_FOUND)
    if output != "table":
        show([_document(entry, profile) for entry in found], output)
        return
    for number, entry in enumerate(found):
        if number:
            click.echo()
        click.secho(f"{entry.name} ({entry.kind})", bold=True)
        click.echo()
        _print_markdown(documentation.without_links(entry.text))
        click.echo(f"\nPage: {page_address(entry.place, profile) or entry.place}")


def _document(entry: DocumentedName, profile: str | None) -> dict[str, str | None]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "text": entry.text,
        "page": entry.place,
        "url": page_address(entry.place, profile),
    }


def _unknown(words: str) -> str:
    message = unknown_name(f"name '{words}'", words, [entry.name for entry in documentation.entries()])
    return f"{message} To search the documentation, run: launchbay docs {words}"


def _print_markdown(text: str) -> None:
    """Print Markdown as it is for programs, and drawn for people."""
    if sys.stdout.isatty():
        load("launchbay.cli.rich_output:show_markdown")(text)
    else:
        click.echo(text)


@click.command(context_settings=HELP_OPTIONS)
@click.argument("topic", nargs=-1)
@click.option("--print", "prints_text", is_flag=True, help="Print the page in the terminal.")
@click.option("--profile", help="Use this profile.", metavar="NAME")
def docs(topic: Sequence[str], profile: str | None, *, prints_text: bool) -> None:
    """Open the documentation at a page, such as howto/upgrade, or search it for words.

    Without a server, or with --print, the page appears in the terminal. With a server, the command prints the address
    of the page there, and opens it if there is a browser.
    """
    words = " ".join(topic)
    found = _page(words)
    if found is None:
        _list_hits(words, profile)
        return
    page, anchor = found
    address = None if prints_text else page_address(f"{page}#{anchor}" if anchor else page, profile)
    if address is None:
        _print_markdown(_text(page, anchor))
        return
    click.echo(address)
    if sys.stdout.isatty() and (sys.platform == "darwin" or any(os.environ.get(name) for name in _DISPLAYS)):
        click.launch(address)


def _page(words: str) -> tuple[str, str] | None:
    """Return page and anchor for a path or an entry's name."""
    if not words:
        return _START, ""
    path, _, anchor = words.strip("/").removeprefix("docs/").partition("#")
    path = path.removesuffix(".md")
    path = documentation.MOVED.get(path, path)
    pages = documentation.pages()
    if path in pages:
        return path, anchor if any(each.anchor == anchor for each in pages[path].sections) else ""
    ends = [each for each in pages if each.endswith(f"/{path}")]
    if len(ends) == 1:
        return ends[0], ""
    entries = documentation.explained(words)
    return (entries[0].page, entries[0].anchor) if len(entries) == 1 else None


def _text(page: str, anchor: str) -> str:
    shown = documentation.pages()[page]
    if not anchor:
        return shown.text
    return next(f"## {each.heading}\n\n{each.text}" for each in shown.sections if each.anchor == anchor)


def _list_hits(words: str, profile: str | None) -> None:
    hits = documentation.search(words, _MOST_HITS)
    if not hits:
        raise CommandFailed(f"No page has any of the words '{words}'.", ExitCode.NOT_FOUND)
    if hits[0].missing:
        click.echo("No page has all of these words. These have most of them.\n", err=True)
    for hit in hits:
        place = f"{hit.page.path}#{hit.section.anchor}"
        titles = dict.fromkeys((documentation.plain(hit.section.heading), documentation.plain(hit.page.title)))
        click.echo(" · ".join(titles))
        click.echo(f"  {page_address(place, profile) or place}")
        click.echo(f"  {hit.excerpt}\n")
