"""Generations of an instance: their differences, and the way back to one."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.console.forms import parse_number
from launchbay.console.permissions import InstanceRef, UiPermissions
from launchbay.console.rendering import redact_value
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError
from launchbay.features.generations import usecases as generations
from launchbay.features.generations.rows import Generation
from launchbay.model.environment import EnvironmentView, read_environment_view
from launchbay.model.instance import InstanceStatus
from launchbay.planning.decisions import Refused
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.browsing import read_instance_record
from launchbay.usecases.preview import Preview
from launchbay.usecases.users import list_member_names

routes = Routes()

# Labels of what began a generation, and the part of its address after the organization, if it has a page.
_CAUSES = {
    "change-set": ("Change set", "changes"),
    "rollout": ("Rollout", "rollouts"),
    "recurring-schedule": ("Schedule", "recurring"),
}


class Difference(NamedTuple):
    """A setting of two configurations; None is one that isn't given."""

    name: str
    before: str | None
    after: str | None


class ShownGeneration(NamedTuple):
    """A generation with what it changed."""

    row: Generation
    changed: Sequence[Difference]
    cause: str
    address: str


async def list_shown(request: PageRequest, record: InstanceRecord, count: int) -> list[ShownGeneration]:
    """Return the newest generations of an instance, with the differences from the ones before."""
    rows = await generations.list_generations(request.ctx, record.id, before=None, count=count + 1)
    befores = [*rows[1:], *([None] if rows else [])]
    return [_shown(record, row, before) for row, before in zip(rows, befores, strict=True)][:count]


def current_number(record: InstanceRecord, rows: Sequence[Generation]) -> int | None:
    """Return the generation that the instance has, of its newest ones.

    After a change that failed, it has none of them.
    """
    is_current = bool(rows) and not differences(_settings(rows[0]), _present(record))
    return rows[0].number if is_current else None


def _shown(record: InstanceRecord, row: Generation, before: Generation | None) -> ShownGeneration:
    changed = [] if before is None else differences(_settings(before), _settings(row))
    cause, address = "", ""
    if row.cause_kind == "rollback":
        cause, address = f"Rollback to generation {row.cause_id}", f"{_path(record.id)}/{row.cause_id}"
    elif row.cause_kind in _CAUSES:
        cause, part = _CAUSES[row.cause_kind]
        is_of_application = row.cause_kind == "rollout"
        root = (
            f"applications/{record.application_id}" if is_of_application else f"organizations/{record.organization_id}"
        )
        address = f"{HOME}/{root}/{part}/{row.cause_id}"
    return ShownGeneration(row, changed, cause, address)


@routes.get("/console/instances/{id}/rollback")
async def show_rollback(request: PageRequest) -> Response:
    """Lead to the generation before, which shows what going back changes."""
    instance_id = request.path("id")
    number = await generations.find_rollback_target(request.ctx, instance_id)
    if number is None:
        message = "The instance has no earlier configuration to roll back to."
        return request.redirect(f"{HOME}/instances/{instance_id}", message)
    return request.redirect(f"{_path(instance_id)}/{number}")


@routes.get("/console/instances/{id}/generations/{number}", query=("against",))
async def show(request: PageRequest) -> Response:
    """Compare a generation with another configuration; show what going back does."""
    return await _show(request, None)


