"""The start page of an organization: what is broken, waits, runs and expires."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple

from starlette.responses import Response

from launchbay.console.assets import Glyph
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError, NotFound, TooManyRequests
from launchbay.features.bulk import usecases as bulk
from launchbay.features.change_sets.pages import title_of
from launchbay.features.change_sets.usecases import list_asking
from launchbay.ids import is_id
from launchbay.model import instance
from launchbay.model.freezes import FreezeState, shown_freeze
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobOutcome, JobStatus
from launchbay.pages.approvals import approval_item
from launchbay.store.environments import EnvironmentRow
from launchbay.store.fleet import FleetJobRow, GroupRow
from launchbay.usecases import failures, fleet
from launchbay.usecases.applications import list_applications
from launchbay.usecases.approvals import list_own_approvals
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter, JobFilter

routes = Routes()

_SHOWN = 6  # rows of a card
_STRIP_JOBS = 24  # last runs of an environment
_LOOKED_AT_JOBS = 150
_SOON = timedelta(days=1)
_WEEK_H = 7 * 24
_TIMED_LAUNCHES = 2_000
_OUTCOMES = {
    JobStatus.SUCCEEDED.value: Glyph.OK,
    JobStatus.FAILED.value: Glyph.FAIL,
    JobOutcome.CANCELLED.value: Glyph.STOPPED,
    JobStatus.EXECUTING.value: Glyph.BUSY,
}


class Health(NamedTuple):
    """How many instances are in which state, without destroyed ones.

    They are as `health_of` says of each.
    """

    failed: int = 0
    degraded: int = 0
    busy: int = 0
    well: int = 0

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def words(self) -> str:
        """What most needs somebody, and `all healthy` only if nothing is in progress."""
        for number, word in ((self.failed, "failed"), (self.degraded, "degraded"), (self.busy, "in progress")):
            if number:
                return f"{number} {word}"
        return "all healthy"


class EnvironmentHealth(NamedTuple):
    """An environment with its instances and the outcomes of its last runs, oldest first."""

    id: str
    name: str
    health: Health
    outcomes: Sequence[Glyph]
    freeze: FreezeState | None


def health_of_groups(groups: Iterable[GroupRow]) -> Health:
    """Return the sums of groups of instances."""
    found: Counter[instance.Health] = Counter()
    for group in groups:
        health = instance.health_of(InstanceStatus(group.status), group.job_status, is_incomplete=group.is_incomplete)
        found[health] += group.instances
    shown = (instance.Health.FAILED, instance.Health.DEGRADED, instance.Health.BUSY, instance.Health.HEALTHY)
    return Health(*(found[each] for each in shown))


def health_by(field: Literal["application_id", "environment_id"], groups: Iterable[GroupRow]) -> Mapping[str, Health]:
    """Return the sums of groups of instances, by application or environment."""
    found: dict[str, list[GroupRow]] = {}
    for group in groups:
        found.setdefault(getattr(group, field), []).append(group)
    return defaultdict(Health, {each: health_of_groups(of_one) for each, of_one in found.items()})


@routes.get("/console/organizations/{id}", query=("environment",))
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show what needs somebody; `environment` narrows it to one."""
    ask, ctx, organization_id = request.ask, request.ctx, request.path("id")
    request.ask_frame(organization_id)
    listed, wanted = ask(list_environments(ctx, organization_id)), request.query("environment")
    chosen = None if wanted is None else next((row.id for row in await listed if row.id == wanted), None)
    narrowed = None if chosen is None else [chosen]
    asked_groups = ask(fleet.read_groups(ctx, organization_id))
    expiring = ask(
        fleet.list_instances(
            ctx,
            organization_id,
            InstanceFilter(environment_ids=narrowed, expires_before=request.now() + _SOON),
            sort="expiry",
            after=None,
            count=_SHOWN,
            counts=True,
        )
    )
    asked_running = ask(
        fleet.list_jobs(
            ctx,
            organization_id,
            JobFilter(environment_ids=narrowed, statuses=[JobStatus.EXECUTING]),
            sort="-created",
            after=None,
            count=_SHOWN,
            counts=True,
        )
    )
    newest = JobFilter(environment_ids=narrowed)
    asked_latest = ask(
        fleet.list_jobs(ctx, organization_id, newest, sort="-created", after=None, count=_LOOKED_AT_JOBS)
    )
    own, asking = ask(list_own_approvals(ctx, organization_id)), ask(list_asking(ctx, organization_id))
    asked_broken = ask(failures.list_failures(ctx, organization_id, InstanceFilter(environment_ids=narrowed)))
    launches = None if chosen else ask(_launch_times(request, organization_id))
    applications = ask(list_applications(ctx, organization_id))
    environments, groups = await listed, await asked_groups
    running, latest = await asked_running, await asked_latest
    usual_ms = ask(fleet.list_usual_durations_ms(ctx, running.rows))
    by_environment = ask(_by_environment(request, groups, environments, latest, chosen))
    waiting = [row for row in await own if chosen in (None, row.environment_id)]
    broken = await asked_broken
    return await request.page(
        "overview.html",
        organization_id=organization_id,
        problem=problem,
        environments=environments,
        chosen=chosen,
        health=health_of_groups(group for group in groups if chosen in (None, group.environment_id)),
        broken=broken.groups[:_SHOWN],
        broken_most=None if broken.is_whole else failures.LOOKED_AT,
        waiting=[approval_item(row) for row in waiting],
        waiting_jobs={row.job_id for row in waiting},
        asking=[] if chosen else [(row, title_of(row)) for row in await asking],
        running=running,
        usual_ms=await usual_ms,
        ended=[row for row in latest.rows if row.status != JobStatus.EXECUTING][:_SHOWN],
        launches=None if launches is None else await launches,
        by_environment=await by_environment,
        expiring=await expiring,
        has_applications=bool(await applications),
        home=f"{HOME}/organizations/{organization_id}",
    )


