"""The API browser at /docs."""

from launchbay.web.endpoints import ENDPOINTS
from tests.support.pages import browser, get
from tests.support.service import Api


async def test_the_page_shows_every_call_and_has_no_script(api: Api) -> None:
    async with browser(api) as visitor:
        page = await get(visitor, "/docs")
    assert page.status == 200
    for endpoint in ENDPOINTS:
        assert f'id="{endpoint.operation_id}"' in page.answer.text
    assert "script" not in page.tags
    policy = page.answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_the_page_leads_to_the_documentation_and_its_search(api: Api) -> None:
    async with browser(api) as visitor:
        page = await get(visitor, "/docs")
    assert 'href="/docs/index"' in page.answer.text
    assert 'action="/docs/search"' in page.answer.text


async def test_a_command_line_of_the_page_carries_the_example_of_the_body(api: Api) -> None:
    async with browser(api) as visitor:
        page = await get(visitor, "/docs")
    assert "-X POST -H 'Content-Type: application/json'" in page.text
    assert '"$LAUNCHBAY/api/1/applications/{appId}/launch"' in page.text
