"""The pages of sources in Git: what they have, their form, and that a plan is approved there."""

import httpx
import pytest

from tests.support.changes import COMMIT, Stage
from tests.support.network import loopback_server
from tests.support.pages import Page, get
from tests.support.second_factors import post, shown
from tests.support.service import Api, accepted, fresh_name


@pytest.fixture(scope="module")
def api(idle_service: Api) -> Api:
    """Nothing runs: pages are what these tests look at."""
    return idle_service


@pytest.mark.slow
async def test_a_plan_is_approved_on_the_page_of_its_source(api: Api, visitor: httpx.AsyncClient) -> None:
    async with loopback_server() as loopback:
        source = await Stage(api, loopback).git_source()
    base = f"/console/organizations/{api.organization}/git-sources"
    assert f'href="{base}/{source}"' in (await visitor.get(base)).text
    page = await get(visitor, f"{base}/{source}")
    assert f"Apply {COMMIT[:10]}" in page.text
    before = accepted(await api.get(f"git-sources/{source}"))["nextAt"]
    answer = await post(visitor, f"{base}/{source}/apply", commit=COMMIT)
    assert isinstance(answer, httpx.Response), answer.text
    assert answer.headers["location"] == f"{base}/{source}"
    assert accepted(await api.get(f"git-sources/{source}"))["nextAt"] != before


async def _account(api: Api) -> str:
    body = {"name": fresh_name("robot"), "roles": ["Administrator"]}
    return str(accepted(await api.post(f"organizations/{api.organization}/serviceAccounts", body))["id"])


async def test_a_source_is_made_changed_paused_and_deleted_on_its_pages(api: Api, visitor: httpx.AsyncClient) -> None:
    base = f"/console/organizations/{api.organization}/git-sources"
    account, application = await _account(api), await api.application("launch: {steps: []}\n")
    name = fresh_name("shop")
    sent = {
        "name": name,
        "account": account,
        "application": application,
        "url": "https://git.example.org/team/shop.git",
        "path": "deploy/manifest.yaml",
        "interval": "5 minutes",
        "applies": "after-approval",
        "instances": "change-set",
    }
    made = await post(visitor, base, **sent)
    assert isinstance(made, httpx.Response), made.text
    page = made.headers["location"]
    source = page.rpartition("/")[2]
    found = accepted(await api.get(f"git-sources/{source}"))
    assert (found["name"], found["intervalMs"], found["branch"]) == (name, 300_000, "main")
    assert (found["applies"], found["instances"], found["applicationId"]) == (
        "after-approval",
        "change-set",
        application,
    )
    form = await get(visitor, f"{page}/settings")
    assert form.fields["interval"] == "5 minutes"
    assert form.fields["url"] == sent["url"]
    changed = {**sent, "interval": "", "branch": "release", "seen": form.fields["seen"]}
    assert isinstance(await post(visitor, f"{page}/settings", **changed), httpx.Response)
    found = accepted(await api.get(f"git-sources/{source}"))
    assert (found["intervalMs"], found["branch"]) == (None, "release")
    # The form was open meanwhile.
    late = await shown(visitor, f"{page}/settings", **changed)
    assert late.status == 412
    assert isinstance(await post(visitor, f"{page}/pause", do="pause"), httpx.Response)
    assert accepted(await api.get(f"git-sources/{source}"))["paused"]
    assert "Resume" in (await get(visitor, page)).text
    assert "What it applied stays" in (await get(visitor, f"{page}/delete")).text
    assert isinstance(await post(visitor, f"{page}/delete"), httpx.Response)
    assert (await api.get(f"git-sources/{source}")).status_code == 404


async def test_a_source_that_makes_no_sense_is_refused_and_stays_in_the_form(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    base = f"/console/organizations/{api.organization}/git-sources"
    right = {"name": fresh_name("shop"), "account": await _account(api), "url": "https://git.example.org/x"}
    for wrong, message in (
        ({"url": "ftp://git.example.org/x"}, "URL: Use https://HOST/PATH"),
        ({"interval": "5"}, "Check every: Add a unit"),
        ({"credential": "deploy"}, "Secret or key pair: Name its vault too"),
        ({"applies": "sometimes"}, "expected after-approval, at-once or change-set"),
        ({"preview_environment": "5f" * 12}, "Lifetime of a preview"),
    ):
        page = await shown(visitor, base, **{**right, **wrong})
        assert page.status == 400, wrong
        assert message in page.text
        assert page.fields["name"] == right["name"]


async def test_secrets_in_parameters_of_previews_are_masked_and_may_be_sent_back(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await api.application("launch: {steps: []}\n")
    vault = {"name": fresh_name("vault"), "typeId": "builtin:cobalt_secure_store", "parameters": {}}
    kept = accepted(await api.post(f"organizations/{api.organization}/services", vault))["id"]
    accepted(await api.post(f"services/{kept}/set-secret", {"arguments": {"name": "hook", "value": "hush-hush-1"}}))
    where = accepted(await api.get(f"organizations/{api.organization}/environments"))[0]["id"]
    parameters = {"input.password": "salty-tide", "input.size": 2}
    body = {
        "name": fresh_name("shop"),
        "accountId": await _account(api),
        "applicationId": application,
        "url": "https://git.example.org/x",
        "path": "m.yaml",
        "forge": "gitea",
        "vault": kept,
        "webhookSecret": "hook",
        "previews": {"environmentId": where, "lifetimeMs": 86_400_000, "parameters": parameters},
        "paused": True,
    }
    source = accepted(await api.post(f"organizations/{api.organization}/git-sources", body))["id"]
    here = f"/console/organizations/{api.organization}/git-sources/{source}/settings"
    page = await get(visitor, here)
    assert "salty-tide" not in page.answer.text
    masked = {name: page.fields[name] for name in ("name", "url", "path", "webhook_secret")}
    name = accepted(await api.get(f"applications/{application}"))["name"]
    assert page.fields["application"] == name
    chosen = {"account": body["accountId"], "application": name, "forge": "gitea", "vault": kept}
    previews = {"preview_environment": where, "preview_lifetime": "2 days"}
    text = '{"input.password": "********", "input.size": 3}'
    sent = {**masked, **chosen, **previews, "preview_parameters": text}
    unknown = await post(visitor, here, **{**sent, "application": "nowhere"})
    assert isinstance(unknown, Page)
    assert "No application 'nowhere'." in unknown.text
    assert isinstance(await post(visitor, here, **sent), httpx.Response)
    found = accepted(await api.get(f"git-sources/{source}"))
    assert found["previews"]["lifetimeMs"] == 2 * 86_400_000
    assert found["previews"]["parameters"] == {"input.password": "********", "input.size": 3}
    assert found["paused"]