@routes.post("/console/instances/{id}/generations/{number}")
async def roll_back(request: PageRequest) -> Response:
    """Roll back exactly as it was shown."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    newest = await generations.list_generations(request.ctx, record.id, before=None, count=1)
    if current_number(record, newest) == _number(request):
        return await _show(request, Conflict("This is the current generation. Choose an earlier one."))
    generation, preview = await generations.preview_rollback(request.ctx, record.id, _number(request))
    if request.form.text("do") != f"apply {_fingerprint(record, generation, preview)}":
        return await _show(request, Conflict("The instance has changed. Check the difference again."))
    try:
        await generations.rollback(request.ctx, record.id, generation.number)
    except (BadRequest, Conflict, Refused) as error:
        return await _show(request, error)
    return request.redirect(f"{HOME}/instances/{record.id}", f"Rollback to generation {generation.number} started.")


async def _show(request: PageRequest, problem: LaunchbayError | None) -> Response:
    number = _number(request)
    asked = request.ask(generations.read_generation(request.ctx, request.path("id"), number))
    asked_rows = request.ask(generations.list_generations(request.ctx, request.path("id"), before=None, count=_MOST))
    values = await request.deps.tabs.instance(request, "configuration", problem)
    record: InstanceRecord = values["view"].record
    found, rows = await asked, await asked_rows
    is_current = number == current_number(record, rows)
    against = parse_number(request.query("against"))
    if against is None and is_current and len(rows) > 1:
        against = rows[1].number  # with itself, it has no difference
    other = None if against is None else await generations.read_generation(request.ctx, record.id, against)
    preview: Preview | None = None
    may = (await request.permissions(record.organization_id)).edit_instance(record)
    if other is None and may and not is_current and not values["view"].is_over and record.parent_id is None:
        try:
            preview = (await generations.preview_rollback(request.ctx, record.id, number))[1]
        except (BadRequest, Conflict) as error:
            preview = Preview(errors=list(error.messages))
    now = _present(record) if other is None else _settings(other)
    owners = [record.owner_id, found.owner_id]
    values["people"] = await list_member_names(request.ctx, record.organization_id, values["people"], also=owners)
    return await request.page(
        "generations/templates/generation.html",
        **values,
        status=None if problem is None else request.deps.status_of(problem),
        found=_shown(record, found, None),
        number=number,
        is_current=is_current,
        against=against,
        numbers=[row.number for row in rows if row.number != number],
        rows=differences(_settings(found), now),
        preview=preview,
        fingerprint="" if preview is None else _fingerprint(record, found, preview),
        may=may,
    )


_MOST = 100  # more than are kept


def _number(request: PageRequest) -> int:
    return parse_number(request.path("number")) or 0


def _path(instance_id: str) -> str:
    return f"{HOME}/instances/{instance_id}/generations"


def _fingerprint(record: InstanceRecord, generation: Generation, preview: Preview) -> str:
    """Return a fingerprint of the present configuration, and of what a rollback would do."""
    now = (record.version, record.revision_id, record.parameters, record.job_id, generation.number, preview)
    return sha256(msgspec.json.encode(now, order="deterministic")).hexdigest()[:32]


def _settings(row: Generation) -> dict[str, Any]:
    view = read_environment_view(row.environment_view)
    return _named(row.version, row.revision_id, row.parameters, view)


def _present(record: InstanceRecord) -> dict[str, Any]:
    view = read_environment_view(record.environment_view)
    return _named(record.version, record.revision_id, record.parameters, view)


def _named(version: int, revision: str | None, parameters: str, view: EnvironmentView) -> dict[str, Any]:
    """Return the settings of a configuration by name, secrets as they are."""
    found: dict[str, Any] = {"version": version}
    if revision is not None:
        found["revision"] = revision
    found |= msgspec.json.decode(parameters, type=dict[str, Any])
    for part in ("policies", "properties"):
        entries: Mapping[str, Any] = msgspec.to_builtins(getattr(view, part))
        found |= {f"{name} ({part} of the environment)": value for name, value in entries.items()}
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return the settings that differ, secrets masked."""
    return [
        Difference(
            name,
            redact_value(before[name], name) if name in before else None,
            redact_value(after[name], name) if name in after else None,
        )
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]


async def rollback_target(request: PageRequest, permissions: UiPermissions, instance: InstanceRef) -> int | None:
    """Return the generation to which the user can roll back, or None."""
    assert instance.id is not None, "only the row of an empty list has no instance"
    is_own = instance.parent_id is None and instance.status != InstanceStatus.DESTROYED
    if not (is_own and permissions.edit_instance(instance)):
        return None
    return await generations.find_rollback_target(request.ctx, instance.id)
