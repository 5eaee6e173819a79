"""Runs in a browser: from a list to the line of a failure, following a launch, resuming, searching a long log."""

import re

from playwright.sync_api import Page, expect

from tests.support.browser import Site, fresh_name

COMPONENTS = 30
WITHIN_MS = 90_000
# The numbers of the lines in each section of the log.
_NUMBERS = "lists => lists.map(list => [...list.children].map(line => Number(line.id.slice(1))))"
FALLING = """\
application:
  interfaces: { actions: { convert: bind(web#actions.convert) } }
  components:
    web:
      type: workflow.Instance
      interfaces: { actions: { convert: "receive-command(string format)" } }
      configuration:
        configuration.workflows:
          launch: { steps: [] }
          convert:
            parameters: [ { format: { default: XLS } } ]
            steps:
              - prepare: { action: wait, parameters: { delay: 0 } }
              - write: { action: serialize, precedingPhases: [prepare], parameters: { input: 1, format: "{$.format}" } }
              - store: { action: wait, precedingPhases: [write], parameters: { delay: 0 } }
"""


def fleet(delay_s: float, broken: int | None = None) -> str:
    """Return a manifest of 30 components; the launch of one of them fails."""
    lines = ["application:", "  components:"]
    for number in range(COMPONENTS):
        step = f"start: {{ action: wait, parameters: {{ delay: {delay_s} }} }}"
        if number == broken:
            step = "start: { action: serialize, parameters: { input: 1, format: XLS } }"
        workflows = f"{{ launch: {{ steps: [ {{ {step} }} ] }} }}"
        configuration = f"configuration: {{ configuration.workflows: {workflows} }}"
        lines.append(f"    svc-{number:02}: {{ type: workflow.Instance, {configuration} }}")
    return "\n".join(lines) + "\n"


def run_page(site: Site, instance: str) -> str:
    """Return the path of the page of the newest run of an instance."""
    [job, *_] = site.ask("GET", f"organizations/{site.organization}/jobs?instance={instance}")
    return f"/console/instances/{instance}/jobs/{job['id']}"


def test_a_click_leads_from_the_instances_to_the_line_of_a_failure(page: Page, site: Site) -> None:
    name = fresh_name("Harbour").replace(" ", "-")
    instance = site.launch(site.application(fleet(0, broken=17)), instanceName=name)
    site.settled(instance)
    page.goto(f"/console/organizations/{site.organization}/instances?q={name}")
    page.locator("tbody tr a.bad").click()
    expect(page.locator("#why")).to_contain_text("svc-17 · start failed: The parameter 'format' is wrong")
    expect(page.get_by_role("link", name=re.compile("Go to line"))).to_be_visible()
    line = page.locator("[data-log] li:target")
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text("expected JSON, YAML or CSV")
    # The lane of the failure is open, and in view.
    expect(page.locator(".gantt [aria-current]")).to_contain_text("start")


def test_a_launch_of_thirty_components_is_followed_to_its_end(page: Page, site: Site) -> None:
    instance = site.launch(site.application(fleet(4)))
    page.goto(run_page(site, instance))
    page.evaluate("window.stillTheSamePage = true")
    expect(page.locator("h1 + span")).to_contain_text("In progress")
    expect(page.locator(".live")).to_have_text("Live")
    page.locator("#lane-3 summary").click()
    expect(page.locator("h1 + span")).to_contain_text("Succeeded", timeout=WITHIN_MS)
    expect(page.locator(".lane")).to_have_count(COMPONENTS)
    expect(page.locator(".lane > summary svg.g.ok")).to_have_count(COMPONENTS)
    expect(page.locator("#lane-3")).to_have_attribute("open", "")  # what somebody opened stays open
    site.settled(instance)
    written = site.ask("GET", f"instances/{instance}/log")
    expect(page.locator("[data-log] li")).to_have_count(len(written))
    ids = page.locator("[data-log] li").evaluate_all("lines => lines.map(line => line.id)")
    assert len(ids) == len(set(ids))
    expect(page.locator("[data-total]")).to_have_text(f"{len(written)} lines")
    sections = page.locator("[data-log] ol").evaluate_all(_NUMBERS)
    assert all(numbers == sorted(numbers) for numbers in sections), sections
    expect(page.locator("[data-log] summary svg.g.ok")).to_have_count(page.locator("[data-log] summary").count())
    unread = re.match(r"\d+", page.locator("[data-log-end]").text_content() or "0")
    assert unread is not None
    assert int(unread.group()) <= len(written), "each line is new once"
    assert page.evaluate("window.stillTheSamePage") is True


