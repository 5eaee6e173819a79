"""The whole way of a user: sign in, mend a manifest, launch, watch, run, schedule, reconfigure, destroy."""

import re

from playwright.sync_api import Page, expect

from tests.support.browser import Site, fresh_name, paste, ready, sign_in
from tests.support.manifests import BROKEN


def test_from_a_broken_manifest_to_a_destroyed_instance(stranger: Page, site: Site) -> None:
    page, name = stranger, fresh_name("Greeter")
    sign_in(page)
    page.goto(f"/console/organizations/{site.organization}")
    page.get_by_role("link", name="Applications", exact=True).click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create application").click()
    ready(page)

    # A broken manifest shows its error at its line, and cannot be kept.
    paste(page, BROKEN)
    finding = page.locator("#findings li")
    expect(finding).to_contain_text("weit")
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
    expect(page.locator(".cm-lint-marker-error")).to_have_css("mask-image", re.compile("svg"))  # the glyph of failures
    page.get_by_role("button", name="Save version 2").click()
    expect(page.get_by_role("alert")).to_contain_text("was not saved")
    ready(page)

    # The finding leads to the place; mended, it goes.
    page.locator("#findings button").click()
    expect(page.locator(".cm-content")).to_be_focused()
    page.keyboard.press("Delete")
    for _ in range(3):
        page.keyboard.press("Delete")
    page.keyboard.type("wait")
    page.keyboard.press("Escape")
    expect(page.locator("#findings li")).to_have_count(0)
    page.get_by_role("button", name="Save version 2").click()
    expect(page.get_by_role("status")).to_contain_text("Version 2 saved.")

    launch_with_field_errors(page)
    watch_the_launch(page)
    run_and_schedule(page)
    reconfigure(page)
    destroy(page)


def launch_with_field_errors(page: Page) -> None:
    page.get_by_role("link", name="Launch", exact=True).first.click()
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_label("input.times")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field-error")).to_contain_text("Missing required parameter")
    expect(page.get_by_role("alert")).to_contain_text("Fix the highlighted field: ")
    # The preview follows what is typed.
    page.get_by_label("input.times").fill("many")
    expect(page.locator("#preview")).to_contain_text("Expected")
    page.get_by_label("input.times").fill("3")
    page.get_by_label("Whom to greet").fill("harbour")
    page.get_by_label("input.settings").fill('{"tone": "loud"}')
    expect(page.locator("#preview")).not_to_contain_text("Expected")
    expect(page.locator("#preview")).to_contain_text("What starts")
    expect(page.locator("#preview")).to_contain_text("greeter")
    page.get_by_role("button", name="Launch").click()
    page.wait_for_url("**/console/instances/*")


def watch_the_launch(page: Page) -> None:
    """Nothing is loaded again from here on: what comes, comes by itself."""
    page.evaluate("window.stillTheSamePage = true")
    expect(page.locator("#state")).to_contain_text("Running", timeout=40_000)
    expect(page.locator("#component")).to_contain_text("Running")
    steps = page.locator("#live-job .steps li")
    expect(steps).to_have_count(2)
    expect(steps.last).to_contain_text("Succeeded")
    greeting = page.locator("#results")
    expect(greeting).to_contain_text("Hello, harbour!")
    expect(greeting.get_by_role("link")).to_have_attribute("href", "https://greetings.example.org/harbour")
    assert page.evaluate("window.stillTheSamePage") is True


def run_and_schedule(page: Page) -> None:
    page.keyboard.press("w")
    page.get_by_role("link", name="actions.greet…").click()
    page.get_by_label(re.compile(r"^name\b")).fill("Ada")
    page.get_by_role("button", name="Run actions.greet").click()
    expect(page.get_by_role("status").first).to_be_visible()
    expect(page.locator("#side .rows li").first).to_contain_text("actions.greet")
    expect(page.locator("#live-job")).to_contain_text("Succeeded", timeout=40_000)
    expect(page.locator("#results")).to_contain_text("Good day, Ada!")

    page.goto(f"{page.url}/run?workflow=actions.greet")
    page.get_by_label("Another time").nth(1).fill("90")
    page.get_by_role("button", name="Schedule actions.greet").click()
    page.get_by_role("link", name=re.compile("^Schedules 1$")).click()
    schedule = page.locator("#schedules tbody tr")
    expect(schedule).to_contain_text(re.compile("in 1 h (29|30) min"))
    schedule.get_by_label("Minutes from now").fill("30")
    schedule.get_by_role("button", name="Move").click()
    expect(page.locator("#schedules tbody tr")).to_contain_text(re.compile("in (29|30) min"))
    page.locator("#schedules").get_by_role("button", name="Cancel").click()
    expect(page.locator("#schedules")).to_have_count(0)


def reconfigure(page: Page) -> None:
    page.get_by_role("link", name="Configuration", exact=True).click()
    expect(page.get_by_label("Whom to greet")).to_have_value("harbour")
    page.get_by_label("Whom to greet").fill("bay")
    expect(page.get_by_role("button", name=re.compile("Apply .*change"))).to_have_count(0)
    page.get_by_role("button", name="Show difference").click()
    difference = page.locator("#preview")
    expect(difference.locator(".diff-from")).to_have_text("harbour")
    expect(difference.locator(".diff-to")).to_have_text("bay")
    # What is applied is what was looked at.
    page.get_by_label("Whom to greet").fill("quay")
    page.get_by_role("button", name=re.compile("Apply .*change")).click()
    expect(page.get_by_role("alert")).to_contain_text("Check the difference again")
    expect(difference.locator(".diff-to")).to_have_text("quay")
    page.get_by_role("button", name=re.compile("Apply .*change")).click()
    page.wait_for_url(re.compile("/console/instances/[0-9a-f]{24}$"))
    expect(page.locator("#side .rows li").first).to_contain_text("reconfigure")
    expect(page.locator("#live-job")).to_contain_text("Succeeded", timeout=40_000)


def destroy(page: Page) -> None:
    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_label("Expires", exact=True).select_option(label="in 1 day")
    page.get_by_role("button", name="Save expiry").click()
    expect(page.locator(".meta")).to_contain_text(re.compile("in (1 d|23 h)"))
    page.get_by_role("link", name="Destroy…").last.click()
    page.get_by_role("button", name="Destroy Greeter").click()
    expect(page.locator("#state")).to_contain_text("Destroyed", timeout=40_000)
