"""Tasks of every day by keyboard alone: no test here moves the pointer."""

import re
import time

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import PASSWORD, Site, fresh_name, ready
from tests.support.eventually import eventually_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
MOST_TABS = 160
SHOP = """\
application:
  interfaces:
    input: { visitors: bind(web#input.visitors), api-token: bind(web#input.api-token) }
    actions: { import: bind(web#actions.import), linger: bind(web#actions.linger), ask: bind(web#actions.ask) }
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: { visitors: configuration(int), api-token: configuration(string) }
        actions: { import: "receive-command(string format)", linger: receive-command(), ask: receive-command() }
      configuration:
        input.visitors: 50
        input.api-token: hidden-2291
        configuration.workflows:
          launch: { steps: [] }
          import:
            parameters: [ { format: { default: XLS } } ]
            steps: [ { convert: { action: serialize, parameters: { input: 1, format: "{$.format}" } } } ]
          linger: { steps: [ { rest: { action: wait, parameters: { delay: 600 } } } ] }
          ask: { steps: [ { sign-off: { action: approval, parameters: { text: "Release it?" } } } ] }
"""


@pytest.fixture(scope="module")
def shop(site: Site) -> str:
    return site.application(SHOP, fresh_name("Keyboard shop").replace(" ", "-"))


@pytest.fixture
def instance(site: Site, shop: str) -> str:
    launched = site.launch(shop, instanceName=fresh_name("Keyed").replace(" ", "-"), destroyInterval=3_600_000)
    site.settled(launched)
    return launched


@pytest.fixture
def keys(page: Page) -> Page:
    """A page whose pointer must not be used."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a task by keyboard used the pointer")

    page.mouse.click = refuse  # type: ignore[method-assign]  # for the length of a test
    return page


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until the target has the focus."""
    expect(target.first).to_be_visible()
    for _ in range(MOST_TABS):
        if target.first.evaluate("each => each === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{target} isn't reached in {MOST_TABS} tabs")


def press(page: Page, target: Locator, key: str = "Enter") -> None:
    tab_to(page, target)
    page.keyboard.press(key)


def go(page: Page, letter: str) -> None:
    page.keyboard.press("g")
    page.keyboard.press(letter)


def home(site: Site) -> str:
    return f"/console/organizations/{site.organization}"


def name_of(site: Site, instance: str) -> str:
    return str(site.ask("GET", f"instances/{instance}")["name"])


def failed_run(site: Site, instance: str) -> str:
    site.ask("POST", f"instances/{instance}/actions.import", {})
    site.settled(instance)
    [job, *_] = site.ask("GET", f"organizations/{site.organization}/jobs?instance={instance}")
    return f"/console/instances/{instance}/jobs/{job['id']}"


def test_the_line_of_a_failure_is_found_from_the_list(keys: Page, site: Site, instance: str) -> None:
    failed_run(site, instance)
    keys.goto(home(site))
    go(keys, "i")
    keys.wait_for_url(re.compile("/instances$"))
    keys.keyboard.press("/")
    keys.keyboard.type(name_of(site, instance))
    keys.keyboard.press("Enter")
    keys.wait_for_url(re.compile("q="))
    press(keys, keys.locator("tbody tr a[href*='/jobs/']"))
    expect(keys.locator("#why")).to_contain_text("web · convert failed")
    keys.keyboard.press("n")
    expect(keys.locator("[data-log] li:target")).to_contain_text("expected JSON, YAML or CSV")


def test_a_failed_run_is_resumed_with_another_parameter(keys: Page, site: Site, instance: str) -> None:
    keys.goto(failed_run(site, instance))
    keys.keyboard.press("r")
    tab_to(keys, keys.locator("dialog[open]").get_by_label("format"))
    keys.keyboard.press("Control+a")
    keys.keyboard.type("JSON")
    press(keys, keys.locator("dialog[open]").get_by_role("button", name="Resume", exact=True))
    expect(keys.locator(".head").get_by_role("status")).to_contain_text("Succeeded")


