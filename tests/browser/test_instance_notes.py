"""Where an instance is offered as a service, its user data, and what a reader sees of it."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.support.browser import Site, fresh_name, sign_in
from tests.support.manifests import GREETER


def launched(site: Site) -> str:
    instance = site.launch(site.application(GREETER), parameters={"input.times": 1})
    assert site.settled(instance)["status"] == "Running"
    return instance


def test_an_instance_is_offered_as_a_service_and_withdrawn(page: Page, site: Site) -> None:
    instance, name = launched(site), fresh_name("Shop")
    environment = site.ask("POST", f"organizations/{site.organization}/environments", {"name": name})["id"]
    page.goto(f"/console/instances/{instance}/settings")
    page.get_by_label(name).check()
    page.get_by_role("button", name="Save environments").click()
    page.get_by_role("link", name="Overview", exact=True).last.click()
    about = page.locator("#about")
    expect(about).to_contain_text(name)
    expect(page.locator(".meta")).to_contain_text("No expiry")
    about.get_by_role("link", name=name).click()
    page.wait_for_url(f"**/console/environments/{environment}")
    expect(page.get_by_role("heading", name="Instances offered as services")).to_be_visible()
    # One that is offered does not expire, and the page says why it cannot be made to.
    page.goto(f"/console/instances/{instance}/settings")
    page.get_by_label("Expires", exact=True).select_option(label="in 1 day")
    page.get_by_role("button", name="Save expiry").click()
    expect(page.get_by_role("alert")).to_contain_text("offered as a service")
    page.get_by_label(name).uncheck()
    page.get_by_role("button", name="Save environments").click()
    page.goto(f"/console/instances/{instance}")
    expect(about).not_to_contain_text(name)


def test_user_data_is_written_and_its_secrets_stay_covered(page: Page, site: Site) -> None:
    instance = launched(site)
    page.goto(f"/console/instances/{instance}/settings")
    page.locator("summary", has_text="Add notes").click()
    field = page.get_by_label("Notes as a JSON object")
    field.fill("[1]")
    page.get_by_role("button", name="Save notes").click()
    expect(page.get_by_role("alert")).to_contain_text("JSON object")
    expect(field).to_have_value("[1]")
    field.fill('{"owner": "Ada", "ci": {"password": "hidden"}}')
    page.get_by_role("button", name="Save notes").click()
    expect(page.locator("#notes")).to_contain_text("Ada")
    expect(page.locator("#notes")).not_to_contain_text("hidden")
    page.locator("summary", has_text="Change notes").click()
    field.fill(field.input_value().replace("Ada", "Grace"))
    page.get_by_role("button", name="Save notes").click()
    expect(page.locator("#notes")).to_contain_text("Grace")
    kept = site.ask("GET", f"instances/{instance}")["userData"]
    assert kept == {"owner": "Grace", "ci": {"password": "hidden"}}


def test_a_reader_is_offered_nothing_that_would_be_refused(browser: Browser, site: Site) -> None:
    instance = launched(site)
    email = f"{fresh_name('reader').replace(' ', '')}@example.org"
    site.add_user(email, "Reader", "a good password", ["Guest"])
    context = browser.new_context(base_url=site.url)
    try:
        page = context.new_page()
        sign_in(page, email, "a good password")
        expect(page.get_by_role("link", name="Audit log", exact=True)).to_have_count(0)
        page.goto(f"/console/instances/{instance}")
        expect(page.locator("#side .rows").first.locator("li")).to_have_count(1)
        offered = re.compile("Reconfigure|destroy|Run|Schedule|Save|Cancel|Resume|Offer", re.IGNORECASE)
        expect(page.locator("main").get_by_role("button", name=offered)).to_have_count(0)
        expect(page.locator("main .head").get_by_role("link", name=offered)).to_have_count(0)
        page.goto(f"/console/instances/{instance}/settings")
        expect(page.locator("main").get_by_role("button", name=offered)).to_have_count(0)
        expect(page.locator("main")).to_contain_text("you need the permission EditInstance")
        environment = site.ask("GET", f"organizations/{site.organization}/environments")[0]["id"]
        page.goto(f"/console/environments/{environment}")
        expect(page.locator("main")).to_contain_text("you need the permission EditEnvironment")
        expect(page.get_by_role("button", name="Save")).to_have_count(0)
    finally:
        context.close()
