"""The launch form: fields, what the environment gives, and what would start."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.clock import to_ms
from launchbay.console import forms
from launchbay.console.assets import Glyph
from launchbay.console.fields import (
    PARAMETER,
    RENEW_FIELDS,
    Draft,
    ModuleForm,
    fields_in,
    fill_fields,
    launch_fields,
    request_of,
    submodule_groups,
    values,
)
from launchbay.console.rendering import compact, redact_value
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.console.run_view import RunView, Segment
from launchbay.errors import BadRequest, LaunchbayError, NotAllowed, NotFound
from launchbay.features.change_sets.pages import SAVE, save
from launchbay.features.change_sets.usecases import ChangeAct
from launchbay.features.freezes.usecases import show_freeze
from launchbay.ids import new_id
from launchbay.manifest.graph import COMPUTE, SERVICE, CompiledManifest
from launchbay.manifest.services import markers, properties, required_providers
from launchbay.model.expiry import IfExists
from launchbay.model.freezes import FreezeState, shown_freeze
from launchbay.model.job import JobStatus
from launchbay.model.redaction import is_secret_name
from launchbay.model.schedule import next_due
from launchbay.planning.acceptance import environment_view
from launchbay.planning.decisions import Refused
from launchbay.planning.names import LAUNCH
from launchbay.store.applications import Application, Revision
from launchbay.store.environments import EnvironmentRow
from launchbay.store.instances import InstanceRecord
from launchbay.usecases import fleet
from launchbay.usecases import launch as usecases_launch
from launchbay.usecases.browsing import read_compiled, read_environment, read_instance_record
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter, JobFilter
from launchbay.usecases.jobs import read_job
from launchbay.usecases.manifests import list_manifests
from launchbay.usecases.preview import Preview, estimate_launch, preview_launch
from launchbay.usecases.revisions import list_revisions, read_revision

IF_EXISTS: tuple[tuple[IfExists | None, str], ...] = (
    (None, "As the rules say"),
    ("fail", "Refuse the launch"),
    ("return", "Open that instance"),
    ("allow", "Launch a second one"),
)
_LANES = 12  # of the timeline of the last launch
_PREVIEW = "preview"
_SECRET = "********"  # noqa: S105 - what stands for a secret in the command line


@dataclass(slots=True, kw_only=True)
class _Draft(Draft):
    """A launch that is being filled in.

    `model` is the instance whose values fill the form, if there is one.
    """

    application: Application
    manifest: CompiledManifest
    revision: Revision | None
    model: InstanceRecord | None
    environments: Sequence[EnvironmentRow]
    environment_id: str
    name: str
    command: str = ""  # the launch as a command line
    missing: list[str] = field(default_factory=list)  # labels of required fields that are empty


class Need(NamedTuple):
    """What a component takes from the environment; `value` is None if it is missing."""

    name: str
    component: str
    kind: str
    value: str | None
    is_required: bool


routes = Routes()


@routes.get("/console/applications/{id}/launch", query=("from", "revision", "version"))
async def launch_page(request: PageRequest) -> Response:
    """Show the form, filled from a revision, or from an instance without its secrets."""
    draft = await _draft(request, request.query("version"), request.query("revision"), request.query("from"))
    if (await request.permissions(draft.application.organization_id)).launch(draft.application.id):
        await _preview(request, draft, forms.CHOICES[0][0])
    return await _show(request, draft, None)


@routes.post("/console/applications/{id}/launch")
async def launch(request: PageRequest) -> Response:
    form = request.form
    revision_id, _, version = form.text("source").partition(":")
    draft = await _draft(request, version, revision_id, form.text("from"))
    if form.text("do") in {RENEW_FIELDS, _PREVIEW}:
        await _preview(request, draft, form.text("lifetime"))
        draft.clear_errors()
        return await _show(request, draft, None)
    problem: LaunchbayError | None = None
    if_exists = _if_exists(form)
    try:
        body = _body(request, draft, form.text("lifetime"))
        if not draft.has_field_errors:
            if form.text("do") == SAVE:
                act = ChangeAct(act="launch", application_id=draft.application.id, launch=body, if_exists=if_exists)
                return await save(request, draft.application.organization_id, act)
            started = await usecases_launch.launch(request.ctx, draft.application.id, body, if_exists)
            told = "Launch started." if started.is_new else "This instance has the name already. Nothing was launched."
            return request.redirect(f"{HOME}/instances/{started.instance_id}", told)
        problem = BadRequest(forms.FIX_FIELDS)
    except (BadRequest, Refused) as error:
        draft.place_errors(error.messages)
        problem = error
    return await _show(request, draft, problem)


async def _draft(request: PageRequest, version: str | None, revision_id: str | None, model_id: str | None) -> _Draft:
    application_id, form = request.path("id"), request.form
    revision = await read_revision(request.ctx, revision_id) if revision_id else None
    model = (await read_instance_record(request.ctx, model_id))[0] if model_id else None
    if model is not None and model.application_id != application_id:
        raise BadRequest("This is an instance of another application.", "Choose one of this application.")
    wanted = forms.parse_number(version)
    if wanted is None and revision is not None:
        wanted = revision.version
    application, number, manifest = await read_compiled(request.ctx, application_id, wanted)
    given: dict[str, Any] = {}
    if revision is not None:
        given = msgspec.json.decode(revision.parameters)
    elif model is not None:
        stored: dict[str, Any] = msgspec.json.decode(model.parameters)
        given = {name: value for name, value in stored.items() if not is_secret_name(name)}
    fields = launch_fields(manifest, given)
    environments = await list_environments(request.ctx, application.organization_id)
    first = next((row.id for row in environments if row.is_default), "")
    environment_id = (revision and revision.environment_id) or (model and model.environment_id) or first
    kept, now = ({} if revision is None else given), given
    if request.http.method == "POST":
        fields = fill_fields(fields, form, PARAMETER)
        now, environment_id = values(fields, kept), form.text("environmentId") or environment_id
    submodules = {} if revision is None else msgspec.json.decode(revision.submodules)
    module = ModuleForm(application=application, manifest=manifest, parameters=kept, submodules=submodules)
    draft = _Draft(
        application=application,
        manifest=manifest,
        version=number,
        revision=revision,
        model=model,
        environments=environments,
        environment_id=environment_id,
        name=form.text("instanceName", f"{application.name[:200]} {new_id()[-6:]}"),
        fields=fields,
        submodules=await submodule_groups(request, module, now, environment_id or None),
    )
    draft.command = _command(draft, form)
    return draft


def _body(request: PageRequest, draft: _Draft, lifetime: str) -> dict[str, Any]:
    """Return the body of the launch, as in the API. Raises BadRequest."""
    kept = {} if draft.revision is None else msgspec.json.decode(draft.revision.parameters)
    return {
        "revisionId": None if draft.revision is None else draft.revision.id,
        "version": draft.version,
        "environmentId": draft.environment_id or None,
        "destroyInterval": forms.interval_ms(lifetime, request.form.text("minutes")),
        "instanceName": draft.name or None,
        "parameters": values(draft.fields, kept),
        "submodules": request_of(draft.submodules),
    }


def _if_exists(form: forms.Form) -> IfExists | None:
    """Return the choice for a name that exists; None: as the rules say."""
    return next((value for value, _ in IF_EXISTS if value == form.text("ifExists")), None)


async def _preview(request: PageRequest, draft: _Draft, lifetime: str) -> None:
    """Preview the launch, unless required fields are empty."""
    fields = [*draft.fields, *fields_in(draft.submodules)]
    draft.missing = [each.label for each in fields if each.required and not each.value and not each.is_kept]
    wrong = [f"{each.label}: {each.error}" for each in fields if each.error and each.value]
    if draft.missing or wrong:
        draft.preview = Preview(errors=wrong)
        return
    try:
        body, if_exists = _body(request, draft, lifetime), _if_exists(request.form)
        draft.preview = await preview_launch(request.ctx, draft.application.id, body, if_exists)
    except (BadRequest, NotAllowed) as error:
        draft.preview = Preview(errors=list(error.messages))


def needs_of(manifest: CompiledManifest, given_markers: Sequence[str], given: Mapping[str, Any]) -> list[Need]:
    """Return what a manifest takes from an environment, with secrets masked."""
    required = required_providers(manifest)
    found: list[Need] = []
    for path, component in manifest.components.items():
        if component.type != SERVICE:
            continue
        found += [
            Need(pin.name, path, "marker", "set" if pin.name in given_markers else None, path in required)
            for pin in markers(component)
        ]
        for pin in properties(component):
            value = redact_value(given[pin.name], pin.name) if pin.name in given else None
            found.append(Need(pin.name, path, "property", value, path in required))
    return found


def first_schedule(manifest: CompiledManifest, now: datetime) -> tuple[str, datetime] | None:
    """Return the workflow that the manifest schedules first, and when."""
    found = [
        (due, name)
        for component in manifest.components.values()
        for name, cron in component.schedule.items()
        if (due := next_due(cron, now)) is not None
    ]
    if not found:
        return None
    due, name = min(found)
    return name, due


class LastLaunch(NamedTuple):
    """The components of a launch, with their bars; times are in ms."""

    rows: list[tuple[str, list[Segment]]]
    ticks: list[tuple[int, str]]
    span_ms: int


async def _last_launch(request: PageRequest, application: Application) -> LastLaunch | None:
    """Return the last successful launch that the person may see."""
    wanted = JobFilter(application_ids=[application.id], workflows=[LAUNCH], statuses=[JobStatus.SUCCEEDED])
    page = await fleet.list_jobs(request.ctx, application.organization_id, wanted, sort="-created", after=None, count=1)
    if not page.rows or page.rows[0].id is None:
        return None
    try:
        details = await read_job(request.ctx, page.rows[0].instance_id, page.rows[0].id)
    except (NotFound, NotAllowed):
        return None  # it was deleted meanwhile
    run = RunView(details, to_ms(request.now()))
    rows = [
        (
            lane.name,
            [Segment(Glyph.QUEUED, min(each.start for each in lane.segments), max(each.end for each in lane.segments))],
        )
        for lane in run.lanes()
        if lane.segments
    ]
    return LastLaunch(rows[:_LANES], run.ticks, run.span_ms) if len(rows) > 1 else None


async def _show(request: PageRequest, draft: _Draft, problem: LaunchbayError | None) -> Response:
    application, form = draft.application, request.form
    environment = None
    if draft.environment_id and any(row.id == draft.environment_id for row in draft.environments):
        environment = environment_view(await read_environment(request.ctx, draft.environment_id))
    lifetime = form.text("lifetime", forms.CHOICES[0][0])
    now = request.now()
    return await request.page(
        "launch.html",
        section="applications",
        organization_id=application.organization_id,
        problem=draft.problem(problem) if problem is not None else None,
        # A script inserts previews; htmx ignores error responses.
        status=200 if problem is None else request.deps.status_of(problem),
        draft=draft,
        application=application,
        sources=request.ask(_sources(request, draft)),
        environment=environment,
        freeze=request.ask(_freeze(request, draft)),
        needs=[] if environment is None else needs_of(draft.manifest, environment.markers, environment.properties),
        name=draft.name,
        save_comment=form.text("changeComment"),
        lifetime=lifetime,
        minutes=form.text("minutes"),
        lifetimes=forms.CHOICES,
        if_exists=_if_exists(form),
        ways=IF_EXISTS,
        schedule=first_schedule(draft.manifest, now),
        machines=0
        if draft.preview is None
        else sum(each.type == COMPUTE and each.change == "starts" for each in draft.preview.components),
        estimate=request.ask(estimate_launch(request.ctx, application.id)),
        last=request.ask(_last_launch(request, application)),
        similar=None if draft.model is not None else await _similar(request, application),
    )


async def _freeze(request: PageRequest, draft: _Draft) -> FreezeState | None:
    """Return a freeze of the application or environment, also one that begins soon."""
    of_environment = next((row.freezes for row in draft.environments if row.id == draft.environment_id), None)
    shown = await show_freeze(request.ctx, "application", draft.application.id)
    found = [
        each for each in (shown.now or shown.soon, shown_freeze(of_environment, request.now())) if each is not None
    ]
    return min(found, key=lambda each: each.begins_at or request.now(), default=None)


async def _sources(request: PageRequest, draft: _Draft) -> list[tuple[str, str, bool]]:
    """Return the versions and revisions: value, label, and whether it is chosen."""
    application, revision = draft.application, draft.revision
    found = [
        (f":{row.version}", f"{row.version}{' (newest)' if row.version == application.latest_version else ''}")
        for row in await list_manifests(request.ctx, application.id)
    ]
    chosen = f":{draft.version}"
    for row in await list_revisions(request.ctx, application.id):
        found.append((f"{row.id}:", f"{row.name} (revision)"))
        if revision is not None and row.id == revision.id:
            chosen = f"{row.id}:"
            if draft.version != (revision.version or application.latest_version):
                chosen = f"{row.id}:{draft.version}"
                found.append((chosen, f"{row.name} (revision) with version {draft.version}"))
    return [(value, label, value == chosen) for value, label in found]


async def _similar(request: PageRequest, application: Application) -> tuple[str, str] | None:
    """Return ID and name of the newest instance."""
    page = await fleet.list_instances(
        request.ctx,
        application.organization_id,
        InstanceFilter(application_ids=[application.id]),
        sort="-created",
        after=None,
        count=1,
    )
    return next(((row.id, row.name) for row in page.rows if row.id is not None), None)


def _command(draft: _Draft, form: forms.Form) -> str:
    """Return the launch as a command line, with placeholders for secrets."""
    words = ["launchbay", "launch", draft.application.name]
    if draft.revision is not None:
        words += ["--revision", draft.revision.name]
    words += ["--version", str(draft.version)]
    chosen = next((row for row in draft.environments if row.id == draft.environment_id), None)
    if chosen is not None and not chosen.is_default:
        words += ["--environment", chosen.name]
    try:
        interval = forms.interval_ms(form.text("lifetime", forms.CHOICES[0][0]), form.text("minutes"))
    except BadRequest:
        interval = 0  # the form says what is wrong with it
    if interval:
        words += ["--destroy-interval", "never" if interval < 0 else f"{interval // 1000}s"]
    if draft.name:
        words += ["--name", draft.name]
    if (if_exists := _if_exists(form)) is not None:
        words += ["--if-exists", if_exists]
    for each in draft.fields:
        if each.is_secret and (each.value or each.is_kept):
            words += ["-p", f"{each.name}={_SECRET}"]
        for value in values([each]).values() if not each.is_secret else ():
            words += ["-p", f"{each.name}{'=' if isinstance(value, str) else ':='}{compact(value)}"]
    submodules = request_of([replace(group, kept={}) for group in draft.submodules])
    for name, choice in submodules.items():
        words += ["--submodules", f"{name}:={redact_value(choice, name)}"]
    return shlex.join(words)
