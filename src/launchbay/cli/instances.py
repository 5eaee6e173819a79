"""Commands that make several calls, such as `ps`, `instance list` and `rollout wait`."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click
import msgspec

from launchbay.cli.commands import (
    POLL_S,
    changed_secrets_option,
    choosing_options,
    connected,
    follow,
    follow_bulk,
    narrowing_options,
    quiet_option,
    sharing_options,
    shown_on_failure,
    waiting_options,
)
from launchbay.cli.connection import Connection
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.following import progress_for_terminal, wait_for_instance
from launchbay.cli.inputs import INSTANCE_ORDERS
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import CommandFailed, RemoteCommand, show, shown_status
from launchbay.client import Client, NotAllowed
from launchbay.clock import from_ms, iso_time
from launchbay.limits import PAGE_ROWS_MAX
from launchbay.model.durations import duration_words
from launchbay.model.instance import ALIVE, InstanceStatus

_STATUS = click.Choice([status.value for status in InstanceStatus])


def _list_all(
    *,
    with_destroyed: bool,
    application: str | None,
    environment: str | None,
    status: str | None,
    has_changed_secrets: bool,
    limit: int | None,
    **given: Any,
) -> None:
    connection = connected(given)
    names = connection.names
    where: dict[str, Any] = {
        "application": None if application is None else names.application(application),
        "environment": None if environment is None else names.environment(environment),
    }
    listed = connection.client.list_organization_instances.each(
        names.organization(),
        status=status or (None if with_destroyed else ",".join(ALIVE)),
        **where,
        secrets_changed=has_changed_secrets or None,
        sort="-created",
        limit=PAGE_ROWS_MAX if limit is None else min(limit, PAGE_ROWS_MAX),
    )
    found = list(islice(listed, limit))
    is_table = connection.output == "table"
    rows = [
        {
            "id": each.id,
            "name": each.name,
            "status": status_words(
                each.status,
                each.waiting_destroy,
                is_asleep=each.is_asleep,
                is_observed=each.is_observed,
                is_drifted=each.is_drifted,
                has_changed_secrets=each.secrets_changed,
            )
            if is_table
            else each.status,
            "health": each.health,
            "application": each.application_name,
            "environment": each.environment_name,
        }
        for each in found
    ]
    show(rows, connection.output)
    if is_table:
        _say_undo([each.parent_id is not None for each in found if each.waiting_destroy is not None])
    if not (status or with_destroyed or has_changed_secrets):
        _say_destroyed(connection, **where)


def _say_frozen(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Say below a table what is frozen or will be, and why."""
    told: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        if row["freeze"] is not None:
            told.setdefault((row["freeze"]["kind"], row[f"{row['freeze']['kind']}Id"]), row)
    for (kind, _), row in told.items():
        verb = "freezes" if row["freeze"]["beginsAt"] is not None else "is frozen"
        until = row["freeze"]["until"] is None and row["freeze"]["beginsAt"] is None
        words = freeze_words(connection, row)
        click.echo(f"The {kind} {row[f'{kind}Name']} {verb}{'.' if until else ''} {words}", err=True)


