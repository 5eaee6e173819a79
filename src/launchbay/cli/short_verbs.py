"""Short commands for what people do all day: `status`, `destroy`, `generations`, `rollback`, `wait` and `open`.

They accept a name, an ID or the beginning of an ID, and print times as ISO 8601. `launch`, `run`, `logs` and `ps` are
in `commands.py` and `instances.py`.
"""

import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

import click
import msgspec

from launchbay.cli.commands import (
    JOB_COLUMNS,
    answer,
    begin,
    connected,
    follow,
    print_preview,
    sharing_options,
    show_preview,
    shown_on_failure,
    waiting_options,
    with_names,
)
from launchbay.cli.connection import Connection
from launchbay.cli.following import progress_for_terminal, wait_for_instance, wait_for_job
from launchbay.cli.inputs import completion_for
from launchbay.cli.instances import freeze_words, status_words
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import CommandFailed, RemoteCommand, show, shown_status, with_iso_times, with_local_times
from launchbay.client import Client, ClientError, Conflict, NotAllowed, NotFound, Operations
from launchbay.client.types import ListedJob
from launchbay.clock import from_ms, iso_time
from launchbay.model.component_state import ComponentStatus, counted
from launchbay.model.durations import duration_words
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus, is_cancellation
from launchbay.planning.names import DESTROY, LAUNCH, RECONFIGURE

_RECENT_JOBS = 5
_COMPONENTS_SHOWN = 20
_WAIT_FIELDS = ("text", "since", "endsWhen", "until", "position")
_CONFIGURING = frozenset({LAUNCH, RECONFIGURE, DESTROY})
_SHOWN = (
    "id",
    "name",
    "status",
    "health",
    "application",
    "environment",
    "version",
    "createdAt",
    "destroyAt",
    "ends",
    "destroyedBy",
    "sleep",
    "frozen",
    "waitingFor",
)


def _instance_argument(**more: Any) -> click.Argument:
    return click.Argument(["instance"], metavar="INSTANCE", **completion_for("instance"), **more)


def _status(instance: str, **given: Any) -> None:
    connection = connected(given)
    found = connection.names.instance_or_job(instance)
    if isinstance(found, tuple):
        show(answer(connection, Operations.read_job.call(*found)), connection.output)
        return
    document = status_of(connection, found)
    if connection.output != "table":
        show(document, connection.output)
        return
    job, error, failure = document["job"], document["errorMessage"], document["lastFailure"]
    brief = {name: document[name] for name in _SHOWN if document[name] is not None}
    brief["status"] = status_words(
        document["status"],
        None,
        is_asleep=document["isAsleep"],
        is_observed=document["isObserved"],
        is_drifted=document["isDrifted"],
        has_changed_secrets=document["secretsChanged"],
    )
    if document["changedSecrets"]:
        brief["changedSecrets"] = [f"{each['secret']}, read by {each['step']}" for each in document["changedSecrets"]]
    if document["ends"] is not None:
        at = with_local_times(iso_time(from_ms(document["ends"]["at"])))
        brief["ends"] = f"{at}: {with_local_times(document['ends']['text'])}"
    if job is not None:
        steps = ", ".join(_step(step, document["ignoredSteps"]) for step in job["steps"])
        brief["job"] = f"{job['name']} ({steps or job['status']})"
        if document["usualDurationMs"] is not None and "job" in brief:
            brief["job"] += f", usually {duration_words(document['usualDurationMs'])}"
    if error is not None:
        at = "" if failure is None else with_local_times(failure["time"])
        origin = "" if failure is None else f" (job {failure['jobId']}, {failure['workflow']}, {at})"
        # The error of an earlier job stays until a launch or reconfiguration succeeds.
        cause, is_failed = document["cause"], document["status"] == InstanceStatus.FAILED
        if is_failed and cause not in (None, error):
            brief["cancelled" if is_cancellation(cause) else "error"] = cause
            brief["lastError"] = error + origin
        else:
            name = "lastError" if not is_failed else "lastFailure" if cause is None else "error"
            brief["cancelled" if is_cancellation(error) else name] = error + origin
    brief.update({name: document[name] for name in ("labels", "returnValues") if document[name]})
    if document["componentStates"]:
        counts = counted(ComponentStatus(each["status"]) for each in document["componentStates"])
        brief["components"] = [counts.summary(), *map(_component, document["componentStates"][:_COMPONENTS_SHOWN])]
    if document["waits"]:
        waits = [{**wait, "text": with_local_times(wait["text"])} for wait in document["waits"]]
        brief["waits"] = [{name: wait[name] for name in _WAIT_FIELDS} for wait in waits]
    show(brief, connection.output)
    click.echo()
    show([{**each, "status": job_status_words(each)} for each in document["jobs"]], connection.output, JOB_COLUMNS)


