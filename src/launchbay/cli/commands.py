"""Commands generated from the operations of the API, and what some of them do in addition."""

import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from launchbay.cli import boards, plans
from launchbay.cli.connection import OUTPUTS, Connection, connect, say_warning
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.following import leave_approvals, print_log, progress_for_terminal, wait_for_job
from launchbay.cli.inputs import Input, hint_of, inputs, parse_duration_ms
from launchbay.cli.lazy import HELP_OPTIONS, NOUNS, HelpfulGroup, load
from launchbay.cli.output import (
    DETAILED,
    IDS,
    CommandFailed,
    RemoteCommand,
    exit_by_differences,
    print_warning,
    printable,
    show,
    show_one_of_many,
    with_iso_times,
    with_local_times,
)
from launchbay.cli.verbs import AnyOperation, all_operations, nouns
from launchbay.client import ApiError, ClientError, ConnectionFailed, NotAllowed, NotFound, Operations
from launchbay.client.core import Call
from launchbay.client.operation import Operation
from launchbay.client.streams import text_steps
from launchbay.clock import from_ms, iso_time
from launchbay.ids import is_id
from launchbay.model.code_change import CodeChange
from launchbay.model.durations import duration_words
from launchbay.model.expiry import NEVER, duration
from launchbay.model.instance import InstanceStatus
from launchbay.planning.names import DESTROY

Run = Callable[[Connection, Call[Any], Mapping[str, Any]], None]


@dataclass(frozen=True)
class Extension:
    """What a command does beyond its call: `run` replaces showing the result, `columns` are those of its table.

    `flags` replaces those of options of the call, by field. `note` is a paragraph of its help. With
    `takes_job`, a job may be named instead of the instance.
    """

    run: Run | None = None
    options: Sequence[click.Parameter] = ()
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    columns: Sequence[str] = ()
    note: str = ""
    takes_job: bool = False


def sharing_options() -> list[click.Parameter]:
    return [
        click.Option(["--profile"], help="Use this profile.", metavar="NAME"),
        click.Option(["--organization"], help="Use this organization: name or ID.", metavar="ORGANIZATION"),
        click.Option(["-o", "--output"], type=click.Choice(OUTPUTS), help="Output format.  [default: table]"),
        click.Option(["--override-freeze"], help="Change what is frozen. Everybody sees the reason.", metavar="REASON"),
    ]


def connected(given: dict[str, Any], *, anonymous: bool = False) -> Connection:
    """Remove the shared options and `--quiet` from `given`, and connect with them."""
    output = given.pop("output")
    profile, organization, override = given.pop("profile"), given.pop("organization"), given.pop("override_freeze")
    connection = connect(profile, organization, output, anonymous=anonymous, override_freeze=override)
    return replace(connection, output=IDS) if given.pop("is_quiet", False) else connection


def command_of(operation: AnyOperation, verb: str, extension: Extension | None = None) -> click.Command:
    extension = extension or Extension()
    entries = inputs(operation)
    own = _own_parameters(entries, extension)
    more = [*extension.options, *([quiet_option()] if _answers_ids(operation) else [])]
    deletes = operation.row.method == "DELETE"
    if deletes:
        more.append(
            click.Option(
                ["-y", "--yes"],
                is_flag=True,
                help="Skip the confirmation prompt. Without a terminal there is no prompt.",
            )
        )
    has_tag = operation.row.method == "GET" and not operation.row.public and isinstance(operation, Operation)
    if has_tag:
        more.append(click.Option(["--etag"], is_flag=True, help="Print the tag of the object, for `--if-match`."))
    notes = [extension.note, *(hint_of(parameter) for parameter in own)]
    note = "".join(f"\n\n{each}" for each in notes if each)
    about = " ".join(inspect.cleandoc(operation.__doc__ or "").partition("\n\n")[0].split())

    def callback(**given: Any) -> None:
        connection = connected(given, anonymous=operation.row.public)
        if deletes:
            _confirm(operation, given)
        arguments: dict[str, Any] = {}
        if extension.takes_job or {*_OF_JOB} <= {*given}:
            given.update(_named_job(connection, given))
        for entry in entries:
            value = given.pop(entry.name, None)
            if entry.also is not None:
                value = (*value, *given.pop(entry.also.name or ""))
            arguments[entry.name] = entry.read(value, connection, arguments)
        call = operation.call(**{name: value for name, value in arguments.items() if value is not None})
        try:
            call.target()
        except ValueError as error:  # an empty name, or one of `.` and `..`
            raise click.UsageError(f"{error}.") from error
        if has_tag and given.pop("etag"):
            show(connection.client.tagged(call).tag, connection.output)
        elif extension.run is not None:
            extension.run(connection, call, given)
        else:
            show(with_names(connection, answer(connection, call)), connection.output, extension.columns)

    return RemoteCommand(
        verb,
        params=[*own, *more, *sharing_options()],
        callback=callback,
        help=about.replace(" Permission: ", f"{note}\n\nPermission: "),
        short_help=about.partition(" Permission: ")[0],
        context_settings=HELP_OPTIONS,
    )


def quiet_option() -> click.Option:
    return click.Option(["--quiet", "is_quiet"], is_flag=True, help="Print only IDs.")


def _answers_ids(operation: AnyOperation) -> bool:
    """Return whether it creates or lists objects with IDs.

    Not if it shows a secret once: IDs alone would lose it.
    """
    if not operation.name.startswith(("create_", "list_")):
        return False
    fields = getattr(next(iter(get_args(operation.returns)), operation.returns), "__struct_fields__", ())
    return "id" in fields and {"token", "secret"}.isdisjoint(fields)


