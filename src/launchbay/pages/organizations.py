"""The start page, and the user's organizations."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from starlette.responses import Response

from launchbay.console.forms import parse_object
from launchbay.console.permissions import UiPermissions
from launchbay.console.rendering import HEADERS
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.console.shell import NAVIGATION
from launchbay.errors import LaunchbayError
from launchbay.features.directories import archives
from launchbay.features.directories.archives import Imported
from launchbay.model.instance import ALIVE
from launchbay.model.job import JobStatus
from launchbay.store.fleet import FleetRow
from launchbay.usecases import organizations, second_factors
from launchbay.usecases.applications import list_applications
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter, Sort, list_instances

_FOUND = 6  # of each kind, in the palette
_LAUNCHED = 2  # applications of this name that the palette offers to launch
_LOOKED_AT = 30  # instances with the text in their names
_LONG = 3  # letters, from which on an index finds them inside of names


class Verb(NamedTuple):
    """A command of the palette; `path` follows that of its object."""

    label: str
    icon: str
    path: str = ""
    of_applications: bool = False


_VERBS = {
    "open": Verb("Open", "inst"),
    "launch": Verb("Launch", "rocket", "/launch", of_applications=True),
    "edit": Verb("Edit manifest of", "edit", "/manifest", of_applications=True),
    "run": Verb("Run a workflow of", "play", "/run"),
    "resume": Verb("Resume", "redo"),
    "log": Verb("Show log of", "list"),
    "change": Verb("Change configuration of", "edit", "/configuration"),
    "rollback": Verb("Roll back", "redo", "/rollback"),
    "expire": Verb("Set expiry of", "expire", "/settings#expiry"),
    "destroy": Verb("Destroy", "trash", "/end"),
}


class PaletteCommand(NamedTuple):
    """A command of the palette with its object."""

    href: str
    icon: str
    text: str
    detail: str = ""


routes = Routes()


@routes.get(HOME)
async def home(request: PageRequest) -> Response:
    found = await organizations.list_organizations(request.ctx)
    if len(found) == 1:
        return request.redirect(f"{HOME}/organizations/{found[0].id}")
    return await list_all(request)


@routes.get("/console/organizations")
async def list_all(
    request: PageRequest, problem: LaunchbayError | None = None, *, planned: Imported | None = None
) -> Response:
    return await request.page(
        "organizations.html",
        problem=problem,
        creator=request.ask(organizations.read_creator(request.ctx)),
        planned=planned,
        archive=request.form.raw("archive"),
        archive_name=request.form.text("archiveName"),
    )


@routes.post("/console/organizations", again=list_all, refusals=(LaunchbayError,))
async def create(request: PageRequest) -> Response:
    created = await organizations.create_organization(request.ctx, request.form.text("name"))
    return request.redirect(f"{HOME}/organizations/{created}", "Organization created. You are its administrator.")


@routes.get("/console/organizations/{id}/jump", query=("q",))
async def jump(request: PageRequest) -> Response:
    """Return what the palette offers for a text: objects by name, then sections."""
    ctx, organization_id, text = request.ctx, request.path("id"), request.query("q") or ""
    permissions = await request.permissions(organization_id)
    key, space, rest = request.http.query_params.get("q", "").lstrip().lower().partition(" ")
    if space and (verb := _VERBS.get(key)):
        acts = await _acts(request, permissions, key, verb, rest.strip())
        return await request.fragment(
            "jump.html", acts=acts, verbs=(), instances=(), applications=(), environments=(), entries=()
        )
    found = await _instances_named(request, InstanceFilter(statuses=ALIVE), text) if text else []
    hidden = permissions.hidden_sections()
    sections = [entry for group in NAVIGATION for entry in group.entries if entry.key not in hidden]
    applications = _best(await list_applications(ctx, organization_id), text) if text else []
    return await request.fragment(
        "jump.html",
        verbs=[
            (key, verb, "an application" if verb.of_applications else "an instance")
            for key, verb in _VERBS.items()
            if text and verb.label.lower().startswith(text.lower())
        ],
        acts=[
            PaletteCommand(f"{HOME}/applications/{row.id}/launch", "rocket", f"Launch {row.name}")
            for row in applications[:_LAUNCHED]
            if permissions.launch(row.id)
        ],
        home=f"{HOME}/organizations/{organization_id}",
        instances=found,
        applications=applications,
        environments=_best(await list_environments(ctx, organization_id), text) if text else (),
        entries=[entry for entry in sections if text.lower() in entry.label.lower()],
    )


async def _acts(
    request: PageRequest, permissions: UiPermissions, key: str, verb: Verb, name: str
) -> list[PaletteCommand]:
    """Return a command with each object that the user may use it on."""
    organization_id = request.path("id")
    found: list[PaletteCommand] = []
    if verb.of_applications or key == "open":
        may = permissions.launch if key == "launch" else permissions.edit_application
        found += [
            PaletteCommand(
                f"{HOME}/applications/{row.id}{verb.path}", verb.icon, f"{verb.label} {row.name}", "application"
            )
            for row in _best(await list_applications(request.ctx, organization_id), name)
            if key == "open" or may(row.id)
        ]
    if verb.of_applications:
        return found
    wanted = InstanceFilter(statuses=ALIVE, job_statuses=[JobStatus.FAILED] if key == "resume" else None)
    for row in await _instances_named(request, wanted, name):
        may_run = row.job_name is not None and permissions.run(row, row.job_name)
        edits = key in {"change", "rollback", "expire", "destroy"}
        if (edits and (row.parent_id or not permissions.edit_instance(row))) or (key == "resume" and not may_run):
            continue
        path = verb.path
        if key in {"resume", "log"}:
            if row.job_id is None:
                continue
            end = "#log" if row.job_status != JobStatus.FAILED else "/log/failure"
            path = f"/jobs/{row.job_id}" + ("?do=resume" if key == "resume" else end)
        found.append(
            PaletteCommand(f"{HOME}/instances/{row.id}{path}", verb.icon, f"{verb.label} {row.name}", row.application)
        )
    if key == "open":
        found += [
            PaletteCommand(f"{HOME}/environments/{row.id}", "env", f"{verb.label} {row.name}", "environment")
            for row in _best(await list_environments(request.ctx, organization_id), name)
        ]
    return found


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_Named)


async def _instances_named(request: PageRequest, wanted: InstanceFilter, text: str) -> list[FleetRow]:
    """Return instances by a text in their names, or those that ended last.

    An index of names has those that begin with the text. One of groups of three letters has the others, so these are
    looked for only where too few begin so, and with a longer text.
    """

    async def listed(wanted: InstanceFilter, sort: Sort) -> list[FleetRow]:
        page = await list_instances(request.ctx, request.path("id"), wanted, sort=sort, after=None, count=_LOOKED_AT)
        return page.rows

    if not text:
        return _best(await listed(wanted, "-lastJob"), "")
    spellings = dict.fromkeys((text, text.lower(), text.capitalize(), text.upper()))
    asked = [request.ask(listed(replace(wanted, name_prefix=each), "name")) for each in spellings]
    found = {row.id: row for each in asked for row in await each}
    if len(found) < _FOUND and len(text) >= _LONG:
        found |= {row.id: row for row in await listed(replace(wanted, name_part=text), "name")}
    return _best(found.values(), text)


def _best(rows: Iterable[NamedT], text: str) -> list[NamedT]:
    """Return the first rows with the text in their names, those that begin with it first."""
    wanted = text.lower()
    found = [row for row in rows if wanted in row.name.lower()]
    return sorted(found, key=lambda row: not row.name.lower().startswith(wanted))[:_FOUND]


@routes.get("/console/organizations/{id}/usage")
async def show_settings(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show what an organization uses of its quotas, and its settings."""
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    return await request.page(
        "usage.html",
        section="usage",
        organization_id=organization_id,
        problem=problem,
        rows=request.ask(organizations.read_usage(request.ctx, organization_id)),
        origin=request.ask(organizations.read_origin(request.ctx, organization_id)),
        environments=request.ask(list_environments(request.ctx, organization_id)),
        second_factor_required=request.ask(second_factors.read_requirement(request.ctx, organization_id)),
        seen_name=request.seen("/name", await _read_name(request)),
        seen_policy=request.seen("/signInPolicy", await _read_policy(request)),
    )


