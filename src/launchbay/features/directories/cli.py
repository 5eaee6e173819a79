"""`launchbay apply DIR` and `launchbay export DIR`, and the client for their plan."""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from launchbay.cli.commands import connected, sharing_options
from launchbay.cli.connection import Connection
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.inputs import parse_duration_ms
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import (
    DETAILED,
    CommandFailed,
    ObjectNotFound,
    RemoteCommand,
    exit_by_differences,
    lines,
    print_warning,
    printable,
    show,
    style_difference,
)
from launchbay.client import ApiError, Client, ClientError
from launchbay.client.types import ConcurrencyLimitBody, FreezeWindowBody, Marker, Property, SleepWindowBody, StageBody
from launchbay.errors import BadRequest
from launchbay.features.directories.comparison import (
    CHANGE,
    CREATE,
    DELETE,
    Comparison,
    Listed,
    ObjectChange,
    State,
    StoredApplication,
    StoredObject,
    StoredRevision,
)
from launchbay.features.directories.contents import KINDS, Noun
from launchbay.features.directories.files import Contents, read_directory, read_object_text, texts, write_directory
from launchbay.features.directories.values import PropertyEntry, RuleOwner, Rules, StageEntry
from launchbay.model.promotion import Stage
from launchbay.model.yaml_text import yaml_text


def _noun(kind: str) -> Noun:
    """Return the kind of an object. Raises CommandFailed for one of a later server."""
    for noun in KINDS:
        if noun == kind:
            return noun
    raise CommandFailed(f"The server has objects of the kind {kind}. Use its version of launchbay.", ExitCode.REFUSED)


