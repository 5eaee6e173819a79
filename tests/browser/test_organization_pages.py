"""Environments, services, roles, users, tokens, webhooks and the audit log."""

import re
import time

import httpx
from playwright.sync_api import Page, expect

from tests.support.browser import EMAIL, PASSWORD, Site, fresh_name, paste, ready, sign_in


def test_an_environment_is_filled(page: Page, site: Site) -> None:
    page.goto(f"/console/organizations/{site.organization}/environments")
    page.get_by_label("Name").fill(fresh_name("Staging"))
    page.get_by_role("button", name="Create environment").click()
    page.wait_for_url("**/console/environments/*")
    environment = page.url.rpartition("/")[2]
    ready(page)
    paste(page, "policies: [broken")
    page.get_by_role("button", name="Save policies").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("line", re.IGNORECASE))
    ready(page)
    paste(page, "policies:\n  wait.delay: 0\n")
    page.get_by_role("button", name="Save policies").click()
    expect(page.get_by_role("status")).to_contain_text("Policies saved")
    page.get_by_label("Markers", exact=True).fill("gpu\nfast disk\n")
    page.get_by_role("button", name="Save markers").click()
    expect(page.get_by_role("status")).to_contain_text("Markers saved")
    page.get_by_label("Name of property 1").fill("hosts")
    page.get_by_label("Type of property 1").fill("list<string>")
    page.get_by_label("Value of property 1").fill('["a", "b"]')
    page.get_by_label("Name of property 2").fill("password")
    page.get_by_label("Value of property 2").fill("hidden")
    page.get_by_role("button", name="Save properties").click()
    expect(page.get_by_label("Name of property 4")).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("hidden")
    # What is not shown stays as it is when the rest is kept again.
    page.get_by_role("button", name="Save properties").click()
    expect(page.get_by_role("status")).to_contain_text("Properties saved")
    page.get_by_label("Default credentials service").check()
    page.get_by_role("button", name="Save services").click()
    expect(page.get_by_role("status")).to_contain_text("Services saved")
    assert [row["name"] for row in site.ask("GET", f"environments/{environment}/markers")["markers"]] == [
        "gpu",
        "fast disk",
    ]
    kept = site.ask("GET", f"environments/{environment}/properties")["properties"]
    assert {row["name"]: row["value"] for row in kept} == {"hosts": ["a", "b"], "password": "hidden"}
    assert len(site.ask("GET", f"environments/{environment}/services")["services"]) == 1


def test_a_service_is_made_changed_and_commanded(page: Page, site: Site) -> None:
    page.goto(f"/console/organizations/{site.organization}/services")
    page.get_by_label("Type", exact=True).select_option("builtin:static_resource_pool")
    page.get_by_role("button", name="Choose").click()
    page.get_by_label("Name").fill(fresh_name("Pool"))
    resources = page.locator("[id='parameter:configuration.resources']")
    resources.fill("not json")
    page.get_by_role("button", name=re.compile("^Create ")).click()
    expect(page.locator(".field-error").first).to_be_visible()
    resources.fill('{"one": {"ip": "192.0.2.1"}}')
    page.get_by_role("button", name=re.compile("^Create ")).click()
    page.wait_for_url("**/console/services/*")
    expect(page.get_by_role("status")).to_contain_text("Service created")
    expect(resources).to_have_value(re.compile("192.0.2.1"))


def test_a_role_is_edited_and_its_effect_explained(page: Page, site: Site) -> None:
    user = site.ask(
        "POST",
        f"organizations/{site.organization}/users",
        {"email": f"{fresh_name('ada').replace(' ', '')}@example.org", "name": "Ada", "password": "a good password"},
    )["id"]
    name = fresh_name("Operators")
    page.goto(f"/console/organizations/{site.organization}/roles")
    ready(page)
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create role").click()
    expect(page.get_by_role("status").first).to_contain_text("Role created")
    site.ask("PUT", f"organizations/{site.organization}/users/{user}/roles", [name])
    application = site.application()

    def ask() -> None:
        page.get_by_label("User").fill(user)
        page.get_by_label("Permission", exact=True).select_option("EditApplication")
        page.get_by_label("Path", exact=True).fill(f"/applications/{application}")
        page.get_by_role("button", name="Explain").click()

    ask()
    explanation = page.locator("#explanation")
    expect(explanation).to_contain_text("Not allowed.")
    ready(page)
    paste(page, "- Read: [/*]\n- EditAplication: [/applications/*]\n")
    page.get_by_role("button", name="Save role").click()
    expect(page.locator("#permissions-error")).to_contain_text("EditAplication")
    ready(page)
    paste(page, "- Read: [/*]\n- EditApplication: [/applications/*]\n")
    page.get_by_role("button", name="Save role").click()
    expect(page.get_by_role("status").first).to_contain_text("Role saved")
    ask()
    expect(explanation).to_contain_text("Allowed.")
    expect(explanation).to_contain_text(name)
    expect(explanation).to_contain_text("/applications/*")


def test_an_invited_user_signs_in_and_sees_what_their_role_lets_them(page: Page, stranger: Page, site: Site) -> None:
    email = f"{fresh_name('grace').replace(' ', '')}@example.org"
    page.goto(f"/console/organizations/{site.organization}/users")
    page.get_by_role("link", name="Invite…").click()
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Name", exact=True).fill("Grace")
    page.get_by_label("Guest").check()
    page.get_by_role("button", name="Invite", exact=True).click()
    link = page.locator(".new-secret code").inner_text()
    stranger.goto(link)
    stranger.get_by_label("Password", exact=True).fill("a good password")
    stranger.get_by_label("Repeat password").fill("a good password")
    stranger.get_by_role("button", name="Set password").click()
    sign_in(stranger, email, "a good password")
    stranger.goto(f"/console/organizations/{site.organization}/applications")
    expect(stranger.get_by_role("heading", name="Applications")).to_be_visible()
    expect(stranger.get_by_role("button", name="Create application")).to_have_count(0)
    page.get_by_role("link", name="Grace").first.click()
    page.get_by_label("Guest").uncheck()
    page.get_by_role("button", name="Save roles").click()
    expect(page.get_by_role("status")).to_contain_text("Roles saved")
    expect(page.get_by_label("Guest")).not_to_be_checked()


