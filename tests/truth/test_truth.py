"""What each surface shows of a population is what is in its tables: counts, statuses, reasons, times and names."""

import re
from collections.abc import AsyncIterator

import pytest

from launchbay.app.features import ENDPOINTS, PAGES
from launchbay.mcp.tools import TOOLS
from tests.support.databases import Databases
from tests.support.showcase import NO_PAGES
from tests.support.truth.all import COMPARISONS, View, differences
from tests.support.truth.oracle import read_tables
from tests.support.truth.population import Population, populated
from tests.support.truth.viewers import viewers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # hundreds of instances, read in some thousand requests


@pytest.fixture(scope="module")
async def population(databases: Databases) -> AsyncIterator[Population]:
    async with populated(databases, seed=35, cranes=260) as made:
        yield made


@pytest.fixture(scope="module")
async def views(population: Population) -> AsyncIterator[list[View]]:
    async with viewers(population) as found:
        yield found


@pytest.mark.parametrize("comparison", COMPARISONS)
async def test_what_is_shown_is_so(views: list[View], comparison: str) -> None:
    found = [each for view in views for each in await differences(view, comparison)]
    assert found == [], "\n".join(found[:20])


async def test_the_population_has_what_there_is_to_be_told(population: Population) -> None:
    tables = read_tables(population.url)
    statuses = {row["status"] for row in tables["instances"]}
    assert statuses == {"Requested", "Executing", "Running", "Failed", "Destroying", "Destroyed"}
    assert len(tables["instances"]) > 300
    assert {row["status"] for row in tables["jobs"]} == {"Executing", "Succeeded", "Failed"}
    assert {row["status"] for row in tables["approvals"]} >= {"pending", "approved", "rejected"}
    assert {row["status"] for row in tables["rollouts"]} == {"Finished", "Stopped"}
    assert {row["status"] for row in tables["bulk_instances"]} == {"Succeeded", "Failed"}
    assert {row["version"] for row in tables["instances"]} >= {2, 3, 4}
    assert any(row["is_asleep"] for row in tables["instance_sleeps"])
    assert any((row["error_message"] or "").startswith("Cancelled") for row in tables["jobs"])
    assert len({row["organization_id"] for row in tables["instances"]}) == 2
    assert {row["wait"]["kind"] for row in tables["step_waits"]} == {"retry", "time"}
    assert any(not row["is_held"] for row in tables["concurrency_places"])


# What shows nothing of instances, jobs and what belongs to them: objects of the organization and forms, which have
# tests of their own.
_ABOUT_OTHERS = (
    "/console/account",
    "/console/organizations/{id}/git-sources",
    "/console/organizations/{id}/serviceAccounts",
    "/console/organizations/{id}/users/{user}",
    "/console/organizations/{id}/webhooks",
    "/console/revisions/{id}",
    "/console/roles/{id}",
    "/console/services/{id}",
)
_FORMS = {
    "/console/signIn",
    "/console/organizations",
    "/console/organizations/{id}/start",
    "/console/organizations/{id}/recurring/new",
    "/console/organizations/{id}/recurring/{recurring}/delete",
    "/console/organizations/{id}/changes/{change}/delete",
    "/console/applications/{id}/delete",
    "/console/applications/{id}/launch",
    "/console/applications/{id}/manifest",
    "/console/applications/{id}/revisions",
    "/console/applications/{id}/revisions/new",
    "/console/applications/{id}/rollouts/new",
    "/console/applications/{id}/settings",
    "/console/environments/{id}/delete",
    "/console/environments/{id}/settings",
    "/console/instances/{id}/secrets",
    # One object each, in the words of its own tests.
    "/console/instances/{id}/generations/{number}",
    "/console/instances/{id}/jobs/{job}/compare/{other}",
    "/console/organizations/{id}/audit/{entry}",
    "/console/organizations/{id}/recurring/{recurring}",
}
_TOOLS_THAT_ACT = {
    "read_application",
    "read_manifest",
    "validate_manifest",
    "create_application",
    "upload_manifest",
    "preview_launch",
    "launch",
    "run_workflow",
    "read_log",
    "resume_job",
    "explain_permission",
    "propose_change",
    "read_change_set",
    "apply_change_set",
}


def test_each_page_is_compared_or_shows_nothing_of_the_population() -> None:
    pages = {route.path for route in PAGES if route.method == "GET"} - NO_PAGES
    compared = {page for each in COMPARISONS.values() for page in each.pages}
    others = {page for page in pages if page.startswith(_ABOUT_OTHERS)} | _FORMS
    assert sorted(pages - compared - others) == []
    assert sorted((compared | _FORMS) - pages) == [], "pages that are gone"
    assert sorted(compared & others) == []


def test_each_tool_is_compared_or_acts() -> None:
    compared = {tool for each in COMPARISONS.values() for tool in each.tools}
    assert sorted({tool.name for tool in TOOLS.values()} - compared - _TOOLS_THAT_ACT) == []
    assert sorted(compared & _TOOLS_THAT_ACT) == []


# Of whose objects the paths of the API are about that show instances, jobs and what belongs to them.
_OF_THE_POPULATION = re.compile(
    r"instances|/jobs|/bulk|rollouts|change-sets|approvals|/summary|/schedules|organizations/.*/concurrency$|organizations/.*/usage"
)
_ONE_OBJECT = {
    *("list_generations", "read_generation", "list_timeline", "diff_instance", "read_log", "watch_instance"),
    "compare_jobs",  # what differs in two runs has tests of its own
    "list_components",  # the states of components have a table of cases
    *("read_instance_environments", "preview_version", "read_instance_labels", "list_instance_secrets"),
}


def test_each_list_of_the_api_is_compared_or_about_something_else() -> None:
    compared = {operation for each in COMPARISONS.values() for operation in each.operations}
    shown = {each.operation_id for each in ENDPOINTS if each.method == "GET" and _OF_THE_POPULATION.search(each.path)}
    assert sorted(shown - compared - _ONE_OBJECT) == []
    assert sorted((compared | _ONE_OBJECT) - {each.operation_id for each in ENDPOINTS}) == []
