"""The first start: three steps, what each choice makes, and that the samples run. And what empty lists link to."""

import asyncio
import re
from importlib import resources

import httpx
import pytest

from launchbay import documentation
from launchbay.console.shell import GUIDES
from tests.support.eventually import eventually
from tests.support.pages import browser, get
from tests.support.second_factors import post, shown
from tests.support.service import EMAIL, PASSWORD, Api, accepted, fresh_name
from tests.support.templates import template_texts

SAMPLES = resources.files("launchbay.console") / "samples"


async def _organization(api: Api) -> str:
    return str(accepted(await api.post("organizations", {"name": fresh_name("Harbour")}))["id"])


async def test_an_empty_organization_leads_to_its_first_application_and_instance(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    root = f"/console/organizations/{await _organization(api)}"
    assert f"{root}/start" in (await get(visitor, root)).links
    page = await get(visitor, f"{root}/start")
    assert "Three steps to your first running application" in page.text
    wrong = await shown(visitor, f"{root}/start", choice="palace")
    assert wrong.status == 400
    assert "Choose what to begin with." in wrong.text
    made = await post(visitor, f"{root}/start", choice="shop")
    assert isinstance(made, httpx.Response), made.text
    form = await get(visitor, made.headers["location"])
    assert "Launch Sample shop" in form.text
    sent = {"do": "launch", "lifetime": "-1", **{name: form.fields[name] for name in ("instanceName",)}}
    launched = await post(visitor, made.headers["location"], **sent)
    assert isinstance(launched, httpx.Response), launched.text
    done = await get(visitor, f"{root}/start")
    assert any(link.startswith("/console/instances/") for link in done.links)


@pytest.mark.parametrize(
    ("choice", "path"),
    [
        ("empty", "/manifest"),
        ("machine", "/manifest"),
        pytest.param("repository", "/git-sources/new", marks=pytest.mark.features("git_sources")),
    ],
)
async def test_each_choice_opens_the_page_that_comes_next(
    api: Api, visitor: httpx.AsyncClient, choice: str, path: str
) -> None:
    root = f"/console/organizations/{await _organization(api)}"
    for _ in range(2):  # a second one gets a name of its own
        answer = await post(visitor, f"{root}/start", choice=choice)
        assert isinstance(answer, httpx.Response), answer.text
        assert answer.headers["location"].endswith(path)
        assert (await get(visitor, answer.headers["location"])).status == 200


async def test_the_sample_shop_waits_for_its_approval_and_opens(working_service: Api) -> None:
    api = working_service
    application = await api.application((SAMPLES / "shop.yaml").read_text("utf-8"))
    instance = await api.launch(application, parameters={"input.seconds": 0})
    async with asyncio.timeout(20), browser(api) as client:
        await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        asked = await eventually(lambda: api.read(f"instances/{instance}/approvals"))
        assert asked[0]["text"] == "Open the sample shop?"
        await post(
            client, f"/console/approvals/{asked[0]['id']}", do="approve", organization=api.organization, back="/"
        )
    document = await api.settled(instance)
    assert document["status"] == "Running"
    assert document["returnValues"]["result.url"] == "https://shop.example/"


def test_the_documentation_has_every_page_that_the_console_links_to() -> None:
    topics, linked = set(), set()
    for text in template_texts().values():
        topics |= set(re.findall(r'macros\.guide\("([^"]+)"', text))
        linked |= set(re.findall(r'href="/docs/([a-z/-]+)"', text))
    assert {"tutorial", "git"} <= topics
    assert topics <= set(GUIDES)
    assert linked | {GUIDES[topic].page.partition("#")[0] for topic in topics} <= set(documentation.pages())