@routes.post(
    "/console/organizations/{id}/failures/{failure}", again=show, refusals=(BadRequest, NotFound, TooManyRequests)
)
async def resume_all(request: PageRequest) -> Response:
    """Resume all instances with one failure.

    The page of the bulk run shows which of them it refused.
    """
    organization_id = request.path("id")
    shown = request.form.text("environment")  # which the page was narrowed to
    listed = request.form.all("instance")  # those of a list of runs
    bulk_id = await bulk.resume_failures(
        request.ctx,
        organization_id,
        request.path("failure"),
        InstanceFilter(
            environment_ids=[shown] if shown else None,
            ids=[each for each in listed if is_id(each)] if listed else None,
        ),
    )
    return request.redirect(f"{HOME}/organizations/{organization_id}/bulk/{bulk_id}")


class LaunchTimes(NamedTuple):
    """The median duration of launches in the last 7 days.

    `longer_ms` is by how much it is more than in the 7 days before.
    """

    median_ms: int
    longer_ms: int | None


async def _launch_times(request: PageRequest, organization_id: str) -> LaunchTimes | None:
    """Return how long launches take; None if there were none."""
    times = await fleet.count_jobs_by_time(
        request.ctx, organization_id, hours=2 * _WEEK_H, slots=2, workflow="launch", most=_TIMED_LAUNCHES
    )
    last, this = (slot.median_s for slot in times.slots)
    if this is None:
        return None
    longer_s = this - last if last is not None and times.is_whole else None
    return LaunchTimes(round(1000 * this), None if longer_s is None else round(1000 * longer_s))


async def _by_environment(
    request: PageRequest,
    groups: Sequence[GroupRow],
    environments: Sequence[EnvironmentRow],
    latest: fleet.JobPage,
    chosen: str | None,
) -> list[EnvironmentHealth]:
    """Return the environments that have instances, the one with most failures first."""
    by_id = health_by("environment_id", groups)
    rows = [row for row in environments if chosen in (None, row.id) and by_id[row.id].total]
    rows.sort(key=lambda row: (-by_id[row.id].failed, -by_id[row.id].degraded, row.name))
    asked: dict[str, asyncio.Task[list[FleetJobRow]]] = {}
    known = {row.id: [job for job in latest.rows if job.environment_id == row.id] for row in rows[:_SHOWN]}
    for row in rows[:_SHOWN]:
        if len(known[row.id]) < _STRIP_JOBS and latest.next_after is not None:  # others run more often
            asked[row.id] = request.ask(_last_runs(request, row))
    known |= {each: await task for each, task in asked.items()}
    return [
        EnvironmentHealth(
            row.id,
            row.name,
            by_id[row.id],
            [_OUTCOMES[job.outcome] for job in known[row.id][:_STRIP_JOBS]][::-1],
            shown_freeze(row.freezes, request.now()),
        )
        for row in rows[:_SHOWN]
    ]


async def _last_runs(request: PageRequest, environment: EnvironmentRow) -> list[FleetJobRow]:
    page = await fleet.list_jobs(
        request.ctx,
        request.path("id"),
        JobFilter(environment_ids=[environment.id]),
        sort="-created",
        after=None,
        count=_STRIP_JOBS,
    )
    return page.rows