class _Remote:
    """An organization on a server; implements `comparison.Organization`."""

    def __init__(self, client: Client, organization: str) -> None:
        self._client = client
        self._id = organization
        self.delete_role = client.delete_role
        self.delete_environment = client.delete_environment
        self.delete_application = client.delete_application
        self.delete_revision = client.delete_revision
        self.environment_labels = client.read_environment_labels
        self.application_labels = client.read_application_labels
        self.set_environment_labels = client.put_environment_labels
        self.set_application_labels = client.put_application_labels

    def list_roles(self) -> list[Listed]:
        return [Listed(each.id, each.name, each.can_edit) for each in self._client.list_roles(self._id)]

    def list_environments(self) -> list[Listed]:
        return [Listed(each.id, each.name, each.is_default) for each in self._client.list_environments(self._id)]

    def list_applications(self) -> list[Listed]:
        return [Listed(each.id, each.name) for each in self._client.list_applications(self._id)]

    def list_services(self) -> list[Listed]:
        return [Listed(each.id, each.name) for each in self._client.list_services(self._id)]

    def role_text(self, role: str) -> str:
        return self._client.read_role(role).permissions

    def policies_text(self, environment: str) -> str:
        return self._client.read_policies(environment)

    def markers(self, environment: str) -> list[str]:
        return [each.name for each in self._client.read_markers(environment).markers]

    def properties(self, environment: str) -> list[PropertyEntry]:
        found = self._client.read_properties(environment).properties
        return [PropertyEntry(each.name, each.type, each.value) for each in found]

    def environment_services(self, environment: str) -> list[str]:
        return [each.id for each in self._client.read_environment_services(environment).services]

    def application(self, application: str) -> StoredApplication:
        found = self._client.read_application(application)
        return StoredApplication(found.name, found.version, found.source_url)

    def manifest(self, application: str, version: int) -> str:
        return self._client.read_manifest(application, version=version)

    def versions(self, application: str) -> list[int]:
        return [each.version for each in self._client.list_manifests(application)]

    def list_revisions(self, application: str) -> list[Listed]:
        return [Listed(each.id, each.name) for each in self._client.list_revisions(application)]

    def revision(self, revision: str) -> StoredRevision:
        found = self._client.read_revision(revision)
        return StoredRevision(
            found.id,
            found.name,
            found.application_id,
            found.version,
            found.parameters,
            found.environment_id,
            found.submodules,
        )

    def manifest_problem(self, text: str) -> str | None:
        for error in self._client.validate_manifest(text).errors:
            return f"line {error.line}, column {error.column}: {error.message}"
        return None

    def rules(self, kind: RuleOwner, owner: str) -> Rules:
        """Return the rules: their documents, without what says that there is no rule."""
        client = self._client
        if kind == "application":
            lifetime = msgspec.to_builtins(client.read_application_lifetime(owner))
            sleep = msgspec.to_builtins(client.read_application_sleep(owner))
            limits = client.read_application_concurrency(owner).limits
            freeze = client.read_application_freeze_windows(owner).windows
            changes = client.read_application_rules(owner).rules
            audiences: list[str] = []
        else:
            lifetime = msgspec.to_builtins(client.read_environment_lifetime(owner))
            sleep = msgspec.to_builtins(client.read_environment_sleep(owner))
            limits = client.read_environment_concurrency(owner).limits
            freeze = client.read_freeze_windows(owner).windows
            changes = client.read_environment_rules(owner).rules
            audiences = client.read_environment_audiences(owner).audiences
        return Rules(
            lifetime={name: value for name, value in lifetime.items() if value is not None},
            sleep=None if sleep["windows"] is None else sleep,
            concurrency=[msgspec.to_builtins(each) for each in limits],
            freeze=[msgspec.to_builtins(each) for each in freeze],
            changes=changes or None,
            audiences=audiences or None,
        ).canonical(kind)

    def set_rules(self, kind: RuleOwner, owner: str, rules: Rules) -> None:
        client, before = self._client, self.rules(kind, owner)
        lifetime, sleep, limits, freeze = rules.read(kind)
        set_lifetime, set_sleep, set_limits, set_freeze = (
            (
                client.replace_application_lifetime,
                client.replace_application_sleep,
                client.replace_application_concurrency,
                client.replace_application_freeze_windows,
            )
            if kind == "application"
            else (
                client.replace_environment_lifetime,
                client.replace_environment_sleep,
                client.replace_environment_concurrency,
                client.replace_freeze_windows,
            )
        )
        if rules.lifetime != before.lifetime:
            set_lifetime(owner, **msgspec.structs.asdict(lifetime))
        if rules.sleep != before.sleep:
            windows = (
                None if sleep is None else [SleepWindowBody(**msgspec.to_builtins(each)) for each in sleep.windows]
            )
            names: dict[str, Any] = {}
            if sleep is not None:
                names = {"stop": sleep.stop, "start": sleep.start, "when_busy": sleep.when_busy}
            set_sleep(owner, windows=windows, **names)
        if rules.concurrency != before.concurrency:
            set_limits(owner, limits=[ConcurrencyLimitBody(**msgspec.to_builtins(each)) for each in limits])
        if rules.freeze != before.freeze:
            set_freeze(owner, windows=[FreezeWindowBody(**msgspec.to_builtins(each)) for each in freeze])
        if rules.changes is not None and rules.changes != before.changes:
            of_application = kind == "application"
            replace = client.replace_application_rules if of_application else client.replace_environment_rules
            replace(owner, rules=rules.changes)
        if rules.audiences is not None and rules.audiences != before.audiences:
            client.replace_environment_audiences(owner, audiences=rules.audiences)

    def promotion_order(self, application: str | None) -> list[Stage] | None:
        if application is None:
            found = self._client.read_promotion_order(self._id)
        else:
            found = self._client.read_application_promotion_order(application)
        if not found.own if application is not None else not found.stages:
            return None
        return [
            StageEntry("", each.soak, each.workflows, each.approvals, each.automatic).stage(each.environment_id)
            for each in found.stages
        ]

    def set_promotion_order(self, application: str | None, stages: Sequence[Stage] | None) -> None:
        bodies = None
        if stages is not None:
            bodies = [
                StageBody(
                    environment_id=each.environment_id,
                    soak=each.soak_s * 1_000,
                    workflows=list(each.workflows),
                    approvals=each.approvals,
                    automatic=each.automatic,
                )
                for each in stages
            ]
        if application is None:
            self._client.replace_promotion_order(self._id, stages=bodies)
        else:
            self._client.replace_application_promotion_order(application, stages=bodies)

    def objects(self) -> tuple[list[StoredObject], list[str]]:
        """Return the objects that have a file each, and what a directory can't hold."""
        found = self._client.read_directory(self._id)
        objects = [
            StoredObject(noun, each.id, each.name, read_object_text(noun, each.content), tuple(each.at))
            for each in found.objects
            for noun in [_noun(each.kind)]
        ]
        objects += [
            StoredObject(
                noun,
                each.id,
                each.name,
                read_object_text(noun, each.content) if each.content else {},
                tuple(each.at),
                each.reason,
            )
            for each in found.unexported
            for noun in [_noun(each.kind)]
        ]
        return objects, found.omitted

    def service_types(self) -> list[str]:
        return [each.id for each in self._client.list_service_types(self._id)]

    def put_object(self, kind: Noun, name: str, content: dict[str, Any]) -> str:
        made = self._client.put_directory_object(
            self._id, kind=kind, name=name, content=yaml_text(content, keeps_numbers=True)
        )
        if made.invitation is not None:
            click.echo(f"Invitation of {printable(name)}: {made.invitation}", err=True)
        return made.id

    def delete_object(self, kind: Noun, number: str) -> None:
        client = self._client
        if kind == "service":
            client.delete_service(number)
        elif kind == "service-account":
            client.delete_service_account(self._id, number)
        elif kind == "user":
            client.remove_user(self._id, number)
        elif kind == "git-source":
            client.delete_git_source(number)
        else:
            client.delete_recurring_schedule(number)

    def create_role(self, name: str, text: str) -> None:
        self._client.create_role(self._id, name=name, permissions=text)

    def update_role(self, role: str, name: str, text: str) -> None:
        self._client.update_role(role, name=name, permissions=text)

    def create_environment(self, name: str) -> str:
        return self._client.create_environment(self._id, name=name).id

    def set_policies(self, environment: str, document: str) -> None:
        self._client.replace_policies(environment, document)

    def set_markers(self, environment: str, names: list[str]) -> None:
        self._client.replace_markers(environment, markers=[Marker(name=each) for each in names])

    def set_properties(self, environment: str, properties: list[PropertyEntry]) -> None:
        found = [Property(name=each.name, value=each.value, type=each.type) for each in properties]
        self._client.replace_properties(environment, properties=found)

    def set_environment_services(self, environment: str, services: list[str]) -> None:
        self._client.replace_environment_services(environment, services=services)

    def set_default_environment(self, environment: str) -> None:
        self._client.set_default_environment(self._id, environment_id=environment)

    def create_application(self, name: str) -> str:
        return self._client.create_application(self._id, name=name).id

    def replace_manifest(self, application: str, name: str, text: str) -> None:
        for found in self._client.replace_manifest(application, text).warnings:
            print_warning(found.message, found.line, found.column, found.code, application=name)

    def set_manifest_source(self, application: str, url: str) -> None:
        self._client.set_manifest_source(application, url=url)

    def create_revision(
        self,
        application: str,
        *,
        name: str,
        version: int,
        parameters: dict[str, Any],
        environment: str | None,
        submodules: dict[str, Any],
    ) -> str:
        return self._client.create_revision(
            application,
            name=name,
            version=version,
            parameters=parameters,
            environment_id=environment,
            submodules=submodules,
        ).id

    def change_revision(
        self,
        revision: str,
        *,
        version: int | None,
        parameters: dict[str, Any],
        environment: str | None,
        submodules: dict[str, Any],
    ) -> None:
        self._client.change_revision(
            revision, version=version, parameters=parameters, environment_id=environment, submodules=submodules
        )


