"""Plans on the page of a change set: what deletes first, and an approval that says so."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.databases import Databases
from tests.support.external_services import needs_tofu, tofu_manifest
from tests.support.pages import ORIGIN, Page, browser, get
from tests.support.service import EMAIL, PASSWORD, Api, accepted, running_api

pytestmark = [needs_tofu, pytest.mark.slow]


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


async def sent(visitor: httpx.AsyncClient, path: str, page: Page, **fields: str) -> httpx.Response:
    hidden: dict[str, str] = {name: page.fields[name] for name in ("formToken", "planDigest") if name in page.fields}
    form = {**hidden, **fields}
    return await visitor.post(path, data=form, headers={"Origin": ORIGIN})


async def test_a_planned_destruction_is_shown_and_applied_once_its_deletions_are_allowed(
    api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "made"
    instance = await api.running(tofu_manifest(file), instanceName="Shop <b>")
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        page = await get(visitor, f"/console/instances/{instance}/end")
        answer = await sent(visitor, f"/console/instances/{instance}/end", page, do="save change set", changePlan="1")
        assert answer.status_code == 303, Page(answer).text
        path = answer.headers["location"]
        async with asyncio.timeout(60):
            while "data-refresh" in (page := await get(visitor, path)).attributes:
                await asyncio.sleep(0.2)
        text = " ".join(page.text.split())
        for words in ("What its steps do", "deletes 1", "Deletes 1:", "opentofu 'shop'", "Allow 1 deletion"):
            assert words in text

        refused = await sent(visitor, f"{path}/apply", page)

        assert "The plan deletes" in Page(refused).text
        assert file.exists()
        assert (await sent(visitor, f"{path}/apply", page, allowDeletes="1")).status_code == 303
        await api.settled(instance)
        assert not file.exists()
    change_set = re.sub(r".*/", "", path)
    assert accepted(await api.get(f"change-sets/{change_set}"))["plan"][0]["effects"]["status"] == "Planned"
