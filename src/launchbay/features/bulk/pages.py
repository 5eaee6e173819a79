"""One act on many instances: the form with its preview, and bulk runs."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay import limits
from launchbay.console import forms
from launchbay.console.assets import Glyph
from launchbay.console.fields import ARGUMENT, Field, field_text, fill_fields, shared_resume_fields, values
from launchbay.console.list_query import read_instance_query
from launchbay.console.request import HOME, PageRequest, Routes, people_in, user_names
from launchbay.errors import BadRequest, Conflict, InvalidManifest, LaunchbayError, TooManyRequests
from launchbay.features.bulk import usecases as bulk
from launchbay.features.bulk.rows import BulkRun
from launchbay.features.bulk.usecases import Act, BulkRequest, ChosenInstance
from launchbay.features.change_sets.pages import SAVE, save
from launchbay.features.change_sets.usecases import ChangeAct
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.model.failures import Affected, group_failures
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import read_instance_record
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.users import list_member_names

routes = Routes()

# The acts, as the button of the bar and as the heading of a run say them.
ACTS: dict[str, tuple[str, str, str]] = {
    "resume": ("redo", "Resume", "Resume"),
    "run": ("play", "Run workflow…", "Run"),
    "reconfigure": ("edit", "Change…", "Change"),
    "extend": ("expire", "Extend…", "Extend"),
    "label": ("tag", "Label…", "Label"),
    "destroy": ("trash", "Destroy…", "Destroy"),
}
STATUSES: dict[str, tuple[Glyph, str]] = {
    "Succeeded": (Glyph.OK, "Succeeded"),
    "Failed": (Glyph.FAIL, "Failed"),
    "Refused": (Glyph.STOPPED, "Refused"),
    "Running": (Glyph.BUSY, "In progress"),
    "Waiting": (Glyph.QUEUED, "Queued"),
    "Cancelled": (Glyph.SKIPPED, "Left out"),
}
_SHOWN_REASONS = 5
_ID = re.compile(r"\b[0-9a-f]{24}\b")
_SHOWN_LABELS = 200
_PARALLEL = 10
_MANIFESTS = 50  # that a form takes its fields from


class SharedField(NamedTuple):
    """A parameter of failed runs.

    `takers` are the workflows that take it, if others don't.
    """

    field: Field
    takers: list[str]


class Relabeled(NamedTuple):
    """The labels of an instance before and after."""

    name: str
    before: str
    after: str


@routes.get("/console/organizations/{id}/bulk", query=("after",))
async def list_all(request: PageRequest) -> Response:
    organization_id, after = request.path("id"), request.query("after")
    request.ask_frame(organization_id)
    rows = await bulk.list_bulk_runs(request.ctx, organization_id, after=after, count=CONSOLE_PAGE_ROWS + 1)
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "bulk/templates/bulk_runs.html",
        section="instances",
        organization_id=organization_id,
        runs=[(row, _title(row), bulk.counts_of(row)) for row in shown],
        people=request.ask(user_names(request, organization_id, [row.owner_id for row in shown])),
        next_after=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
    )


@routes.get("/console/organizations/{id}/bulk/new", query=None)
async def form_page(
    request: PageRequest, problem: LaunchbayError | None = None, chosen: Sequence[ChosenInstance] | None = None
) -> Response:
    """Show the form of an act for the instances that were selected.

    `from` repeats the act of a bulk run for the instances where it failed.
    """
    organization_id = request.path("id")
    await request.permissions(organization_id)  # who isn't a member sees nothing
    # A form that comes back has its fields in its body.
    given = request.form if request.form.has("act") else request.query_form()
    earlier = request.query("from")
    if earlier is not None and not request.form.has("act"):
        given = await _again(request, earlier)
    if not (given.has("id") or given.has("all")):
        target = f"{HOME}/organizations/{organization_id}/instances"
        return request.redirect(target, "Select instances first, then what to do with them.")
    act = given.text("act")
    if act not in ACTS:
        problem, act = problem or BadRequest("Choose what to do with the instances."), "resume"
    if chosen is None:
        wrong, chosen = await _counted(request, organization_id, given)
        problem = problem or wrong
    return await request.page(
        "bulk/templates/bulk_new.html",
        section="instances",
        organization_id=organization_id,
        problem=problem,
        act=act,
        title=ACTS[act][2],
        given=given,
        ids=given.all("id"),
        chosen=chosen,
        is_previewed=request.form.text("do") == "preview" and problem is None,
        refused=group_failures(
            [each for each in chosen or () if each.refusal is not None],
            lambda each: each.refusal or "",
            lambda _: None,
            lambda each: Affected(each.row.name, each.row.application, each.row.environment),
        )[:_SHOWN_REASONS],
        fields=await _resume_fields(request, given, chosen or ()) if act == "resume" else [],
        refusals=sum(each.refusal is not None for each in chosen or ()),
        relabeled=_relabeled(given, chosen or ()) if act == "label" and problem is None else [],
        workflows=sorted({each.row.job_name for each in chosen or () if each.row.job_name} - {"launch", "destroy"}),
        lifetimes=forms.CHOICES,
        most_parallel=limits.BULK_PARALLEL,
        parallel=_PARALLEL,
    )


@routes.post("/console/organizations/{id}/bulk", again=form_page, refusals=(BadRequest, TooManyRequests))
async def create(request: PageRequest) -> Response:
    """Preview a bulk run, or begin it."""
    organization_id = request.path("id")
    wanted = await _request(request, organization_id, request.form)
    if wanted.act.act == "resume":
        chosen = await bulk.preview_bulk(request.ctx, organization_id, wanted)
        fields = [each.field for each in await _resume_fields(request, request.form, chosen)]
        if any(each.error for each in fields):
            return await form_page(request, BadRequest(forms.FIX_FIELDS), chosen)
        sent = {name for name, text in request.form.with_prefix(ARGUMENT).items() if text.strip()}
        if unknown := sorted(sent - {each.name for each in fields}):
            raise BadRequest(f"None of these runs takes a parameter {unknown[0][:40]!r}. Open the form again.")
        act = msgspec.structs.replace(wanted.act, parameters=values(fields), declared_only=True)
        wanted = replace(wanted, act=act)
    if request.form.text("do") == "preview":
        return await form_page(request, chosen=await bulk.preview_bulk(request.ctx, organization_id, wanted))
    if request.form.text("do") == SAVE:
        return await save(request, organization_id, _change_act(wanted.act), ids=wanted.ids, wanted=_filter(wanted))
    bulk_id = await bulk.create_bulk(request.ctx, organization_id, wanted)
    return request.redirect(f"{HOME}/organizations/{organization_id}/bulk/{bulk_id}")


@routes.get("/console/organizations/{id}/bulk/{bulk}", query=("after", "status"))
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show how far a bulk run is, with the result of each instance."""
    ctx, organization_id = request.ctx, request.path("id")
    request.ask_frame(organization_id)
    run = await bulk.read_bulk(ctx, request.path("bulk"))
    status = request.choice("status", STATUSES)
    after = forms.parse_number(request.query("after"), 6) or 0
    rows = await bulk.list_bulk_instances(ctx, run.id, status=status, after=after, count=CONSOLE_PAGE_ROWS + 1)
    shown = rows[:CONSOLE_PAGE_ROWS]
    failed = [
        row
        for each in ("Failed", "Refused")
        for row in await bulk.list_bulk_instances(ctx, run.id, status=each, after=0, count=limits.PAGE_ROWS_MAX)
    ]
    permissions = await request.permissions(organization_id)
    counts = bulk.counts_of(run)
    owner = await list_member_names(ctx, organization_id, (), also=[run.owner_id])
    return await request.page(
        "bulk/templates/bulk.html",
        section="instances",
        organization_id=organization_id,
        problem=problem,
        run=run,
        title=_title(run),
        act=bulk.read_act(run.act),
        counts=counts,
        waiting=bulk.waiting_for(run),
        total=counts.total(),
        done=sum(counts[each] for each in ("Succeeded", "Failed", "Refused", "Cancelled")),
        statuses=STATUSES,
        shown_status=status,
        rows=shown,
        next_after=shown[-1].place if len(rows) > CONSOLE_PAGE_ROWS else None,
        reasons=group_failures(
            [row for row in failed if row.message],
            lambda row: row.message or "",
            lambda row: row.finished_at,
            lambda row: Affected(row.instance_name),
        )[:_SHOWN_REASONS],
        can_control=run.finished_at is None and permissions.control(run, request.actor),
        owner=owner.get(run.owner_id, "a deleted user"),
    )