_COLOURS = {CREATE: "green", CHANGE: "yellow", DELETE: "red"}


def _apply(directory: Path, **given: Any) -> None:
    options = {name: given.pop(name) for name in ("yes", "prune", "dry_run", "diff", "change_set", "is_detailed")}
    about = {name: given.pop(name) for name in ("comment", "expires")}
    if not options["change_set"] and any(each is not None for each in about.values()):
        raise click.UsageError("--comment and --expires are for a change set: add --change-set.")
    if options["change_set"] and options["dry_run"]:
        raise click.UsageError("--change-set changes nothing yet. Leave --dry-run out.")
    if options["is_detailed"] and not options["dry_run"]:
        raise click.UsageError("--detailed-exitcode is about a plan: add --dry-run.")
    wanted = _read(directory)
    connection = connected(given)
    if options["change_set"]:
        _keep(connection, directory, prune=options["prune"], with_diff=options["diff"], **about)
        return
    changes, superfluous = _compare(connection, wanted)
    if options["prune"]:
        changes += superfluous
    _print_plan(connection, changes, [] if options["prune"] else superfluous, with_diff=options["diff"])
    if options["dry_run"]:
        if changes:
            _ask_rules(connection, directory, prune=options["prune"])
        exit_by_differences(bool(changes), is_detailed=options["is_detailed"])
    if not changes or options["dry_run"]:
        return
    if not options["yes"]:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "Can't ask for confirmation here. Use --yes to apply, or --dry-run to print the plan."
            )
        click.confirm("Apply these changes?", abort=True, err=True)
    _do(changes)


