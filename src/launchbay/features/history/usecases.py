"""What instances were, their changes, and differences between two states (decision 0113)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.clock import to_ms
from launchbay.errors import BadRequest, NotFound
from launchbay.features.history import rows as store
from launchbay.features.history.rows import ChangeRow
from launchbay.model.environment import EnvironmentView, read_environment_view
from launchbay.model.job import JobStatus, StepStatus
from launchbay.model.machine import Machine
from launchbay.model.scalars import same
from launchbay.store.instances import InstanceDetail, JobRow, read_history
from launchbay.usecases.context import Context, Work
from launchbay.usecases.instances import InstanceView, sources_of, view_of

Machines = dict[str, list[Machine]]  # by component
_read_children = msgspec.json.Decoder(dict[str, tuple[str, int]]).decode
read_machines = msgspec.json.Decoder(Machines).decode
_read_texts = msgspec.json.Decoder(dict[str, str | None]).decode
# Columns of `instances` whose former values are kept, and how the text becomes the column's value.
_COLUMNS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(
        (
            *("status", "name", "parameters", "parameter_origins", "return_values", "components", "environment_view"),
            *("user_data", "labels", "error_message", "last_failure"),
        ),
        str,
    ),
    "version": int,
    "destroy_at": datetime.fromisoformat,
}


class Child(msgspec.Struct, frozen=True):
    """What an instance of a submodule is.

    The version is None for a caller who may not read the instance.
    """

    applicationId: str  # noqa: N815 - shown as it is
    version: int | None


class State(msgspec.Struct, frozen=True):
    """An instance at a time; None is the present.

    `children` are the instances of its submodules at present, by ID.
    """

    view: InstanceView
    children: Mapping[str, Child]
    machines: Machines
    environment: EnvironmentView
    at: datetime | None
    recorded_since: datetime


async def read_state(ctx: Context, instance_id: str, at: datetime | None) -> State:
    """Return an instance as it was at a time.

    Raises BadRequest for a time from which nothing is kept, or that is still to come.
    """
    async with ctx.read() as work:
        detail = await work.lookup.instance_detail(
            instance_id, Permission.READ, jobs=limits.HISTORY_JOBS, steps_bytes=limits.HISTORY_STEPS_BYTES
        )
        present = await store.get_present(work.connection, instance_id=detail.id)
        if present is None:
            raise NotFound(f"The instance {detail.id} has just been deleted.")
        machines = present.machines
        if at is not None:
            _check(detail, present.recorded_since, at, ctx.app.clock.now())
            # After the present: a change in between is undone, too.
            rows = await store.list_former_values(work.connection, instance_id=detail.id, at=at, since=None)
            former = {row.key: row.value for row in rows}
            machines = former.get("machines") or machines
            detail = _undone(detail, former)
            detail = msgspec.structs.replace(detail, history=await _jobs_at(work, detail.id, at), waits=None)
        view = view_of(await sources_of(work, detail))
        children = dict(_children(work, detail, present.children))
    environment = read_environment_view(detail.environment_view)
    return State(view, children, read_machines(machines), environment, at, present.recorded_since)


def _children(work: Work, detail: InstanceDetail, text: str) -> Iterator[tuple[str, Child]]:
    for child_id, (application_id, version) in _read_children(text).items():
        child = permissions.instance(application_id, child_id)
        may_read = work.lookup.allows(detail.organization_id, Permission.READ, child)
        yield child_id, Child(application_id, version if may_read else None)


def _check(detail: InstanceDetail, recorded_since: datetime, at: datetime, now: datetime) -> None:
    if at < detail.created_at:
        reason, advice = f"The instance was created at {to_ms(detail.created_at)}", "since then"
    elif at < recorded_since:
        reason, advice = f"Changes of the instance are known since {to_ms(recorded_since)}", "since then"
    elif at > now:
        reason, advice = f"That is in the future: now it is {to_ms(now)}", "until then"
    else:
        return
    raise BadRequest(f"{reason} (milliseconds since 1970). Ask for a time {advice}.", code="NotRecorded")


def _undone(detail: InstanceDetail, former: Mapping[str, str | None]) -> InstanceDetail:
    """Return the columns as they were, from the texts that are kept."""
    texts = {name: former[name] for name in _COLUMNS if name in former}
    changes = {name: None if text is None else _COLUMNS[name](text) for name, text in texts.items()}
    return msgspec.structs.replace(detail, **changes)


async def _jobs_at(work: Work, instance_id: str, at: datetime) -> str:
    """Return the history of an instance at a time, as JSON.

    The job that was under way has its steps as they were.
    """
    text = await store.list_jobs_at(
        work.connection,
        instance_id=instance_id,
        at=at,
        jobs=limits.HISTORY_JOBS,
        steps_bytes=limits.HISTORY_STEPS_BYTES,
    )
    jobs: list[JobRow] = []
    for job in read_history(text or "[]"):
        if job.status != JobStatus.EXECUTING:
            jobs.append(job)
            continue
        begun = {step.path: step for step in await store.list_steps_at(work.connection, job_id=job.id, at=at)}
        steps = [
            (path, name, begun[path].status, begun[path].percent) if path in begun else (path, name, _REQUESTED, 0)
            for path, name, _, _ in job.steps
        ]
        jobs.append(msgspec.structs.replace(job, steps=steps))
    return msgspec.json.encode(jobs).decode()


_REQUESTED = StepStatus.REQUESTED.value


class FieldChange(msgspec.Struct, frozen=True):
    """A changed field.

    `names` are the parts that changed, of a field that has parts.
    """

    field: str
    before: str | int | None
    after: str | int | None
    names: list[str]


class Change(msgspec.Struct, frozen=True):
    """What changed at once."""

    row: ChangeRow
    fields: list[FieldChange]


class Timeline(msgspec.Struct, frozen=True):
    """A page of changes, the newest first.

    `created` is the first status, if the page reaches the creation.
    """

    changes: list[Change]
    created: str | None
    created_at: datetime
    has_more: bool


async def list_timeline(ctx: Context, instance_id: str, *, before: int | None, count: int) -> Timeline:
    """Return changes of an instance, the newest first, those before a number."""
    async with ctx.read() as work:
        record = await work.lookup.instance_detail(instance_id, Permission.READ, jobs=0, steps_bytes=0)
        rows = await store.list_changes(work.connection, instance_id=record.id, before=before, count=count + 1)
        present = await store.get_present(work.connection, instance_id=record.id)
        if present is None:
            raise NotFound(f"The instance {record.id} has just been deleted.")
        later = []
        if before is not None:
            later = await store.list_former_values(work.connection, instance_id=record.id, at=None, since=before)
    after = _texts(record) | {"machines": present.machines} | {row.key: row.value for row in later}
    changes = []
    for row in rows[:count]:
        former = _read_texts(row.former)
        changes.append(Change(row, list(_changes(former, after))))
        after |= former
    has_more = len(rows) > count
    known_from_start = not has_more and present.recorded_since <= record.created_at
    return Timeline(changes, after["status"] if known_from_start else None, record.created_at, has_more)


def _texts(detail: InstanceDetail) -> dict[str, str | None]:
    """Return the columns as history keeps them."""
    found: dict[str, str | None] = {}
    for name in _COLUMNS:
        value = getattr(detail, name)
        found[name] = None if value is None else str(value)
    return found


_SHOWN = {
    "status": "status",
    "version": "version",
    "name": "name",
    "parameters": "parameters",
    "return_values": "returnValues",
    "components": "components",
    "machines": "machines",
    "environment_view": "environment",
    "user_data": "userData",
    "labels": "labels",
    "error_message": "errorMessage",
    "destroy_at": "destroyAt",
}


def _changes(former: Mapping[str, str | None], after: Mapping[str, str | None]) -> Iterator[FieldChange]:
    for column, field in _SHOWN.items():
        if column not in former:
            continue
        before, then = former[column], after.get(column)
        if column in {"status", "name", "error_message"}:
            yield FieldChange(field, before, then, [])
        elif column == "version":
            yield FieldChange(field, int(before or 0), int(then or 0), [])
        elif column == "destroy_at":
            yield FieldChange(field, _ms(before), _ms(then), [])
        else:
            had, has = _parts(column, before), _parts(column, then)
            names = sorted(name for name in had.keys() | has.keys() if had.get(name, had) != has.get(name, has))
            yield FieldChange(field, None, None, names)


def _ms(text: str | None) -> int | None:
    return None if text is None else to_ms(datetime.fromisoformat(text))


def _parts(column: str, text: str | None) -> dict[str, Any]:
    value = msgspec.json.decode(text or "{}")
    if column == "components":
        return {each["name"]: each for each in value}
    if column == "environment_view":
        return dict(_environment_parts(msgspec.convert(value, EnvironmentView)))
    return dict(value)


def _environment_parts(environment: EnvironmentView) -> Iterator[tuple[str, Any]]:
    yield from ((f"policies.{name}", value) for name, value in environment.policies.items())
    yield from ((f"markers.{name}", True) for name in environment.markers)
    yield from ((f"properties.{name}", value) for name, value in environment.properties.items())


class Difference(msgspec.Struct, frozen=True):
    """A value that differs. `path` is such as `parameters.size`."""

    path: str
    change: Literal["added", "removed", "changed"]
    before: Any
    after: Any


class Differences(NamedTuple):
    """What differs between two states.

    `own` is what two instances never share, however they were launched.
    """

    values: list[Difference]
    own: list[Difference]


def differences(one: State, other: State, *, is_same_manifest: bool) -> Differences:
    """Return what differs between two states.

    Of two instances, names, ends, machines, results, errors and the instances of submodules are their own; so are the
    versions if their manifests mean the same. Two times of one instance have nothing of that kind.
    """
    if one.view.detail.id == other.view.detail.id:
        return Differences(_different({**_given(state), **_own(state)} for state in (one, other)), [])
    given, own = (
        [{**_given(state), **_shape(state)} for state in (one, other)],
        [_twin(state) for state in (one, other)],
    )
    if is_same_manifest and given[0]["applicationId"] == given[1]["applicationId"]:
        own = [{"version": values.pop("version"), **its} for values, its in zip(given, own, strict=True)]
    return Differences(_different(given), _different(own))


def _different(states: Iterable[Mapping[str, Any]]) -> list[Difference]:
    before, after = states
    found = []
    for path in {**before, **after}:
        if path not in before:
            found.append(Difference(path, "added", None, after[path]))
        elif path not in after:
            found.append(Difference(path, "removed", before[path], None))
        elif not same(before[path], after[path]):
            found.append(Difference(path, "changed", before[path], after[path]))
    return found


def _given(state: State) -> dict[str, Any]:
    """Return what an instance was given, and its status, by path."""
    detail = state.view.detail
    documents = {
        "parameters": state.view.parameters,
        "userData": msgspec.json.decode(detail.user_data),
        "labels": msgspec.json.decode(detail.labels),
        "environment": dict(_environment_parts(state.environment)),
    }
    return {
        "applicationId": detail.application_id,
        "environmentId": detail.environment_id,
        "version": detail.version,
        "status": detail.status,
        **{f"{noun}.{name}": value for noun, document in documents.items() for name, value in document.items()},
    }


def _own(state: State) -> dict[str, Any]:
    """Return what an instance has become, by path."""
    detail = state.view.detail
    results = msgspec.json.decode(detail.return_values)
    return {
        "name": detail.name,
        "errorMessage": detail.error_message,
        "destroyAt": None if detail.destroy_at is None else to_ms(detail.destroy_at),
        **{f"returnValues.{name}": value for name, value in results.items()},
        **{f"components.{name}": linked for name, linked in _linked(state).items()},
        **{
            f"machines.{path}.{each.role}.{each.id}": each.host
            for path, machines in state.machines.items()
            for each in machines
        },
    }


def _shape(state: State) -> dict[str, Any]:
    """Return what the parts of an instance are.

    Which instances and machines they are themselves doesn't count.
    """
    counts = Counter(f"machines.{path}.{each.role}" for path, machines in state.machines.items() for each in machines)
    links = {
        f"components.{name}": msgspec.to_builtins(state.children[linked]) if linked in state.children else linked
        for name, linked in _linked(state).items()
    }
    return {**links, **counts}


def _twin(state: State) -> dict[str, Any]:
    """Return what an instance has become, by paths that another one has, too."""
    parts = {f"components.{name}": linked for name, linked in _linked(state).items() if linked in state.children}
    for path, machines in state.machines.items():
        for role in dict.fromkeys(each.role for each in machines):
            hosts = [each.host for each in sorted(machines, key=lambda each: each.number) if each.role == role]
            parts |= {f"machines.{path}.{role}[{number}]": host for number, host in enumerate(hosts)}
    others = {path: value for path, value in _own(state).items() if not path.startswith(("components.", "machines."))}
    return {**others, **parts}


def _linked(state: State) -> dict[str, str]:
    """Return the ID of the instance behind each component, or an empty text."""
    components = msgspec.json.decode(state.view.detail.components)
    return {component["name"]: component.get("instanceId", "") for component in components}
