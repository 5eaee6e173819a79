"""`launchbay adopt`: make an observed instance, and show how it differs."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from launchbay.cli.commands import answer, connected, sharing_options
from launchbay.cli.connection import Connection
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.files import file_text
from launchbay.cli.inputs import completion_for, mapping
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import CommandFailed, RemoteCommand, show
from launchbay.client import Operations
from launchbay.client.core import Call
from launchbay.client.errors import ApiError
from launchbay.client.types import HostsBody, ReleaseBody, StateBody

_POLL_S = 0.5
_SHOWN = 20  # addresses or values in a table
_UNDER_WAY = frozenset({"Waiting", "Checking"})


def _adopt(
    *,
    application: str,
    states: Sequence[str],
    releases: Sequence[str],
    hosts: Sequence[str],
    name: str | None,
    environment: str | None,
    revision: str | None,
    version: int | None,
    parameters: Sequence[str],
    is_dry_run: bool,
    timeout: float,
    **given: Any,
) -> None:
    if not states and not releases and not hosts:
        raise click.UsageError(
            "Give what to adopt: --state COMPONENT=FILE, --helm-release COMPONENT or --hosts COMPONENT."
        )
    wanted_releases = [_release(each) for each in releases]
    connection = connected(given)
    application_id = connection.names.application(application)
    wanted: dict[str, Any] = {
        "instanceName": name,
        "environmentId": None if environment is None else connection.names.environment(environment),
        "revisionId": None if revision is None else connection.names.revision(revision, application_id=application_id),
        "version": version,
        "parameters": mapping(parameters),
    }
    launch = {field: value for field, value in wanted.items() if value is not None}
    call = Operations.adopt_instance.call(
        application_id,
        launch=launch,
        states=[_state(each) for each in states],
        releases=wanted_releases,
        hosts=[HostsBody(component=each) for each in hosts],
        dry_run=is_dry_run,
    )
    document = _adopted(connection, call, timeout)
    is_table = connection.output == "table"
    if is_table:
        _show(document, is_dry_run=is_dry_run)
    if not is_dry_run:
        document["drift"] = _checked(connection, document["instanceId"], timeout)
    if not is_table:
        show(document, connection.output)
    if not is_dry_run:
        _require_plan(document["instanceId"], document["drift"], timeout)
        if is_table:
            _show_drift(document["instanceId"], document["drift"])


def _adopted(connection: Connection, call: Call[Any], timeout_s: float) -> Any:
    """Adopt, and join a look that continues, up to that time."""
    until_s = time.monotonic() + timeout_s
    while True:
        try:
            return answer(connection, call)
        except ApiError as error:
            pause_s = error.retry_after_s or _POLL_S
            if error.code != "LookUnderWay" or time.monotonic() + pause_s >= until_s:
                raise
            time.sleep(pause_s)


def _state(item: str) -> StateBody:
    """Return the state of `COMPONENT=FILE` or `COMPONENT:NAME=FILE`."""
    place, equals, file = item.partition("=")
    component, colon, name = place.partition(":")
    if not equals or not component or not file or (colon and not name):
        raise click.UsageError(f"Invalid state: {item}. Use COMPONENT=FILE or COMPONENT:NAME=FILE.")
    return StateBody(component=component, state=file_text(file), name=name or None)


def _release(item: str) -> ReleaseBody:
    """Return the release of `COMPONENT` or `COMPONENT=NAMESPACE/NAME`."""
    component, equals, place = item.partition("=")
    namespace, slash, release = place.partition("/")
    if not component or (equals and not (namespace and slash and release)):
        raise click.UsageError(f"Invalid release: {item}. Use COMPONENT or COMPONENT=NAMESPACE/NAME.")
    return ReleaseBody(component=component, release=release or None, namespace=namespace or None)


def _checked(connection: Connection, instance_id: str, timeout_s: float) -> dict[str, Any]:
    """Wait for the first check of an instance up to that time, and return its drift."""
    until_s = time.monotonic() + timeout_s
    while True:
        found: dict[str, Any] = answer(connection, Operations.read_drift.call(instance_id))
        if found["status"] not in _UNDER_WAY or time.monotonic() >= until_s:
            return found
        time.sleep(_POLL_S)


def _require_plan(instance_id: str, drift: Mapping[str, Any], timeout_s: float) -> None:
    """Raise CommandFailed unless the first check is done and has planned."""
    if drift["status"] in _UNDER_WAY:
        raise CommandFailed(
            f"The instance {instance_id} is adopted, but its first check takes more than {timeout_s:g} s. "
            f"See it later: launchbay drift show {instance_id}",
            ExitCode.TIMED_OUT,
        )
    if drift["problem"]:
        raise CommandFailed(
            f"The instance is adopted, but its first plan failed: {drift['problem']}\n"
            f"Check again when that is fixed: launchbay drift check {instance_id}",
            ExitCode.FAILED,
        )


def _show(document: Mapping[str, Any], *, is_dry_run: bool) -> None:
    verb = "Would adopt" if is_dry_run else "Adopted"
    for state in document["states"]:
        click.echo(f"{verb} for {state['component']} ({state['name']}), lineage {state['lineage']}:")
        _show_some(state["resources"], state["resourceCount"])
        if not state["resources"]:
            warning = f"Warning: the state for {state['component']} has no resources: taking over would create all."
            click.echo(warning, err=True)
    for release in document["releases"]:
        place = f"{release['namespace']}/{release['release']}"
        click.echo(
            f"{verb} for {release['component']} ({place}), chart {release['chart']}, revision {release['revision']}:"
        )
        _show_some(release["resources"], release["resourceCount"])
        if release["otherValues"]:
            click.echo("Values that the step doesn't set, and an upgrade by it drops:")
            values = [f"{path}={json.dumps(value)}" for path, value in release["otherValues"].items()]
            _show_some(values, release["otherValueCount"])
    for component in dict.fromkeys(host["component"] for host in document["hosts"]):
        own = [host for host in document["hosts"] if host["component"] == component]
        click.echo(f"{verb} for {component} {_counted(len(own))}, reached and with the right keys:")
        _show_some([f"{host['login']}@{host['address']}  {host['role']}" for host in own], len(own))
    if document["leftOut"]:
        click.echo(f"Nothing is adopted for {', '.join(document['leftOut'])}: taking over would launch that.")
    if is_dry_run:
        click.echo(f"Nothing is done. The instance would be {document['name']!r}, version {document['version']}.")
    else:
        click.echo(f"{document['instanceId']}  {document['name']}  is observed: nothing changes what runs.")


def _counted(hosts: int) -> str:
    return "1 host" if hosts == 1 else f"{hosts} hosts"


def _show_some(lines: Sequence[str], count: int) -> None:
    for line in lines[:_SHOWN]:
        click.echo(f"  {line}")
    if count > _SHOWN:
        click.echo(f"  and {count - _SHOWN} more")


def _show_drift(instance_id: str, drift: Mapping[str, Any]) -> None:
    differing = [each for each in drift["findings"] if each["state"] == "new"]
    if not differing:
        click.echo("The first plan changes nothing: what runs is as the instance describes it.")
    else:
        click.echo(f"The first plan would change {len(differing)}:")
        for each in differing[:_SHOWN]:
            click.echo(f"  {each['kind']}  {each['address']}")
        click.echo(f"See each: launchbay drift show {instance_id}")
    for each in drift["unchecked"]:
        click.echo(f"Not checked: {each['step']}: {each['note']}")
    click.echo(f"To take it over: launchbay change-set create manage --instance {instance_id}")


adopt = RemoteCommand(
    "adopt",
    callback=_adopt,
    short_help="Make an instance of what runs already.",
    help="Make an instance of what OpenTofu, Terraform or Helm has made already, or of hosts. It is only observed: "
    "checks show how it differs, and nothing changes it until a change set takes it over. Destroying it before that "
    "only forgets it, and leaves what runs. Exit with 1 if the first plan fails. For example: "
    "launchbay adopt shop --state infra=terraform.tfstate, launchbay adopt shop --helm-release web, or "
    "launchbay adopt shop --hosts db",
    params=[
        click.Argument(["application"], metavar="APPLICATION", **completion_for("application")),
        click.Option(
            ["--state", "states"],
            metavar="COMPONENT=FILE",
            multiple=True,
            help="The state of a component: terraform.tfstate, or `-` for what `tofu state pull` prints. "
            "COMPONENT:NAME=FILE if it has several.",
        ),
        click.Option(
            ["--helm-release", "releases"],
            metavar="COMPONENT",
            multiple=True,
            help="A component whose release of Helm is there. The server reads it from the cluster of the step. "
            "COMPONENT=NAMESPACE/NAME if it has several.",
        ),
        click.Option(
            ["--hosts", "hosts"],
            metavar="COMPONENT",
            multiple=True,
            help="A component whose steps name hosts that run already. The server reaches each and changes nothing.",
        ),
        click.Option(["--name"], help="The name of the instance."),
        click.Option(["--environment"], help="Its environment. Default: that of the revision, or the default one."),
        click.Option(["--revision"], help="The revision whose version and parameters it has."),
        click.Option(
            ["--version"], type=click.IntRange(min=1), help="The version of the manifest. Default: the newest."
        ),
        click.Option(
            ["-p", "--parameter", "parameters"],
            metavar="NAME=STRING",
            multiple=True,
            help="A parameter. NAME:=JSON for other values, @FILE for a map of them.",
        ),
        click.Option(["--dry-run", "is_dry_run"], is_flag=True, help="Say what would be adopted, and do nothing."),
        click.Option(
            ["--timeout"],
            type=click.FloatRange(min=0),
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="How long to wait for the check of existing objects, and then for the first plan.",
        ),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
