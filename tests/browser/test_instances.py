"""The page of an instance, of its jobs, and the list of all of them."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Site, fresh_name
from tests.support.eventually import eventually_blocking
from tests.support.manifests import FAILING_LATE, GREETER


def running(site: Site, name: str = "") -> str:
    """Return an instance that runs."""
    body = {"instanceName": name} if name else {}
    instance = site.launch(site.application(GREETER), parameters={"input.times": 1}, **body)
    assert site.settled(instance)["status"] == "Running"
    return instance


def test_a_failed_job_tells_why_and_is_resumed_from_its_failed_step(page: Page, site: Site) -> None:
    instance = running(site)
    page.goto(f"/console/instances/{instance}/run")
    page.locator("main summary", has_text="actions.stumble").last.click()
    page.get_by_role("button", name="Run actions.stumble").click()
    job = page.locator("#live-job")
    expect(job).to_contain_text("Failed", timeout=40_000)
    expect(page.locator("#why")).to_contain_text("JSON, YAML or CSV")
    job.get_by_role("link", name="actions.stumble").click()
    expect(page.locator("[data-log]")).to_contain_text("fall")
    page.get_by_role("link", name="Resume from fall").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("group", name="Attempt")).to_contain_text("Attempt 2")


def test_a_running_job_is_cancelled(page: Page, site: Site) -> None:
    manifest = "launch: {steps: []}\nlinger: {steps: [{rest: {action: wait, parameters: {delay: 600}}}]}\n"
    instance = site.launch(site.application(manifest))
    site.settled(instance)
    site.ask("POST", f"instances/{instance}/linger", {})
    page.goto(f"/console/instances/{instance}")
    expect(page.locator("#live-job")).to_contain_text("In progress")
    page.get_by_role("button", name="Cancel run").click()
    expect(page.locator("#why")).to_contain_text("Cancelled by", timeout=40_000)


def test_lines_of_the_log_arrive_by_themselves_and_once(page: Page, site: Site) -> None:
    instance = running(site)
    page.goto(f"/console/instances/{instance}")
    expect(page.locator("#side .rows").first.locator("li")).to_have_count(1)
    site.ask("POST", f"instances/{instance}/actions.stumble", {})
    expect(page.locator(".log li").first).to_be_visible(timeout=40_000)
    site.settled(instance)
    expect(page.locator("#live-job")).to_contain_text("Failed")
    ids = page.locator(".log li").evaluate_all("lines => lines.map(line => line.id)")
    assert len(ids) == len(set(ids))


def test_an_argument_that_does_not_fit_is_said_at_its_field(page: Page, site: Site) -> None:
    manifest = """\