@routes.post("/console/organizations/{id}/bulk/{bulk}", again=show, refusals=(Conflict,))
async def control(request: PageRequest) -> Response:
    """Pause, continue or cancel a bulk run."""
    wanted = {"pause": "Paused", "continue": "Running"}.get(request.form.text("do"), "Cancelled")
    await bulk.control_bulk(request.ctx, request.path("bulk"), wanted)  # type: ignore[arg-type]  # one of the three
    return request.redirect(f"{HOME}/organizations/{request.path('id')}/bulk/{request.path('bulk')}")


async def _again(request: PageRequest, bulk_id: str) -> forms.Form:
    """Return the fields that repeat a bulk run where it failed."""
    run = await bulk.read_bulk(request.ctx, bulk_id)
    act = bulk.read_act(run.act)
    rows = await bulk.list_bulk_instances(
        request.ctx, run.id, status="Failed", after=0, count=limits.CONSOLE_FORM_FIELDS // 2
    )
    parameters = await bulk.read_open_parameters(request.ctx, run.id)
    fields: dict[str, list[str]] = {
        "act": [act.act],
        "id": [row.instance_id for row in rows],
        "workflow": [act.workflow or ""],
        "parameters": [msgspec.json.encode(parameters).decode()] if parameters else [],
        **{ARGUMENT + name: [field_text(value)] for name, value in parameters.items()},
        "version": [] if act.version is None else [str(act.version)],
        "labels": [_label_text(act.labels)],
    }
    return forms.Form(fields)


