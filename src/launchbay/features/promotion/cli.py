"""`launchbay promote`: promotes a version, on a server or in a directory."""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from launchbay.cli.commands import answer, connected, sharing_options, waiting_options, with_names
from launchbay.cli.connection import Connection
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.inputs import completion_for
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import CommandFailed, RemoteCommand
from launchbay.cli.plans import show_change_set
from launchbay.client import Operations
from launchbay.errors import BadRequest
from launchbay.features.directories.files import NamedRevision, file_name, read_directory

_POLL_S = 1.0
_OF_WHAT_IS_KEPT = {"id", "status", "createdAt", "expiresAt", "appliedBy", "appliedAt", "finishedAt"}
_ENDED = {"Succeeded", "Failed", "Rejected", "Expired"}


def _promote(
    *,
    application: str,
    from_: str,
    to: str,
    version: int | None,
    comment: str | None,
    directory: Path | None,
    is_dry_run: bool,
    wait: bool,
    timeout: float | None,
    **given: Any,
) -> None:
    if directory is not None:
        if wait or version is not None or comment is not None:
            raise click.UsageError("--directory writes files only: leave --version, --comment and --wait out.")
        _write(directory, application, from_, to, is_dry_run=is_dry_run)
        return
    connection = connected(given)
    names = connection.names
    made = answer(
        connection,
        Operations.promote_version.call(
            names.application(application),
            from_id=names.environment(from_),
            to_id=names.environment(to),
            version=version,
            comment=comment,
            dry_run=is_dry_run or None,
        ),
    )
    change_set = made["changeSet"]
    if is_dry_run and made["isNew"]:
        click.echo(f"This would promote version {made['version']} by a change set. Nothing was made.", err=True)
        kept = {name: value for name, value in change_set.items() if name not in _OF_WHAT_IS_KEPT}
        show_change_set(with_names(connection, kept), connection.output)
        return
    said = "Promotes version" if made["isNew"] else "There is an open change set already for version"
    click.echo(f"{said} {made['version']}: change set {change_set['id']}, {change_set['status']}.", err=True)
    if is_dry_run:
        show_change_set(with_names(connection, change_set), connection.output)
        return
    if wait:
        if change_set["status"] == "Pending":
            closed = _closed_gates(connection, names.application(application), names.environment(to))
            missing = " ".join([change_set["waitingFor"], *closed])
            raise CommandFailed(f"It isn't applied yet. {missing}", ExitCode.WAITS_FOR_PERSON)
        change_set = _applied(connection, change_set, timeout)
    elif change_set["status"] == "Ready":
        click.echo(f"Apply it: launchbay change-set apply {change_set['id']}", err=True)
    show_change_set(with_names(connection, change_set), connection.output)


def _closed_gates(connection: Connection, application_id: str, environment_id: str) -> list[str]:
    """Return a sentence for each gate that is closed now, without approvals."""
    board = answer(connection, Operations.read_promotion.call(application_id))
    found = [each for each in board["environments"] if each["environmentId"] == environment_id]
    gates = [gate for each in found for gate in each["gates"]]
    return [gate["sentence"] for gate in gates if not gate["open"] and gate["kind"] != "approvals"]


def _applied(connection: Connection, change_set: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """Apply a change set, and return it when its jobs have ended.

    Raises CommandFailed unless they succeed.
    """
    if change_set["status"] == "Ready":
        answer(connection, Operations.apply_change_set.call(change_set["id"]))
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    while (found := msgspec.to_builtins(connection.client.read_change_set(change_set["id"], compare=False)))[
        "status"
    ] not in _ENDED:
        if until_s is not None and time.monotonic() >= until_s:
            raise CommandFailed(f"It hasn't ended within {timeout_s:g} s.", ExitCode.TIMED_OUT)
        time.sleep(_POLL_S)
    if found["status"] != "Succeeded":
        messages = [each["message"] for each in found["plan"] if each["message"]]
        raise CommandFailed(f"The change set is {found['status']}. {' '.join(messages)}".rstrip(), ExitCode.FAILED)
    return dict(found)


def _write(directory: Path, application: str, from_: str, to: str, *, is_dry_run: bool) -> None:
    try:
        files = promoted_files(directory, application, from_, to)
    except BadRequest as error:
        raise click.UsageError(" ".join(error.messages)) from error
    for path, text in files.items():
        if not is_dry_run and text is None:
            path.unlink()
        elif not is_dry_run and text is not None:
            path.write_text(text, "utf-8")
        click.echo(str(path))
    if not files:
        click.echo("Nothing differs.", err=True)
    elif not is_dry_run:
        click.echo("Commit it, and apply the directory.", err=True)


def promoted_files(directory: Path, application: str, from_: str, to: str) -> dict[Path, str | None]:
    """Return the files to write, with their texts.

    None is for one that is to go. The environment of a revision says where it belongs. Raises BadRequest for a
    directory that can't be read, if an environment has no revision, or if those before have several manifests.
    """
    found = (read_directory(directory).applications or {}).get(application)
    if found is None:
        raise BadRequest(f"{directory} has no application {application!r}.")
    revisions = found.revisions or {}
    texts = {_text(each, found.manifest) for each in revisions.values() if each.content.environment == from_}
    wanted = {name: each for name, each in revisions.items() if each.content.environment == to}
    for place, has in ((from_, bool(texts)), (to, bool(wanted))):
        if not has:
            raise BadRequest(f"No revision of {application!r} has the environment {place!r}.")
    if len(texts) > 1:
        raise BadRequest(f"The revisions of {application!r} for {from_!r} have several manifests. Make them the same.")
    (text,) = texts
    if text is None:
        raise BadRequest(f"The manifest of {application!r} isn't in the directory.")
    folder = directory / "applications" / file_name(application) / "revisions"
    files: dict[Path, str | None] = {}
    for name, each in wanted.items():
        if _text(each, found.manifest) != text:
            files[folder / file_name(name) / "manifest.yaml"] = None if text == found.manifest else text
    return files


def _text(revision: NamedRevision, of_application: str | None) -> str | None:
    return of_application if revision.manifest is None else revision.manifest


promote = RemoteCommand(
    "promote",
    callback=_promote,
    short_help="Bring a version of an application to the next environment.",
    help="""Make the change set that brings a version of an application to the next environment. The instances there
    keep their parameters. With --wait, apply it, and wait for its jobs.

    With --directory, write the files of the next environment instead: its revisions get the manifest of the one before.
    """,
    params=[
        click.Argument(["application"], metavar="APPLICATION", **completion_for("application")),
        click.Option(
            ["--from", "from_"], required=True, help="Environment: name or ID.", **completion_for("environment")
        ),
        click.Option(["--to"], required=True, help="The environment after it.", **completion_for("environment")),
        click.Option(
            ["--version"], type=click.IntRange(min=1), help="Default: the version of all instances of the first one."
        ),
        click.Option(["--comment"], help="Why, for those who approve the change set."),
        click.Option(
            ["--directory"],
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            metavar="DIR",
            help="Write files of this directory, without a server.",
        ),
        click.Option(["--dry-run", "is_dry_run"], is_flag=True, help="Show what this would do, and do nothing."),
        *waiting_options(until="Apply it, and wait until its jobs have ended.", of_job=False),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
