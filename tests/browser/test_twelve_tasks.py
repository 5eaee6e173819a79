"""Twelve tasks of every day on a fleet of 200 instances: how many clicks and seconds each takes.

With LAUNCHBAY_EVIDENCE set to a directory, the figures are written there, for the page console-tasks of the evidence.
"""

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks import machine
from tests.support.browser import Site, fresh_name, ready
from tests.support.eventually import eventually_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FLEET, FAILED = 200, 20
COMPONENTS = 30
WITHIN_S = 240.0
SHOP = """\
application:
  interfaces:
    input: { visitors: bind(web#input.visitors) }
    actions: { import: bind(web#actions.import), ask: bind(web#actions.ask) }
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: { visitors: configuration(int) }
        actions: { import: "receive-command(string format)", ask: receive-command() }
      configuration:
        input.visitors: 50
        configuration.workflows:
          launch: { steps: [] }
          import:
            parameters: [ { format: { default: XLS } } ]
            steps: [ { convert: { action: serialize, parameters: { input: 1, format: "{$.format}" } } } ]
          ask: { steps: [ { sign-off: { action: approval, parameters: { text: "Release it?" } } } ] }
"""


class Fleet(NamedTuple):
    """What the tasks are done on; `failed` are instances whose last run failed."""

    shop: str
    name: str
    instances: list[str]
    failed: list[str]


@dataclass
class Task:
    """A task: what it is, how many clicks it may take, and what it took."""

    what: str
    most_clicks: int
    clicks: int = 0
    fields: int = 0
    seconds: float = 0.0


@dataclass
class Hands:
    """Does a task and counts: a click, a field that is filled, and the time from the first to the goal."""

    page: Page
    done: list[Task] = field(default_factory=list)
    task: Task | None = None
    began: float = 0.0

    def begin(self, what: str, most_clicks: int) -> None:
        self.task = Task(what, most_clicks)
        self.began = time.perf_counter()

    def click(self, target: Locator) -> None:
        assert self.task is not None
        target.first.click()
        self.task.clicks += 1

    def fill(self, target: Locator, text: str) -> None:
        assert self.task is not None
        target.first.fill(text)
        self.task.fields += 1

    def end(self) -> None:
        """Keep the figures of the task, whose goal is in view."""
        assert self.task is not None
        self.task.seconds = round(time.perf_counter() - self.began, 2)
        self.done.append(self.task)
        assert self.task.clicks <= self.task.most_clicks, self.task


@pytest.fixture(scope="module")
def fleet(site: Site) -> Fleet:
    """200 instances in an environment of their own; the last run of 20 of them failed."""
    name = fresh_name("Pier").replace(" ", "-")
    shop = site.application(SHOP, name)
    with ThreadPoolExecutor(4) as pool:
        instances = list(pool.map(lambda at: site.launch(shop, instanceName=f"{name}-{at:03}"), range(FLEET)))
    root = f"organizations/{site.organization}"
    _until(lambda: _count(site, shop, status="Running") == FLEET)
    failed = instances[5::10]
    for instance in failed:
        site.ask("POST", f"instances/{instance}/actions.import", {})
    _until(lambda: _count(site, shop, lastStatus="Failed", status="Running") == FAILED)
    night = {"name": f"{name} nightly", "cron": "0 2 * * *", "instanceId": instances[0], "workflow": "actions.import"}
    site.ask("POST", f"{root}/recurring-schedules", night)
    return Fleet(shop, name, instances, failed)


def _count(site: Site, shop: str, **wanted: str) -> int:
    query = "&".join(f"{name}={value}" for name, value in wanted.items())
    answer = site.api.get(f"organizations/{site.organization}/instances?application={shop}&limit=1&count=true&{query}")
    assert answer.status_code == 200, answer.text
    return int(answer.headers["Launchbay-Total-Count"])


def _until(is_so: Any) -> None:
    eventually_blocking(is_so, within_s=WITHIN_S)


@pytest.fixture(scope="module")
def done() -> Iterator[list[Task]]:
    """What the tests measured, written at their end."""
    found: list[Task] = []
    facts = machine.facts()
    yield found
    if directory := os.environ.get("LAUNCHBAY_EVIDENCE"):
        tasks = [dict(vars(task)) for task in found]
        machine.write(Path(directory) / "console-tasks.json", {"machine": facts, "instances": FLEET, "tasks": tasks})


@pytest.fixture
def hands(page: Page, site: Site, fleet: Fleet, done: list[Task]) -> Hands:
    """Somebody at the overview, where everybody begins."""
    assert len(fleet.instances) == FLEET
    page.goto(f"/console/organizations/{site.organization}")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    return Hands(page, done)