def _ask_rules(connection: Connection, directory: Path, *, prune: bool) -> None:
    """Print what rules would say. Ends the command if they refuse."""
    try:
        found = connection.client.preview_directory(
            connection.names.organization(), files=texts(directory), prune=prune
        ).rules
    except ApiError as error:  # who may only read, or a server that has no such question
        click.echo(f"Warning: rules weren't asked. {printable(' '.join(lines(error)))}", err=True)
        return
    for each in found:
        said = "would be refused" if each.outcome != "warn" else "warning"
        click.echo(f"{printable(each.what)}: {said}. {printable(' '.join(each.messages))}", err=True)
    refused = sum(each.outcome != "warn" for each in found)
    if refused:
        which = "1 of these changes" if refused == 1 else f"{refused} of these changes"
        remedy = " --change-set makes a change set." if all(each.outcome != "deny" for each in found) else ""
        raise CommandFailed(f"Rules would refuse {which}.{remedy}", ExitCode.REFUSED)


def _compare(connection: Connection, wanted: Contents) -> tuple[list[ObjectChange], list[ObjectChange]]:
    """Return what applying changes, and what only pruning deletes."""
    plan = Comparison(State(_Remote(connection.client, connection.names.organization())), wanted)
    try:
        return plan.changes(), plan.superfluous()
    except BadRequest as error:
        raise ObjectNotFound("\n".join(error.messages)) from error


def _read(directory: Path) -> Contents:
    if not directory.is_dir():
        raise click.UsageError(f"{directory} isn't a directory.")
    try:
        return read_directory(directory)
    except BadRequest as error:
        raise CommandFailed("\n".join(error.messages), ExitCode.REFUSED) from error


def _keep(
    connection: Connection, directory: Path, *, prune: bool, with_diff: bool, comment: str | None, expires: int | None
) -> None:
    """Make a change set of the apply, and print its ID."""
    made = connection.client.create_change_set(
        connection.names.organization(),
        act="apply",
        files=texts(directory),
        prune=prune,
        comment=comment or "",
        expires_in=expires,
    )
    if connection.output != "table":
        show(msgspec.to_builtins(made), connection.output)
        return
    assert made.directory is not None, "the change set applies a directory"
    for each in made.directory.objects:
        if each.sign == "=" and each.kind != "instance":
            continue
        versions = f" (version {each.from_version or 'none'} → {each.to_version})" if each.to_version else ""
        detail = f" ({each.detail})" if each.detail else "" if each.kind == "instance" else versions
        click.echo(f"{click.style(each.sign, fg=_COLOURS.get(each.sign))} {printable(each.what + detail)}", err=True)
        if with_diff:
            _print_lines(each.difference.splitlines(), err=True)
    for warning in made.directory.warnings:
        click.echo(f"Warning: {printable(warning)}", err=True)
    following = (
        f"Others have to approve it ({made.needed}): launchbay change-set approve {made.id}"
        if made.status == "Pending"
        else f"Apply it: launchbay change-set apply {made.id}"
    )
    click.echo(following, err=True)
    click.echo(made.id)


def _print_plan(
    connection: Connection, changes: list[ObjectChange], kept: list[ObjectChange], *, with_diff: bool
) -> None:
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


def _print_difference(change: ObjectChange) -> None:
    before, after = change.before.splitlines(), change.after.splitlines()
    _print_lines(list(difflib.unified_diff(before, after, lineterm="", n=2))[2:])