def test_a_run_is_cancelled_while_its_page_changes(keys: Page, site: Site, instance: str) -> None:
    site.ask("POST", f"instances/{instance}/actions.linger", {})
    [job, *_] = site.ask("GET", f"organizations/{site.organization}/jobs?instance={instance}")
    keys.goto(f"/console/instances/{instance}/jobs/{job['id']}?do=cancel")
    dialog = keys.locator("dialog[open]")
    expect(dialog).to_contain_text("Cancel run")
    # The first live update comes at once, more with every change; the question stays.
    keys.wait_for_timeout(1500)
    expect(dialog).to_be_visible()
    press(keys, dialog.get_by_role("button", name="Cancel run"))
    expect(keys.locator(".head").get_by_role("status")).to_contain_text("Cancelled", timeout=60_000)


def test_a_step_is_approved(keys: Page, site: Site, instance: str) -> None:
    site.ask("POST", f"instances/{instance}/actions.ask", {})
    eventually_blocking(lambda: site.ask("GET", f"instances/{instance}/approvals"), within_s=40)
    [asked] = site.ask("GET", f"instances/{instance}/approvals")
    keys.goto(home(site))
    go(keys, "a")
    keys.wait_for_url(re.compile("/approvals$"))
    press(keys, keys.locator(f"#approve-{asked['id']}"))
    keys.wait_for_load_state("load")
    site.settled(instance)
    [job, *_] = site.ask("GET", f"organizations/{site.organization}/jobs?instance={instance}")
    assert job["status"] == "Succeeded"


def test_an_application_is_found_in_the_palette_and_launched_with_its_defaults(
    keys: Page, site: Site, shop: str
) -> None:
    known = {row["id"] for row in site.ask("GET", f"applications/{shop}/instances")}
    name = site.ask("GET", f"applications/{shop}")["name"]
    keys.goto(home(site))
    keys.keyboard.press("Control+k")
    keys.keyboard.type(name)
    expect(keys.locator("#palette-list [role=option]").first).to_contain_text(name)
    keys.keyboard.press("Enter")
    keys.wait_for_url(re.compile(f"/applications/{shop}"))
    press(keys, keys.get_by_role("main").get_by_role("link", name=re.compile("^Launch")))
    keys.wait_for_url(re.compile("/launch"))
    press(keys, keys.get_by_role("button", name="Launch", exact=True))
    keys.wait_for_url(re.compile("/console/instances/"))
    assert len({row["id"] for row in site.ask("GET", f"applications/{shop}/instances")} - known) == 1


def test_a_parameter_is_changed_after_a_preview(keys: Page, site: Site, instance: str) -> None:
    keys.goto(f"/console/instances/{instance}/configuration")
    tab_to(keys, keys.locator("[id='parameter:input.visitors']"))
    keys.keyboard.press("Control+a")
    keys.keyboard.type("2000")
    press(keys, keys.get_by_role("button", name=re.compile("Show difference|Preview")))
    expect(keys.locator("#preview")).to_contain_text("2000")
    with keys.expect_navigation():
        press(keys, keys.get_by_role("button", name=re.compile("^Apply")))
    assert site.settled(instance)["parameters"]["input.visitors"] == 2000


def test_what_expires_is_extended(keys: Page, site: Site, instance: str) -> None:
    # Sooner than what other tests launched: the overview names a few.
    before = int((time.time() + 600) * 1000)
    site.ask("PUT", f"instances/{instance}/destroyAt", {"destroyAt": before})
    keys.goto(home(site))
    press(keys, keys.get_by_role("button", name=f"+1 day for {name_of(site, instance)}"))
    keys.wait_for_load_state("load")
    expect(keys.get_by_role("status").first).to_be_visible()
    assert site.ask("GET", f"instances/{instance}")["destroyAt"] > before + 80_000_000


