"""A refused form: the message is at the field that is wrong, and the summary at the top leads there."""

import re

import httpx
import pytest

from tests.support.pages import Page
from tests.support.second_factors import post, shown
from tests.support.service import PASSWORD, Api, accepted, fresh_name

LONG = "n" * 300
WEBHOOK = {"url": "https://h.example", "event": "status"}
NIGHTLY = {"name": "night", "act": "resume", "cron": "0 2 * * *", "zone": "UTC", "do": "create"}
MANIFEST = """\
application:
  interfaces: { input: { title: bind(web#input.title), size: bind(web#input.size) } }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { title: configuration(string), size: configuration(int) } }
      configuration: { configuration.workflows: { launch: { steps: [] } } }
"""


def assert_marks(page: Page, field: str, message: str) -> None:
    """Check that one control is marked, with its message below it and a link at the top."""
    html = page.answer.text
    assert page.status in {400, 401}
    marked = re.findall(r'<(?:input|select|textarea)\b[^>]*aria-invalid="true"[^>]*>', html)
    assert [re.findall(r'\sname="([^"]*)"', tag) for tag in marked] == [[field]], page.text
    [control] = re.findall(r'\sid="([^"]*)"', marked[0])
    [described] = re.findall(r'aria-describedby="([^"]*)"', marked[0])
    assert described.split()[-1] == f"{control}-error"
    [(_, error)] = re.findall(rf'<(p|div) class="field-error" id="{control}-error">(.*?)</\1>', html, re.DOTALL)
    assert message in error
    alerts = re.findall(r'<div class="why fail" role="alert">.*?</div>', html)
    assert all(f'href="#{control}"' in alert for alert in alerts)


# (address below the organization, fields, the field that is wrong, a part of its message)
OF_ORGANIZATION = {
    "environment": ("environments", {"name": LONG}, "name", "1 to 255 characters"),
    "application": ("applications", {"name": " "}, "name", "1 to 255 characters"),
    "role": ("roles", {"name": LONG, "permissions": ""}, "name", "1 to 255 characters"),
    "permissions of a role": ("roles", {"name": "One", "permissions": "- Fly: [/*]"}, "permissions", "Fly"),
    "user": ("users", {"email": "nobody", "name": "No"}, "email", "Invalid email address"),
    "password of a user": ("users", {"email": "n@n.example", "password": "short"}, "password", "at least"),
    "roles of a user": ("users", {"email": "r@n.example", "role": "Pilot"}, "role", "no role named"),
    "service account": ("serviceAccounts", {"name": LONG}, "name", "1 to 255 characters"),
    "address of a webhook": ("webhooks", {"url": "ftp://x", "event": "status"}, "url", "must be http:// or https://"),
    "secret of a webhook": ("webhooks", {**WEBHOOK, "secret": "s"}, "secret", "bytes"),
    "events of a webhook": ("webhooks", {**WEBHOOK, "event": "rain"}, "event", "rain"),
    "times of a schedule": ("recurring", {**NIGHTLY, "cron": "often"}, "cron", "expected 5 fields"),
    "zone of a schedule": ("recurring", {**NIGHTLY, "zone": "Mars"}, "zone", "Unknown time zone"),
    "delay of a schedule": ("recurring", {**NIGHTLY, "jitter": "some"}, "jitter", "number of minutes"),
}  # fmt: skip
OF_FEATURES = {"webhooks", "recurring"}


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(name, marks=pytest.mark.features(form[0]) if form[0] in OF_FEATURES else ())
        for name, form in OF_ORGANIZATION.items()
    ],
)
async def test_a_refused_form_of_an_organization_marks_its_wrong_field(
    api: Api, visitor: httpx.AsyncClient, form: str
) -> None:
    path, fields, wrong, message = OF_ORGANIZATION[form]
    assert_marks(await shown(visitor, f"/console/organizations/{api.organization}/{path}", **fields), wrong, message)


