"""The pages of sources in Git: what they have, and that a plan is approved there."""

import httpx

from tests.support.changes import COMMIT, Stage
from tests.support.network import loopback_server
from tests.support.pages import get
from tests.support.second_factors import post
from tests.support.service import Api, accepted


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