def job_status_words(job: Mapping[str, Any]) -> str:
    """Return the status of a job for a table, `Requested` while it is queued."""
    is_queued = job["status"] == JobStatus.EXECUTING and job["startedAt"] is None
    return InstanceStatus.REQUESTED.value if is_queued else str(job["status"])


def _component(found: dict[str, Any]) -> str:
    step = "" if found["step"] is None else f" ({found['step']})"
    return f"{found['path']}: {ComponentStatus(found['status']).words}{step}"


def _step(step: dict[str, Any], ignored: Collection[str]) -> str:
    percent = step["percentComplete"]
    status = shown_status(step["status"], None, ignored=step["name"] in ignored)
    return f"{step['name']}: {status}" + (f" {percent} %" if 0 < percent < 100 else "")


def status_of(connection: Connection, instance_id: str) -> dict[str, Any]:
    """Return the state of an instance with its running job and its newest jobs."""
    document = answer(connection, Operations.read_instance.call(instance_id))
    try:  # an ID finds instances of other organizations than the chosen one too
        organization_id = connection.client.read_application(document["applicationId"]).organization_id
    except NotAllowed:
        organization_id = connection.names.organization()
    listed = connection.client.list_organization_instances(organization_id, q=instance_id, limit=1)
    known = msgspec.to_builtins(listed[0]) if listed else {}
    jobs = [
        {name: each.get(name) for name in (*JOB_COLUMNS, "cancelled")}
        for each in answer(connection, Operations.list_jobs.call(instance_id, limit=_RECENT_JOBS))
    ]
    running = next((job["id"] for job in jobs if job["status"] == "Executing"), None)
    job = {} if running is None else answer(connection, Operations.read_job.call(instance_id, running))
    is_destroyed = document["status"] == InstanceStatus.DESTROYED and jobs
    last = answer(connection, Operations.read_job.call(instance_id, jobs[0]["id"])) if is_destroyed else None
    return {
        "id": document["id"],
        "name": document["name"],
        "status": document["status"],
        "health": known.get("health"),
        "isAsleep": known.get("isAsleep", False),
        "isObserved": known.get("isObserved", False),
        "isDrifted": known.get("isDrifted", False),
        "secretsChanged": known.get("secretsChanged", False),
        "changedSecrets": answer(connection, Operations.list_changed_secrets.call(instance_id))
        if known.get("secretsChanged")
        else [],
        "application": known.get("applicationName", document["applicationId"]),
        "environment": known.get("environmentName", document["environmentId"]),
        "version": document["version"],
        "createdAt": document["createdAt"],
        "destroyAt": document["destroyAt"],
        "ends": None if is_destroyed else _ends(connection, instance_id),
        "destroyedBy": None if last is None else last["beganBy"]["name"],
        "labels": document.get("labels") or {},
        "components": known.get("components"),
        "componentStates": _components(connection, instance_id),
        "job": document.get("workflow"),
        "waitingFor": document.get("waitingFor"),
        "waits": job.get("waitingFor") or [],
        "ignoredSteps": sorted({each["name"] for each in job.get("steps", ()) if each.get("ignored")}),
        "usualDurationMs": job.get("usualDurationMs"),
        "sleep": _sleep(connection, instance_id) if document["status"] == InstanceStatus.RUNNING else None,
        "frozen": freeze_words(connection, known),
        "errorMessage": document["errorMessage"],
        "lastFailure": with_iso_times(document.get("lastFailure")),
        "cause": _cause(connection, organization_id, document, jobs),
        "returnValues": document["returnValues"],
        "jobs": jobs,
    }