def test_many_instances_are_selected_for_one_act(keys: Page, site: Site, shop: str) -> None:
    mark = fresh_name("Row").replace(" ", "-")
    for number in range(3):
        site.settled(site.launch(shop, instanceName=f"{mark}-{number}"))
    keys.goto(f"{home(site)}/instances?q={mark}")
    for key in ("j", "x", "j", "j", "Shift+X"):
        keys.keyboard.press(key)
    expect(keys.locator("tbody input:checked")).to_have_count(3)
    expect(keys.locator(".bulk")).to_contain_text("3")


def test_who_changed_a_role_is_found(keys: Page, site: Site) -> None:
    name = fresh_name("crew")
    root = f"organizations/{site.organization}"
    role = site.ask("POST", f"{root}/roles", {"name": name, "permissions": "- Read: [/*]\n"})["id"]
    site.ask("PUT", f"roles/{role}", {"name": name, "permissions": "- Read: [/applications/*]\n"})
    keys.goto(home(site))
    go(keys, "l")
    keys.wait_for_url(re.compile("/audit"))
    expect(keys.get_by_role("main")).to_contain_text(name)
    expect(keys.get_by_role("main")).to_contain_text("Administrator")


def test_a_role_is_written_with_who_gains_what_and_saved(keys: Page, site: Site) -> None:
    name = fresh_name("crew")
    root = f"organizations/{site.organization}"
    role = site.ask("POST", f"{root}/roles", {"name": name, "permissions": "- Read: [/*]\n"})["id"]
    site.add_user(f"{name.replace(' ', '')}@example.org", "Hedy", f"{PASSWORD} too", [name])
    keys.goto(f"/console/roles/{role}")
    ready(keys)
    tab_to(keys, keys.get_by_label("Name", exact=True))
    keys.keyboard.press("Tab")
    keys.keyboard.press("Control+End")
    keys.keyboard.type("- ViewAudit: [/*]")
    expect(keys.get_by_role("region", name="Gains and losses")).to_contain_text("see the audit log")
    # Tab is text in the editor; Escape, Tab leaves it.
    keys.keyboard.press("Escape")
    keys.keyboard.press("Control+Home")
    keys.evaluate("document.activeElement.blur()")
    press(keys, keys.get_by_role("button", name="Save role"))
    expect(keys.get_by_role("status").first).to_contain_text("Role saved")
    assert "ViewAudit" in site.ask("GET", f"roles/{role}")["permissions"]


def test_a_secret_is_revealed_with_a_reason_and_masked_after_leaving(keys: Page, site: Site, instance: str) -> None:
    keys.goto(f"/console/instances/{instance}/secrets")
    press(keys, keys.get_by_role("link", name=re.compile("^Reveal…")))
    expect(keys.get_by_label("Reason")).to_be_focused()
    keys.keyboard.type("To look at it.")
    keys.keyboard.press("Enter")
    expect(keys.locator("code.shown")).to_have_text("hidden-2291")
    go(keys, "o")
    keys.wait_for_url(re.compile(f"{site.organization}$"))
    keys.goto(f"/console/instances/{instance}/secrets")
    expect(keys.get_by_text("hidden-2291")).to_have_count(0)


def test_a_sleep_window_is_set_and_its_next_turns_are_read(keys: Page, site: Site) -> None:
    shop = site.application(SHOP, fresh_name("Sleepy shop").replace(" ", "-"))
    keys.goto(f"/console/applications/{shop}/settings")
    tab_to(keys, keys.get_by_label("Sleeps at"))
    keys.keyboard.type("20:30")
    tab_to(keys, keys.get_by_label("Wakes at"))
    keys.keyboard.type("06:15")
    press(keys, keys.get_by_label("Fri", exact=True), "Space")
    expect(keys.locator("#sleep-turns")).to_contain_text("20:30:00 UTC")
    press(keys, keys.get_by_role("button", name="Save sleep windows"))
    expect(keys.get_by_role("status").first).to_contain_text("Sleep windows saved")
    [window] = site.ask("GET", f"applications/{shop}/sleep")["windows"]
    assert (window["sleepAt"], window["wakeAt"], window["days"]) == ("20:30", "06:15", ["FRI"])


