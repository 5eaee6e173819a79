"""Signing in and out, and what every page has."""

import re

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import EMAIL, PASSWORD, Site, sign_in


def test_who_is_not_signed_in_comes_back_to_the_page_that_was_asked_for(stranger: Page, site: Site) -> None:
    wanted = f"/console/organizations/{site.organization}"
    stranger.goto(wanted)
    expect(stranger).to_have_url(re.compile("/console/signIn"))
    stranger.get_by_label("Email address").fill(EMAIL)
    stranger.get_by_label("Password").fill(PASSWORD)
    stranger.get_by_role("button", name="Sign in", exact=True).click()
    expect(stranger).to_have_url(f"{site.url}{wanted}")


def test_a_wrong_password_is_said_and_the_address_is_kept(stranger: Page) -> None:
    stranger.goto("/console/signIn")
    stranger.get_by_label("Email address").fill("nobody@example.org")
    stranger.get_by_label("Password").fill("wrong")
    stranger.get_by_role("button", name="Sign in", exact=True).click()
    expect(stranger.get_by_role("alert")).to_contain_text("email address or the password is wrong")
    expect(stranger.get_by_label("Email address")).to_have_value("nobody@example.org")
    expect(stranger.get_by_label("Password")).to_have_value("")


def test_signing_out_ends_the_session_in_this_browser(stranger: Page) -> None:
    sign_in(stranger)
    stranger.locator("#account-menu summary").click()
    stranger.get_by_role("button", name="Sign out").click()
    expect(stranger.get_by_role("heading", name="Sign in to Launchbay")).to_be_visible()
    stranger.goto("/console/organizations")
    expect(stranger).to_have_url(re.compile("/console/signIn"))


def test_a_chosen_appearance_stays(page: Page) -> None:
    page.goto("/console/organizations")
    page.locator("#account-menu summary").click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/console/organizations")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_first_key_leads_past_the_navigation(page: Page) -> None:
    page.goto("/console/organizations")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()


def test_a_page_that_is_not_there_says_so_with_the_id_of_the_request(page: Page) -> None:
    answer = page.goto("/console/organizations/000000000000000000000000")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("alert")).to_contain_text("There is no organization")
    expect(page.locator("main")).to_contain_text(answer.headers["x-request-id"])


def test_the_cookie_of_a_session_cannot_be_read_by_scripts(page: Page) -> None:
    page.goto("/console")
    [cookie] = [each for each in page.context.cookies() if each["name"] == "launchbay_session"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    assert "launchbay_session" not in page.evaluate("document.cookie")


@pytest.mark.parametrize(
    ("headers", "with_token"),
    [({"Origin": "https://evil.example"}, True), ({"Sec-Fetch-Site": "cross-site"}, True), ({}, False)],
)
def test_a_form_of_another_site_or_without_its_token_is_refused(
    page: Page, site: Site, headers: dict[str, str], *, with_token: bool
) -> None:
    page.goto("/console/organizations")
    token = page.locator("input[name=formToken]").first.get_attribute("value") or ""
    cookies = {each["name"]: each["value"] for each in page.context.cookies()}
    form = {"name": "Stolen", **({"formToken": token} if with_token else {})}
    answer = httpx.post(
        f"{site.url}/console/organizations", data=form, cookies=cookies, headers=headers, trust_env=False
    )
    assert answer.status_code == 403
    assert "Stolen" not in [row["name"] for row in site.ask("GET", "organizations")]


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example", "/api/1/tokens"])
def test_signing_in_leads_to_the_console_alone(site: Site, target: str) -> None:
    form = {"email": EMAIL, "password": PASSWORD, "next": target}
    answer = httpx.post(f"{site.url}/console/signIn", data=form, trust_env=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")


def test_a_new_organization_is_the_callers(page: Page) -> None:
    page.goto("/console/organizations")
    page.get_by_text("New organization").click()
    page.get_by_label("Name").fill("Harbour works")
    page.get_by_role("button", name="Create organization").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator("aside, header").first).to_contain_text("Harbour works")
    expect(page.get_by_role("status")).to_contain_text("Organization created")


def test_the_frame_fits_a_phone(browser: Browser, page: Page, site: Site) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for path in ("/console/organizations", f"/console/organizations/{site.organization}"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


MANIFEST = """\
application:
  interfaces:
    input: { who: bind(web#input.who), api-token: bind(web#input.api-token) }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { who: configuration(string), api-token: configuration(string) } }
      configuration:
        configuration.workflows: { launch: { steps: [] } }
"""


def _sign_in_again(page: Page, email: str = EMAIL, password: str = PASSWORD) -> None:
    expect(page.get_by_role("heading", name="Sign in to Launchbay")).to_be_visible()
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.locator("#account-menu")).to_be_attached()


def _drafts(page: Page) -> str:
    return str(page.evaluate("sessionStorage.getItem('launchbay.draft')"))


@pytest.mark.slow
def test_what_was_typed_is_back_after_the_session_has_ended_except_secrets(stranger: Page, site: Site) -> None:
    page = stranger
    sign_in(page)
    page.goto(f"/console/applications/{site.application(MANIFEST)}/launch")
    page.get_by_label("Name", exact=True).fill("Ferry of Friday")
    page.locator("[name='parameter:input.who']").fill("Mia")
    page.locator("[name='parameter:input.api-token']").fill("salty-tide-0452")
    page.context.clear_cookies(name="launchbay_session")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page).to_have_url(re.compile("/console/signIn"))
    assert "Ferry of Friday" in _drafts(page)
    assert "salty-tide" not in _drafts(page)
    _sign_in_again(page)
    expect(page.get_by_text("What you typed is back, except secrets.")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Ferry of Friday")
    expect(page.locator("[name='parameter:input.who']")).to_have_value("Mia")
    expect(page.locator("[name='parameter:input.api-token']")).to_have_value("")
    page.locator("[name='parameter:input.api-token']").fill("salty-tide-0452")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page).to_have_url(re.compile("/console/instances/"))
    assert "Ferry of Friday" not in _drafts(page), "it was sent"


