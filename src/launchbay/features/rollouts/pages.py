"""Rollouts of a version: the form, the waves, and the way back."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from starlette.responses import Response

from launchbay import limits
from launchbay.console import forms
from launchbay.console.assets import Glyph
from launchbay.console.list_query import STANDARD, read_instance_query
from launchbay.console.rendering import failure
from launchbay.console.request import HOME, PageRequest, Routes, people_in, user_names
from launchbay.errors import BadRequest, Conflict, InvalidManifest, LaunchbayError, NotAllowed
from launchbay.features.rollouts import usecases as rollouts
from launchbay.features.rollouts.rows import Rollout
from launchbay.features.rollouts.usecases import RolloutRequest, Wave, counts_of
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.store.fleet import FleetRow
from launchbay.usecases.applications import read_application
from launchbay.usecases.browsing import read_compiled
from launchbay.usecases.environments import list_environments
from launchbay.usecases.manifests import list_manifests

routes = Routes()

STATUSES: dict[str, tuple[Glyph, str]] = {
    "Waiting": (Glyph.QUEUED, "Not started"),
    "Running": (Glyph.BUSY, "In progress"),
    "Unchecked": (Glyph.QUEUED, "Waits for its check"),
    "Checking": (Glyph.BUSY, "Being checked"),
    "Succeeded": (Glyph.OK, "Succeeded"),
    "Failed": (Glyph.FAIL, "Failed"),
    "Refused": (Glyph.STOPPED, "Refused"),
    "Returning": (Glyph.BUSY, "Going back"),
    "Returned": (Glyph.SKIPPED, "Taken back"),
    "Lost": (Glyph.FAIL, "Not taken back"),
    "Skipped": (Glyph.SKIPPED, "Left out"),
}
_BUSY = ("Running", "Unchecked", "Checking", "Returning")
_BAD = ("Failed", "Lost", "Refused")
_MINUTE_MS = 60_000
# What is between two waves; without a number, somebody continues.
PAUSES = (
    ("0", "no pause"),
    (str(5 * _MINUTE_MS), "5 minutes"),
    (str(30 * _MINUTE_MS), "30 minutes"),
    (str(4 * 60 * _MINUTE_MS), "4 hours"),
    (str(24 * 60 * _MINUTE_MS), "1 day"),
    ("wait", "until someone continues"),
)
_WAVES = "1, 10%"
_PARALLEL = 10
_NAMED = 6  # instances of a wave
_SHOWN_PLANNED = 3


class PlannedWave(NamedTuple):
    """A wave before it begins."""

    number: int
    size: int
    names: list[str]


class ShownWave(NamedTuple):
    """A wave with its glyph and what it says about itself."""

    wave: Wave
    size: int
    kind: Glyph
    words: str
    is_current: bool
    bad: int


@routes.get("/console/applications/{id}/rollouts", query=("after",))
async def list_all(request: PageRequest) -> Response:
    """Show the rollouts of an application, the newest first."""
    application = await read_application(request.ctx, request.path("id"))
    values = request.ask(request.deps.tabs.application(request, application, "rollouts"))
    rows = await rollouts.list_rollouts(
        request.ctx,
        application.organization_id,
        application_id=application.id,
        after=request.query("after"),
        count=CONSOLE_PAGE_ROWS + 1,
    )
    shown = rows[:CONSOLE_PAGE_ROWS]
    people = request.ask(user_names(request, application.organization_id, [row.owner_id for row in shown]))
    return await request.page(
        "rollouts/templates/rollouts.html",
        **await values,
        rows=[(row, _state(row), _meter(counts_of(row)), counts_of(row).total()) for row in shown],
        people=people,
        next_after=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
    )


@routes.get("/console/applications/{id}/rollouts/new", query=None)
async def form_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the form of a rollout with its waves."""
    application = await read_application(request.ctx, request.path("id"))
    organization_id = application.organization_id
    request.ask_frame(organization_id)
    versions = request.ask(list_manifests(request.ctx, application.id))
    given = request.form if request.form.has("version") else request.query_form()
    version = forms.parse_number(given.text("version")) or application.latest_version
    try:
        commands = sorted((await read_compiled(request.ctx, application.id, version))[2].commands)
    except InvalidManifest:
        commands = []
    chosen: list[tuple[FleetRow, str | None]] = []
    sizes: list[int] = []
    if problem is None:
        try:
            wanted = await _request(request, given, version)
            chosen, sizes = await rollouts.preview_rollout(request.ctx, organization_id, wanted)
        except BadRequest as error:
            problem = error
    return await request.page(
        "rollouts/templates/rollout_new.html",
        section="applications",
        organization_id=organization_id,
        problem=problem,
        # A script inserts previews; htmx ignores error responses.
        status=None if given.text("do") == "begin" else 200,
        application=application,
        version=version,
        versions=[row.version for row in await versions if row.version],
        commands=commands,
        given=given,
        query=given.text("q", STANDARD),
        ids=given.all("id"),
        waves=given.text("waves", _WAVES),
        pauses=PAUSES,
        parallel=_PARALLEL,
        most_parallel=limits.BULK_PARALLEL,
        planned=_planned([row.name for row, refusal in chosen if refusal is None], sizes),
        number=sum(sizes),
        refused=Counter(refusal.split(" /")[0] for _, refusal in chosen if refusal is not None),
        comment_chars=limits.CHANGE_SET_COMMENT_CHARS,
    )