def test_a_limit_is_set(keys: Page, site: Site) -> None:
    shop = site.application(SHOP, fresh_name("Limited shop").replace(" ", "-"))
    keys.goto(f"/console/applications/{shop}/settings")
    tab_to(keys, keys.get_by_label("Runs at a time of limit 1"))
    keys.keyboard.type("3")
    keys.keyboard.press("Enter")
    expect(keys.get_by_role("status").first).to_contain_text("Limits saved")
    assert [each["limit"] for each in site.ask("GET", f"applications/{shop}/concurrency")["limits"]] == [3]


def test_a_change_set_is_read_and_applied(keys: Page, site: Site, instance: str) -> None:
    root = f"organizations/{site.organization}"
    change = {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": {"input.visitors": 700}}}
    made = site.ask("POST", f"{root}/change-sets", change)["id"]
    keys.goto(home(site))
    go(keys, "a")
    keys.wait_for_url(re.compile("/approvals$"))
    press(keys, keys.get_by_role("link", name=re.compile("^Change sets")))
    keys.wait_for_url(re.compile("/changes$"))
    press(keys, keys.locator(f"a[href$='/changes/{made}']"))
    expect(keys.get_by_role("main")).to_contain_text("700")
    press(keys, keys.get_by_role("main").get_by_role("button", name=re.compile("^Apply")))
    expect(keys.get_by_role("main")).to_contain_text("Applied by", timeout=60_000)
    assert site.settled(instance)["parameters"]["input.visitors"] == 700


def test_a_revision_is_made_of_a_version(keys: Page, site: Site, shop: str) -> None:
    name = fresh_name("spring").replace(" ", "-")
    keys.goto(f"/console/applications/{shop}/revisions")
    press(keys, keys.get_by_role("main").get_by_role("link", name="New revision").first)
    keys.wait_for_url(re.compile("/revisions/new"))
    tab_to(keys, keys.get_by_label(re.compile("^Name")).first)
    keys.keyboard.type(name)
    press(keys, keys.get_by_role("button", name="Save revision"))
    keys.wait_for_url(re.compile(r"/(revisions/\w{24}|revisions)$"))
    assert name in {each["name"] for each in site.ask("GET", f"applications/{shop}/revisions")}


def test_a_git_source_is_made(keys: Page, site: Site) -> None:
    root, name = f"organizations/{site.organization}", fresh_name("source").replace(" ", "-")
    robot = fresh_name("robot")
    account = site.ask("POST", f"{root}/serviceAccounts", {"name": robot, "roles": ["Administrator"]})["id"]
    keys.goto(f"{home(site)}/git-sources/new")
    tab_to(keys, keys.locator("main [name=name]"))
    keys.keyboard.type(name)
    tab_to(keys, keys.locator("[name=url]"))
    keys.keyboard.type("https://git.example.org/harbor.git")
    tab_to(keys, keys.locator("select[name=account]"))
    keys.keyboard.type(robot)
    press(keys, keys.get_by_role("button", name="Create source"))
    keys.wait_for_url(re.compile(r"/git-sources/\w{24}$"))
    expect(keys.get_by_role("heading", level=1)).to_contain_text(name)
    assert site.ask("GET", f"git-sources/{keys.url.rpartition('/')[2]}")["accountId"] == account


def test_signals_are_filtered(keys: Page, site: Site, instance: str) -> None:
    keys.goto(f"/console/instances/{instance}")
    press(keys, keys.get_by_role("link", name="Signals"))
    keys.wait_for_url(re.compile("/signals"))
    keys.keyboard.press("/")
    keys.keyboard.type("nothing-like-this")
    keys.keyboard.press("Enter")
    expect(keys.get_by_role("main")).to_contain_text("No signal matches")