async def _counted(
    request: PageRequest, organization_id: str, given: forms.Form
) -> tuple[LaunchbayError | None, list[ChosenInstance] | None]:
    """Return the chosen instances before the form says what exactly to do with them.

    Whatever takes fields is looked at as if it destroyed: both need the permission to edit.
    """
    act = Act(act="resume") if given.text("act") == "resume" else Act(act="destroy")
    if given.text("act") == "label":
        act = Act(act="label", labels={"a": None})
    try:
        ids, wanted = await _selection(request, organization_id, given)
        looked = BulkRequest(act=act, ids=ids, wanted=wanted, max_parallel=_PARALLEL, stop_after_failures=None)
        return None, await bulk.preview_bulk(request.ctx, organization_id, looked)
    except BadRequest as error:
        return error, None


async def _selection(
    request: PageRequest, organization_id: str, given: forms.Form
) -> tuple[list[str] | None, InstanceFilter]:
    if not given.has("all"):
        ids = given.all("id")
        if not ids:
            raise BadRequest("Select instances in the list first.", code="NothingChosen")
        return list(dict.fromkeys(ids)), InstanceFilter()
    applications = {row.id: row.name for row in await list_applications(request.ctx, organization_id)}
    environments = {row.id: row.name for row in await list_environments(request.ctx, organization_id)}
    text = given.text("q")
    people = await people_in(request, organization_id, text)
    query = read_instance_query(text, applications, environments, people, request.actor.user_id, request.now())
    if query.problem is not None:
        raise query.problem
    return None, query.wanted


async def _request(request: PageRequest, organization_id: str, form: forms.Form) -> BulkRequest:
    """Return what a form asks for. Raises BadRequest."""
    act = form.text("act")
    if act not in ACTS:
        raise BadRequest("Choose what to do with the instances.")
    ids, wanted = await _selection(request, organization_id, form)
    given: dict[str, Any] = {}
    if act == "run":
        given["workflow"] = form.text("workflow") or None
    if act in {"run", "reconfigure"}:
        given["parameters"] = forms.parse_parameters("Parameters", form.raw("parameters"))
    if act == "reconfigure" and form.text("version"):
        given["version"] = _number("Version of the manifest", form.text("version"))
    if act == "extend":
        given["expires_in_ms"] = forms.interval_ms(form.text("lifetime"), form.text("minutes"))
    if act == "label":
        given["labels"] = read_label_lines(form.raw("labels"))
    stop = form.text("stopAfterFailures")
    return BulkRequest(
        act=Act(act=act, **given),  # type: ignore[arg-type]  # it is one of the acts
        ids=ids,
        wanted=wanted,
        max_parallel=min(
            max(_number("At the same time", form.text("maxParallel", str(_PARALLEL))), 1), limits.BULK_PARALLEL
        ),
        stop_after_failures=max(_number("Stop after failures", stop), 1) if stop else None,
    )


