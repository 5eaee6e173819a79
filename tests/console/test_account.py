"""The page of the user's own account, and what others see of a user's tokens."""

import httpx
import pytest

from tests.support.pages import browser, get, words_of
from tests.support.second_factors import shown
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person
from tests.support.statements import counted, note_statements


async def test_tokens_of_both_kinds_are_in_one_list(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("laptop")
    body = {"name": name, "scope": ["Read: [/*]"], "days": 3}
    made = accepted(await api.post(f"organizations/{api.organization}/accessTokens", body))["id"]
    page = await get(visitor, "/console/account")
    listed = words_of(page.answer.text.partition('id="tokens"')[2].partition("</section>")[0])
    assert f"{name} Access token Default: See · never used · expires in" in listed
    form = {"formToken": page.fields["formToken"]}
    revoke = f"/console/account/accessTokens/{api.organization}/{made}/revoke"
    assert f'action="{revoke}"' in page.answer.text
    answer = await visitor.post(revoke, data=form, headers={"Origin": str(visitor.base_url)})
    assert answer.status_code == 303
    assert name not in (await get(visitor, "/console/account")).text


async def test_the_page_asks_no_more_for_people_in_many_organizations(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_statements(monkeypatch)
    asked = []
    for _ in range(2):
        await get(visitor, "/console/account")
        with counted() as reads:
            await get(visitor, "/console/account")
        asked.append(len(reads.statements))
        for _ in range(3):
            accepted(await api.post("organizations", {"name": fresh_name("many")}))
    assert asked[1] <= asked[0]


async def test_the_form_of_a_token_keeps_what_was_typed_after_a_mistake(api: Api, visitor: httpx.AsyncClient) -> None:
    within = f"organizations/{api.organization}"
    other = accepted(await api.post("organizations", {"name": fresh_name("island")}))["id"]
    account = accepted(await api.post(f"{within}/serviceAccounts", {"name": fresh_name("robot"), "roles": ["Guest"]}))
    typed = {"organization": other, "tokenName": "deploys at night", "scope": "Read: [/kept*]", "days": "soon"}
    for path in ("account/accessTokens", f"{within}/serviceAccounts/{account['id']}/accessTokens"):
        page = await shown(visitor, f"/console/{path}", **typed)
        assert "Days must be a whole number" in page.text
        assert 'value="deploys at night"' in page.answer.text
        assert ">\nRead: [/kept*]</textarea>" in page.answer.text
        assert 'value="soon"' in page.answer.text
        assert (f'<option value="{other}" selected>' in page.answer.text) == (path == "account/accessTokens")


async def test_who_manages_a_user_sees_what_each_token_allows(api: Api, visitor: httpx.AsyncClient) -> None:
    within = f"organizations/{api.organization}"
    role = {"name": fresh_name("reader"), "permissions": "- Read: [/*]\n"}
    accepted(await api.post(f"{within}/roles", role))
    someone = await person(api, role["name"])
    name = fresh_name("script")
    accepted(
        await someone.post(f"{within}/accessTokens", {"name": name, "scope": ["Read: [/applications/*]"], "days": 3})
    )
    listed = words_of((await get(visitor, f"/console/{within}/users")).answer.text)
    assert "Signs in with Last seen Access tokens" in listed
    page = await get(visitor, f"/console/{within}/users/{someone.id}")
    assert f"{name} See · never used · ends in" in words_of(page.answer.text)
    other = await person(api, role["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": other.email, "password": PERSON_PASSWORD})
        assert name not in (await get(client, f"/console/{within}/users/{someone.id}")).text
