"""The comparisons find faults that are seeded in what the product asks for, computes and says."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from launchbay.auth.gate import Grants, visible
from launchbay.auth.permissions import Permission
from launchbay.cli import short_verbs
from launchbay.console import assets, list_query
from launchbay.console.rendering import templates
from launchbay.features.bulk import usecases as bulk
from launchbay.features.change_sets import usecases as change_sets
from launchbay.features.drift import api as api_of_drift
from launchbay.features.drift import pages as pages_of_drift
from launchbay.features.freezes import usecases as freezes
from launchbay.features.plans import api as api_of_plans
from launchbay.features.rollouts import api as api_of_rollouts
from launchbay.features.secret_providers import usecases as secret_providers
from launchbay.limits import ANSWER_KEPT_BYTES, ANSWERS_KEPT_BYTES
from launchbay.mcp import tools
from launchbay.pages import applications, overview, schedules
from launchbay.pages import instances as pages_of_instances
from launchbay.usecases import approvals, fleet, organizations, users
from launchbay.web.api import fleet as api_of_fleet
from launchbay.web.api import instances as api_of_instances
from launchbay.web.api import jobs as api_of_jobs
from launchbay.web.responses import KeptAnswers
from tests.support.truth.all import COMPARISONS, View, differences

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # a population, and each comparison again and again


@dataclass(frozen=True)
class Fault:
    """What is wrong, which comparison has to find it, and for whom it is to be seen."""

    wrong: str
    comparison: str
    seed: Callable[[pytest.MonkeyPatch], None]
    viewer: str = "administrator"


def _changed(owner: Any, name: str, change: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what changes the result of a function of a module."""
    former = getattr(owner, name)

    async def later(found: Any) -> Any:
        return change(await found)

    def changed(*given: Any, **more: Any) -> Any:
        found = former(*given, **more)
        return later(found) if hasattr(found, "__await__") else change(found)

    return lambda patch: patch.setattr(owner, name, changed)