def freeze_words(connection: Connection, row: Mapping[str, Any]) -> str | None:
    """Return who has frozen an instance until when and why.

    Or when it will be frozen.
    """
    freeze = row.get("freeze")
    if freeze is None:
        return None
    until = "" if freeze["until"] is None else f"until {iso_time(from_ms(freeze['until']))}"
    if freeze["beginsAt"] is not None:
        at = from_ms(freeze["beginsAt"])
        left_ms = max(0, (at - datetime.now(UTC)) // timedelta(milliseconds=1))
        return f"in {duration_words(left_ms)}, at {iso_time(at)}{until and ' '}{until}: {freeze['reason']}"
    if until:
        return f"{until}: {freeze['reason']}"
    client, by = connection.client, None
    read = client.read_freeze if freeze["kind"] == "environment" else client.read_application_freeze
    with suppress(NotAllowed):
        by = read(row[f"{freeze['kind']}Id"]).by_email
    return f"{by or 'Somebody'}: {freeze['reason']}"


def _say_destroyed(connection: Connection, **wanted: Any) -> None:
    """Say below a table how many destroyed instances it leaves out."""
    if connection.output != "table":
        return
    listing = connection.client.list_organization_instances
    found = listing(connection.names.organization(), status=InstanceStatus.DESTROYED, limit=PAGE_ROWS_MAX, **wanted)
    if found:
        count = f"{len(found)} or more" if len(found) == PAGE_ROWS_MAX else len(found)
        click.echo(f"Not shown: destroyed ({count}). To see them, use --all.", err=True)


list_all = RemoteCommand(
    "list",
    callback=_list_all,
    short_help="List instances of the organization.",
    help="List instances of the organization, newest first, without destroyed ones.",
    params=[
        click.Option(["--application"], help="Only instances of this application.", metavar="APPLICATION"),
        click.Option(["--environment"], help="Only instances in this environment.", metavar="ENVIRONMENT"),
        click.Option(["--status"], type=_STATUS, help="Only instances in this status."),
        changed_secrets_option(),
        click.Option(["-a", "--all", "with_destroyed"], is_flag=True, help="Include destroyed instances."),
        click.Option(["--limit"], type=click.IntRange(min=1), help="Maximum number. Default: all."),
        quiet_option(),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


_SORT = click.Choice(INSTANCE_ORDERS)
_PS_COLUMNS = ("id", "name", "status", "health", "application", "environment", "last job", "ended", "expires", "error")


def _ps(
    *,
    status: Sequence[str],
    last: str | None,
    workflow: str | None,
    label: Sequence[str],
    application: str | None,
    environment: str | None,
    search: str | None,
    has_changed_secrets: bool,
    sort: str,
    limit: int,
    with_destroyed: bool,
    **given: Any,
) -> None:
    connection = connected(given)
    names = connection.names
    wanted: dict[str, Any] = {
        "last_status": last,
        "last_workflow": workflow,
        "labels": ",".join(label) or None,
        "application": None if application is None else names.application(application),
        "environment": None if environment is None else names.environment(environment),
        "q": search,
        "secrets_changed": has_changed_secrets or None,
    }
    is_alive = not (status or with_destroyed)
    listed = connection.client.list_organization_instances.each(
        names.organization(),
        status=",".join(ALIVE if is_alive else status) or None,
        **wanted,
        sort=sort,
        limit=min(limit + 1, PAGE_ROWS_MAX),
    )
    found = [msgspec.to_builtins(each) for each in islice(listed, limit + 1)]
    if len(found) > limit:
        found.pop()
        click.echo(f"The first {limit}; more instances fit. To see them, use --limit.", err=True)
    if connection.output == "table":
        show([_ps_row(each) for each in found], connection.output, _PS_COLUMNS)
        _say_undo([each["parentId"] is not None for each in found if each["waitingDestroy"] is not None])
        _say_frozen(connection, found)
        if is_alive and not has_changed_secrets:
            _say_destroyed(connection, **wanted)
    else:
        show(found, connection.output)


def status_words(
    status: str,
    waiting_destroy: Any,
    *,
    is_asleep: bool,
    is_observed: bool = False,
    is_drifted: bool = False,
    has_changed_secrets: bool = False,
) -> str:
    """Return the status of an instance for a table."""
    is_there = status != InstanceStatus.DESTROYED
    marks = {
        "sleeping": is_asleep and status == InstanceStatus.RUNNING,
        "observed": is_observed and is_there,
        "changed outside": is_drifted and is_there,
        "secret changed": has_changed_secrets and is_there,
        "to be destroyed": waiting_destroy is not None,
    }
    return ", ".join([status, *(words for words, holds in marks.items() if holds)])


def _say_undo(are_submodules: Sequence[bool]) -> None:
    """Say below a table how many destroys wait, and how to take them back.

    Each item says whether it is of a submodule, which goes with another instance.
    """
    if are_submodules:
        inner = f", {sum(are_submodules)} with the instance that launched it" if any(are_submodules) else ""
        which = "it" if len(are_submodules) == 1 and not inner else "one"
        advice = f"To take {which} back: launchbay instance undo-destroy INSTANCE"
        click.echo(f"To be destroyed: {len(are_submodules)}{inner}. {advice}", err=True)


def _ps_row(instance: dict[str, Any]) -> dict[str, Any]:
    job = instance["lastJob"] or {}
    return {
        "id": instance["id"],
        "name": instance["name"],
        "status": status_words(
            instance["status"],
            instance["waitingDestroy"],
            is_asleep=instance["isAsleep"],
            is_observed=instance["isObserved"],
            is_drifted=instance["isDrifted"],
            has_changed_secrets=instance["secretsChanged"],
        ),
        "health": instance["health"],
        "application": instance["applicationName"],
        "environment": instance["environmentName"],
        "last job": f"{job['workflow']} {shown_status(job['status'], job['errorMessage'])}" if job else "",
        "ended": job.get("finishedAt"),
        "expires": instance["destroyAt"]
        or (instance["waitingDestroy"] or {}).get("at"),  # one of a submodule has no own
        "error": job.get("errorMessage"),
    }


ps = RemoteCommand(
    "ps",
    callback=_ps,
    short_help="List instances with their last jobs; filters find the failed ones.",
    help="List instances of the organization with their last jobs, newest first, without destroyed ones.",
    params=[
        *choosing_options(),
        changed_secrets_option(),
        click.Option(["--workflow"], help="Only instances whose last job was this workflow.", metavar="WORKFLOW"),
        click.Option(["--sort"], type=_SORT, default="-created", help="Order; - reverses it.  [default: -created]"),
        click.Option(["--limit"], type=click.IntRange(min=1), default=50, help="Maximum number.  [default: 50]"),
        click.Option(["-a", "--all", "with_destroyed"], is_flag=True, help="Include destroyed instances."),
        click.Option(["-q", "--quiet", "is_quiet"], is_flag=True, help="Print only IDs."),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


_FAILURE_COLUMNS = ("id", "count", "failed", "place", "firstAt", "lastAt", "message")


def _failures(
    *,
    failure: str | None,
    application: str | None,
    environment: str | None,
    workflow: str | None,
    label: Sequence[str],
    search: str | None,
    resumes: bool,
    instances: int,
    **given: Any,
) -> None:
    connection = connected(given)
    names, client = connection.names, connection.client
    if resumes and failure is None:
        raise click.UsageError("Give the ID of a failure with --resume.")
    wanted: dict[str, Any] = {
        "application": None if application is None else names.application(application),
        "environment": None if environment is None else names.environment(environment),
        "workflow": workflow,
        "labels": ",".join(label) or None,
        "q": search,
    }
    listed = client.list_failures(names.organization(), **wanted, instances=instances)
    found = [msgspec.to_builtins(each, str_keys=True) for each in listed]
    if failure is not None:
        found = [each for each in found if each["id"].startswith(failure)]
        if len(found) != 1:
            what = "Several failures have IDs that begin so" if found else "No instance has this failure now"
            raise CommandFailed(f"{what}. To list them, run: launchbay failures", ExitCode.NOT_FOUND)
    if resumes:
        show(
            msgspec.to_builtins(client.resume_failures(names.organization(), found[0]["id"], **wanted)),
            connection.output,
        )
        return
    if connection.output != "table":
        show(found, connection.output)
    elif failure is not None:
        show({name: found[0][name] for name in _FAILURE_COLUMNS}, connection.output)
        click.echo()
        show(found[0]["instances"], connection.output)
    else:
        show([{name: each[name] for name in _FAILURE_COLUMNS} for each in found], connection.output, _FAILURE_COLUMNS)


failures = RemoteCommand(
    "failures",
    callback=_failures,
    short_help="List failures of instances, equal ones together; --resume resumes all with one.",
    help="List the failures of instances: one line for equal ones, with their number, first and last time. "
    "With the ID of a failure, show its instances; --resume resumes them all by a bulk run.",
    params=[
        click.Argument(["failure"], metavar="[FAILURE]", required=False),
        *narrowing_options(),
        click.Option(["--workflow"], help="Only instances whose last job was this workflow.", metavar="WORKFLOW"),
        click.Option(["--resume", "resumes"], is_flag=True, help="Resume all instances with the failure."),
        click.Option(
            ["--instances"],
            type=click.IntRange(0, PAGE_ROWS_MAX),
            default=20,
            help="Show so many instances of each failure.  [default: 20]",
        ),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


def _wait(instance: str, until: tuple[str, ...], timeout: float | None, **given: Any) -> None:
    connection = connected(given)
    wanted = until or ("Running", "Destroyed")
    instance_id = connection.names.instance(instance)
    with shown_on_failure(connection, instance_id):
        document = wait_for_instance(connection.client, instance_id, timeout, progress_for_terminal(), until=wanted)
    show({"id": document.id, "name": document.name, "status": document.status}, connection.output)


wait = RemoteCommand(
    "wait",
    callback=_wait,
    short_help="Wait for an instance and show its steps.",
    help="Wait until no job runs on an instance and show its steps. Exit with 1 if the instance is Failed.",
    params=[
        click.Argument(["instance"], metavar="INSTANCE"),
        click.Option(
            ["--until"],
            multiple=True,
            type=_STATUS,
            help="Status to wait for. Repeatable.  [default: Running or Destroyed]",
        ),
        *waiting_options(always=True, of_job=False),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


def _wait_for_job(job: str, timeout: float | None, **given: Any) -> None:
    connection = connected(given)
    follow(connection, *connection.names.any_job(job), timeout)


wait_for_one_job = RemoteCommand(
    "wait",
    callback=_wait_for_job,
    short_help="Wait for a job and show its steps.",
    help="Wait until a job has ended and show its steps and results. Exit with 1 if it failed.",
    params=[click.Argument(["job"], metavar="JOB"), *waiting_options(always=True), *sharing_options()],
    context_settings=HELP_OPTIONS,
)


def _wait_until_ended(
    kind: str, text: str, timeout: float | None, given: dict[str, Any], read: Callable[[Client, str], Any]
) -> None:
    """Show it once it has ended. Rollouts that wait for somebody have ended too."""
    connection = connected(given)
    number, what = connection.names.listed(kind, text), f"The {kind}"
    until_s = None if timeout is None else time.monotonic() + timeout
    is_said = False
    while (found := msgspec.to_builtins(read(connection.client, number)))["finishedAt"] is None:
        if found["status"] == "Planned" and not is_said:
            click.echo(f"{what} isn't applied yet. {found.get('waitingFor') or ''}".rstrip(), err=True)
            is_said = True
        if found["status"] in {"Stopped", "Waiting"}:
            break
        if until_s is not None and time.monotonic() >= until_s:
            show(found, connection.output)
            raise CommandFailed(f"{what} hasn't ended within {timeout:g} s.", ExitCode.TIMED_OUT)
        time.sleep(POLL_S)
    show(found, connection.output)
    if found["status"] not in {"Finished", "Succeeded"}:
        reason = f" {found['message']}" if found.get("message") else ""
        raise CommandFailed(f"{what} is {found['status']}.{reason}", ExitCode.FAILED)


def _wait_for_rollout(rollout: str, timeout: float | None, **given: Any) -> None:
    _wait_until_ended("rollout", rollout, timeout, given, lambda client, number: client.read_rollout(number))


def _wait_for_change_set(change_set: str, timeout: float | None, **given: Any) -> None:
    _wait_until_ended(
        "change set", change_set, timeout, given, lambda client, number: client.read_change_set(number, compare=False)
    )


wait_for_rollout = RemoteCommand(
    "wait",
    callback=_wait_for_rollout,
    short_help="Wait until a rollout has ended or stopped.",
    help="Wait until a rollout has ended, stopped, or waits for somebody. Exit with 1 unless it finished.",
    params=[
        click.Argument(["rollout"], metavar="ROLLOUT"),
        *waiting_options(always=True, of_job=False),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
wait_for_change_set = RemoteCommand(
    "wait",
    callback=_wait_for_change_set,
    short_help="Wait until the jobs of a change set have ended.",
    help="Wait until the jobs of a change set have ended. Exit with 1 unless all succeeded.",
    params=[
        click.Argument(["change_set"], metavar="CHANGE_SET"),
        *waiting_options(always=True, of_job=False),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


def _wait_for_bulk(bulk: str, timeout: float | None, **given: Any) -> None:
    connection = connected(given)
    follow_bulk(connection, connection.names.listed("bulk run", bulk), timeout)


wait_for_bulk = RemoteCommand(
    "wait",
    callback=_wait_for_bulk,
    short_help="Wait until a bulk run has ended.",
    help="Wait until a bulk run has ended. Exit with 1 unless it succeeded on all instances.",
    params=[click.Argument(["bulk"], metavar="BULK"), *waiting_options(always=True, of_job=False), *sharing_options()],
    context_settings=HELP_OPTIONS,
)
