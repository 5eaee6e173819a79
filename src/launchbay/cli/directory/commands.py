"""`launchbay apply DIR` and `launchbay export DIR`."""

import difflib
import sys
from pathlib import Path
from typing import Any

import click

from launchbay.cli.commands import connected, sharing_options
from launchbay.cli.connection import Connection
from launchbay.cli.directory.contents import InvalidDirectory, read_directory, write_directory
from launchbay.cli.directory.plan import CHANGE, CREATE, DELETE, Change, Plan, RemoteState
from launchbay.cli.output import CommandFailed, ExitCode, RemoteCommand, lines, printable, show
from launchbay.client import ClientError

_CONTEXT = {"help_option_names": ["-h", "--help"]}
_COLOURS = {CREATE: "green", CHANGE: "yellow", DELETE: "red"}


def _apply(directory: Path, **given: Any) -> None:
    options = {name: given.pop(name) for name in ("yes", "prune", "dry_run", "diff")}
    try:
        wanted = read_directory(directory)
    except InvalidDirectory as bad:
        raise CommandFailed("\n".join(bad.problems), ExitCode.REFUSED) from bad
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
            raise click.UsageError("Nobody can be asked here. Give --yes to do it, or --dry-run to see only the plan.")
        click.confirm("Do it?", abort=True, err=True)
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
        click.echo(f"Not in the directory, and kept: {names}. --prune deletes what is not in it.", err=True)
    if changes:
        counts = {sign: sum(each.sign == sign for each in changes) for sign in _COLOURS}
        click.echo(f"{counts[CREATE]} to create, {counts[CHANGE]} to change, {counts[DELETE]} to delete.", err=True)
    else:
        click.echo("Nothing to do: the organization is as the directory says.", err=True)


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
            raise CommandFailed(
                f"{change.what} failed; {number - 1} done, {left} left. Apply again after mending it: what is done "
                "stays done.",
                ExitCode.FAILED,
            ) from error
        click.echo(f"[{number}/{len(changes)}] {change.sign} {change.what}", err=True)


apply = RemoteCommand(
    "apply",
    callback=_apply,
    short_help="Make the organization what a directory says.",
    help="""Makes the organization what a directory says: applications with manifests and revisions, environments and
    roles.

    The plan is shown first. What is as it should be is left alone, so that applying twice changes nothing; nothing is
    deleted without --prune.""",
    params=[
        click.Argument(["directory"], type=click.Path(path_type=Path), metavar="DIR"),
        click.Option(["-y", "--yes"], is_flag=True, help="Do not ask."),
        click.Option(["--dry-run"], is_flag=True, help="Show the plan only."),
        click.Option(["--diff"], is_flag=True, help="Show in the plan which lines change."),
        click.Option(["--prune"], is_flag=True, help="Delete what is not in the directory, of kinds that it has."),
        *sharing_options(),
    ],
    context_settings=_CONTEXT,
)


def _export(directory: Path, **given: Any) -> None:
    overwrite = given.pop("overwrite")
    if directory.exists() and not directory.is_dir():
        raise click.UsageError(f"{directory} is no directory.")
    if directory.is_dir() and any(directory.iterdir()) and not overwrite:
        raise click.UsageError(f"{directory} is not empty. Give --overwrite to write into it all the same.")
    connection = connected(given)
    organization = RemoteState(connection.client, connection.names.organization())
    count = write_directory(directory, organization.contents())
    click.echo(f"{count} files written to {directory}.", err=True)


export = RemoteCommand(
    "export",
    callback=_export,
    short_help="Write the organization as a directory.",
    help="""Writes the organization as a directory, which `launchbay apply` makes it again, there or elsewhere.

    Left out: instances, services and their secrets, users, and roles that cannot be changed.""",
    params=[
        click.Argument(["directory"], type=click.Path(path_type=Path), metavar="DIR"),
        click.Option(["--overwrite"], is_flag=True, help="Write into a directory that is not empty."),
        *sharing_options(),
    ],
    context_settings=_CONTEXT,
)
