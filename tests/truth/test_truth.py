"""What each surface shows of a population is what is in its tables: counts, statuses, reasons, times and names."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from launchbay.app.features import ENDPOINTS, PAGES
from launchbay.mcp.tools import TOOLS
from tests.support.databases import Databases
from tests.support.showcase import NO_PAGES
from tests.support.truth.all import COMPARISONS, differences
from tests.support.truth.of_programs import INSIDE, LISTS
from tests.support.truth.oracle import read_tables
from tests.support.truth.population import TOLD, Population, populated
from tests.support.truth.viewers import viewers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]  # hundreds of instances, read in some thousand requests


@pytest.fixture(scope="module")
async def population(databases: Databases) -> AsyncIterator[Population]:
    async with populated(databases, seed=35, cranes=260) as made:
        yield made


@dataclass
class Read:
    """What all comparisons found, by their names, and what they have read and compared: kinds and names of places."""

    differences: dict[str, list[str]]
    requested: set[tuple[str, str]]
    compared: set[tuple[str, str]]


@pytest.fixture(scope="module")
async def read(population: Population) -> AsyncIterator[Read]:
    async with viewers(population) as views:
        found: dict[str, list[str]] = {name: [] for name in COMPARISONS}

        for view in views:  # one after another: commands of this process share its streams
            for name in COMPARISONS:
                found[name] += await differences(view, name)
        yield Read(
            found,
            set().union(*(view.record.requested for view in views)),
            set().union(*(view.record.compared for view in views)),
        )


@pytest.mark.parametrize("comparison", COMPARISONS)
async def test_what_is_shown_is_so(read: Read, comparison: str) -> None:
    found = read.differences[comparison]
    assert found == [], "\n".join(found[:20])


async def test_the_population_has_what_there_is_to_be_told(population: Population) -> None:
    tables = read_tables(population.url)
    statuses = {row["status"] for row in tables["instances"]}
    assert statuses == {"Requested", "Executing", "Running", "Failed", "Destroying", "Destroyed"}
    assert len(tables["instances"]) > 300
    assert {row["status"] for row in tables["jobs"]} == {"Executing", "Succeeded", "Failed"}
    assert {row["status"] for row in tables["approvals"]} >= {"pending", "approved", "rejected", "withdrawn"}
    assert {row["status"] for row in tables["rollouts"]} == {"Running", "Waiting", "Stopped", "Finished", "Returned"}
    assert {row["status"] for row in tables["bulk_runs"]} == {"Running", "Paused", "Cancelled", "Stopped", "Finished"}
    assert {row["status"] for row in tables["bulk_instances"]} >= {"Waiting", "Running", "Succeeded", "Failed"}
    assert {row["status"] for row in tables["change_sets"]} >= {"Pending", "Ready", "Rejected", "Succeeded"}
    assert {row["version"] for row in tables["instances"]} >= {2, 3, 4}
    assert any(row["is_asleep"] for row in tables["instance_sleeps"])
    assert any((row["error_message"] or "").startswith("Cancelled") for row in tables["jobs"])
    assert len({row["organization_id"] for row in tables["instances"]}) == 2
    assert {row["wait"]["kind"] for row in tables["step_waits"]} == {"retry", "time", *TOLD}
    assert any(row["status"] == "Failed" and row["goes_on"] for row in tables["steps"]), "an ignored failure"
    assert any(not row["is_held"] for row in tables["concurrency_places"])


# Answers that nobody can make less empty here. They are read, and have to be empty.
_NOTHING_THERE = {
    *("list_access_tokens", "list_environment_offers", "list_git_previews", "list_git_syncs", "list_group_roles"),
    *("list_host_keys", "list_instance_secrets", "list_invitations", "list_pending_users", "list_second_factors"),
    *("list_sign_in_blocks", "read_instance_environments"),
}
# What shows nothing of what is stored: the service itself, ways to sign in, files, streams, and what a provider says.
_ABOUT_OTHERS = {
    *("begin_sign_in", "browse_api", "finish_sign_in", "health_live", "health_ready", "invitation_page", "openapi"),
    *("read_issuer", "read_issuer_keys"),
    *("read_metrics", "refresh_token_page", "export_organization", "read_directory", "watch_instance"),
    "export_organization_lines",
    *("read_git_drift", "read_service_impact"),
}
# Tools that change something, check a text, or say why: what they answer is not stored.
_TOOLS_THAT_ACT = {
    *("validate_manifest", "create_application", "upload_manifest", "preview_launch", "launch", "run_workflow"),
    *("read_log", "resume_job", "explain_permission", "propose_change", "apply_change_set"),
    *("show_promotion", "propose_promotion"),
}


def _names(places: set[tuple[str, str]], kind: str) -> set[str]:
    return {name for of, name in places if of == kind}


def test_each_page_is_read_and_compared(read: Read) -> None:
    pages = {route.path for route in PAGES if route.method == "GET"} - NO_PAGES
    assert sorted(pages - _names(read.compared, "page")) == []


def test_each_answer_of_the_api_is_read_and_compared(read: Read) -> None:
    operations = {each.operation_id for each in ENDPOINTS if each.method == "GET"}
    compared = _names(read.compared, "operation")
    assert sorted(operations - compared - _NOTHING_THERE - _ABOUT_OTHERS) == []
    assert sorted(_NOTHING_THERE - _names(read.requested, "operation")) == []
    assert sorted((_NOTHING_THERE | _ABOUT_OTHERS) & compared) == []


def test_each_tool_is_compared_or_acts(read: Read) -> None:
    compared = _names(read.compared, "tool")
    assert sorted({tool.name for tool in TOOLS.values()} - compared - _TOOLS_THAT_ACT) == []
    assert sorted(compared & _TOOLS_THAT_ACT) == []


def test_commands_are_compared_as_tables_and_as_json(read: Read) -> None:
    assert _names(read.compared, "command") >= {"ps", "status"}
    assert _names(read.compared, "command, as JSON") >= {
        *("ps", "status", "job list", "organization jobs", "change-set show"),
        *LISTS,
        *INSIDE,
    }