def _cause(
    connection: Connection, organization_id: str, document: dict[str, Any], jobs: list[dict[str, Any]]
) -> str | None:
    """Return the error that made an instance Failed; None if that isn't known.

    Most commands leave the status, so an instance whose command has failed may be Failed because of an earlier job.
    """
    if document["status"] != InstanceStatus.FAILED:
        return None
    error: str | None = document["errorMessage"]
    failure = document.get("lastFailure")
    if failure is None or failure["workflow"] in _CONFIGURING:
        return error
    if not jobs or jobs[0]["id"] != failure["jobId"]:  # the list of failures says nothing more then
        return None
    with suppress(ClientError):
        for found in connection.client.list_failures(organization_id, instance=document["id"], instances=0):
            return found.message
    return None


def _components(connection: Connection, instance_id: str) -> list[dict[str, Any]]:
    """Return what the components do, those that need somebody first."""
    try:
        found: list[dict[str, Any]] = answer(connection, Operations.list_components.call(instance_id))
    except NotFound:  # an older server
        return []
    return sorted(found, key=lambda each: ComponentStatus(each["status"]).is_settled)


def _ends(connection: Connection, instance_id: str) -> dict[str, Any] | None:
    """Return when and by what an instance is destroyed by itself."""
    try:
        found: dict[str, Any] = answer(connection, Operations.read_lifetime.call(instance_id))
    except NotFound:  # an older server
        return None
    return next(
        ({"at": each["at"], "text": each["text"]} for each in found["coming"] if each["kind"] == "destroy"), None
    )


def _sleep(connection: Connection, instance_id: str) -> str | None:
    """Return the sentence about an instance that sleeps; None if it is awake."""
    try:
        found: dict[str, Any] = answer(connection, Operations.read_sleep.call(instance_id))
    except NotFound:  # an older server
        return None
    return found.get("waitingFor")


status = RemoteCommand(
    "status",
    callback=_status,
    short_help="Show the status of an instance, its running job and its newest jobs.",
    help="Show the status of an instance, its running job and what it waits for, its last error and its newest jobs. "
    "`destroyAt` is the end of its lifetime, and `ends` says what destroys it first. "
    "The ID of a job, or INSTANCE#NUMBER, shows that job.",
    params=[_instance_argument(), *sharing_options()],
    context_settings=HELP_OPTIONS,
)


def _destroy(
    *,
    instance: str,
    force: bool,
    cancels: bool,
    is_dry_run: bool,
    is_confirmed: bool,
    wait: bool,
    timeout: float | None,
    **given: Any,
) -> None:
    connection = connected(given)
    instance_id = connection.names.instance(instance)
    forced = 1 if force else None
    if is_dry_run:
        advice = "" if force else "To destroy it anyway, add --force."
        show_preview(connection, Operations.preview_destroy.call(instance_id, force=forced), advice)
        return
    if not is_confirmed and sys.stdin.isatty():
        click.confirm(f"Destroy {instance}?", abort=True, err=True)
    left_s = timeout
    if cancels:
        began_s = time.monotonic()
        with shown_on_failure(connection, instance_id):
            _cancel_job(connection.client, instance_id, timeout)
        left_s = None if timeout is None else max(0.0, round(timeout - (time.monotonic() - began_s), 1))
    call = Operations.run_workflow.call(instance_id, "destroy", force=forced)
    begin(connection, call, {"wait": wait, "timeout": left_s})


def _cancel_job(client: Client, instance_id: str, timeout_s: float | None) -> None:
    """Cancel the job under way, if any, and wait until it has ended.

    Raises WaitTimedOut.
    """
    job = _newest_job(client, instance_id)
    if job is None or job.status != "Executing":
        return
    with suppress(Conflict):  # it has ended meanwhile, or destroying the instance says why it can't
        client.cancel_job(instance_id, job.id)
    click.echo(f"Cancelling job {job.id} ({job.name}).", err=True)
    # A cancelled job has failed, which is what this waits for.
    with suppress(CommandFailed):
        wait_for_job(client, instance_id, job.id, timeout_s, progress_for_terminal(), after=None)