async def test_a_refused_token_and_service_mark_their_wrong_fields(api: Api, visitor: httpx.AsyncClient) -> None:
    organization = f"/console/organizations/{api.organization}"
    token = {"organization": api.organization, "tokenName": "ci", "days": "many"}
    assert_marks(await shown(visitor, "/console/account/accessTokens", **token), "days", "whole number")
    token |= {"days": "90", "scope": "Fly: [/*]"}
    assert_marks(await shown(visitor, "/console/account/accessTokens", **token), "scope", "Fly")
    service = {"type": "builtin:cobalt_secure_store", "name": LONG}
    assert_marks(await shown(visitor, f"{organization}/services", **service), "name", "1 to 255 characters")


@pytest.mark.features("git_sources")
async def test_a_refused_git_source_marks_its_wrong_field(api: Api, visitor: httpx.AsyncClient) -> None:
    account = {"name": fresh_name("account"), "roles": ["Administrator"]}
    made = accepted(await api.post(f"organizations/{api.organization}/serviceAccounts", account))["id"]
    path = f"/console/organizations/{api.organization}/git-sources"
    sent = {"name": "shop", "account": made, "url": "https://git.example/shop.git", "branch": "main"}
    assert_marks(await shown(visitor, path, **{**sent, "url": "file:///etc"}), "url", "Use https://HOST/PATH")
    assert_marks(await shown(visitor, path, **sent, interval="soon"), "interval", "is not a duration")
    assert_marks(await shown(visitor, path, **sent, application="nowhere"), "application", "No application")


async def test_refused_settings_of_an_instance_mark_their_wrong_fields(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.launch(await api.application("launch: {steps: []}\n"))
    page = f"/console/instances/{instance}"
    assert_marks(await shown(visitor, f"{page}/labels", labels="team=a!b"), "labels", "with one of A-Z")
    lifetime = {"lifetime": "other", "minutes": "soon"}
    assert_marks(await shown(visitor, f"{page}/lifetime", **lifetime), "minutes", "number of minutes")
    assert_marks(await shown(visitor, f"{page}/userData", userData="{"), "userData", "Expected a JSON object")


async def test_refused_rules_and_revisions_of_an_application_mark_their_wrong_fields(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    page = f"/console/applications/{await api.application(MANIFEST)}"
    assert_marks(await shown(visitor, f"{page}/lifetime", default="12"), "default", "Add a unit")
    assert_marks(await shown(visitor, f"{page}/revisions", name=LONG, version="1"), "name", "1 to 255 characters")
    taken = fresh_name("application")
    await api.application(MANIFEST, taken)
    assert_marks(await shown(visitor, f"{page}/name", name=taken), "name", "named")


async def test_a_launch_with_two_wrong_fields_marks_and_counts_both(api: Api, visitor: httpx.AsyncClient) -> None:
    path = f"/console/applications/{await api.application(MANIFEST)}/launch"
    page = await shown(visitor, path, lifetime="-1", **{"parameter:input.size": "many"})
    assert page.answer.text.count('aria-invalid="true"') == 2
    assert "Fix the 2 highlighted fields: input.title, input.size." in page.text
    assert 'href="#parameter:input.size"' in page.answer.text


async def test_a_refused_form_of_a_row_marks_that_row_alone(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.launch(await api.application("launch: {steps: []}\n"))
    page = f"/console/instances/{instance}"
    for minutes in ("60", "90"):
        await post(visitor, f"{page}/run", do="schedule", workflow="launch", minutes=minutes)
    schedules = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
    moved = await shown(visitor, f"{page}/reschedule", schedule=schedules[1]["id"], minutes="soon")
    assert_marks(moved, "minutes", "number of minutes")
    assert f'id="move-{schedules[1]["id"]}-error"' in moved.answer.text
    assert 'value="soon"' in moved.answer.text


async def test_a_wrong_password_and_a_wrong_code_of_a_second_factor_mark_their_fields(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    path = "/console/account/secondFactors"
    assert_marks(await shown(visitor, path, currentPassword="wrong"), "currentPassword", "not the password")
    page = await shown(visitor, path, currentPassword=PASSWORD)
    refused = await shown(visitor, f"{path}/setUp", kind="totp", token=page.fields["token"], code="000000")
    assert_marks(refused, "code", "The code is wrong.")