def side(page: Page, name: str) -> Locator:
    """Return an entry of the side navigation."""
    return page.locator(".side").get_by_role("link", name=re.compile(f"^{name}"))


def row(page: Page, name: str) -> Locator:
    return page.locator("tbody tr", has_text=name)


def test_which_of_200_failed_and_why(hands: Hands) -> None:
    page = hands.page
    hands.begin("find which of 200 instances failed, and the line of the log that says why", 2)
    hands.click(page.get_by_role("link", name=re.compile("degraded")))
    expect(page.get_by_role("status").filter(has_text=re.compile(r"\d+ instances"))).to_be_visible()
    hands.click(page.locator("tbody a.bad"))
    expect(page.locator("[data-log] li:target")).to_contain_text("expected JSON, YAML or CSV")
    expect(page.locator("[data-log] li:target")).to_be_in_viewport()
    hands.end()


def test_a_failed_run_is_resumed(hands: Hands, fleet: Fleet) -> None:
    page = hands.page
    page.goto(f"/console/instances/{fleet.failed[0]}")
    hands.begin("resume a failed run with a corrected parameter", 2)
    hands.click(page.locator("#acts").get_by_role("link", name=re.compile("^Resume")))
    hands.fill(page.locator("dialog[open]").get_by_label("format"), "JSON")
    hands.click(page.locator("dialog[open]").get_by_role("button", name="Resume", exact=True))
    expect(page.locator(".head").get_by_role("status")).to_contain_text("Succeeded")
    hands.end()


def test_twenty_are_resumed_at_once(hands: Hands, site: Site, fleet: Fleet) -> None:
    page = hands.page
    site.ask("POST", f"instances/{fleet.failed[0]}/actions.import", {})
    _until(lambda: _count(site, fleet.shop, lastStatus="Failed", status="Running") == FAILED)
    hands.begin("resume twenty failed runs at once, with a corrected parameter", 4)
    hands.click(page.get_by_role("link", name=re.compile("degraded")))
    # Other tests of the same server leave failed runs too.
    hands.fill(page.locator("main input[name=q]:visible"), f"status:running last-run:failed app:{fleet.name}")
    page.keyboard.press("Enter")
    expect(page.locator("main tbody tr")).to_have_count(FAILED)
    hands.click(page.get_by_label("Select all on this page"))
    hands.click(page.locator(".bulk").get_by_role("button", name=re.compile("^Resume")))
    hands.fill(page.get_by_label("format"), "JSON")
    hands.click(page.get_by_role("button", name=re.compile("^Resume")))
    expect(page.locator("main")).to_contain_text(re.compile("Finished"), timeout=120_000)
    hands.end()
    assert _count(site, fleet.shop, lastStatus="Failed", status="Running") == 0


def test_a_launch_of_30_components_is_followed_to_its_end(hands: Hands, site: Site) -> None:
    page = hands.page
    step = "start: { action: wait, parameters: { delay: 2 } }"
    workflows = f"{{ launch: {{ steps: [ {{ {step} }} ] }} }}"
    lines = [
        f"    svc-{number:02}: {{ type: workflow.Instance, configuration: {{ configuration.workflows: {workflows} }} }}"
        for number in range(COMPONENTS)
    ]
    wide = site.application("\n".join(["application:", "  components:", *lines]) + "\n", fresh_name("Wide"))
    site.launch(wide, instanceName=fresh_name("Wide launch").replace(" ", "-"))
    page.reload()
    hands.begin(f"follow a launch of {COMPONENTS} components to its end", 1)
    hands.click(page.locator("section", has=page.locator("#h-now")).get_by_role("link", name=re.compile("^launch")))
    expect(page.locator("h1 + span")).to_contain_text("Succeeded", timeout=90_000)
    expect(page.locator(".lane > summary svg.g.ok")).to_have_count(COMPONENTS)
    hands.end()


def test_a_parameter_is_changed_with_a_preview(hands: Hands, site: Site, fleet: Fleet) -> None:
    page, instance = hands.page, fleet.instances[1]
    page.goto(f"/console/instances/{instance}")
    hands.begin("change a parameter after its preview", 3)
    hands.click(page.get_by_role("link", name="Configuration", exact=True))
    hands.fill(page.locator("[id='parameter:input.visitors']"), "2000")
    hands.click(page.get_by_role("button", name="Show difference"))
    expect(page.locator("#preview .diff-to")).to_have_text("2000")
    hands.click(page.get_by_role("button", name=re.compile("^Apply")))
    expect(page.locator("#live-job")).to_contain_text("Succeeded")
    hands.end()
    assert site.settled(instance)["parameters"]["input.visitors"] == 2000


