"""`launchbay apply DIR` and `launchbay export DIR`."""

import difflib
import sys
from pathlib import Path
from typing import Any

import click

from launchbay.cli.commands import connected, sharing_options
from launchbay.cli.connection import Connection
from launchbay.cli.directory.contents import read_directory, write_directory
from launchbay.cli.directory.plan import CHANGE, CREATE, DELETE, Change, Plan, RemoteState
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import CommandFailed, ExitCode, RemoteCommand, lines, printable, show
from launchbay.client import ClientError

_COLOURS = {CREATE: "green", CHANGE: "yellow", DELETE: "red"}


def _apply(directory: Path, **given: Any) -> None:
    options = {name: given.pop(name) for name in ("yes", "prune", "dry_run", "diff")}
    wanted = read_directory(directory)
    connection = connected(given)
    plan = Plan(RemoteState(connection.client, connection.names.organization()), wanted)
    changes, superfluous = plan.changes(), plan.superfluous()
    if options["prune"]:
        changes += superfluous
    _print_plan(connection, changes, [] if options["prune"] else superfluous, with_diff=options["diff"])
    if not changes or options["dry_run"]:
        return
    if not options["yes"]:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "Can't ask for confirmation here. Use --yes to apply, or --dry-run to print the plan."
            )
        click.confirm("Apply these changes?", abort=True, err=True)
    _do(changes)


def _print_plan(connection: Connection, changes: list[Change], kept: list[Change], *, with_diff: bool) -> None:
    if connection.output == "table":
        for change in changes:
            detail = f" ({change.detail})" if change.detail else ""
            click.echo(f"{click.style(change.sign, fg=_COLOURS[change.sign])} {printable(change.what + detail)}")
            if with_diff:
                _print_difference(change)
    else:
        show([{"sign": each.sign, "what": each.what, "detail": each.detail} for each in changes], connection.output)
    if kept:
        names = ", ".join(each.what for each in kept)
        click.echo(f"Not in the directory, unchanged: {names}. To delete them, use --prune.", err=True)
    if changes:
        counts = {sign: sum(each.sign == sign for each in changes) for sign in _COLOURS}
        click.echo(f"{counts[CREATE]} to create, {counts[CHANGE]} to change, {counts[DELETE]} to delete.", err=True)
    else:
        click.echo("No changes. The organization matches the directory.", err=True)


def _print_difference(change: Change) -> None:
    before, after = change.before.splitlines(), change.after.splitlines()
    for line in list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]:
        colour = {"+": "green", "-": "red"}.get(line[:1], "bright_black")
        click.echo(f"    {click.style(printable(line), fg=colour)}")


def _do(changes: list[Change]) -> None:
    for number, change in enumerate(changes, 1):
        try:
            change.do()
        except ClientError as error:
            click.echo("\n".join(lines(error)), err=True)
            left = len(changes) - number + 1
            message = f"{change.what} failed; {number - 1} applied, {left} left. Fix the cause and apply again."
            raise CommandFailed(message, ExitCode.FAILED) from error
        click.echo(f"[{number}/{len(changes)}] {change.sign} {change.what}", err=True)


apply = RemoteCommand(
    "apply",
    callback=_apply,
    short_help="Apply a directory of files to an organization.",
    help="""Apply a directory of files to an organization: applications with manifests and revisions, environments,
    roles.

    Prints the plan first. Only differences are applied, so applying twice changes nothing. Nothing is deleted without
    --prune.""",
    params=[
        click.Argument(["directory"], type=click.Path(path_type=Path), metavar="DIR"),
        click.Option(["-y", "--yes"], is_flag=True, help="Skip the confirmation prompt."),
        click.Option(["--dry-run"], is_flag=True, help="Print the plan only."),
        click.Option(["--diff"], is_flag=True, help="Print the changed lines in the plan."),
        click.Option(
            ["--prune"], is_flag=True, help="Delete objects that the directory lacks, of kinds with a folder."
        ),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


def _export(directory: Path, **given: Any) -> None:
    overwrite = given.pop("overwrite")
    if directory.exists() and not directory.is_dir():
        raise click.UsageError(f"{directory} isn't a directory.")
    if directory.is_dir() and any(directory.iterdir()) and not overwrite:
        raise click.UsageError(f"{directory} isn't empty. To write into it, use --overwrite.")
    connection = connected(given)
    organization = RemoteState(connection.client, connection.names.organization())
    count = write_directory(directory, organization.contents())
    click.echo(f"{count} files written to {directory}.", err=True)


export = RemoteCommand(
    "export",
    callback=_export,
    short_help="Write an organization to a directory of files.",
    help="""Write an organization to a directory of files. To apply it to this or another organization, run
    `launchbay apply`.

    Omitted: instances, services and their secrets, users, and roles that can't be changed.""",
    params=[
        click.Argument(["directory"], type=click.Path(path_type=Path), metavar="DIR"),
        click.Option(["--overwrite"], is_flag=True, help="Write into a directory that isn't empty."),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
