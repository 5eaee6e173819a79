"""What surrounds every page: navigation, palette, shortcuts, messages, the state of the connection."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Site, fresh_name
from tests.support.manifests import GREETER


@pytest.fixture
def home(site: Site) -> str:
    """The overview of the organization."""
    return f"/console/organizations/{site.organization}"


def test_the_palette_finds_an_application_by_the_beginning_of_its_name(page: Page, site: Site, home: str) -> None:
    name = fresh_name("Quayside")
    application = site.application(GREETER, name)
    page.goto(home)
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    expect(palette.get_by_role("option").first).to_be_visible()
    page.keyboard.type(name[:8].lower())
    first = palette.get_by_role("option", name=name, exact=True)
    expect(first).to_be_visible()
    while first.get_attribute("aria-selected") != "true":
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/applications/{application}")
    # It is offered again, as what was opened last.
    page.goto(home)
    page.get_by_role("button", name="Search or run a command").click()
    expect(palette.get_by_role("option", name=name, exact=True)).to_be_visible()


def test_the_palette_runs_the_commands_of_the_page(page: Page, site: Site, home: str) -> None:
    application = site.application(GREETER)
    page.goto(f"/console/applications/{application}")
    page.keyboard.press("Control+k")
    page.keyboard.type("launch")
    expect(page.get_by_role("option", name="Launch", exact=True)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/applications/{application}/launch")


def test_every_command_of_the_palette_has_a_name(page: Page, site: Site) -> None:
    instance = site.launch(site.application(GREETER), parameters={"input.times": 1})
    site.settled(instance)
    page.goto(f"/console/instances/{instance}")
    page.keyboard.press("Control+k")
    options = page.get_by_role("dialog", name="Command palette").get_by_role("option")
    expect(options.filter(has_text="Run workflow")).to_be_visible()
    assert all(each.strip() for each in options.all_inner_texts())


def test_the_palette_completes_a_command_and_runs_it_on_an_object(page: Page, site: Site, home: str) -> None:
    name = fresh_name("Halyard")
    application = site.application(GREETER, name)
    page.goto(home)
    page.keyboard.press("Control+k")
    page.keyboard.type("edit")
    first = page.get_by_role("option", name="Edit manifest of…")
    expect(first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox")).to_have_value("edit ")
    page.keyboard.type(name)
    expect(page.get_by_role("option", name=f"Edit manifest of {name}")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/applications/{application}/manifest")


def test_the_focus_returns_to_what_was_acted_on_or_to_what_follows(page: Page, site: Site, home: str) -> None:
    root = f"organizations/{site.organization}"
    prefix = fresh_name("Buoy")
    instance = site.launch(site.application("launch: {steps: []}\nsail: {steps: []}\n"))
    site.settled(instance)
    made = [
        site.ask(
            "POST",
            f"{root}/recurring-schedules",
            {"name": f"{prefix} {each}", "cron": "0 7 * * *", "instanceId": instance, "workflow": "sail"},
        )["id"]
        for each in "ab"
    ]
    page.goto(f"{home}/recurring?instance={instance}")
    pause = page.locator(f"form[action$='{made[0]}/pause'] button")
    pause.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Schedule paused")
    expect(page.locator(f"form[action$='{made[0]}/pause'] button")).to_be_focused()
    # What is gone gives the focus to the next of its kind.
    for minutes in (30, 40, 50):
        site.ask("POST", f"instances/{instance}/sail/schedule", {"interval": minutes * 60_000})
    page.goto(f"/console/instances/{instance}/schedules")
    rows = page.locator("#schedules tbody tr")
    expect(rows).to_have_count(3)
    third = rows.nth(2).locator("input[name=schedule]").get_attribute("value")
    rows.nth(1).get_by_role("button", name="Cancel").press("Enter")
    expect(rows).to_have_count(2)
    kept = page.locator("form", has=page.locator(f"input[value='{third}']")).get_by_role("button", name="Cancel")
    expect(kept).to_be_focused()


def test_a_form_with_a_mistake_gives_the_mistake_the_focus(page: Page, site: Site) -> None:
    application = site.application(GREETER)
    page.goto(f"/console/applications/{application}/launch")
    page.get_by_role("button", name="Launch", exact=True).press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    focused = page.evaluate("document.activeElement.getAttribute('aria-invalid') ?? document.activeElement.role")
    assert focused in {"true", "alert"}


def test_the_log_of_an_instance_opens_at_the_failure(page: Page, site: Site) -> None:
    steps = " ".join(f"{{ s{number}: {{ action: wait, parameters: {{ delay: 0 }} }} }}," for number in range(20))
    broken = f"launch: {{ steps: [ {steps} {{ end: {{ action: serialize, parameters: {{ format: XLS }} }} }} ] }}\n"
    instance = site.launch(site.application(broken))
    site.settled(instance)
    page.goto(f"/console/instances/{instance}")
    expect(page.locator("ol.log .error").last).to_be_visible()
    inside = page.evaluate(
        """() => {
        const log = document.querySelector("ol.log").getBoundingClientRect();
        const line = [...document.querySelectorAll("ol.log .error")].at(-1).getBoundingClientRect();
        return log.top <= line.top && line.top < log.bottom;
    }"""
    )
    assert inside is True


def test_a_page_asks_for_six_files_at_first_and_then_for_itself_alone(page: Page, home: str) -> None:
    asked: list[str] = []
    page.on("response", lambda response: asked.append(response.url))
    page.goto(home)
    page.wait_for_load_state("load")
    first = {url for url in asked if "/events" not in url}
    assert len(first) <= 6, first
    page.goto(f"{home}/instances")
    page.wait_for_load_state("load")
    sizes = page.evaluate(
        """performance.getEntriesByType("resource").filter(each => each.transferSize > 0).map(each => each.name)"""
    )
    assert [url for url in sizes if "/events" not in url] == [], "all others are kept by the browser"


def test_escape_leaves_the_palette(page: Page, home: str) -> None:
    page.goto(home)
    opener = page.get_by_role("button", name="Search or run a command")
    opener.click()
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def test_two_keys_lead_to_a_section_unless_single_keys_are_off(page: Page, home: str) -> None:
    page.goto(home)
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url("**/environments")
    page.locator("#account-menu summary").click()
    page.locator("#account-menu").get_by_role("button", name="Off").click()
    expect(page.locator("html")).to_have_attribute("data-keys", "off")
    page.keyboard.press("?")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.keyboard.press("Control+k")  # works as before, with a modifier
    expect(page.get_by_role("dialog", name="Command palette")).to_be_visible()
    expect(page).to_have_url(re.compile("/environments$"))
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_have_count(0)


def test_keys_in_a_field_are_text(page: Page, home: str) -> None:
    page.goto(f"{home}/instances")
    page.keyboard.press("/")
    field = page.locator("main input[type=search]")
    expect(field).to_be_focused()
    field.fill("")
    page.keyboard.type("t?gi")
    expect(field).to_have_value("t?gi")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(re.compile("/instances$"))


def test_rows_are_reached_and_opened_by_keys(page: Page, home: str) -> None:
    page.goto(f"{home}/roles")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    focused = page.locator("tbody tr[data-focus]")
    expect(focused).to_have_count(1)
    name = focused.get_by_role("link").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/roles/*")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_the_theme_and_the_density_change_by_key_and_stay(page: Page, home: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(home)
    for key in ("t", "d"):
        with page.expect_response("**/console/theme"):
            page.keyboard.press(key)
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")


def test_shortcuts_are_listed(page: Page, home: str) -> None:
    page.goto(home)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Search or run a command")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_lost_connection_is_said_and_comes_back(page: Page, site: Site) -> None:
    instance = site.launch(site.application(GREETER), parameters={"input.times": 1})
    site.settled(instance)
    page.route("**/events?*", lambda route: route.abort())
    page.goto(f"/console/instances/{instance}")
    expect(page.get_by_text("Offline", exact=True)).to_be_visible()
    expect(page.get_by_text("Connection lost")).to_be_visible()
    page.unroute_all()
    expect(page.get_by_text("Live", exact=True)).to_be_visible(timeout=60_000)
    expect(page.get_by_text("Connection lost")).to_be_hidden()


def test_a_phone_reaches_every_section(page: Page, home: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(home)
    expect(page.get_by_role("complementary", name="Navigation")).to_be_hidden()
    bar = page.get_by_role("navigation", name="Main, on a phone")
    bar.get_by_role("link", name="Instances").click()
    page.wait_for_url("**/instances")
    bar.locator("summary").click()
    bar.get_by_role("link", name="Webhooks").click()
    page.wait_for_url("**/webhooks")