@pytest.mark.slow
def test_boxes_and_rows_of_a_settings_form_are_back_too(stranger: Page, site: Site) -> None:
    page = stranger
    sign_in(page)
    here = f"/console/applications/{site.application(MANIFEST)}/settings"
    page.goto(here)
    page.get_by_label("Sleeps at").fill("19:30")
    page.get_by_label("Wakes at").fill("06:10")
    page.get_by_role("region", name="Sleep windows").get_by_label("Tue", exact=True).check()
    page.get_by_label("Skip this window").check()
    page.context.clear_cookies(name="launchbay_session")
    page.get_by_role("button", name="Save sleep windows").click()
    _sign_in_again(page)
    expect(page).to_have_url(f"{site.url}{here}")
    expect(page.get_by_label("Sleeps at")).to_have_value("19:30")
    expect(page.get_by_role("region", name="Sleep windows").get_by_label("Tue", exact=True)).to_be_checked()
    expect(page.get_by_role("region", name="Sleep windows").get_by_label("Mon", exact=True)).not_to_be_checked()
    expect(page.get_by_label("Skip this window")).to_be_checked()
    page.get_by_role("button", name="Save sleep windows").click()
    expect(page.get_by_text("Sleep windows saved.")).to_be_visible()
    expect(page.get_by_label("Sleeps at").first).to_have_value("19:30")
    assert "19:30" not in _drafts(page)


@pytest.mark.slow
def test_another_person_and_who_signs_out_leave_nothing_behind(stranger: Page, site: Site) -> None:
    page, email = stranger, "jonas.draft@example.org"
    site.add_user(email, "Jonas", "another long password 9", ["Administrator"])
    here = f"/console/organizations/{site.organization}/environments"

    def typed_and_interrupted() -> None:
        page.goto(here)
        page.locator("main [name=name]").first.evaluate("each => each.closest('details')?.setAttribute('open', '')")
        page.locator("main [name=name]").first.fill("Pier of drafts")

    sign_in(page)
    typed_and_interrupted()
    page.context.clear_cookies(name="launchbay_session")
    page.goto(here)
    assert "Pier of drafts" in _drafts(page)
    _sign_in_again(page, email, "another long password 9")
    assert "Pier of drafts" not in _drafts(page)
    expect(page.locator("main [name=name]").first).to_have_value("")
    typed_and_interrupted()
    page.locator("#account-menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Launchbay")).to_be_visible()
    assert "Pier of drafts" not in _drafts(page)