def _filter(name: str, change: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what replaces a filter of the pages; it gets the former one and what that gets."""
    former = templates.filters[name]
    return lambda patch: patch.setitem(templates.filters, name, lambda *given, **more: change(former, *given, **more))


def _without(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in document.items() if each != name}


def _with(struct: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(struct, **fields)


def _rows(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a change of all rows of a page of a list."""
    return lambda page: page._replace(rows=[change(row) for row in page.rows])


def _reason_of_another(patch: pytest.MonkeyPatch) -> None:
    former, last = api_of_fleet._last_job, ["a step of another job failed"]

    def mixed_up(row: Any, job_id: str) -> Any:
        found = former(row, job_id)
        if found.errorMessage is not None:
            found.errorMessage, last[0] = last[0], found.errorMessage
        return found

    patch.setattr(api_of_fleet, "_last_job", mixed_up)


def _silent_waits(patch: pytest.MonkeyPatch) -> None:
    """Drop the sentence, also from answers that are kept while nothing happens to their instances."""
    kept = KeptAnswers(ANSWERS_KEPT_BYTES, ANSWER_KEPT_BYTES)
    patch.setattr(api_of_instances, "_answers", kept)
    _changed(api_of_instances, "instance_document", lambda found: _without(found, "waitingFor"))(patch)


def _destroyed_are_active(patch: pytest.MonkeyPatch) -> None:
    for module in (pages_of_instances, list_query):
        patch.setattr(module, "STANDARD", "")


def _degraded_is_running(former: Any, row: Any) -> Any:
    return row.status if former(row) == "degraded" else former(row)


HOUR = timedelta(hours=1)
FAULTS = [
    Fault(
        "the drift of an instance has one finding too many",
        "drift",
        _changed(api_of_drift, "_counts", lambda counts: {**counts, "new": counts["new"] + 1}),
    ),
    Fault(
        "a finding is as old as when it was seen last",
        "drift_of_the_programs",
        _changed(api_of_drift, "_finding", lambda found: _with(found, firstSeen=found.lastSeen)),
    ),
    Fault(
        "a finding that is ignored is shown as new",
        "drift_of_the_console",
        _changed(pages_of_drift, "_state", lambda _: "new"),
    ),
    Fault(
        "the next window of a freeze is left out",
        "freezes",
        _changed(freezes, "show_freeze", lambda shown: shown._replace(next=None)),
    ),
    Fault(
        "an instance that is frozen isn't shown as such",
        "freezes_of_the_console",
        _filter("freeze_at", lambda *_: None),
    ),
    Fault(
        "a command says that another one froze it",
        "freezes_of_the_commands",
        _changed(freezes, "show_freeze", lambda shown: shown._replace(by_email="eve@example.com")),
    ),
    Fault(
        "an entry of the activity has a field too many that differs",
        "activity_of_the_api",
        _changed(organizations, "list_changes", lambda found: [*found, *found[:1]]),
    ),
    Fault(
        "the overview counts one failed instance too many",
        "overview",
        _changed(overview, "health_of_groups", lambda health: health._replace(failed=health.failed + 1)),
    ),
    Fault(
        "destroyed instances are listed as active ones",
        "instances_of_the_console",
        _destroyed_are_active,
    ),
    Fault(
        "a failed instance is green",
        "instances_of_the_console",
        lambda patch: patch.setitem(assets._SHOWN, "failed", (assets.Glyph.OK, "Failed")),
    ),
    Fault(
        "an instance whose last run failed is shown as running well",
        "instances_of_the_console",
        _filter("instance_status", _degraded_is_running),
    ),
    Fault(
        "a cancelled run is shown as failed",
        "runs_of_the_console",
        _filter("run_status", lambda former, status, **more: former(status, **{**more, "error": None})),
    ),
    Fault(
        "times are an hour off",
        "instances_of_the_console",
        _filter("format_remaining", lambda former, value, now: former(value, now - HOUR)),
    ),
    Fault(
        "the start of runs is shown in another zone",
        "runs_of_the_console",
        _filter(
            "short_time",
            lambda former, value, now: former(value if value is None else value + 3_600_000, now),
        ),
    ),
    Fault("a reason is that of another job", "instances_of_the_api", _reason_of_another),
    Fault(
        "each page of the list drops its last row",
        "instances_of_the_api",
        _changed(fleet, "list_instances", lambda page: page._replace(rows=page.rows[:-1])),
    ),
    Fault(
        "the filter ignores the environment",
        "instances_of_the_api",
        lambda patch: patch.setattr(
            api_of_fleet.FleetFilter,
            "filter",
            _ignoring("environment", api_of_fleet.FleetFilter.filter),
        ),
    ),
    Fault(
        "the total of a list is one too high",
        "instances_of_the_api",
        _changed(
            fleet, "list_instances", lambda page: page if page.total is None else page._replace(total=page.total + 1)
        ),
    ),
    Fault(
        "what an instance waits for is left out",
        "each_instance_of_the_api",
        _silent_waits,
    ),
    Fault(
        "an instance that sleeps is shown as awake",
        "instances_of_the_console",
        _changed(fleet, "list_instances", _rows(lambda row: _with_field(row, is_asleep=False))),
    ),
    Fault(
        "an expiry is missing",
        "instances_of_the_console",
        _changed(fleet, "list_instances", _rows(lambda row: _with_field(row, destroy_at=None))),
    ),
    Fault(
        "a member sees the instances of all environments",
        "instances_of_the_api",
        lambda patch: patch.setattr(fleet, "visible", _everything),
        viewer="member",
    ),
    Fault(
        "a pending approval is left out",
        "approvals_of_the_api",
        _changed(approvals, "list_pending_approvals", lambda rows: rows[1:]),
    ),
    Fault(
        "the summary leaves a group of instances out",
        "summary_of_the_api",
        _changed(fleet, "summarize", lambda found: found._replace(groups=found.groups[:-1])),
    ),
    Fault(
        "a bulk run counts failures as successes",
        "bulk_runs_of_the_api",
        _changed(bulk, "counts_of", lambda counts: _moved(counts, "Failed", "Succeeded")),
    ),
    Fault(
        "times of jobs are a millisecond off",
        "each_job_of_the_api",
        _changed(api_of_jobs, "optional_ms", lambda found: None if found is None else found + 1),
    ),
    Fault(
        "outcomes of a roll-out name another wave",
        "rollouts_of_the_api",
        _changed(api_of_rollouts, "_outcome", lambda row: _with(row, wave=row.wave + 1)),
    ),
    Fault(
        "one version in use counts an instance too many",
        "versions_in_use",
        _changed(
            applications,
            "count_by_version",
            lambda found: {each: number + (each == max(found)) for each, number in found.items()},
        ),
    ),
    Fault(
        "the calendar counts what repeats once a day",
        "schedules_of_the_console",
        _changed(schedules, "daily_times", lambda found: ((at, 1) for at, _ in found)),
    ),
    Fault(
        "a user is left out",
        "people_and_services",
        _changed(users, "_find", lambda found: found[1:]),
    ),
    Fault(
        "the sum of prices forgets machines without one",
        "plans_and_prices",
        _changed(api_of_plans, "cost_of", lambda cost: _with(cost, unknown=0)),
    ),
    Fault(
        "a change set is not called stale",
        "stale_change_sets",
        _changed(change_sets, "find_staleness", lambda _: []),
    ),
    Fault(
        "no secret has changed since it was read",
        "readers_of_secrets",
        _changed(secret_providers, "read_use", lambda use: replace(use, reads=[])),
    ),
    Fault(
        "a tool for agents says that a job succeeded",
        "tools",
        _changed(tools, "_job", lambda found: {**found, "status": "Succeeded"}),
    ),
    Fault(
        "a command leaves out the newest job",
        "commands",
        _changed(short_verbs, "status_of", lambda found: {**found, "jobs": found["jobs"][1:]}),
    ),
]


def _ignoring(name: str, former: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda query: former(_with(query, **{name: None}))


def _with_field(row: Any, **fields: Any) -> Any:
    return row._replace(**fields) if hasattr(row, "_replace") else _with(row, **fields)


def _everything(grants: Grants, permission: Permission) -> dict[str, None]:
    return dict.fromkeys(visible(grants, permission))


def _moved(counts: Any, source: str, target: str) -> Any:
    counts[target] += counts.pop(source, 0)
    return counts


async def test_without_a_fault_a_small_population_shows_nothing_wrong(views: dict[str, View]) -> None:
    names = {fault.comparison for fault in FAULTS}
    assert names <= COMPARISONS.keys()
    assert [each for view in views.values() for each in await differences(view, *names)] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.wrong)
async def test_a_seeded_fault_is_found(views: dict[str, View], monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    fault.seed(monkeypatch)
    found = await differences(views[fault.viewer], fault.comparison)
    assert found, fault.wrong
    assert not any("cannot be read" in each for each in found), found
