"""The reconfiguration form of an instance: first the difference, then the change."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.console.fields import (
    PARAMETER,
    RENEW_FIELDS,
    Draft,
    ModuleForm,
    fill_fields,
    launch_fields,
    request_of,
    submodule_groups,
    values,
)
from launchbay.console.forms import parse_number
from launchbay.console.instance_view import InstanceView
from launchbay.console.rendering import redact_value
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError
from launchbay.features.change_sets.pages import SAVE, save
from launchbay.features.change_sets.usecases import ChangeAct
from launchbay.features.generations.pages import current_number, list_shown
from launchbay.pages.instance import tab_values
from launchbay.planning.decisions import Refused
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.browsing import read_compiled, read_instance_record
from launchbay.usecases.manifests import list_manifests
from launchbay.usecases.preview import preview_configuration
from launchbay.usecases.reconfigure import reconfigure
from launchbay.usecases.submodule_shapes import present_submodules
from launchbay.usecases.users import list_member_names

routes = Routes()
_GENERATIONS = 50  # as many as are kept


@dataclass(slots=True, kw_only=True)
class _Draft(Draft):
    """A reconfiguration that is being filled in. `present` is the `submodules` of one that changes nothing."""

    record: InstanceRecord
    present: Mapping[str, Any]
    fingerprint: str = ""


@routes.get("/console/instances/{id}/configuration", query=("show", "version"))
async def form_page(request: PageRequest) -> Response:
    """Show the current configuration, with the fields of the chosen version."""
    return await _show(request, await _draft(request, request.query("version")))


@routes.post("/console/instances/{id}/configuration")
async def change(request: PageRequest) -> Response:
    form = request.form
    draft = await _draft(request, form.text("version"))
    if form.text("do") == RENEW_FIELDS:
        draft.clear_errors()
        return await _show(request, draft)
    problem: LaunchbayError | None = None
    try:
        body = _body(request, draft)
        draft.fingerprint = _fingerprint(draft, body)
        if not draft.has_field_errors:
            if form.text("do") == SAVE:
                act = ChangeAct(act="reconfigure", configuration=body)
                return await save(request, draft.record.organization_id, act, ids=[draft.record.id])
            if form.text("do") == f"apply {draft.fingerprint}":
                await reconfigure(request.ctx, draft.record.id, body)
                return request.redirect(f"{HOME}/instances/{draft.record.id}", "Change started.")
            draft.preview = await preview_configuration(request.ctx, draft.record.id, body)
            draft.place_errors(draft.preview.errors)
            if form.text("do").startswith("apply"):
                draft.problems.append("The form or the instance has changed. Check the difference again.")
    except (BadRequest, Conflict, Refused) as error:
        draft.place_errors(error.messages)
        problem = error
    return await _show(request, draft, problem)


async def _draft(request: PageRequest, asked: str | None) -> _Draft:
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    wanted = parse_number(asked)
    if wanted is None:
        wanted = record.version
    compiled = request.ask(read_compiled(request.ctx, record.application_id, wanted))
    present: Mapping[str, Any] = {}
    if (await request.permissions(record.organization_id)).edit_instance(record):
        present = await present_submodules(request.ctx, record.id)
    application, version, manifest = await compiled
    stored = msgspec.json.decode(record.parameters)
    fields, now = launch_fields(manifest, stored), stored
    if request.http.method == "POST":
        fields = fill_fields(fields, request.form, PARAMETER)
        now = values(fields, stored)
    module = ModuleForm(application=application, manifest=manifest, parameters=stored, submodules=present)
    return _Draft(
        record=record,
        version=version,
        fields=fields,
        present=present,
        submodules=await submodule_groups(request, module, now, record.environment_id),
    )


def _body(request: PageRequest, draft: _Draft) -> dict[str, Any]:
    record = draft.record
    body: dict[str, Any] = {"parameters": values(draft.fields, msgspec.json.decode(record.parameters))}
    name = request.form.text("instanceName")
    if name and name != record.name:
        body["instanceName"] = name
    if draft.version != record.version:
        body["manifestVersion"] = draft.version
    submodules = request_of(draft.submodules)
    if submodules:
        body["submodules"] = submodules
    return body


def _fingerprint(draft: _Draft, body: Mapping[str, Any]) -> str:
    """Return a fingerprint of the change and of the instance now: only what was shown is applied."""
    record = draft.record
    now = (record.version, record.revision_id, record.name, record.parameters, draft.present)
    return sha256(msgspec.json.encode((now, body), order="deterministic")).hexdigest()[:32]


class EffectiveRow(NamedTuple):
    """A parameter as it is; `changed` is its value in the form."""

    name: str
    type: str
    value: str
    origin: str
    css: str
    default: str
    is_default: bool
    changed: str | None


_ORIGINS = {
    "given": ("Given", "given"),
    "default": ("Default", ""),
    "revision": ("Revision", "env"),
    "parent": ("Parent", "parent"),
}
_UNSET = "unset"


def _effective(view: InstanceView, draft: _Draft) -> list[EffectiveRow]:
    """Return the parameters of the instance with their values and origins, secrets masked."""
    drafted = {field.name: field for field in draft.fields}
    given = msgspec.json.decode(view.record.parameters)
    rows: list[EffectiveRow] = []
    for field in launch_fields(view.manifest, given):
        origin, css = _ORIGINS[view.origins.get(field.name, "default")]
        value = redact_value(view.parameters.get(field.name), field.name)
        now = drafted.get(field.name)
        changed: str | None = None
        if now is not None and now.value != field.value:
            changed = redact_value(now.value or now.default_text or _UNSET, field.name)
        rows.append(
            EffectiveRow(
                field.name, field.type, value, origin, css, field.default_text, value == field.default_text, changed
            )
        )
    return rows


async def _show(request: PageRequest, draft: _Draft, problem: LaunchbayError | None = None) -> Response:
    record = draft.record
    status = 200 if problem is None else request.deps.status_of(problem)
    asked = request.ask(list_shown(request, record, _GENERATIONS))
    versions = request.ask(list_manifests(request.ctx, record.application_id))
    values = await tab_values(request, "configuration", draft.problem(problem))
    rows = _effective(values["view"], draft)
    shown = request.query("show") or ""
    kinds = {
        "": rows,
        "given": [row for row in rows if row.css != ""],
        "changed": [row for row in rows if not row.is_default],
    }
    name = request.form.text("instanceName", record.name)
    changes = sum(row.changed is not None for row in rows) + (name != record.name) + (draft.version != record.version)
    shown_generations = await asked
    owners = {record.owner_id, *(each.row.owner_id for each in shown_generations)}
    if not owners <= values["people"].keys():
        values["people"] = await list_member_names(request.ctx, record.organization_id, values["people"], also=owners)
    return await request.page(
        "configuration.html",
        **values,
        status=status,
        draft=draft,
        versions=versions,
        name=name,
        generations=shown_generations,
        current_generation=current_number(record, [each.row for each in shown_generations]),
        save_comment=request.form.text("changeComment"),
        preview=draft.preview,
        fingerprint=draft.fingerprint,
        effective=kinds.get(shown, rows),
        shown=shown,
        shown_choices=[
            (key, label, len(kinds[key]))
            for key, label in (("", "All"), ("given", "Given"), ("changed", "Differ from default"))
        ],
        changes=changes,
    )
