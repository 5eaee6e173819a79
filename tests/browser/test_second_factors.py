"""Passkeys and authenticator applications, with the virtual authenticator of Chromium."""

import re
import time
from base64 import b32decode
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from launchbay.auth.second_factors import totp_code
from tests.support.browser import Site, fresh_name, watch

PASSWORD = "a good password"
TIMEOUT_MS = 30_000


@pytest.fixture
def named(site: Site, browser: Browser) -> Iterator[Page]:
    """A page of a new member, at the host name that passkeys need."""
    opened = browser.new_context(base_url=site.url.replace("127.0.0.1", "localhost"))
    opened.set_default_timeout(TIMEOUT_MS)
    seen = watch(opened)
    yield opened.new_page()
    seen.assert_quiet()
    opened.close()


def member(site: Site) -> str:
    email = f"{fresh_name('key').replace(' ', '')}@example.org"
    site.add_user(email, "Key holder", PASSWORD, ["Guest"])
    return email


def authenticator(page: Page) -> tuple[CDPSession, str]:
    """Plug a security key in, which signs whenever it is asked to."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "usb",
        "hasResidentKey": False,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session, str(added["authenticatorId"])


def enter_password(page: Page, email: str) -> None:
    page.goto("/console/signIn")
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def set_up(page: Page) -> None:
    page.goto("/console/account")
    page.locator("#factorPassword").fill(PASSWORD)
    page.get_by_role("button", name="Add a second factor").click()
    expect(page.get_by_role("heading", name="Set up a second factor")).to_be_visible()


def sign_out(page: Page) -> None:
    page.goto("/console/account")
    page.locator("#account-menu summary").click()
    page.locator("#account-menu").get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in to Launchbay")).to_be_visible()


def test_a_passkey_signs_in_after_the_password_and_a_copy_of_it_does_not(named: Page, site: Site) -> None:
    email = member(site)
    session, key = authenticator(named)
    enter_password(named, email)
    expect(named).to_have_url(re.compile("/console$|/console/organizations/"))
    set_up(named)
    named.locator("#passkey-name").fill("Blue key")
    named.get_by_role("button", name="Create a passkey").click()
    expect(named.locator("#recovery-codes")).to_contain_text("-")
    named.get_by_role("link", name="Continue").click()
    expect(named.locator("#second-factors")).to_contain_text("Blue key")
    expect(named.locator("#second-factors")).to_contain_text("10 recovery codes")
    for _ in range(2):
        sign_out(named)
        enter_password(named, email)
        expect(named.get_by_label("Code")).to_be_focused()  # the empty place for a problem isn't
        named.get_by_role("button", name="Use a passkey").click()
        expect(named).to_have_url(re.compile("/console$|/console/organizations/"))
    [credential] = session.send("WebAuthn.getCredentials", {"authenticatorId": key})["credentials"]
    # A copy counts its signatures from an earlier number on.
    session.send("WebAuthn.removeCredential", {"authenticatorId": key, "credentialId": credential["credentialId"]})
    session.send("WebAuthn.addCredential", {"authenticatorId": key, "credential": {**credential, "signCount": 1}})
    sign_out(named)
    enter_password(named, email)
    named.get_by_role("button", name="Use a passkey").click()
    expect(named.get_by_role("alert").filter(has_text="not accepted")).to_be_visible()


def test_another_key_than_the_own_does_not_sign_in(named: Page, site: Site) -> None:
    email = member(site)
    session, key = authenticator(named)
    enter_password(named, email)
    set_up(named)
    named.get_by_role("button", name="Create a passkey").click()
    expect(named.locator("#recovery-codes")).to_be_visible()
    sign_out(named)
    session.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": key})
    authenticator(named)
    enter_password(named, email)
    named.get_by_role("button", name="Use a passkey").click()
    expect(named.locator("[data-passkey-problem]")).to_contain_text("The passkey was not used. It doesn't belong")
    named.goto("/console/account")
    expect(named).to_have_url(re.compile("/console/signIn"))


def test_an_application_is_set_up_with_its_secret(named: Page, site: Site) -> None:
    email = member(site)
    enter_password(named, email)
    set_up(named)
    expect(named.locator("svg.qr")).to_be_visible()
    secret = b32decode(named.locator("figcaption code").inner_text())
    named.locator("#code").fill(totp_code(secret, int(time.time() // 30)))
    named.get_by_role("button", name="Add the app").click()
    codes = named.locator("#recovery-codes").inner_text().split()
    sign_out(named)
    enter_password(named, email)
    expect(named.get_by_role("button", name="Use a passkey")).not_to_be_visible()
    expect(named.get_by_label("Code")).to_be_focused()
    named.get_by_label("Code").fill("000000")
    named.get_by_role("button", name="Sign in").click()
    expect(named.get_by_role("alert")).to_contain_text("The code is wrong")
    named.get_by_label("Code").fill(codes[0])
    named.get_by_role("button", name="Sign in").click()
    named.goto("/console/account")
    expect(named.locator("#second-factors")).to_contain_text("9 recovery codes")