async def _resume_fields(
    request: PageRequest, given: forms.Form, chosen: Sequence[ChosenInstance]
) -> list[SharedField]:
    """Return the parameters of failed runs, with the values of a form.

    Of very many versions of manifests, those of most instances have their fields.
    """
    rows = {
        (each.row.application_id, each.row.version, each.row.job_name): each.row for each in chosen if not each.refusal
    }
    kinds = Counter(
        (each.row.application_id, each.row.version, each.row.job_name) for each in chosen if not each.refusal
    )
    found: dict[str, Field] = {}
    takers: dict[str, Counter[str]] = {}
    for key, number in kinds.most_common(_MANIFESTS):
        row = rows[key]
        assert row.id is not None, "rows without an instance are left out before"
        try:
            _, manifest = await read_instance_record(request.ctx, row.id)
        except InvalidManifest:
            continue  # the turn says what is wrong with it
        for each in shared_resume_fields(manifest, row.job_name or ""):
            known = found.setdefault(each.name, each)
            if known.declared != each.declared:  # each run checks the value against its own type
                found[each.name] = replace(known, declared=None)
            takers.setdefault(each.name, Counter())[f"{row.job_name} of {row.application}"] += number
    filled = fill_fields(found.values(), given, ARGUMENT)
    return [SharedField(each, _taker_texts(takers[each.name], kinds.total())) for each in filled]


def _taker_texts(takers: Counter[str], runs: int) -> list[str]:
    if takers.total() == runs:
        return []
    return [f"{name} ({number} {'run' if number == 1 else 'runs'})" for name, number in takers.items()]


def _change_act(act: Act) -> ChangeAct:
    """Return the act as one of a change set. Raises BadRequest."""
    if act.act == "destroy":
        return ChangeAct(act="destroy")
    if act.act != "reconfigure" or act.version is None:
        raise BadRequest("A change set needs the version that the instances get.", code="InvalidAct", field="version")
    return ChangeAct(act="version", version=act.version, parameters=act.parameters)


def _filter(wanted: BulkRequest) -> InstanceFilter | None:
    return wanted.wanted if wanted.ids is None else None


def _number(label: str, text: str) -> int:
    number = forms.parse_number(text)
    if number is None:
        raise BadRequest(f"{label}: expected a whole number.", code="InvalidAct")
    return number


def read_label_lines(text: str) -> dict[str, str | None]:
    """Return labels from lines such as `team=web`; `-team` removes one. Raises BadRequest."""
    found: dict[str, str | None] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, _, value = line.partition("=")
        found[name.removeprefix("-").strip()] = None if line.startswith("-") else value.strip()
    if not found:
        raise BadRequest("Labels: enter one per line, such as team=web, or -team to remove it.", code="InvalidLabel")
    return found


def _label_text(labels: Mapping[str, str | None]) -> str:
    return "\n".join(f"-{name}" if value is None else f"{name}={value}" for name, value in labels.items())


def _relabeled(given: forms.Form, chosen: Sequence[ChosenInstance]) -> list[Relabeled]:
    """Return what a change of labels does to each instance."""
    if not given.text("labels"):
        return []
    change = read_label_lines(given.raw("labels"))
    found: list[Relabeled] = []
    for each in chosen[:_SHOWN_LABELS]:
        before = msgspec.json.decode(each.row.labels, type=dict[str, str])
        after = {name: value for name, value in {**before, **change}.items() if value is not None}
        if each.refusal is None:
            found.append(Relabeled(each.row.name, _label_text(before), _label_text(after)))
    return found


def _title(run: BulkRun) -> str:
    act, number = bulk.read_act(run.act), bulk.counts_of(run).total()
    what = {"run": f"Run {act.workflow} on", "reconfigure": "Change", "label": "Label"}.get(act.act, ACTS[act.act][2])
    return f"{what} {number} {'instance' if number == 1 else 'instances'}"
