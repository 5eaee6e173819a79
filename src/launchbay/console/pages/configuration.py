"""Reconfiguring an instance: first what it would change, then the change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.console.fields import (
    Field,
    ModuleForm,
    SubmoduleGroup,
    fields_in,
    fill_fields,
    launch_fields,
    request_of,
    submodule_groups,
    values,
    with_errors,
    with_submodule_errors,
    without_errors,
)
from launchbay.console.pages.launch import FIELDS, PARAMETER
from launchbay.console.request import HOME, PageRequest, PageRoute
from launchbay.errors import BadRequest, Conflict, LaunchbayError
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.browsing import read_compiled, read_instance_record
from launchbay.usecases.manifests import list_manifests
from launchbay.usecases.preview import Preview, preview_configuration
from launchbay.usecases.reconfigure import reconfigure
from launchbay.usecases.submodule_shapes import present_submodules


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A reconfiguration that is being filled in. `present` is the `submodules` of one that changes nothing."""

    record: InstanceRecord
    version: int
    fields: list[Field]
    present: Mapping[str, Any]
    submodules: list[SubmoduleGroup]
    problems: list[str] = field(default_factory=list)
    preview: Preview | None = None
    seen: str = ""

    def place_errors(self, sentences: Iterable[str]) -> None:
        """Put each sentence to what it is about."""
        self.submodules, rest = with_submodule_errors(self.submodules, sentences)
        self.fields, self.problems = with_errors(self.fields, rest)

    @property
    def is_refused(self) -> bool:
        """Whether a field is marked."""
        return any(each.error for each in (*self.fields, *fields_in(self.submodules)))


async def form_page(request: PageRequest) -> Response:
    """Show the configuration as it is, for the version that is asked for."""
    return await _show(request, await _draft(request, request.query("version")))


async def change(request: PageRequest) -> Response:
    """Show the difference, or apply it."""
    form = request.form
    draft = await _draft(request, form.text("version"))
    if form.text("do") == FIELDS:
        draft.fields = [replace(each, error="") for each in draft.fields]
        draft.submodules = without_errors(draft.submodules)
        return await _show(request, draft)
    problem: LaunchbayError | None = None
    try:
        body = _body(request, draft)
        draft.seen = _seen(draft, body)
        if not draft.is_refused:
            if form.text("do") == f"apply {draft.seen}":
                await reconfigure(request.ctx, draft.record.id, body)
                return request.redirect(f"{HOME}/instances/{draft.record.id}", "The instance is being reconfigured.")
            draft.preview = await preview_configuration(request.ctx, draft.record.id, body)
            draft.place_errors(draft.preview.errors)
            if form.text("do").startswith("apply"):
                draft.problems.append("The form or the instance has changed since: look at the difference again.")
    except (BadRequest, Conflict) as error:
        draft.place_errors(error.messages)
        problem = error
    return await _show(request, draft, problem)


async def _draft(request: PageRequest, asked: str | None) -> _Draft:
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    version = record.version
    wanted = int(asked) if asked and asked.isascii() and asked.isdecimal() and len(asked) < 10 else version
    application, version, manifest = await read_compiled(request.ctx, record.application_id, wanted)
    stored = msgspec.json.decode(record.parameters)
    fields, now = launch_fields(manifest, stored), stored
    if request.http.method == "POST":
        fields = fill_fields(fields, request.form, PARAMETER)
        now = values(fields, stored)
    present: Mapping[str, Any] = {}
    if (await request.permissions(record.organization_id)).edit_instance(record):
        present = await present_submodules(request.ctx, record.id)
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


def _seen(draft: _Draft, body: Mapping[str, Any]) -> str:
    """Return a mark of a change to an instance as it is now: what is applied is what was looked at."""
    record = draft.record
    now = (record.version, record.revision_id, record.name, record.parameters, draft.present)
    return sha256(msgspec.json.encode((now, body), order="deterministic")).hexdigest()[:32]


async def _show(request: PageRequest, draft: _Draft, problem: LaunchbayError | None = None) -> Response:
    record = draft.record
    shown = BadRequest(*draft.problems) if draft.problems else None
    if shown is None and (draft.is_refused or problem is not None):
        shown = BadRequest("Mend the fields that are marked below.")
    return await request.page(
        "configuration.html",
        section="instances",
        organization_id=record.organization_id,
        problem=shown,
        status=200 if problem is None else request.deps.status_of(problem),
        draft=draft,
        record=record,
        versions=await list_manifests(request.ctx, record.application_id),
        name=request.form.text("instanceName", record.name),
        preview=draft.preview,
        seen=draft.seen,
    )


ROUTES = (
    PageRoute("GET", "/console/instances/{id}/configuration", form_page),
    PageRoute("POST", "/console/instances/{id}/configuration", change),
)