def _print_lines(changed: Sequence[str], *, err: bool = False) -> None:
    for line in changed:
        click.echo(f"    {style_difference(printable(line))}", err=err)


def _do(changes: list[ObjectChange]) -> None:
    for number, change in enumerate(changes, 1):
        try:
            change.make()
        except ClientError as error:
            click.echo("\n".join(map(change.named, lines(error))), err=True)
            left = len(changes) - number + 1
            message = f"{change.what} failed; {number - 1} applied, {left} left. Fix the cause and apply again."
            raise CommandFailed(message, ExitCode.FAILED) from error
        click.echo(f"[{number}/{len(changes)}] {change.sign} {change.what}", err=True)


apply = RemoteCommand(
    "apply",
    callback=_apply,
    short_help="Apply a directory of files to an organization.",
    help="""Apply a directory of files to an organization: applications with manifests and revisions, environments,
    roles, services, accounts, Git sources, schedules.

    Prints the plan first. Only differences are applied, so applying twice changes nothing. Nothing is deleted without
    --prune. With --change-set, the server keeps the plan, for others to approve and apply.""",
    params=[
        click.Argument(["directory"], type=click.Path(path_type=Path), metavar="DIR"),
        click.Option(["-y", "--yes"], is_flag=True, help="Skip the confirmation prompt."),
        click.Option(["--dry-run"], is_flag=True, help="Print the plan only."),
        DETAILED,
        click.Option(["--diff"], is_flag=True, help="Print the changed lines in the plan."),
        click.Option(
            ["--prune"], is_flag=True, help="Delete objects that the directory lacks, of kinds with a folder."
        ),
        click.Option(["--change-set"], is_flag=True, help="Keep the plan as a change set, and print its ID."),
        click.Option(["--comment"], help="Why, for those who approve the change set."),
        click.Option(
            ["--expires"],
            type=parse_duration_ms,
            metavar="DURATION",
            help="The change set expires after this time: 12h or 7d.",
        ),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


def show_directory_differences(connection: Connection, directory: Path, *, with_diff: bool = True) -> bool:
    """Show what an apply with --prune would change; return whether it is anything."""
    changes, superfluous = _compare(connection, _read(directory))
    _print_plan(connection, changes + superfluous, [], with_diff=with_diff)
    return bool(changes + superfluous)


def _export(directory: Path, **given: Any) -> None:
    overwrite = given.pop("overwrite")
    if given.pop("check"):
        if overwrite:
            raise click.UsageError("--check writes nothing. Leave --overwrite out.")
        differs = show_directory_differences(connected(given), directory, with_diff=False)
        exit_by_differences(differs, is_detailed=True)
        return
    if directory.exists() and not directory.is_dir():
        raise click.UsageError(f"{directory} isn't a directory.")
    if directory.is_dir() and any(directory.iterdir()) and not overwrite:
        raise click.UsageError(f"{directory} isn't empty. To write into it, use --overwrite.")
    connection = connected(given)
    organization = State(_Remote(connection.client, connection.names.organization()))
    try:
        contents = organization.contents()
    except BadRequest as error:
        raise CommandFailed("\n".join(error.messages), ExitCode.REFUSED) from error
    count = write_directory(directory, contents)
    for each in contents.omitted:
        click.echo(f"Not in the directory: {printable(each)}", err=True)
    click.echo(f"{count} files written to {directory}.", err=True)


export = RemoteCommand(
    "export",
    callback=_export,
    short_help="Write an organization to a directory of files.",
    help="""Write an organization to a directory of files. To apply it to this or another organization, run
    `launchbay apply`.

    Instances, passwords and access tokens are omitted, and so are roles that can't be changed. The command names each
    other thing that it omits, such as a secret.""",
    params=[
        click.Argument(["directory"], type=click.Path(path_type=Path), metavar="DIR"),
        click.Option(["--overwrite"], is_flag=True, help="Write into a directory that isn't empty."),
        click.Option(
            ["--check"],
            is_flag=True,
            help="Write nothing: print what an apply with --prune would change, and exit with 10 if there is anything.",
        ),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
