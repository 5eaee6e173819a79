"""A run: its page, live; cancellation, resumption, comparison with another run."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response, StreamingResponse

from launchbay.clock import to_ms
from launchbay.console.assets import Glyph, run_status
from launchbay.console.fields import ARGUMENT, Field, fill_fields, resume_fields, values, with_errors
from launchbay.console.forms import FIX_FIELDS, parse_number
from launchbay.console.rendering import HEADERS, live_event
from launchbay.console.request import HOME, PageRequest, Routes, safe_path
from launchbay.console.run_view import LANES, RunStep, RunView, step_pairs
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotFound
from launchbay.features.generations.pages import rollback_target
from launchbay.ids import is_id
from launchbay.limits import CONSOLE_PAGE_ROWS, LIST_LIMIT_MAX
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.component_state import StepState
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import ApprovalStatus, JobOutcome, JobStatus, failure_code, is_cancellation
from launchbay.pages.approvals import approval_item
from launchbay.planning.names import available_workflows
from launchbay.store.events import LogRow
from launchbay.store.fleet import FleetJobRow
from launchbay.store.instances import InstanceRecord
from launchbay.usecases import fleet, jobs
from launchbay.usecases.approvals import list_instance_approvals
from launchbay.usecases.browsing import read_instance_record
from launchbay.usecases.events import LOG_LEVELS, LogFilter, read_log, watch_instance
from launchbay.usecases.fleet import JobFilter
from launchbay.usecases.job_comparisons import compare_jobs
from launchbay.usecases.job_log import (
    COUNTED_LINES,
    WINDOW_LINES,
    LogPosition,
    LogPositions,
    LogWindow,
    NumberedLine,
    read_window,
)
from launchbay.usecases.jobs import JobDetails
from launchbay.usecases.sign_in import authenticate_session
from launchbay.usecases.users import list_member_names

routes = Routes()
# Of the addresses of a run: its page, its log and its events have them in common.
_FIELDS = ("after", "attempt", "before", "do", "from", "lane", "lanes", "level", "line", "n", "q", "step", "tab")
_TABS = ("log", "parameters", "results", "plan", "called")
_PLANNED_STEPS = 500  # on the tab of the plan
_SHOWN_STEPS = 12  # in the dialog of a resumption
_UPDATE_INTERVAL_S = 0.25
_LIVE_LINES = 200  # in one event
_LIVE_LINES_MAX = 5_000  # that a stream brings before it asks to load the page again
_DIFFERENCES = 300  # of steps, on one page


class Section(NamedTuple):
    """Lines of one step in a window of the log, or of the run."""

    step: RunStep | None
    key: str
    kind: Glyph
    lines: list[NumberedLine]
    is_open: bool


class AttemptLink(NamedTuple):
    """An attempt of a run: a job that continues another, or is continued."""

    number: int
    job_id: str
    kind: str
    is_current: bool


class ResumeForm(NamedTuple):
    """What the dialog of a resumption shows."""

    fields: list[Field]
    kept: int
    ignored: int  # of those that are kept, the failures
    again: list[RunStep]
    more: int


@routes.get("/console/instances/{id}/jobs/{job}", query=_FIELDS)
async def show(
    request: PageRequest, problem: LaunchbayError | None = None, *, fields: list[Field] | None = None
) -> Response:
    """Show a run; `fields` are those of a resumption that was refused."""
    found = await _Found.read(request)
    number = parse_number(request.query("attempt"), 3)
    for attempt in found.attempts:
        if attempt.number == number and not attempt.is_current:
            return request.redirect(_address(request.path("id"), attempt.job_id))
    request.ask_frame(found.record.organization_id)
    head, log = request.ask(found.head(request)), request.ask(found.log(request))
    tab = request.query("tab") or "log"
    view = found.view
    shown = request.query("do")
    return await request.page(
        "run.html",
        section="runs",
        organization_id=found.record.organization_id,
        problem=problem,
        tab=tab if tab in _TABS else "log",
        opened="resume" if fields is not None else shown if shown in {"resume", "cancel"} else "",
        parameters=await asyncio.to_thread(view.job.parameters),
        results=await asyncio.to_thread(view.job.results),
        planned=[(step, view.declared(step)) for step in view.steps[:_PLANNED_STEPS]] if tab == "plan" else [],
        step_count=len(view.steps),
        **await head,
        **await found.timeline(request),
        **await log,
        **found.dialogs(fields),
    )


def _address(instance_id: str, job_id: str) -> str:
    return f"{HOME}/instances/{instance_id}/jobs/{job_id}"


class _Found(NamedTuple):
    """A run with what surrounds it, as read for one request."""

    record: InstanceRecord
    manifest: CompiledManifest
    view: RunView
    recent: Sequence[FleetJobRow]  # runs of the instance, the newest first
    attempts: Sequence[AttemptLink]
    places: LogPositions

    @classmethod
    async def read(cls, request: PageRequest) -> "_Found":
        instance_id, job_id = request.path("id"), request.path("job")
        asked = request.ask(jobs.read_job(request.ctx, instance_id, job_id))
        record, manifest = await read_instance_record(request.ctx, instance_id)
        wanted = JobFilter(instance_ids=[record.id])
        recent = request.ask(
            fleet.list_jobs(
                request.ctx, record.organization_id, wanted, sort="-created", after=None, count=CONSOLE_PAGE_ROWS
            )
        )
        job = await asked
        attempts = request.ask(_attempts(request, record, job))
        view = await asyncio.to_thread(RunView, job, to_ms(request.now()))
        places = LogPositions(request.ctx, record.id, job_id)
        return cls(record, manifest, view, (await recent).rows, await attempts, places)

    @property
    def base(self) -> str:
        return _address(self.record.id, self.view.job.view.id)

    @property
    def can_resume(self) -> bool:
        """Whether the run failed and is the newest one of an idle instance."""
        job = self.view.job.view
        is_newest = bool(self.recent) and self.recent[0].id == job.id
        over = {InstanceStatus.DESTROYED}
        is_idle = self.record.job_id is None and self.record.status not in over
        return job.status == JobStatus.FAILED and is_newest and is_idle and self.view.job.plan.kind != "refused"

    @property
    def _can_repeat(self) -> bool:
        """Whether the workflow can run again with the same parameters, or others."""
        plan = self.view.job.plan
        is_gone = self.record.status == InstanceStatus.DESTROYED
        return (
            plan.kind in {"launch", "command"}
            and not is_gone
            and self.view.job.view.name in available_workflows(self.manifest)
        )

    @property
    def last_success(self) -> FleetJobRow | None:
        """The last run of the same workflow before this one that succeeded."""
        job = self.view.job.view
        return next(
            (
                row
                for row in self.recent
                if row.name == job.name and row.status == JobStatus.SUCCEEDED and (row.number or 0) < job.number
            ),
            None,
        )

    async def failure_line(self) -> int | None:
        """Return the number of the line that says why the run failed."""
        if self.view.job.view.status != JobStatus.FAILED:
            return None
        failed = self.view.failed
        line = await self.places.last_error(step=failed.path) if failed else None
        return line or await self.places.last_error()

    async def head(self, request: PageRequest) -> dict[str, Any]:
        """Return what the head shows: what happened, why, what can be done."""
        job, view = self.view.job, self.view
        error = job.redactor.text(job.view.error_message or "")
        failed = view.failed if job.view.status == JobStatus.FAILED else None
        asked_line = request.ask(self.failure_line())
        permissions = await request.permissions(self.record.organization_id)
        rollback_to = None
        if self.can_resume and job.plan.kind == "reconfigure":
            rollback_to = request.ask(rollback_target(request, permissions, self.record))
        pending = []
        if not view.is_over:
            rows = await list_instance_approvals(request.ctx, self.record.id, after=None, count=LIST_LIMIT_MAX)
            pending = [row for row in rows if row.status == ApprovalStatus.PENDING and row.job_id == job.view.id]
        owners = [job.view.owner_id, *(each for row in pending for each in row.requesters)]
        people = request.ask(list_member_names(request.ctx, self.record.organization_id, owners))
        line = await asked_line
        may_control = permissions.run(self.record, job.view.name) and self.record.parent_id is None
        return {
            "run": view,
            "job": job.view,
            "plan": job.plan,
            "record": self.record,
            "base": self.base,
            "shown_as": run_status(
                job.view.status,
                has_started=job.view.started_at is not None,
                error=job.view.error_message,
                is_asking=bool(pending),
            ),
            "error": error,
            "is_cancelled": is_cancellation(error),
            "failed": failed,
            "failed_error": "" if failed is None else view.error_of(failed),
            "failure_code": failure_code(error),
            "failure_line": line,
            "waits": [(wait, job.redactor.text(wait.text)) for wait in job.waits],
            "waited_ms": sum(
                part.end - part.start
                for step in view.steps
                if step.level == 0
                for part in view.segments(step)
                if part.kind is Glyph.WAIT
            ),
            "usual_ms": job.usual_ms,
            "approvals": [approval_item(row) for row in pending],
            "attempts": self.attempts,
            "earlier": self.last_success,
            "parent": job.parent,
            "children": job.children,
            "can_cancel": may_control and not view.is_over,
            "can_resume": may_control and self.can_resume,
            "rollback_to": None if rollback_to is None else await rollback_to,
            "can_repeat": may_control and view.is_over and self._can_repeat,
            "people": await people,
        }

    async def timeline(self, request: PageRequest, *, by_plan: bool = False) -> dict[str, Any]:
        """Return the lanes of the page, and the step that it is about."""
        view = self.view
        first = parse_number(request.query("from")) or 0
        lanes = await asyncio.to_thread(
            view.lanes,
            shown=request.query("lane") or "",
            first=first,
            by_plan=by_plan or not view.is_over,
        )
        start = parse_number(request.query("lanes")) or 0
        shown = lanes[start : start + LANES]
        if start == 0 and not any(lane.is_open for lane in shown):
            shown += [lane for lane in lanes[LANES:] if lane.is_open][:5]
        about = view.by_path.get(request.query("step") or "") or view.failed
        about = about or next(iter(view.running), None)
        return {
            "lanes": shown,
            "lane_count": len(lanes),
            "lanes_first": start,
            "next_lanes": start + LANES if start + LANES < len(lanes) else None,
            "segments": view.segments,
            "about": about,
            "about_attempts": [] if about is None else view.attempts(about),
            "about_declared": None if about is None else view.declared(about),
            "about_inputs": None if about is None else view.inputs(about),
            "about_written": {} if about is None else view.written_inputs(about),
            "about_outputs": {} if about is None else view.outputs(about),
            "about_error": "" if about is None else view.error_of(about),
        }

    async def log(self, request: PageRequest) -> dict[str, Any]:
        """Return the wanted window of the log, by default the one that matters."""
        wanted, target = _log_filter(request), parse_number(request.query("line"))
        view = self.view
        count, fault = request.ask(self.places.count(most=COUNTED_LINES)), request.ask(self.places.next_error(0))
        is_filtered = bool(wanted.text) or wanted.level != LOG_LEVELS[0]
        step = view.by_path.get(request.query("step") or "")
        if target is None and step is not None and not is_filtered:
            target = await self.places.step_start(step.path)
        failure = await self.failure_line() if target is None and not is_filtered else None
        after = parse_number(request.query("after"), 18)
        if after is not None:
            place = LogPosition(after, parse_number(request.query("n"), 9) or 0)
        elif (target or failure or 0) > WINDOW_LINES:
            place = await self.places.around(target or failure or 0)
        elif target is None and not view.is_over and not is_filtered:
            place = await self.places.tail()
        else:
            place = LogPosition()
        window = await read_window(request.ctx, self.record.id, view.job.view.id, place, wanted=wanted)
        return {
            "sections": _sections(view, window, target or failure, is_filtered=is_filtered),
            "window": window,
            "line_count": await count,
            "has_fault": await fault is not None,
            "search": wanted.text,
            "level": wanted.level,
            "is_filtered": is_filtered,
            "target": target,
        }

    def dialogs(self, fields: list[Field] | None = None) -> dict[str, Any]:
        """Return what the dialogs show."""
        view = self.view
        again = [
            step
            for step in view.steps
            if step.level == 0 and step.state not in {StepState.DONE, StepState.SKIPPED, StepState.IGNORED}
        ]
        form = None
        if self.can_resume:
            fields = resume_fields(self.manifest, self.record, view.job) if fields is None else fields
            ignored = view.counts[Glyph.WARN]
            form = ResumeForm(fields, view.finished, ignored, again[:_SHOWN_STEPS], max(0, len(again) - _SHOWN_STEPS))
        return {"resume_form": form}


async def _attempts(request: PageRequest, record: InstanceRecord, job: JobDetails) -> list[AttemptLink]:
    """Return the attempts of a run, if there are several."""
    later = await jobs.list_resumptions(request.ctx, record.id, job.view)
    ids = [*job.plan.resumes, job.view.id, *later]
    if len(ids) == 1:
        return []
    wanted = JobFilter(ids=ids)
    found = await fleet.list_jobs(
        request.ctx, record.organization_id, wanted, sort="created", after=None, count=len(ids)
    )
    outcomes = {row.id: row.outcome for row in found.rows}
    kinds: Mapping[str, Glyph] = {
        JobOutcome.SUCCEEDED: Glyph.OK,
        JobOutcome.FAILED: Glyph.FAIL,
        JobOutcome.CANCELLED: Glyph.STOPPED,
    }
    return [
        AttemptLink(number, each, kinds.get(outcomes[each], Glyph.BUSY), each == job.view.id)
        for number, each in enumerate(ids, 1)
        if each in outcomes
    ]


def _log_filter(request: PageRequest) -> LogFilter:
    level = request.query("level")
    return LogFilter(
        level=next((each for each in LOG_LEVELS if each == level), LOG_LEVELS[0]), text=(request.query("q") or "")[:200]
    )


def _sections(view: RunView, window: LogWindow, target: int | None, *, is_filtered: bool) -> list[Section]:
    """Return the lines by step, in the order of their first lines.

    What the run itself says stays where it is.
    """
    groups: dict[str, list[NumberedLine]] = {}
    blocks, was_run = 0, False
    for line in window.lines:
        if line.row.step is None:
            blocks += not was_run
            groups.setdefault(f"run-{blocks}", []).append(line)
        else:
            groups.setdefault(line.row.step, []).append(line)
        was_run = line.row.step is None
    return [_section(view, key, lines, target, is_filtered=is_filtered) for key, lines in groups.items()]


def _section(view: RunView, key: str, lines: list[NumberedLine], target: int | None, *, is_filtered: bool) -> Section:
    is_run = lines[0].row.step is None
    step = None if is_run else view.by_path.get(key)
    has_error = any(line.row.level == "error" for line in lines)
    kind = (Glyph.FAIL if has_error else Glyph.SKIPPED) if step is None else step.kind
    if is_run and not has_error:
        kind = Glyph.OK
    is_open = is_filtered or is_run or has_error or kind in {Glyph.FAIL, Glyph.STOPPED, Glyph.BUSY, Glyph.WAIT}
    is_open = is_open or any(line.number == target for line in lines)
    return Section(step, key, kind, lines, is_open)


def _changed_sections(view: RunView, kinds: dict[str, Glyph]) -> list[Section]:
    """Return the heads of sections whose steps changed, at the end of all."""
    changed = [step for step in view.steps if kinds.get(step.path, step.kind) is not step.kind or view.is_over]
    kinds |= {step.path: step.kind for step in view.steps}
    return [Section(step, step.path, step.kind, [], is_open=False) for step in changed[:_DIFFERENCES]]


@routes.get("/console/instances/{id}/jobs/{job}/log", query=_FIELDS)
async def show_log(request: PageRequest) -> Response:
    """Show a window of the log alone, for scripts."""
    found = await _Found.read(request)
    return await request.fragment(
        "run_log.html", run=found.view, job=found.view.job.view, base=found.base, **await found.log(request)
    )


@routes.get("/console/instances/{id}/jobs/{job}/log/failure", query=_FIELDS)
async def find_failure(request: PageRequest) -> Response:
    """Lead to the failure, or to the error after or before a line."""
    found = await _Found.read(request)
    after, before = parse_number(request.query("after"), 18), parse_number(request.query("before"), 18)
    number = await found.failure_line() if after is None and before is None else None
    if number is None:
        number = (
            await found.places.next_error(after or 0)
            if before is None
            else await found.places.last_error(before=before)
        )
    if number is None:
        return request.redirect(f"{found.base}#log", "There is no other failure in the log.")
    return request.redirect(f"{found.base}?line={number}#L{number}")


@routes.get("/console/instances/{id}/jobs/{job}/log/text")
async def download_log(request: PageRequest) -> Response:
    """Send the whole log as a text, with secrets masked."""
    job = await jobs.read_job(request.ctx, request.path("id"), request.path("job"))
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="run-{job.view.number}.log"'}
    return StreamingResponse(_log_text(request, job.view.id), media_type="text/plain", headers=headers)


@routes.get("/console/instances/{id}/jobs/{job}/export")
async def export(request: PageRequest) -> Response:
    """Send the record of a run and its log as JSON, with secrets masked."""
    job = await jobs.read_job(request.ctx, request.path("id"), request.path("job"))
    view = await asyncio.to_thread(RunView, job, to_ms(request.now()))
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="run-{job.view.number}.json"'}
    return StreamingResponse(_exported(request, view), media_type="application/json", headers=headers)


async def _exported(request: PageRequest, view: RunView) -> AsyncIterator[bytes]:
    job = view.job
    steps = [
        {
            "path": step.path,
            "status": step.words,
            "startedAt": step.started_ms,
            "finishedAt": step.ended_ms,
            "attempts": [
                {"number": each.number, "startedAt": each.started_ms, "finishedAt": each.ended_ms, "error": each.error}
                for each in view.attempts(step)
            ],
            "inputs": None if sent is None else sent.values,
            "inputsCut": sent is not None and sent.is_cut,
            "outputs": view.outputs(step),
            "error": view.error_of(step),
        }
        for step, sent in ((step, view.inputs(step)) for step in view.steps)
    ]
    parameters, results = job.parameters(), job.results()
    record = {
        "id": job.view.id,
        "number": job.view.number,
        "instanceId": request.path("id"),
        "workflow": job.view.name,
        "status": job.view.status,
        "manifestVersion": job.plan.manifest_version,
        "startedBy": job.view.owner,
        "createdAt": to_ms(job.view.created_at),
        "startedAt": view.started_ms if job.view.started_at else None,
        "finishedAt": None if job.view.finished_at is None else to_ms(job.view.finished_at),
        "error": job.redactor.text(job.view.error_message or ""),
        "parameters": None if parameters is None else parameters.values,
        "results": results.values,
        "steps": steps,
    }
    yield msgspec.json.encode(record)[:-1] + b',"log":['
    is_first = True
    async for rows in read_log(request.ctx, request.path("id"), LogFilter(job_id=job.view.id)):
        for row in rows:
            line = {"at": to_ms(row.at), "level": row.level, "step": row.step, "text": row.text}
            yield (b"" if is_first else b",") + msgspec.json.encode(line)
            is_first = False
    yield b"]}"


async def _log_text(request: PageRequest, job_id: str) -> AsyncIterator[str]:
    async for rows in read_log(request.ctx, request.path("id"), LogFilter(job_id=job_id)):
        yield "".join(map(_log_line, rows))


def _log_line(row: LogRow) -> str:
    at = row.at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{row.at.microsecond // 1000:03}Z"
    return f"{at} {row.level:7} {row.step or '-'} {row.text}\n"


@routes.get("/console/instances/{id}/jobs/{job}/events", query=_FIELDS)
async def watch(request: PageRequest) -> Response:
    """Stream what changes on the page, until the run has ended."""
    await jobs.read_job(request.ctx, request.path("id"), request.path("job"))  # an error is a response, not a stream
    return StreamingResponse(
        _events(request), media_type="text/event-stream", headers={**HEADERS, "X-Accel-Buffering": "no"}
    )


async def _events(request: PageRequest) -> AsyncGenerator[str, None]:
    instance_id, job_id = request.path("id"), request.path("job")
    line = parse_number(request.query("line"), 18)
    place = None if line is None else LogPosition(line, parse_number(request.query("n"), 9) or 0)
    sent: dict[str, str] = {}
    kinds: dict[str, Glyph] = {}
    brought = 0
    yield "retry: 2000\n\n"
    try:
        async with aclosing(watch_instance(request.ctx, instance_id, None)) as changes:
            async for _ in changes:
                # The session may have ended in the meantime; the use cases check the permissions again.
                await authenticate_session(request.app, request.session, request.actor.address)
                began_s = request.app.clock.monotonic_s()
                async with request.reading() as now:
                    found = await _Found.read(now)
                    shown = {
                        "permissions": await now.permissions(found.record.organization_id),
                        "actor": request.actor,
                        **await found.head(now),
                        **await found.timeline(now, by_plan=True),
                        **found.dialogs(),
                        "opened": "",
                    }
                for name in ("head", "approvals", "lanes", "about", "dialogs"):
                    # Only what differs: what somebody types in a dialog must survive the update.
                    text = request.render_fragment(f"run_{name}.html", **shown)
                    if sent.get(name) != text:
                        sent[name] = text
                        yield live_event(name, text)
                while place is not None:
                    window = await read_window(request.ctx, instance_id, job_id, place, count=_LIVE_LINES)
                    place = window.end
                    brought += len(window.lines)
                    if window.lines:
                        sections = _sections(found.view, window, None, is_filtered=True)
                        values = {"run": found.view, "sections": sections, "search": "", "base": found.base}
                        yield live_event("log", request.render_fragment("run_log_sections.html", **values))
                    if brought > _LIVE_LINES_MAX:
                        place = None
                        yield live_event("more", request.render_fragment("run_log_more.html", base=found.base))
                    if window.after is None:
                        break
                changed = _changed_sections(found.view, kinds)
                if changed and place is not None:
                    values = {"run": found.view, "sections": changed, "search": "", "base": found.base}
                    yield live_event("log", request.render_fragment("run_log_sections.html", **values))
                if found.view.is_over:
                    yield live_event("over", "")
                    return
                # A run of thousands of steps takes a while to show: others must have their turn.
                took_s = request.app.clock.monotonic_s() - began_s
                await asyncio.sleep(max(_UPDATE_INTERVAL_S, 4 * took_s))
    except LaunchbayError as error:
        yield request.live_end(error)


@routes.post("/console/instances/{id}/jobs/{job}/cancel", again=show, refusals=(Conflict,))
async def cancel(request: PageRequest) -> Response:
    """Cancel a run, which then ends as failed."""
    await jobs.cancel_job(request.ctx, request.path("id"), request.path("job"))
    target = request.form.text("back", _address(request.path("id"), request.path("job")))
    return request.redirect(safe_path(target), "Cancelling the run. It ends when its running steps have stopped.")


@routes.post("/console/instances/{id}/jobs/{job}/resume", again=show, refusals=(BadRequest, Conflict))
async def resume(request: PageRequest) -> Response:
    """Resume a failed run from its failed step, with the parameters that were changed."""
    instance_id, job_id = request.path("id"), request.path("job")
    job = await jobs.read_job(request.ctx, instance_id, job_id)
    record, manifest = await read_instance_record(request.ctx, instance_id)
    before = {each.name: each for each in resume_fields(manifest, record, job)}
    sent = [each for name, each in before.items() if request.form.has(ARGUMENT + name)]
    filled = fill_fields(sent, request.form, ARGUMENT)
    changed = [each for each in filled if each.value and not each.is_unchanged]
    if any(each.error for each in changed):
        return await show(request, BadRequest(FIX_FIELDS), fields=_merged(before, filled))
    try:
        started = await jobs.resume_job(request.ctx, instance_id, job_id, values(changed))
    except BadRequest as error:
        marked, rest = with_errors(filled, error.messages)
        if rest or not any(each.error for each in marked):
            raise
        return await show(request, BadRequest(FIX_FIELDS), fields=_merged(before, marked))
    message = "Resumed from the failed step. Steps that are done aren't run again."
    target = request.form.text("back", _address(instance_id, started.job_id or job_id))
    return request.redirect(safe_path(target), message)


def _merged(before: Mapping[str, Field], sent: Sequence[Field]) -> list[Field]:
    return list({**before, **{each.name: each for each in sent}}.values())


@routes.get("/console/instances/{id}/jobs/{job}/compare/{other}", query=("from", "show"))
async def show_comparison(request: PageRequest) -> Response:
    """Show two runs of an instance side by side."""
    instance_id = request.path("id")
    record, _ = await read_instance_record(request.ctx, instance_id)
    found = await compare_jobs(request.ctx, request.path("job"), request.path("other"))
    sides = (found.one, found.other)
    if any(job.view.instance_id != instance_id for job in sides):
        raise NotFound("The instance has no such run.", "Select two runs of one instance.")
    runs = [RunView(job, to_ms(request.now())) for job in sides]
    shows_all = request.query("show") == "all"
    pairs = await asyncio.to_thread(step_pairs, found.steps)
    shown = [pair for pair in pairs if shows_all or pair.step.differs]
    start = parse_number(request.query("from")) or 0
    return await request.page(
        "run_compare.html",
        section="runs",
        organization_id=record.organization_id,
        record=record,
        runs=runs,
        bases=[_address(record.id, job.view.id) for job in sides],
        pairs=shown[start : start + _DIFFERENCES],
        next_from=start + _DIFFERENCES if start + _DIFFERENCES < len(shown) else None,
        differing=len(found.differing),
        total=len(pairs),
        shows_all=shows_all,
        parameters=found.parameters,
        results=found.results,
        uncertain_steps=sum(bool(step.uncertain) for step in found.steps),
        unrecorded=found.unrecorded,
        versions=[job.plan.manifest_version for job in sides],
        address=_address(record.id, found.one.view.id) + f"/compare/{found.other.view.id}",
    )


@routes.get("/console/instances/{id}/runs/compare", query=None)
async def compare_selected(request: PageRequest) -> Response:
    """Compare the two runs that were selected in a list, the older one first."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    # IDs sort in the order in which runs were accepted.
    selected = sorted({each for each in request.query_form().all("id") if is_id(each)})
    if len(selected) != 2:
        return request.redirect(f"{HOME}/instances/{record.id}/runs", "Select two runs to compare them.")
    older, newer = selected
    return request.redirect(f"{_address(record.id, older)}/compare/{newer}")


@routes.get("/console/instances/{id}/jobs/{job}/compare", query=("with",))
async def choose_comparison(request: PageRequest) -> Response:
    """Compare with a run by its number or ID, or with the last success."""
    found = await _Found.read(request)
    chosen = (request.query("with") or "").lstrip("#")
    row = next((row for row in found.recent if chosen in {row.id, str(row.number)}), None) if chosen else None
    row = row or (None if chosen else found.last_success)
    if row is None or row.id is None:
        return request.redirect(found.base, "There is no such run to compare with.")
    return request.redirect(f"{_address(found.record.id, row.id)}/compare/{found.view.job.view.id}")
