"""Reconfiguring an instance: first what it would change, then the change."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.console.form import parsed_object
from launchbay.console.page import Page
from launchbay.console.pages.launch import PARAMETER
from launchbay.console.parameter_fields import Field, filled, launch_fields, values, with_errors
from launchbay.console.visit import HOME, Visit
from launchbay.errors import BadRequest, Conflict, LaunchbayError
from launchbay.model.instance_record import InstanceRecord
from launchbay.usecases.browsing import read_compiled, read_instance_record
from launchbay.usecases.manifests import list_manifests
from launchbay.usecases.previewing import Preview, preview_configuration
from launchbay.usecases.reconfiguring import reconfigure


async def form_page(visit: Visit) -> Response:
    """Show the configuration as it is, for the version that is asked for."""
    record, fields, version = await _draft(visit, visit.query("version"))
    return await _show(visit, record, fields, version)


async def change(visit: Visit) -> Response:
    """Show the difference, or apply it."""
    form = visit.form
    record, fields, version = await _draft(visit, form.text("version"))
    fields = filled(fields, form, PARAMETER)
    preview: Preview | None = None
    seen = ""
    rest: list[str] = []
    problem: LaunchbayError | None = None
    try:
        kept = msgspec.json.decode(record.parameters)
        body = _body(visit, record, fields, version, kept)
        seen = _seen(record, body)
        if not any(field.error for field in fields):
            if form.text("do") == f"apply {seen}":
                await reconfigure(visit.desk, visit.actor, record.id, body)
                return visit.go(f"{HOME}/instances/{record.id}", "The instance is being reconfigured.")
            preview = await preview_configuration(visit.desk, visit.actor, record.id, body)
            fields, rest = with_errors(fields, preview.errors)
            if form.text("do").startswith("apply"):
                rest = [*rest, "The form or the instance has changed since: look at the difference again."]
    except (BadRequest, Conflict) as error:
        fields, rest = with_errors(fields, error.sentences)
        problem = error
    shown = BadRequest(*rest) if rest else None
    if shown is None and any(field.error for field in fields):
        shown = BadRequest("Mend the fields that are marked below.")
    status = 200 if problem is None else visit.outside.status_of(problem)
    return await _show(visit, record, fields, version, preview=preview, seen=seen, problem=shown, status=status)


async def _draft(visit: Visit, asked: str | None) -> tuple[InstanceRecord, list[Field], int]:
    record, manifest = await read_instance_record(visit.desk, visit.actor, visit.path("id"))
    version = record.version
    if asked and asked.isascii() and asked.isdecimal() and len(asked) < 10 and int(asked) != version:
        _, version, manifest = await read_compiled(visit.desk, visit.actor, record.application_id, int(asked))
    return record, launch_fields(manifest, msgspec.json.decode(record.parameters)), version


def _body(
    visit: Visit, record: InstanceRecord, fields: list[Field], version: int, kept: Mapping[str, Any]
) -> dict[str, Any]:
    submodules = parsed_object("Submodules", visit.form.text("submodules"))
    body: dict[str, Any] = {"parameters": values(fields, kept)}
    name = visit.form.text("instanceName")
    if name and name != record.name:
        body["instanceName"] = name
    if version != record.version:
        body["manifestVersion"] = version
    if submodules:
        body["submodules"] = submodules
    return body


def _seen(record: InstanceRecord, body: Mapping[str, Any]) -> str:
    """Return a mark of a change to an instance as it is now: what is applied is what was looked at."""
    now = (record.version, record.revision_id, record.name, record.parameters)
    return sha256(msgspec.json.encode((now, body), order="deterministic")).hexdigest()[:32]


async def _show(
    visit: Visit,
    record: InstanceRecord,
    fields: list[Field],
    version: int,
    *,
    preview: Preview | None = None,
    seen: str = "",
    problem: LaunchbayError | None = None,
    status: int = 200,
) -> Response:
    return await visit.page(
        "configuration.html",
        section="instances",
        organization_id=record.organization_id,
        problem=problem,
        status=status,
        record=record,
        fields=fields,
        version=version,
        versions=await list_manifests(visit.desk, visit.actor, record.application_id),
        name=visit.form.text("instanceName", record.name),
        submodules=visit.form.raw("submodules"),
        preview=preview,
        seen=seen,
    )


PAGES = (
    Page("GET", "/console/instances/{id}/configuration", form_page),
    Page("POST", "/console/instances/{id}/configuration", change),
)