def test_what_a_new_version_changes_is_seen(hands: Hands, fleet: Fleet) -> None:
    page = hands.page
    hands.begin("see which instances a new version changes, before it is saved", 2)
    hands.click(side(page, "Applications"))
    hands.click(page.get_by_role("main").get_by_role("link", name=f"Manifest of {fleet.name}", exact=True))
    ready(page)
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("\n# one more line")
    assert hands.task is not None
    hands.task.fields += 1
    expect(page.get_by_role("main")).to_contain_text(re.compile(r"\d+ of 20\d instances"))
    hands.end()


def test_a_change_is_rolled_back(hands: Hands, site: Site, fleet: Fleet) -> None:
    page, instance = hands.page, fleet.instances[2]
    site.ask("PUT", f"instances/{instance}/configuration", {"parameters": {"input.visitors": 9}})
    site.settled(instance)
    page.goto(f"/console/instances/{instance}")
    hands.begin("roll a change back", 3)
    hands.click(page.get_by_role("link", name="Configuration", exact=True))
    hands.click(page.locator("#generations").get_by_role("link", name=re.compile("^Roll back")))
    hands.click(page.get_by_role("button", name=re.compile("^Roll back")))
    expect(page.locator("#live-job")).to_contain_text("Succeeded")
    hands.end()
    assert site.settled(instance)["parameters"]["input.visitors"] == 50


def test_a_step_is_approved(hands: Hands, site: Site, fleet: Fleet) -> None:
    page, instance = hands.page, fleet.instances[3]
    site.ask("POST", f"instances/{instance}/actions.ask", {})
    _until(lambda: site.ask("GET", f"instances/{instance}/approvals"))
    [asked] = site.ask("GET", f"instances/{instance}/approvals")
    hands.begin("approve a step", 2)
    hands.click(side(page, "Approvals"))
    hands.click(page.locator(f"#approve-{asked['id']}"))
    expect(page.get_by_role("status").first).to_contain_text(re.compile("[Aa]pproved"))
    hands.end()
    site.settled(instance)
    [job, *_] = site.ask("GET", f"organizations/{site.organization}/jobs?instance={instance}")
    assert job["status"] == "Succeeded"


def test_a_schedule_is_paused(hands: Hands, fleet: Fleet) -> None:
    page = hands.page
    hands.begin("pause a schedule", 3)
    hands.click(side(page, "Schedules"))
    hands.click(page.get_by_role("main").get_by_role("link", name="Recurring"))
    hands.click(row(page, f"{fleet.name} nightly").get_by_role("button", name=re.compile("^Pause")))
    expect(row(page, f"{fleet.name} nightly")).to_contain_text("Paused")
    hands.end()


def test_who_changed_a_role_is_found_out(hands: Hands, site: Site) -> None:
    page, name, root = hands.page, fresh_name("crew").replace(" ", "-"), f"organizations/{site.organization}"
    role = site.ask("POST", f"{root}/roles", {"name": name, "permissions": "- Read: [/*]\n"})["id"]
    site.ask("PUT", f"roles/{role}", {"name": name, "permissions": "- Read: [/applications/*]\n"})
    hands.begin("find out who changed a role", 1)
    hands.click(side(page, "Audit log"))
    hands.fill(page.get_by_label("Filter the audit log"), name)
    page.keyboard.press("Enter")
    expect(page.locator(".feed li").first).to_contain_text(re.compile(f"Administrator updated role {name}|changed"))
    expect(page.locator(".feed li").first).to_contain_text("/applications/*")
    hands.end()


def test_what_expires_today_is_extended(hands: Hands, site: Site, fleet: Fleet) -> None:
    page, instance = hands.page, fleet.instances[4]
    before = int((time.time() + 300) * 1000)
    site.ask("PUT", f"instances/{instance}/destroyAt", {"destroyAt": before})
    page.reload()
    hands.begin("extend what expires today", 1)
    hands.click(page.get_by_role("button", name=f"+1 day for {fleet.name}-004"))
    expect(page.get_by_role("status").first).to_contain_text("saved")
    hands.end()
    assert site.ask("GET", f"instances/{instance}")["destroyAt"] > before + 80_000_000


def test_an_application_is_launched_with_its_defaults(hands: Hands, fleet: Fleet) -> None:
    page = hands.page
    hands.begin("launch an application with its defaults", 3)
    hands.click(side(page, "Applications"))
    hands.click(page.get_by_role("main").get_by_role("link", name=f"Launch {fleet.name}", exact=True))
    hands.click(page.get_by_role("button", name="Launch", exact=True))
    page.wait_for_url(re.compile("/console/instances/[0-9a-f]{24}$"))
    expect(page.locator("#state")).to_contain_text("Running")
    hands.end()