def test_a_run_is_resumed_with_an_edited_parameter_by_keyboard(page: Page, site: Site) -> None:
    instance = site.launch(site.application(FALLING))
    site.settled(instance)
    site.ask("POST", f"instances/{instance}/actions.convert", {"format": "XLS"})
    site.settled(instance)
    page.goto(run_page(site, instance))
    expect(page.locator("#why")).to_contain_text("web · write failed")
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog", name="Resume run #2 from write")
    expect(dialog).to_contain_text("1 step keeps its result")
    expect(dialog).to_contain_text("web · store")
    dialog.get_by_label("format").fill("JSON")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("actions.convert #3")
    expect(page.locator("h1 + span")).to_contain_text("Succeeded", timeout=WITHIN_MS)
    expect(page.get_by_role("group", name="Attempt")).to_contain_text("Attempt 2")
    page.get_by_role("link", name="Attempt 1").click()
    expect(page.locator("h1")).to_have_text("actions.convert #2")


def test_a_long_log_is_searched_folded_and_read_by_line(page: Page, site: Site) -> None:
    steps = ", ".join(f"step-{number}: {{ action: wait, parameters: {{ delay: 0 }} }}" for number in range(300))
    manifest = f"launch: {{ steps: [ {{ {steps.replace(', step-', ' }, { step-')} }} ] }}\n"
    instance = site.launch(site.application(manifest))
    site.settled(instance)
    total = len(site.ask("GET", f"instances/{instance}/log"))
    path = run_page(site, instance)
    page.goto(path)
    lines = page.locator("[data-log] li")
    expect(lines).to_have_count(500)
    page.get_by_role("link", name="Later lines").click()
    expect(lines).to_have_count(total)
    page.keyboard.press("/")
    page.keyboard.type("Step 'step-299' started")
    expect(lines).to_have_count(1)
    expect(lines.locator("mark")).to_have_text("Step 'step-299' started")
    number = lines.first.get_attribute("id") or ""
    page.get_by_label("Search the log").fill("nothing like this")
    expect(page.locator("#log-lines")).to_contain_text("No line matches.")
    page.goto("about:blank")
    page.goto(f"{path}#{number}")
    page.wait_for_url(f"**?line={number[1:]}#{number}")
    expect(page.locator(f"[data-log] #{number}")).to_be_in_viewport()
    page.locator("[data-fold]").click()
    expect(page.locator("[data-log] details[open]")).to_have_count(0)
    page.get_by_role("button", name="Elapsed").click()
    expect(page.locator("[data-log] time").first).to_have_text(re.compile(r"^\+0:"))
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the whole log").click()
    assert download.value.path().read_text("utf-8").count("\n") == total


def test_two_runs_of_an_instance_are_selected_and_compared_also_one_that_has_just_ended(page: Page, site: Site) -> None:
    lingers = "launch: {steps: []}\nlinger: {steps: [{rest: {action: wait, parameters: {delay: 4}}}]}\n"
    instance = site.launch(site.application(lingers))
    site.settled(instance)
    site.ask("POST", f"instances/{instance}/linger", {})
    page.goto(f"/console/instances/{instance}/runs")
    compare = page.get_by_role("button", name="Compare two runs")
    expect(compare).to_be_hidden()
    page.get_by_role("checkbox", name="Select launch #1").check()
    expect(compare).to_be_disabled()
    page.get_by_role("checkbox", name="Select linger #2").check(timeout=WITHIN_MS)
    compare.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("linger: #1 and #2")