application:
  interfaces:
    actions: { grow: bind(web#actions.grow) }
  components:
    web:
      type: workflow.Instance
      interfaces: { actions: { grow: receive-command(int count) } }
      configuration: { configuration.workflows: { grow: { parameters: [ { count: {} } ], steps: [] } } }
"""
    instance = site.launch(site.application(manifest))
    site.settled(instance)
    page.goto(f"/console/instances/{instance}/run?workflow=actions.grow")
    page.get_by_label("count").fill("several")
    page.get_by_role("button", name="Run actions.grow").click()
    expect(page.locator(".field-error")).to_contain_text("Expected")
    expect(page.get_by_label("count")).to_have_value("several")


def test_the_list_is_filtered_and_paged(page: Page, site: Site) -> None:
    name = fresh_name("needle")
    application = site.application("launch: {steps: []}\n")
    instances = [site.launch(application, instanceName=f"{name} {number}") for number in range(55)]
    for instance in instances:
        site.settled(instance)
    page.goto(f"/console/organizations/{site.organization}/instances")
    page.get_by_label("Filter instances").fill(f'"{name.upper()}"')
    page.keyboard.press("Enter")
    page.locator(".facet summary", has_text="Status").click()
    page.get_by_role("link", name="Running", exact=True).click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    shown = set(rows.locator("th a").all_inner_texts())
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(5)
    # Ids have no order within a second, so neither has the list; but every instance is on one of the pages.
    assert shown | set(rows.locator("th a").all_inner_texts()) == {f"{name} {number}" for number in range(55)}
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)
    page.get_by_role("link", name="First page").click()
    expect(rows).to_have_count(50)


def test_no_column_is_cut_on_a_screen_of_1280_pixels(page: Page, site: Site) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    application = site.application(GREETER, "Tides of the harbor and the rollout")
    for number in range(3):
        given = {"parameters": {"input.times": 1}, "labels": {"team": "quay", "berth": "7"}}
        instance = site.launch(application, instanceName=f"Shop (with a back-up running) {number}", **given)
        site.settled(instance)
    site.ask("POST", f"instances/{instance}/actions.stumble", {})
    within = f"organizations/{site.organization}"
    often = {"cron": "*/30 * * * *", "zone": "Europe/Oslo", "instanceId": instance, "workflow": "actions.stumble"}
    site.ask("POST", f"{within}/recurring-schedules", {"name": "Try the failed ones again", **often})
    site.settled(instance)
    cut = "tables => tables.filter(each => each.scrollWidth > each.clientWidth).map(each => each.ariaLabel)"
    for path in ("", "/instances", "/runs", "/recurring", "/schedules?view=list"):
        page.goto(f"/console/{within}{path}")
        expect(page.locator("main .table").first).to_be_visible()
        assert page.locator("main .table").evaluate_all(cut) == [], path


def test_deleting_by_force_is_asked_for_twice(page: Page, site: Site) -> None:
    instance = running(site)
    page.goto(f"/console/instances/{instance}/end")
    page.get_by_role("button", name="Delete records").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Delete even though it isn't destroyed").check()
    page.get_by_role("button", name="Delete records").click()
    page.wait_for_url("**/instances")
    eventually_blocking(lambda: site.api.get(f"instances/{instance}").status_code != 200, within_s=40)


def test_who_looks_on_when_an_instance_is_deleted_is_told(page: Page, site: Site) -> None:
    instance = running(site)
    page.goto(f"/console/instances/{instance}")
    expect(page.locator("#state")).to_contain_text("Running")
    site.ask("DELETE", f"instances/{instance}?force=1")
    expect(page.locator("[sse-swap=over]")).to_contain_text(re.compile("There is no"), timeout=40_000)


def test_a_schedule_of_the_manifest_shows_its_next_runs(page: Page, site: Site) -> None:
    manifest = """\
application:
  components:
    web:
      type: workflow.Instance
      configuration:
        configuration.workflows: { launch: { steps: [] }, sweep: { steps: [] } }
        configuration.schedule: { sweep: "0 0 6 * * ?" }
"""
    instance = site.launch(site.application(manifest), destroyInterval=-1)
    site.settled(instance)
    page.goto(f"/console/instances/{instance}/schedules")
    expect(page.locator("#schedules tbody tr")).to_have_count(1)
    expect(page.locator("#schedules time")).to_have_count(3)


@pytest.mark.slow
def test_a_name_that_turns_the_direction_of_text_leaves_its_neighbors_in_place(page: Page, site: Site) -> None:
    name = f"{fresh_name('Ketch')} \u05e1\u05e4\u05d9\u05e0\u05d4"  # Hebrew
    instance = site.launch(
        site.application("launch: {steps: []}\n" + FAILING_LATE.replace("launch", "break")), instanceName=name
    )
    site.settled(instance)
    site.ask("POST", f"instances/{instance}/break", {})
    site.settled(instance)
    page.goto(f"/console/organizations/{site.organization}")
    row = page.locator("#overview .r-broken", has=page.locator(f"a.name[href$='{instance}']")).first
    own, other = row.locator("a.name").bounding_box(), row.locator(".chip").bounding_box()
    assert own is not None
    assert other is not None
    assert other["x"] >= own["x"] + own["width"] - 1, (own, other)


@pytest.mark.slow
def test_the_menu_of_a_row_opens_over_the_table_and_is_used_by_keyboard(page: Page, site: Site) -> None:
    name = fresh_name("ketch").replace(" ", "-")
    instance = running(site, name)
    page.goto(f"/console/organizations/{site.organization}/instances?q={name}")
    actions = page.get_by_role("link", name=f"Actions for {name}")
    actions.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Open log")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="Run workflow…")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Open log")).to_be_hidden()
    expect(actions).to_be_focused()
    actions.click()
    before = site.ask("GET", f"instances/{instance}")["destroyAt"]
    page.get_by_role("button", name="Extend by 1 day").click()
    expect(page).to_have_url(re.compile(rf"/instances\?q={name}$"))
    assert site.ask("GET", f"instances/{instance}")["destroyAt"] > before
    page.get_by_role("link", name=f"Actions for {name}").click()
    page.get_by_role("link", name="Labels…").click()
    expect(page).to_have_url(re.compile(f"/console/instances/{instance}/settings#labels"))