def _own_parameters(entries: Sequence[Input], extension: Extension) -> list[click.Parameter]:
    own = [each for entry in entries for each in (entry.parameter, entry.also) if each is not None]
    is_of_job = {*_OF_JOB} <= {parameter.name for parameter in own}
    for parameter in own:
        if parameter.name in extension.flags:
            parameter.opts, parameter.secondary_opts = [*extension.flags[parameter.name]], []
        if is_of_job and parameter.name in _OF_JOB:
            parameter.required, parameter.metavar = False, _OF_JOB[parameter.name]
    own.sort(key=lambda parameter: isinstance(parameter, click.Option))
    # An argument that takes all remaining words must be the last.
    own.sort(key=lambda parameter: parameter.nargs == -1 and isinstance(parameter, click.Argument))
    return own


_OF_JOB = {"instance_id": "[INSTANCE]", "job_id": "JOB"}  # of these, the last one that is given names the job


def _named_job(connection: Connection, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the instance and the job, if a job is named as the instance.

    Raises UsageError without either.
    """
    if "job_id" in given:
        if given["instance_id"] is None:
            raise click.UsageError("Missing argument 'JOB'.")
        if given["job_id"] is not None:
            return {}
        instance, job = connection.names.any_job(given["instance_id"])
        return {"instance_id": instance, "job_id": job}
    found = connection.names.instance_or_job(given["instance_id"]) if given["job"] is None else ""
    return {"instance_id": found[0], "job": found[1]} if isinstance(found, tuple) else {}


def answer(connection: Connection, call: Call[Any]) -> Any:
    """Make a call and return its response as plain data, including fields that this version doesn't know."""
    is_plain = call.returns is str or call.returns is type(None)
    return connection.client.send(call if is_plain else call.with_returns(Any))


def with_names(connection: Connection, document: Any) -> Any:
    """Return a document whose tables have names next to IDs."""
    if connection.output != "table":
        return document
    known: dict[str, Mapping[str, str]] = {}

    def named(rows: Any) -> Any:
        if not isinstance(rows, list):
            return rows
        return [_with_names(connection, row, known) if isinstance(row, dict) else row for row in rows]

    return {name: named(value) for name, value in document.items()} if isinstance(document, dict) else named(document)


_NAMED_KINDS = {"applicationId": "application", "environmentId": "environment", "ownerId": "user", "authorId": "user"}
_NAMED_KINDS |= {"application": "application", "environment": "environment"}


def _with_names(
    connection: Connection, row: Mapping[str, Any], known: dict[str, Mapping[str, str]]
) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        found[name] = value
        base, kind = name.removesuffix("Id"), _NAMED_KINDS.get(name)
        if kind is None or not isinstance(value, str) or not is_id(value) or f"{base}Name" in row:
            continue
        if kind not in known:
            known[kind] = {}
            with suppress(ClientError, click.UsageError):  # who may not list them sees IDs alone
                known[kind] = connection.names.known(kind)
        if value in known[kind]:
            found[f"{base}Name" if base == name else base] = known[kind][value]
    return found


def _confirm(operation: AnyOperation, given: dict[str, Any]) -> None:
    """Ask for confirmation on a terminal; scripts aren't asked."""
    if not given.pop("yes") and sys.stdin.isatty():
        named = " ".join(each for each in given.values() if isinstance(each, str))
        click.confirm(f"{operation.name.replace('_', ' ').capitalize()} {named}?", abort=True, err=True)


JOB_COLUMNS = ("id", "name", "status", "startedAt", "finishedAt", "number", "errorMessage")
_APPROVAL_COLUMNS = ("id", "status", "instanceName", "workflow", "text", "expiresAt")
_DECIDED_COLUMNS = ("id", "status", "instanceName", "workflow", "text", "decidedBy", "decidedAt", "comment")
_AUDIT_COLUMNS = ("at", "actor.email", "operation", "object", "changes", "address")
_TOKEN = re.compile(r"lbr_[\w-]+")


def _duration_s(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    return float(text) if text.strip().isdecimal() else parse_duration_ms(text) / 1000


def waiting_options(
    *, always: bool = False, until: str = "Wait until the job ends and show its steps.", of_job: bool = True
) -> tuple[click.Parameter, ...]:
    """Return the options of commands that wait; those that wait for a job may leave approvals to others."""
    about = "Stop waiting after this time: seconds, or such as 90s or 10m."
    timeout = click.Option(["--timeout"], callback=_duration_s, metavar="DURATION", help=about)
    wait = click.Option(["-w", "--wait"], is_flag=True, help=until)
    leave = click.Option(
        ["--no-wait-approval"],
        is_flag=True,
        expose_value=False,
        callback=leave_approvals,
        help="Exit with 11 if the job waits for an approval.",
    )
    return (*(() if always else (wait,)), timeout, *((leave,) if of_job else ()))


def _launch(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    if_exists = call.query.get("ifExists")
    if if_exists in {"fail", "return"} and not (call.body or {}).get("instanceName"):
        raise click.UsageError(f"--if-exists {if_exists} compares names. Add --name, or leave --if-exists out.")
    if options["is_dry_run"]:
        show_preview(connection, replace(call, spec=Operations.preview_launch.row, idempotency_key=None))
        return
    document, job = _started(connection, call)
    _print_warnings(document)
    if options["wait"] and job:
        follow(connection, document["id"], job, options["timeout"], after=0)
    elif options["wait"]:  # it was there, and nothing runs on it
        with shown_on_failure(connection, document["id"]):
            found = connection.client.read_instance(document["id"])
            if found.status != InstanceStatus.RUNNING:
                raise CommandFailed(f"Nothing runs on the instance, which is {found.status}.", ExitCode.FAILED)
        _show_started(connection, document, job)
    else:
        _show_started(connection, document, job)
    _print_end(connection, document["id"])


def _print_end(connection: Connection, instance: str) -> None:
    """Say when the instance will end, if the caller is allowed to see it."""
    with suppress(ClientError):
        life = connection.client.read_lifetime(instance)
        ends = [at for at in (life.destroy_at, life.idle_ends_at) if at is not None]
        coming = next((each for each in life.coming if each.kind == "destroy"), None)
        if coming is not None and coming.at not in ends:  # a destroy that somebody has scheduled comes before
            text = f"{with_local_times(iso_time(from_ms(coming.at)))}: {with_local_times(coming.text)}"
        elif not ends:
            text = f"No end is set. Set one: launchbay instance set-destroy-at {instance} TIME"
        else:
            at = with_local_times(iso_time(from_ms(min(ends))))
            unless = "" if min(ends) == life.destroy_at else " if nothing runs on it until then"
            text = f"Launchbay destroys the instance at {at}{unless}. Later: launchbay instance extend {instance} 2h"
        click.echo(text, err=True)


def show_preview(connection: Connection, call: Call[Any], advice: str = "") -> None:
    """Show what a call would do. Raises CommandFailed if the server would refuse it."""
    print_preview(connection, answer(connection, call), advice)


def print_preview(connection: Connection, document: dict[str, Any], advice: str = "") -> None:
    """Print a preview.

    Raises CommandFailed if the server would refuse it: it has errors, or a rule is against it.
    """
    if document.get("refused") and not document["errors"]:
        refusal, *others = document["warnings"]
        _print_warnings({"warnings": others})
        _show_preview(connection, document)
        raise CommandFailed(printable(refusal), ExitCode.REFUSED)
    _print_warnings(document)
    if document["errors"]:
        raise CommandFailed(printable("\n".join(filter(None, [*document["errors"], advice]))), ExitCode.REFUSED)
    _show_preview(connection, document)


def _show_preview(connection: Connection, document: dict[str, Any]) -> None:
    if connection.output == "table":
        components = [{**each, "code": _code(each)} for each in document["components"]]
        document = {"components": components, "workflows": document["workflows"]}
    show(document, connection.output)


def _reconfigure(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    if options["is_dry_run"]:
        show_preview(connection, replace(call, spec=Operations.preview_configuration.row, idempotency_key=None))
    else:
        begin(connection, call, options)


def _code(component: Mapping[str, Any]) -> str | None:
    """Return what differs in the code of a component, for a line."""
    code = component.get("code")
    return code and f"{msgspec.convert(code, CodeChange).sentence}, from the next run on"


def _print_warnings(document: Mapping[str, Any]) -> None:
    for warning in document.get("warnings", ()):
        say_warning(warning)


def begin(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    """Make a call that begins a job; with `wait`, follow the job."""
    document, job = _started(connection, call)
    _print_warnings(document or {})
    if document and "destroyAt" in document:
        text = f"The instance is destroyed at {iso_time(from_ms(document['destroyAt']))}."
        with suppress(ClientError):  # who may destroy it may not read it
            waiting = connection.client.read_lifetime(call.path[0]).waiting_destroy
            text = text if waiting is None else waiting.text
        advice = f"Take it back: launchbay instance undo-destroy {call.path[0]}"
        click.echo(f"{with_local_times(text)} {advice}", err=True)
    if options["wait"] and job:
        follow(connection, call.path[0], job, options["timeout"])
    else:
        _show_started(connection, document, job)


def _lifetime(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    document = answer(connection, call)
    if connection.output == "table":
        for each in filter(None, [document["waitingDestroy"], *document["coming"]]):
            each["text"] = with_local_times(each["text"])
    show(document, connection.output)


def _schedules(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Show the schedules of an instance, and which are due after its end."""
    document = answer(connection, call)
    show(document, connection.output)
    if connection.output != "table":
        return
    with suppress(ClientError):  # the list is what was asked for
        life, rows = connection.client.read_lifetime(call.path[0]), document["schedules"]
        # An idle instance lives on when one of them runs, so that end doesn't count.
        ends = [each.at for each in life.coming if each.kind == "destroy" and each.at != life.idle_ends_at]
        ends += [each["timestamp"] for each in rows if each["name"] == DESTROY and not each.get("component")]
        ends += [] if life.destroy_at is None else [life.destroy_at]
        late = [each["name"] for each in rows if ends and each["timestamp"] > min(ends) and not each.get("cancelledAt")]
        if late:
            at = with_local_times(iso_time(from_ms(min(ends))))
            text = f"The instance is destroyed at {at}. These don't run, for they are due later: {', '.join(late)}."
            click.echo(text, err=True)


def _undo_destroy(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Take back a destroy, and say what follows."""
    document = answer(connection, call)
    if connection.output != "table":
        show(document, connection.output)
        return
    click.echo("The destroy is taken back.")
    if document["scheduleId"] is not None:
        click.echo("Launchbay starts the instance again as soon as no job runs.")
    _print_end(connection, call.path[0])


def _show_started(connection: Connection, document: Any, job: str) -> None:
    """Show the response of a call and the job that it began.

    A table has only what the response has, since scripts read the ID of the instance from it.
    """
    if connection.output == "table":
        document = document and {name: value for name, value in document.items() if name != "warnings"}
    elif job:
        document = {**(document or {}), "job": job}
    show(document, connection.output)
    if job:
        click.echo(f"Job {job} has started. Wait for it: launchbay wait {job}", err=True)


def _create_bulk(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    """Begin a bulk run on what the options choose."""
    names = connection.names
    chosen = {
        "status": ",".join(options["status"]),
        "lastStatus": options["last"],
        "labels": ",".join(options["chosen_labels"]),
        "application": options["application"] and names.application(options["application"]),
        "environment": options["environment"] and names.environment(options["environment"]),
        "q": options["search"],
        "secretsChanged": options["has_changed_secrets"],
        "all": options["all_instances"],
    }
    select = {name: value for name, value in chosen.items() if value}
    if select:
        call = replace(call, body={**call.body, "select": {**(call.body.get("select") or {}), **select}})
    _require_choice(
        call,
        "filters such as --status, --label, --application, --search and --secrets-changed, or --all",
    )
    document = answer(connection, call)
    if options["wait"] and document["id"]:  # a preview has none
        if connection.output == "table":
            click.echo(f"Bulk run {document['id']}", err=True)
        follow_bulk(connection, document["id"], options["timeout"])
        return
    if connection.output != "table":
        show(document, connection.output)
    elif document["id"]:
        click.echo(document["id"])
        click.echo(f"Wait for it: launchbay bulk wait {document['id']}", err=True)
    else:
        show(_with_counts(document), connection.output)


def _create_change_set(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    if call.body["act"] in {"reconfigure", "version", "destroy"}:
        _require_choice(call, "filters with --select")
    plans.show_change_set(with_names(connection, answer(connection, call)), connection.output)


def _change_set(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    found = answer(connection, call)
    if options.get("wait"):
        found = plans.wait_for_plans(connection.client, found["id"], options["timeout"])
    plans.show_change_set(with_names(connection, found), connection.output)


def _plan(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    found = answer(connection, call)
    if options["wait"]:
        found = plans.wait_for_plan(connection.client, found["id"], options["timeout"])
    plans.show_plan(found, connection.output)


def _drift_report(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    plans.show_drift(answer(connection, call), connection.output)


def _board(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    boards.show_board(answer(connection, call), connection.output)


def _provider_test(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Show the test of a provider; exit with 1 unless jobs can read all."""
    document = answer(connection, call)
    if connection.output == "table" and document["paths"]:
        show(document["paths"], connection.output, ("path", "result", "mayWrite", "message"))
    if connection.output != "table":
        show(document, connection.output)
    if document["problem"]:
        raise CommandFailed(printable(document["problem"]), ExitCode.FAILED)
    unread = [each for each in document["paths"] if each["result"] not in ("readable", "allowed")]
    if unread:
        raise CommandFailed(f"A job can't read {len(unread)} of {len(document['paths'])} paths.", ExitCode.FAILED)


def _provider_use(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Show who reads from a provider: in a table, a row for each read."""
    document = answer(connection, call)
    if connection.output != "table":
        show(document, connection.output)
        return
    names = ("instance", "application", "environment")
    show(
        [{**each, **{name: each[name]["name"] for name in names}} for each in document["reads"]], "table", _READ_COLUMNS
    )
    for each in document["services"]:
        click.echo(printable(f"The service {each['name']} refers to it."))
    for each in document["openSessions"]:
        of = f"job {each['job']}" if each["job"] else "a test"
        click.echo(printable(f"A session of {of} couldn't be revoked: {each['message']}"))


_READ_COLUMNS = (
    "secret",
    "instance",
    "application",
    "environment",
    "component",
    "step",
    "isChanged",
    "readAt",
    "job",
)


def _create_rollout(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    _require_choice(call, "filters with --select", is_needed=False)
    show(answer(connection, call), connection.output)


def _require_choice(call: Call[Any], filters: str, *, is_needed: bool = True) -> None:
    """Raise UsageError unless the options choose instances in one way."""
    named, fitting = (call.body.get(name) is not None for name in ("ids", "select"))
    if named and fitting:
        raise click.UsageError(f"Give either --instance or {filters}, not both.")
    if is_needed and not named and not fitting:
        raise click.UsageError(f"Choose the instances: by --instance, or by {filters}.")


def follow_bulk(connection: Connection, bulk: str, timeout_s: float | None) -> None:
    """Wait until a bulk run has ended, and show it.

    Raises CommandFailed unless it succeeded on all instances.
    """
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    while (found := connection.client.read_bulk(bulk)).finished_at is None:
        if until_s is not None and time.monotonic() >= until_s:
            show(msgspec.to_builtins(found), connection.output)
            raise CommandFailed(f"The bulk run hasn't ended within {timeout_s:g} s.", ExitCode.TIMED_OUT)
        time.sleep(POLL_S)
    show(msgspec.to_builtins(found), connection.output)
    failed = found.counts.failed + found.counts.refused + found.counts.cancelled
    if failed:
        who = "1 instance failed, was" if failed == 1 else f"{failed} instances failed, were"
        told = f"{who} refused or got no turn. Run `launchbay bulk instances {bulk}`."
        raise CommandFailed(told, ExitCode.FAILED)


POLL_S = 0.5


def _drift(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    """Show how an organization differs from a commit."""
    document = answer(connection, call)
    show(document, connection.output)
    exit_by_differences(bool(document["changes"]), is_detailed=options["is_detailed"])


def _show_bulk(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Show a bulk run with its instances, those with a problem first."""
    document = answer(connection, call)
    listing = connection.client.list_bulk_instances
    rows: list[dict[str, Any]] = []
    for status in ("Failed", "Refused", "Cancelled", "Running", "Waiting", "Succeeded"):
        room = _BULK_SHOWN - len(rows)
        if room > 0 and document["counts"].get(status.lower()):
            rows += msgspec.to_builtins(listing(call.path[0], status=status, limit=room))
    if connection.output == "table":
        document = _with_counts(document)
        rows = [{name: row[name] for name in ("instanceId", "instanceName", "status", "message")} for row in rows]
    show({**document, "instances": rows}, connection.output)
    total = sum(document["counts"].values()) if isinstance(document["counts"], dict) else 0
    if total > len(rows):
        more = f"{total - len(rows)} more instances. List them: launchbay bulk instances {call.path[0]}"
        click.echo(more, err=True)


def _with_counts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bulk run as its table shows it, without counts of nothing."""
    return {**document, "counts": {name: count for name, count in (document.get("counts") or {}).items() if count}}


_BULK_SHOWN = 200
_STATUS = click.Choice([status.value for status in InstanceStatus])
OUTCOME = click.Choice(["Succeeded", "Failed"])


def choosing_options(*, labels: str = "label", words_in: str = "names, labels or IDs") -> list[click.Parameter]:
    """Return the options that choose instances, as `ps` and `bulk create` have them."""
    return [
        click.Option(["--status"], multiple=True, type=_STATUS, help="Only instances in this status. Repeatable."),
        click.Option(["--last"], type=OUTCOME, help="Only instances whose last job ended so."),
        *narrowing_options(labels=labels, words_in=words_in),
    ]


def narrowing_options(*, labels: str = "label", words_in: str = "names, labels or IDs") -> list[click.Parameter]:
    """Return the options that choose instances by what they are, not by what they do."""
    return [
        click.Option(
            ["-l", "--label", labels],
            multiple=True,
            help="Only instances with this label: team=web, tier!=db, team or !team. Repeatable.",
            metavar="LABEL",
        ),
        click.Option(["--application"], help="Only instances of this application.", metavar="APPLICATION"),
        click.Option(["--environment"], help="Only instances in this environment.", metavar="ENVIRONMENT"),
        click.Option(["--search"], help=f"Only instances with these words in {words_in}.", metavar="WORDS"),
    ]


def changed_secrets_option() -> click.Option:
    """Return the option that chooses instances which use an older version of a secret."""
    return click.Option(
        ["--secrets-changed", "has_changed_secrets"],
        is_flag=True,
        help="Only instances that read a secret of a provider which has changed since.",
    )


def _schedule(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    if options["wait"] and str(call.body.get("interval")) != "0":
        raise click.UsageError("--wait needs the interval 0: a later run has no job yet.")
    begin(connection, call, options)


def _delete(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    """Delete an instance. The job that destroys a forced one goes with it."""
    document, job = _started(connection, call)
    if options["wait"] and job:
        with suppress(NotFound), shown_on_failure(connection, call.path[0], job):
            wait_for_job(connection.client, call.path[0], job, options["timeout"], progress_for_terminal(), after=None)
    show(document, connection.output)


def _started(connection: Connection, call: Call[Any]) -> tuple[Any, str]:
    """Return the response of a call as plain data, and its job."""
    client = connection.client
    return client.perform(client.core.started(call if call.returns is type(None) else call.with_returns(Any)))


def follow(
    connection: Connection, instance: str, job: str, timeout_s: float | None, *, after: int | None = None
) -> None:
    """Wait until the job has succeeded; show the instance and the job's results.

    On a failure, show the error.
    """
    click.echo(f"Instance {instance}, job {job}", err=True)  # for whoever has to stop the command
    with shown_on_failure(connection, instance, job):
        ended = wait_for_job(connection.client, instance, job, timeout_s, progress_for_terminal(), after=after)
        document = _state(connection, instance, job)
    if connection.output == "table":
        document = {name: document[name] for name in ("id", "name", "status", "returnValues", "job")}
    if ended.results:
        document["results"] = ended.results
    show(document, connection.output)


@contextmanager
def shown_on_failure(connection: Connection, instance: str, job: str | None = None) -> Iterator[None]:
    """Show the instance and its job if waiting fails or times out.

    JSON and YAML have the error too; a table doesn't, because standard error has it.

    Default job: the newest.
    """
    try:
        yield
    except NotFound:  # of an instance that was deleted, there is nothing to show
        raise
    except (ClientError, CommandFailed) as error:
        document: dict[str, Any] = {"id": instance, "job": job}
        if not isinstance(error, ConnectionFailed):  # another request would wait for the server once more
            with suppress(ClientError):
                document = _state(connection, instance, job)
        if connection.output == "table":
            shown = ("id", "name", "status", "job", "jobNumber", "jobStatus")
            document = {name: document[name] for name in shown if document.get(name) is not None}
        else:
            document["error"] = str(error)
        show(document, connection.output)
        raise


def _state(connection: Connection, instance: str, job: str | None) -> dict[str, Any]:
    """Return an instance as the API does, with fields of a job.

    Default: of the newest.
    """
    client = connection.client
    document: dict[str, Any] = client.send(Operations.read_instance.call(instance).with_returns(Any))
    if job is None:
        job = next((newest.id for newest in client.list_jobs(instance, limit=1)), None)
    if job is not None:
        found = client.read_job(instance, job)
        document.update({"job": job, "jobNumber": found.number, "jobStatus": found.status})
    return document


def _upload(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    document = answer(connection, call)
    for found in document.get("warnings", ()):
        if found["line"]:
            print_warning(found["message"], found["line"], found["column"], found["code"])
        else:  # about the request, such as those of rules
            say_warning(found["message"])
    if connection.output == "table":
        document.pop("warnings", None)
    show(document, connection.output)


def _log(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    print_log(connection, call, follow=options["follow"], is_bare=options["is_bare"])


def _change_password(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Change it, and say what ended with it."""
    answer(connection, call)
    click.echo("Changed the password. All sessions and refresh tokens of the account ended.", err=True)
    click.echo("To sign in again, run: launchbay login", err=True)


def _audit(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Show entries with the newest first; a table has names instead of IDs."""
    query = {"sort": "-at", **{name: value for name, value in call.query.items() if value is not None}}
    if about := query.get("object"):
        is_path = about.startswith("/")  # as the table has it
        query["object"] = connection.names.path(about) if is_path else connection.names.instance_or_application(about)
    entries = answer(connection, replace(call, query=query))
    if connection.output == "table":
        for entry in entries:
            path = "/".join(entry["names"].get(part, part) for part in entry["object"].split("/"))
            changes = "; ".join(f"{each['field']}: {_brief(each)}" for each in entry["changes"])
            entry.update({"object": path, "changes": changes})
    show(entries, connection.output, _AUDIT_COLUMNS)


def _approvals(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Show approvals; a table of decided ones has who answered."""
    found = with_names(connection, answer(connection, call))
    is_decided = call.query.get("status") == "decided"
    if is_decided and connection.output == "table":
        for each in found:
            each["decidedBy"] = ", ".join(given["email"] for given in each["answers"])
            each["comment"] = "; ".join(given["comment"] for given in each["answers"] if given["comment"])
    show(found, connection.output, _DECIDED_COLUMNS if is_decided else _APPROVAL_COLUMNS)


def _brief(change: Mapping[str, Any]) -> str:
    before, after = (json.dumps(change[name], ensure_ascii=False) for name in ("before", "after"))
    return after if change["before"] is None else f"{before} → {after}"


_ENTRY = re.compile(r"(\w+): \[(.*)\]")
_KIND_OF_PATH = re.compile(r"/(application|environment|user)s/([0-9a-f]{24})")


def _check_role(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Show what saving a role would do.

    Raises CommandFailed if the text can't be saved.
    """
    document = answer(connection, call)
    if connection.output != "table":
        show(document, connection.output)
    elif not document["errors"]:
        for text in _lines_of_check(connection, document):
            click.echo(printable(text))
    if document["errors"]:
        raise CommandFailed(printable("\n".join(document["errors"])), ExitCode.REFUSED)


_MOST_CHANGES = 20  # that a check of a role lists


def _lines_of_check(connection: Connection, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield who gains and loses what, and what would have differed."""
    names: dict[str, Mapping[str, str]] = {}
    yield "The text can be saved."
    for warning in document["warnings"]:
        yield f"Warning: {warning}"
    holders, hidden = document["holders"], document["hidden"]
    yield ""
    yield (
        "Who gains and loses what:"
        if holders or hidden
        else "No one holds the role, so no one gains or loses anything."
    )
    for holder in holders:
        yield f"  {'Service account ' if holder['isServiceAccount'] else ''}{holder['name']}"
        for sign, key, more in (("+", "gains", ""), ("-", "losses", ""), ("=", "kept", "  (stays, by another role)")):
            for entry in holder[key]:
                yield f"    {sign} {_words_of_entry(connection, entry, names)}{more}"
        if not holder["gains"] and not holder["losses"]:
            yield "    gains and loses nothing"
    if hidden:
        yield f"  {hidden} {'other' if holders else 'person'}{'' if hidden == 1 else 's'} whom you may not see"
    if recent := document.get("recent"):
        yield from _lines_of_recent(connection, recent, names)


def _lines_of_recent(
    connection: Connection, recent: Mapping[str, Any], names: dict[str, Mapping[str, str]]
) -> Iterator[str]:
    refused, count = recent["refused"], recent["changes"]
    if not recent["missing"] and not count:
        return
    yield ""
    if recent["missing"]:
        yield recent["missing"]
        return
    among = "the last change" if count == 1 else f"the last {count} changes"
    yield f"Of {among} by its holders, it would have refused {len(refused) or 'none'}{':' if refused else '.'}"
    for each in refused[:_MOST_CHANGES]:
        where = _KIND_OF_PATH.sub(partial(_named_path, connection, names), each["object"])
        at = with_local_times(iso_time(from_ms(each["at"])))
        yield f"  {at}  {each['by']}  {each['operation']}  {where}  needs {each['permission']}"
    if len(refused) > _MOST_CHANGES:
        yield f"  and {len(refused) - _MOST_CHANGES} more"


def _named_path(connection: Connection, names: dict[str, Mapping[str, str]], found: re.Match[str]) -> str:
    kind, number = found[1], found[2]
    if kind not in names:
        names[kind] = {}
        with suppress(ClientError, click.UsageError):
            names[kind] = connection.names.known(kind)
    return f"/{kind}s/{names[kind].get(number, number)}"


def _words_of_entry(connection: Connection, entry: str, names: dict[str, Mapping[str, str]]) -> str:
    """Return an entry of a role with names for IDs."""
    found = _ENTRY.fullmatch(entry)
    if found is None:
        return entry
    where = "everything" if found[2] == "/*" else _KIND_OF_PATH.sub(partial(_named_path, connection, names), found[2])
    return f"{found[1]} on {where}"


def _events(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    for event in connection.client.watch_instance(call.path[0], after=call.query.get("after")):
        if connection.output == "table":
            fields = (f"{name}={value}" for name, value in event.data.items() if value is not None and name != "at")
            click.echo(printable(f"{event.name:7} {' '.join(fields)}"))
        else:
            show_one_of_many(
                {"id": event.id, "event": event.name, "data": with_iso_times(event.data)}, connection.output
            )


def _create_token(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    show_token(connection, token_of(answer(connection, call)))


def show_token(connection: Connection, token: str) -> None:
    """Print a token: in a table, nothing but the token, which scripts read."""
    show(token if connection.output == "table" else {"token": token}, connection.output)


def token_of(page: str) -> str:
    """Return the refresh token that the page shows. Raises CommandFailed if it shows none."""
    found = _TOKEN.search(page)
    if found is None:
        raise CommandFailed("The server returned no token.", ExitCode.NOT_AUTHENTICATED)
    return found[0]


def _openapi(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    show(answer(connection, call), "json" if connection.output == "table" else connection.output, times=False)


def _compare_jobs(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Compare two jobs.

    A table says of each step what differs, and which job alone has it.
    """
    document = answer(connection, call)
    if connection.output == "table":
        jobs = {name: f"job {document[name]['number']}, {document[name]['workflow']!r}" for name in ("one", "other")}
        document = {**document, "steps": [_compared_step(each, jobs) for each in document["steps"]]}
    show(document, connection.output)


def _compared_step(step: Mapping[str, Any], jobs: Mapping[str, str]) -> str:
    for name, absent in (("one", "other"), ("other", "one")):
        if step[absent] is None:
            return f"{step['path']}: only in {jobs[name]} ({step[name]['status']})"
    statuses = list(dict.fromkeys(step[name]["status"] for name in ("one", "other")))
    difference_ms = step["differenceMs"]
    longer = [] if not difference_ms else [f"{'+' if difference_ms > 0 else '-'}{duration_words(abs(difference_ms))}"]
    values = [f"{kind} differ" for kind in ("inputs", "outputs") if step[kind]]
    return f"{step['path']}: {', '.join([' → '.join(statuses), *longer, *values])}"


def _set_lifetime(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Replace all rules, and say which ones are gone."""
    is_application = call.known.path == Operations.read_application_lifetime.row.path
    reading = Operations.read_application_lifetime if is_application else Operations.read_environment_lifetime
    before: dict[str, Any] = {}
    with suppress(NotAllowed):
        before = answer(connection, reading.call(*call.path))
    show(answer(connection, call), connection.output)
    for name, value in before.items():
        if name not in (call.body or {}) and value is not None and value != _NO_RULE.get(name):
            option = re.sub("[A-Z]", lambda found: f"-{found[0].lower()}", name)
            was = duration(value) if name.endswith("Ms") and value != NEVER else value
            say_warning(f"The rule --{option} is gone; it was {was}. This sets all rules: give those that stay.")


_NO_RULE = {"mayNever": True, "mail": False}


def _create_recurring(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Make a recurring schedule; of a preview, show only what it finds out."""
    document = answer(connection, call)
    if document["status"] == "Preview" and connection.output == "table":
        for warning in document["warnings"]:
            say_warning(warning)
        document = {name: document[name] for name in ("name", "cron", "zone", "nextAt")}
    show(with_names(connection, document), connection.output)


def _export_organization(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    """Write the archive as one document, or in lines if it is large."""
    path: Path = options["file"]
    pieces: Iterator[bytes]
    try:
        archive = answer(connection, call)
        pieces = iter([f"{json.dumps(archive, indent=1, ensure_ascii=False)}\n".encode()])
    except ApiError as error:
        if error.code != "ArchiveTooLarge":
            raise
        archive = None
        pieces = _lines(connection, Operations.export_organization_lines.call(*call.path))
    try:
        # Readable only by its owner: it contains everything about an organization except secrets.
        with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
            try:
                file.writelines(pieces)
            except BaseException:
                path.unlink()  # half an archive
                raise
        if archive is None:
            with path.open("rb") as file:
                archive = msgspec.json.decode(file.readline())
    except OSError as error:
        raise click.UsageError(f"Can't write {path}: {error.strerror}.") from error
    for hole in archive["holes"]:
        click.echo(printable(f"Not in the archive: {hole}"), err=True)
    if connection.output != "table":
        show({"file": str(path), "holes": archive["holes"]}, connection.output)


def _lines(connection: Connection, call: Call[str]) -> Iterator[bytes]:
    return connection.client.iterate(text_steps(connection.client.core, call))


def _print_lines(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    for piece in _lines(connection, call):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _import_organization(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    """Import the archive of a file, in one document or in lines."""
    archive = call.body["archive"]
    if isinstance(archive, Path):
        plan, name = call.body.get("plan"), call.body.get("name")
        call = Operations.import_organization_lines.call(archive, name=name, plan=plan)
    show(with_names(connection, answer(connection, call)), connection.output)


_PROPERTIES = (
    'PROPERTY is a JSON or YAML object, such as {"name": "size", "type": "int", "value": 3}. '
    "@FILE reads one object or a list of objects."
)
_DRY_RUN = click.Option(["--dry-run", "is_dry_run"], is_flag=True, help="Show what this would do, and do nothing.")
EXTENSIONS: Mapping[str, Extension] = {
    "openapi": Extension(_openapi),
    "export_organization": Extension(
        _export_organization,
        [click.Argument(["file"], type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")],
    ),
    "export_organization_lines": Extension(_print_lines),
    "import_organization": Extension(_import_organization),
    "create_bulk": Extension(
        _create_bulk,
        [
            *choosing_options(labels="chosen_labels", words_in="names or labels; IDs from 8 characters on"),
            changed_secrets_option(),
            click.Option(["--all", "all_instances"], is_flag=True, help="All instances. It takes no filter."),
            *waiting_options(
                until="Wait until it ends, and exit with 1 unless it succeeded on all instances.", of_job=False
            ),
        ],
        flags={"labels": ["--set-label"], "preview": ["--dry-run", "--preview"]},
    ),
    "create_change_set": Extension(_create_change_set),
    "read_change_set": Extension(_change_set, waiting_options(until="Wait until its plans are made.", of_job=False)),
    "approve_change_set": Extension(_change_set),
    "create_plan": Extension(_plan, waiting_options(until="Wait until it is made, and show it.", of_job=False)),
    "read_plan": Extension(_plan, waiting_options(until="Wait until it is made.", of_job=False)),
    "create_user": Extension(flags={"is_for_program": ["--for-program"]}),
    "create_rollout": Extension(_create_rollout),
    "create_recurring_schedule": Extension(_create_recurring),
    "replace_application_lifetime": Extension(_set_lifetime),
    "replace_environment_lifetime": Extension(_set_lifetime),
    "list_users": Extension(
        note="Service accounts, which are programs without a password, have a list of their own: launchbay "
        "service-account list."
    ),
    "read_bulk": Extension(_show_bulk),
    "read_git_drift": Extension(_drift, [DETAILED]),
    "check_drift": Extension(_drift_report),
    "read_drift": Extension(_drift_report),
    "take_over_drift": Extension(_drift_report),
    "read_promotion": Extension(_board),
    "launch_application": Extension(_launch, [_DRY_RUN, *waiting_options()]),
    "replace_manifest": Extension(_upload),
    "set_manifest_source": Extension(_upload),
    "refresh_manifest": Extension(_upload),
    "run_workflow": Extension(begin, waiting_options()),
    "reconfigure_instance": Extension(_reconfigure, [_DRY_RUN, *waiting_options()]),
    "resume_job": Extension(begin, waiting_options()),
    "schedule_workflow": Extension(_schedule, waiting_options()),
    "delete_instance": Extension(_delete, waiting_options()),
    "read_lifetime": Extension(_lifetime),
    "compare_jobs": Extension(_compare_jobs),
    "undo_destroy": Extension(_undo_destroy),
    "list_schedules": Extension(_schedules),
    "read_log": Extension(
        _log,
        note="--step takes the path of a step, or its last name. --job takes an ID, its beginning, or last. "
        "The ID of a job alone, or INSTANCE#NUMBER, shows the log of that job.",
        takes_job=True,
        options=[
            click.Option(
                ["-f", "--follow"], is_flag=True, help="Keep printing new lines until the job or the instance ends."
            ),
            click.Option(
                ["--no-prefix", "is_bare"],
                is_flag=True,
                help="Print only the text of lines, without time, component and step.",
            ),
        ],
    ),
    "watch_instance": Extension(_events),
    "generate_token": Extension(_create_token),
    "list_audit_entries": Extension(_audit),
    "change_password": Extension(_change_password),
    "check_role": Extension(_check_role),
    "list_approvals": Extension(_approvals),
    "list_instance_approvals": Extension(columns=_APPROVAL_COLUMNS),
    "list_bulks": Extension(
        columns=("id", "act", "workflow", "status", "counts.succeeded", "counts.failed", "createdAt", "finishedAt")
    ),
    "list_change_sets": Extension(
        columns=("id", "act", "status", "instances", "ownerEmail", "createdAt", "expiresAt", "comment")
    ),
    "list_rollouts": Extension(
        columns=("id", "application", "version", "status", "wave", "createdAt", "finishedAt", "waitingFor")
    ),
    "list_jobs": Extension(columns=JOB_COLUMNS),
    "list_recurring_schedules": Extension(
        columns=(
            "id",
            "name",
            "kind",
            "status",
            "cron",
            "zone",
            "nextAt",
            "instanceEndsAt",
            "application",
            "workflow",
            "ownerEmail",
        )
    ),
    "replace_properties": Extension(note=_PROPERTIES),
    "test_secret_provider": Extension(
        _provider_test, note="It exits with 1 if the sign-in fails, or if a job can't read one of the paths."
    ),
    "read_secret_provider_use": Extension(_provider_use),
    "list_service_types": Extension(columns=("id", "name", "interfaces")),
}
# Verbs that combine several operations.
ADDED: Mapping[str, Mapping[str, str]] = {
    "bulk": {"wait": "launchbay.cli.instances:wait_for_bulk"},
    "change-set": {"wait": "launchbay.cli.instances:wait_for_change_set"},
    "rollout": {"wait": "launchbay.cli.instances:wait_for_rollout"},
    "instance": {"list": "launchbay.cli.instances:list_all", "wait": "launchbay.cli.instances:wait"},
    "job": {"wait": "launchbay.cli.instances:wait_for_one_job"},
    "token": {"create": "launchbay.cli.tokens:create"},
}


class NounGroup(HelpfulGroup):
    """The commands of a noun, in the order of the API."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's method
        noun = self.name or ""
        return [*nouns()[noun], *ADDED.get(noun, {})]

    def find(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - of the group
        noun = self.name or ""
        import_path = ADDED.get(noun, {}).get(name)
        if import_path is not None:
            command: click.Command = load(import_path)
            return command
        operation = nouns()[noun].get(name)
        return None if operation is None else command_of(all_operations()[operation], name, EXTENSIONS.get(operation))


@cache
def group_of(noun: str) -> NounGroup:
    return NounGroup(noun, help=NOUNS[noun], context_settings=HELP_OPTIONS)


def __getattr__(name: str) -> NounGroup:
    """Return the group of a noun: a lazy group loads each command as an attribute of a module."""
    noun = name.replace("_", "-")
    if noun not in nouns():
        raise AttributeError(name)
    return group_of(noun)


def _shortcut(operation: str, name: str) -> click.Command:
    return command_of(all_operations()[operation], name, EXTENSIONS.get(operation))


launch = _shortcut("launch_application", "launch")
logs = _shortcut("read_log", "logs")
run = _shortcut("run_workflow", "run")