destroy = RemoteCommand(
    "destroy",
    callback=_destroy,
    short_help="Destroy an instance.",
    help="Run the workflow destroy of an instance. Exit with 1 if it fails, with --wait.",
    params=[
        _instance_argument(),
        click.Option(["--force"], is_flag=True, help="Destroy the instance although others use it."),
        click.Option(["--cancel", "cancels"], is_flag=True, help="Cancel the job under way first."),
        click.Option(["--dry-run", "is_dry_run"], is_flag=True, help="Show what this would do, and do nothing."),
        click.Option(
            ["-y", "--yes", "is_confirmed"],
            is_flag=True,
            help="Skip the confirmation prompt. Without a terminal there is no prompt.",
        ),
        *waiting_options(),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


_GENERATION_COLUMNS = ("number", "version", "createdAt", "owner", "jobId", "cause")


def _generations(instance: str, **given: Any) -> None:
    connection = connected(given)
    instance_id = connection.names.instance(instance)
    rows = [msgspec.to_builtins(each) for each in connection.client.list_generations.each(instance_id)]
    show(with_names(connection, rows), connection.output, _GENERATION_COLUMNS)


generations = RemoteCommand(
    "generations",
    callback=_generations,
    short_help="List the configurations of an instance that took effect.",
    help="List the configurations of an instance that took effect, newest first. `launchbay rollback` leads back.",
    params=[_instance_argument(), *sharing_options()],
    context_settings=HELP_OPTIONS,
)


def _rollback(
    *, instance: str, generation: int | None, is_dry_run: bool, wait: bool, timeout: float | None, **given: Any
) -> None:
    connection = connected(given)
    instance_id = connection.names.instance(instance)
    if is_dry_run:
        told = answer(connection, Operations.rollback_instance.call(instance_id, generation=generation, preview=True))
        click.echo(f"Generation {told['generation']}", err=True)
        print_preview(connection, told["preview"])
        return
    call = Operations.rollback_instance.call(instance_id, generation=generation)
    begin(connection, call, {"wait": wait, "timeout": timeout})


rollback = RemoteCommand(
    "rollback",
    callback=_rollback,
    short_help="Roll an instance back to an earlier configuration.",
    help="Roll an instance back to an earlier configuration, by default the last good one. Exit with 1 if it fails, "
    "with --wait.",
    params=[
        _instance_argument(),
        click.Argument(["generation"], metavar="[GENERATION]", required=False, type=click.IntRange(min=1)),
        click.Option(["--dry-run", "is_dry_run"], is_flag=True, help="Show what this would do, and do nothing."),
        *waiting_options(),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


def _wait(target: str, timeout: float | None, **given: Any) -> None:
    connection = connected(given)
    found = connection.names.instance_or_job(target)
    if isinstance(found, tuple):
        follow(connection, *found, timeout)
        return
    instance_id = found
    newest = _newest_job(connection.client, instance_id)
    if newest is not None and newest.status == "Executing":
        follow(connection, instance_id, newest.id, timeout)
        return
    idle = ("Running", "Destroyed")
    with shown_on_failure(connection, instance_id):
        document = wait_for_instance(connection.client, instance_id, timeout, progress_for_terminal(), until=idle)
    newest = _newest_job(connection.client, instance_id)
    if newest is None:
        show({"id": document.id, "name": document.name, "status": document.status}, connection.output)
    else:  # a script may ask after its job has ended, and must see the outcome
        follow(connection, instance_id, newest.id, timeout)


def _newest_job(client: Client, instance_id: str) -> ListedJob | None:
    return next(iter(client.list_jobs(instance_id, limit=1)), None)


wait = RemoteCommand(
    "wait",
    callback=_wait,
    short_help="Wait for a job, or for the newest job of an instance.",
    help="Wait until a job has ended, or the newest one of an instance, and show its steps and results. Exit with 1 "
    "if it failed, also if it ended before, or if the instance is Failed.",
    params=[
        click.Argument(["target"], metavar="INSTANCE|JOB", **completion_for("instance")),
        *waiting_options(always=True),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)


def _open(instance: str | None, **given: Any) -> None:
    connection = connected(given)
    address = f"{connection.client.core.base_url}/console"
    if instance is not None:
        address += f"/instances/{connection.names.instance(instance)}"
    if connection.output == "table":
        click.echo(address)
    else:
        show({"url": address}, connection.output)


open_ = RemoteCommand(
    "open",
    callback=_open,
    short_help="Print the address of an instance in the console.",
    help="Print the address of an instance in the console; without an instance, that of the console.",
    params=[
        click.Argument(["instance"], metavar="[INSTANCE]", required=False, **completion_for("instance")),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