async def _read_name(request: PageRequest) -> dict[str, str]:
    rows = await organizations.list_organizations(request.ctx)
    return {"name": next((row.name for row in rows if row.id == request.path("id")), "")}


async def _read_policy(request: PageRequest) -> dict[str, bool]:
    return {"secondFactorRequired": await second_factors.read_requirement(request.ctx, request.path("id"))}


@routes.post("/console/organizations/{id}/name", again=show_settings)
async def rename(request: PageRequest) -> Response:
    organization_id = request.path("id")
    async with request.unless_changed("organizations", organization_id, partial(_read_name, request)):
        await organizations.rename_organization(request.ctx, organization_id, request.form.text("name"))
    return request.redirect(f"{HOME}/organizations/{organization_id}/usage", "Organization renamed.")


@routes.post("/console/organizations/{id}/signInPolicy")
async def write_sign_in_policy(request: PageRequest) -> Response:
    organization_id, required = request.path("id"), request.form.has("secondFactorRequired")
    async with request.unless_changed("organizations", organization_id, partial(_read_policy, request)):
        await second_factors.write_requirement(request.ctx, organization_id, required=required)
    return request.redirect(f"{HOME}/organizations/{organization_id}/usage", "Sign-in policy saved.")


@routes.get("/console/organizations/{id}/archive")
async def export(request: PageRequest) -> Response:
    """Send the organization as a file, without secrets and instances."""
    archive = await archives.export_organization(request.ctx, request.path("id"))
    name = re.sub(r"[^A-Za-z0-9]+", "-", archive.name).strip("-").lower() or "organization"
    disposition = {"Content-Disposition": f'attachment; filename="{name}.json"'}
    body = msgspec.json.format(msgspec.json.encode(archive), indent=1)
    return Response(body, media_type="application/json", headers={**HEADERS, **disposition})


@routes.post("/console/archives", again=list_all, refusals=(LaunchbayError,))
async def import_archive(request: PageRequest) -> Response:
    """Create an organization from an archive, or show what that would create."""
    form = request.form
    document = parse_object("Archive", form.raw("archive"))
    is_plan = form.text("do") != "import"
    made = await archives.import_organization(request.ctx, document, form.text("archiveName") or None, plan=is_plan)
    if made.id is None:
        return await list_all(request, planned=made)
    return request.redirect(
        f"{HOME}/organizations/{made.id}", "Organization imported. You are its administrator; invite its users again."
    )