@routes.post("/console/applications/{id}/rollouts", again=form_page)
async def create(request: PageRequest) -> Response:
    """Show the waves of what the form says, or begin the rollout."""
    application = await read_application(request.ctx, request.path("id"))
    if not (await request.permissions(application.organization_id)).roll_out():
        raise NotAllowed("A rollout needs the permission EditInstance.", "Ask an administrator for a role with it.")
    if request.form.text("do") != "begin":
        return await form_page(request)
    version = forms.parse_number(request.form.text("version")) or application.latest_version
    wanted = await _request(request, request.form, version)
    made = await rollouts.create_rollout(request.ctx, application.organization_id, wanted)
    return request.redirect(f"{HOME}/applications/{application.id}/rollouts/{made}")


@routes.get("/console/applications/{id}/rollouts/{rollout}", query=("after", "status"))
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the waves of a rollout, and the outcome of each instance."""
    ask, ctx = request.ask, request.ctx
    status = request.choice("status", STATUSES)
    after = forms.parse_number(request.query("after"), 6) or 0
    found = await rollouts.read_rollout(ctx, request.path("rollout"))
    request.ask_frame(found.organization_id)
    asked_rows = ask(
        rollouts.list_rollout_instances(ctx, found.id, status=status, after=after, count=CONSOLE_PAGE_ROWS + 1)
    )
    asked_failed = ask(rollouts.list_rollout_instances(ctx, found.id, status="Failed", after=0, count=1))
    failures = ask(rollouts.read_failures(ctx, found.organization_id, [found.id]))
    asked_waves = ask(rollouts.read_waves(ctx, found.id, _NAMED))
    people = ask(user_names(request, found.organization_id, [found.owner_id]))
    application = await read_application(ctx, found.application_id)
    rows, failed, waves = await asked_rows, await asked_failed, await asked_waves
    shown = rows[:CONSOLE_PAGE_ROWS]
    first_failure = (await failures).get(found.id)
    permissions = await request.permissions(application.organization_id)
    counts = counts_of(found)
    # A stopped wave whose instances wait for their check isn't done: it continues.
    left = ("Waiting", "Unchecked") if found.status == rollouts.STOPPED else ("Waiting",)
    next_wave = next((wave.number for wave in waves if any(wave.counts[each] for each in left)), None)
    return await request.page(
        "rollouts/templates/rollout.html",
        section="applications",
        organization_id=application.organization_id,
        problem=problem,
        application=application,
        found=found,
        state=_state(found),
        waiting=rollouts.waiting_for(found),
        waves=[shown_wave(found, wave, is_next=wave.number == next_wave) for wave in waves],
        next_wave=next_wave,
        meter_of=_meter,
        counts=counts,
        total=counts.total(),
        bad=sum(counts[each] for each in _BAD),
        failed=[(row, *failure(row.message or "")) for row in failed],
        first_failure=first_failure,
        statuses=STATUSES,
        shown_status=status,
        rows=shown,
        next_after=shown[-1].place if len(rows) > CONSOLE_PAGE_ROWS else None,
        is_live=found.status in {rollouts.RUNNING, rollouts.WAITING, rollouts.RETURNING},
        can_control=permissions.control(found, request.actor),
        verbs=_verbs(found),
        owner=(await people).get(found.owner_id, "a user"),
    )


@routes.post("/console/applications/{id}/rollouts/{rollout}", again=show, refusals=(Conflict,))
async def control(request: PageRequest) -> Response:
    """Stop, continue or take back a rollout."""
    verb = _VERBS.get(request.form.text("do"), "stop")
    await rollouts.control_rollout(request.ctx, request.path("rollout"), verb)
    return request.redirect(f"{HOME}/applications/{request.path('id')}/rollouts/{request.path('rollout')}")


_VERBS: dict[str, Literal["stop", "continue", "take-back"]] = {
    "stop": "stop",
    "continue": "continue",
    "take-back": "take-back",
}


def _verbs(found: Rollout) -> set[str]:
    """Return what can be done now."""
    return {
        rollouts.RUNNING: {"stop", "take-back"},
        rollouts.WAITING: {"stop", "continue", "take-back"},
        rollouts.STOPPED: {"continue", "take-back"},
        rollouts.FINISHED: {"take-back"},
    }.get(found.status, set())


async def _request(request: PageRequest, form: forms.Form, version: int) -> RolloutRequest:
    """Return what a form asks for. Raises BadRequest."""
    application = await read_application(request.ctx, request.path("id"))
    environments = {row.id: row.name for row in await list_environments(request.ctx, application.organization_id)}
    names = {application.id: application.name}
    text = form.text("q", STANDARD)
    people = await people_in(request, application.organization_id, text)
    query = read_instance_query(text, names, environments, people, request.actor.user_id, request.now())
    wrong = [term for term in query.terms if term.problem]
    if wrong:
        raise BadRequest(f"{wrong[0].text}: {wrong[0].problem}", code="InvalidFilter")
    pause = form.text("pause", "0")
    if pause not in dict(PAUSES):
        raise BadRequest("Choose the pause between two waves.", code="InvalidWaves")
    on_failure: Literal["stop", "takeBack"] = "takeBack" if form.text("onFailure") == "takeBack" else "stop"
    return RolloutRequest(
        application_id=application.id,
        version=version,
        ids=list(dict.fromkeys(form.all("id"))) or None,
        wanted=query.wanted,
        waves=_sizes(form.text("waves", _WAVES)),
        pause_ms=None if pause == "wait" else int(pause),
        health_workflow=form.text("health") or None,
        max_parallel=min(_number("At the same time", form.text("maxParallel", str(_PARALLEL))), limits.BULK_PARALLEL),
        stop_after_failures=_number("Stop after this many failures", form.text("failures", "1")),
        on_failure=on_failure,
        comment=form.text("comment"),
    )


def _sizes(text: str) -> list[int | str]:
    """Return the sizes of waves in a text such as `1, 10%`. Raises BadRequest."""
    sizes = [each.strip() for each in text.replace(";", ",").split(",") if each.strip()]
    if len(sizes) > limits.ROLLOUT_WAVES:
        raise BadRequest(f"Waves: at most {limits.ROLLOUT_WAVES}.", code="InvalidWaves")
    return list(sizes)


def _number(label: str, text: str) -> int:
    number = forms.parse_number(text)
    if not number:
        raise BadRequest(f"{label}: expected a whole number above 0.", code="InvalidWaves")
    return number


def _planned(names: Sequence[str], sizes: Sequence[int]) -> list[PlannedWave]:
    found: list[PlannedWave] = []
    at = 0
    for number, size in enumerate(sizes, 1):
        found.append(PlannedWave(number, size, list(names[at : at + min(size, _SHOWN_PLANNED)])))
        at += size
    return found


def _state(found: Rollout) -> tuple[Glyph, str]:
    """Return the glyph of a rollout, and its state in words."""
    of = f"{found.wave} of {len(found.waves)}"
    if found.status == rollouts.RUNNING:
        is_pausing = found.wave_done_at is not None and found.wave < len(found.waves)
        return Glyph.BUSY, f"Pause before wave {found.wave + 1}" if is_pausing else f"Wave {of}"
    if found.status == rollouts.WAITING:
        return Glyph.WAIT, f"Waits before wave {found.wave + 1}"
    if found.status == rollouts.STOPPED:
        return Glyph.WAIT, f"Stopped in wave {of}"
    if found.status == rollouts.RETURNING:
        return Glyph.BUSY, "Going back"
    counts = counts_of(found)
    if found.status == rollouts.RETURNED:
        return (Glyph.FAIL, "Taken back, with losses") if counts["Lost"] else (Glyph.SKIPPED, "Taken back")
    is_whole = not any(counts[each] for each in _BAD)
    return (Glyph.OK, "Finished") if is_whole else (Glyph.FAIL, "Finished with failures")


def _meter(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return the parts of a meter."""
    return [
        ("ok", counts["Succeeded"]),
        ("fail", counts["Failed"] + counts["Lost"]),
        ("stop", counts["Refused"]),
        ("busy", sum(counts[each] for each in _BUSY)),
        ("queued", counts["Waiting"] + counts["Skipped"] + counts["Returned"]),
    ]


def shown_wave(found: Rollout, wave: Wave, *, is_next: bool) -> ShownWave:
    """Return a wave with its description on the page of the rollout."""
    counts, size = wave.counts, wave.counts.total()
    is_stopped = found.status == rollouts.STOPPED
    bad = counts["Failed"] + counts["Lost"]
    is_current = False
    if any(counts[each] for each in _BUSY if not (is_stopped and each == "Unchecked")):
        is_current, kind, words = True, Glyph.BUSY, "In progress"
    elif counts["Returned"]:
        kind, words = Glyph.SKIPPED, "Taken back"
    elif counts["Skipped"]:
        kind, words = Glyph.SKIPPED, "Left out"
    elif counts["Waiting"] or counts["Unchecked"]:
        waits = is_next and found.status in {rollouts.WAITING, rollouts.STOPPED}
        is_current = is_next
        kind, words = (Glyph.WAIT, "Waits for a decision") if waits else (Glyph.QUEUED, "Next" if is_next else "Later")
    else:
        kind, words = (Glyph.FAIL, f"Done, {bad} failed") if bad else (Glyph.OK, "Done")
    return ShownWave(wave, size, kind, words, is_current, bad)