def test_a_refresh_token_is_made_on_its_page_listed_and_revoked(stranger: Page, site: Site) -> None:
    label = fresh_name("build server")
    stranger.goto("/refreshToken")
    stranger.get_by_label("Email address").fill(EMAIL)
    stranger.get_by_label("Password").fill(PASSWORD)
    stranger.get_by_label("Label").fill(label)
    stranger.get_by_role("button", name="Sign in and generate").click()
    token = stranger.locator("#token").inner_text()
    exchange = f"{site.url}/refreshToken/jwtBearer"
    assert httpx.post(exchange, json={"refreshToken": token}, trust_env=False).status_code == 200
    sign_in(stranger)
    stranger.goto("/console/account")
    row = stranger.locator("#tokens li", has_text=label)
    expect(row).not_to_contain_text(token)
    row.get_by_role("button", name="Revoke").click()
    expect(stranger.get_by_role("status")).to_contain_text("Token revoked")
    assert httpx.post(exchange, json={"refreshToken": token}, trust_env=False).status_code == 401


def test_a_webhook_is_made_and_its_deliveries_are_logged(page: Page, site: Site) -> None:
    page.goto(f"/console/organizations/{site.organization}/webhooks")
    page.get_by_label("URL").fill("http://127.0.0.1:9/hook?token=hidden")
    page.get_by_role("button", name="Create webhook").click()
    expect(page.locator(".new-secret")).to_be_visible()
    site.settled(site.launch(site.application("launch: {steps: []}\n")))
    page.locator("table a.name").last.click()
    expect(page.get_by_label("Enabled", exact=True)).to_be_checked()
    rows = page.locator("tbody tr")
    deadline = time.monotonic() + 40
    while rows.count() == 0:
        assert time.monotonic() < deadline
        page.reload()
    expect(page.locator("main")).not_to_contain_text("token=hidden")
    page.get_by_label("Enabled", exact=True).uncheck()
    page.get_by_role("button", name="Save webhook").click()
    expect(page.get_by_label("Enabled", exact=True)).not_to_be_checked()


def test_the_audit_log_is_filtered_and_shows_the_change(page: Page, site: Site) -> None:
    name = fresh_name("Audited")
    application = site.application(name=name)
    page.goto(f"/console/organizations/{site.organization}/audit")
    page.get_by_label("Filter the audit log").fill(f"by:me on:{application}")
    page.get_by_label("Filter the audit log").press("Enter")
    row = page.locator(".feed li")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(f"created application {name}")
    row.get_by_role("link", name=re.compile("entry")).click()
    expect(page.locator("tbody tr")).to_contain_text(name)
    expect(page.locator("main")).to_contain_text("create_application")


def test_a_password_is_changed_with_the_current_one(stranger: Page, site: Site) -> None:
    email = f"{fresh_name('joan').replace(' ', '')}@example.org"
    given, own = "given to joan by ann", "thirteen quiet ferries"
    person = {"email": email, "name": "Joan", "password": given}
    site.ask("POST", f"organizations/{site.organization}/users", person)
    stranger.goto("/")
    stranger.get_by_label("Email address").fill(email)
    stranger.get_by_label("Password").fill(given)
    stranger.get_by_role("button", name="Sign in", exact=True).click()
    expect(stranger.get_by_role("alert")).to_contain_text("Somebody else chose this password")
    stranger.get_by_label("Password that you were given").fill(given)
    stranger.get_by_label("New password", exact=True).fill(own)
    stranger.get_by_label("Repeat new password").fill(own)
    stranger.get_by_role("button", name="Save password").click()
    sign_in(stranger, email, own)
    stranger.goto("/console/account")
    change(stranger, "wrong")
    expect(stranger.get_by_role("alert")).to_contain_text("not the current password")
    change(stranger, own)
    expect(stranger.get_by_role("status")).to_contain_text("Password changed")


def change(page: Page, current: str) -> None:
    page.get_by_label("Current password").fill(current)
    page.get_by_label("New password", exact=True).fill("seven green bottles of hers")
    page.get_by_label("Repeat new password").fill("seven green bottles of hers")
    page.get_by_role("button", name="Change password").click()


def test_the_page_of_a_role_shows_who_gains_what_while_somebody_types(page: Page, site: Site) -> None:
    name = fresh_name("crew")
    root = f"organizations/{site.organization}"
    role = site.ask("POST", f"{root}/roles", {"name": name, "permissions": "- Read: [/*]\n"})["id"]
    site.add_user(f"{name.replace(' ', '')}@example.org", "Katherine", "a good password", [name])
    page.goto(f"/console/roles/{role}")
    ready(page)
    paste(page, "- Read: [/*]\n- DeleteInstance: [/applications/*]\n")
    check = page.get_by_role("region", name="Gains and losses")
    expect(check).to_contain_text("Katherine")
    expect(check).to_contain_text("delete instances, on /applications/*")
    paste(page, "- Read: [/*]\n- DestroyInstance: [/applications/*]\n")
    expect(page.get_by_text("Line 2, column 3")).to_be_visible()
    assert site.ask("GET", f"roles/{role}")["permissions"] == "- Read: [/*]\n"
