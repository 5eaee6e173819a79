"""Who gets which page: every row of the table, as nobody, as an outsider, and without the token of a form."""

import asyncio
import re
from functools import partial

import httpx
import pytest

from launchbay.console.request import PageRoute
from launchbay.fairness.turns import ALONE, TURN_S
from launchbay.store.connection import BoundedConnection
from launchbay.tenants import current_tenant
from tests.support.cases import each_holds
from tests.support.pages import ORIGIN, browser
from tests.support.served import PAGES
from tests.support.service import EMAIL, PERSON_PASSWORD, Api, Person, accepted, fresh_name, person
from tests.support.service import PASSWORD as ADMINISTRATORS

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
OWN = [page for page in PAGES if not page.public]
# Pages about the caller alone: there is nothing in them that could belong to somebody else.
_PERSONAL = {
    "/console/archives",
    "/console",
    "/console/organizations",
    "/console/account",
    "/console/account/accessTokens",
    "/console/account/override-freeze",
    "/console/account/password",
    "/console/account/sign-out-everywhere",
    "/console/account/secondFactors",
    "/console/account/secondFactors/setUp",
    "/console/account/secondFactors/{id}/remove",
    "/console/account/recoveryCodes",
    "/console/account/tokens",
    "/console/signOut",
    "/console/manifests/check",
}
# A part of a page, which shows a refusal in its place.
_EXPLANATION = "/console/organizations/{id}/explanation"


def name_of(page: PageRoute) -> str:
    return f"{page.method} {page.path}"


async def objects(api: Api) -> dict[str, str]:
    """Return the id of one object for each kind of path."""
    application = await api.application()
    instance = await api.launch(application)
    role = accepted(
        await api.post(f"organizations/{api.organization}/roles", {"name": fresh_name("role"), "permissions": "[]"})
    )
    revision = accepted(
        await api.post(f"applications/{application}/revisions", {"name": fresh_name("revision"), "version": 1})
    )
    [service, *_] = accepted(await api.get(f"organizations/{api.organization}/services"))
    [user, *_] = accepted(await api.get(f"organizations/{api.organization}/users"))
    return {
        "organizations": api.organization,
        "applications": application,
        "instances": instance,
        "roles": role["id"],
        "revisions": revision["id"],
        "environments": api.environment,
        "services": service["id"],
        "{user}": user["id"],
    }


def filled(page: PageRoute, known: dict[str, str]) -> str:
    """Return the path of a page of somebody's objects."""
    kind = page.path.split("/")[2] if page.path.count("/") > 1 else ""
    path = page.path.replace("{id}", known.get(kind, "5f" * 12)).replace("{user}", known["{user}"])
    return re.sub(r"\{\w+\}", "5f" * 12, path)


async def test_nobody_gets_a_page_without_signing_in(api: Api) -> None:
    await each_holds(partial(_leads_to_the_sign_in, api), ((each,) for each in OWN), named=name_of)


async def _leads_to_the_sign_in(api: Api, page: PageRoute) -> None:
    path = re.sub(r"\{\w+\}", "5f" * 12, page.path)
    async with browser(api) as client:
        answer = await client.request(page.method, path, headers=FORM if page.method == "POST" else {})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/console/signIn")


async def test_signing_in_leads_back_to_the_page_of_a_form_that_outlived_its_session(api: Api) -> None:
    page = "/console/organizations?sort=name"
    async with browser(api) as client:
        sent = await client.post("/console/organizations", headers={**FORM, "Referer": f"{ORIGIN}{page}"})
        assert sent.headers["location"] == "/console/signIn?next=/console/organizations%3Fsort%3Dname&ended=form"
        part = await client.get(
            f"/console/organizations/{api.organization}/jump?q=a",
            headers={"HX-Request": "true", "Referer": f"{ORIGIN}{page}"},
        )
        assert part.headers["HX-Redirect"] == sent.headers["location"].replace("form", "page")
        assert "The form that you sent was not saved." in (await client.get(sent.headers["location"])).text
        for elsewhere in ("", "https://elsewhere.example//evil.example", "http://["):
            sent = await client.post("/console/organizations", headers={**FORM, "Referer": elsewhere})
            assert sent.headers["location"] == "/console/signIn?ended=form"
        said = (await client.get(part.headers["HX-Redirect"])).text
        assert "Your session ended. Sign in to continue." in said
        assert 'name="next" value="/console/organizations?sort=name"' in said
        assert "Your session ended" not in (await client.get("/console/signIn")).text


async def test_a_page_whose_session_has_ended_says_so_and_leads_back_to_itself(api: Api) -> None:
    page = f"/console/organizations/{api.organization}/runs"
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": EMAIL, "password": ADMINISTRATORS})
        assert (await client.get(page)).status_code == 200
        async with api.database.transaction() as connection:
            await connection.execute("DELETE FROM console_sessions")
        cookies = dict(client.cookies)
        headers = {"Accept": "text/event-stream", "Referer": f"{ORIGIN}{page}"}
        events = await client.get(f"{page}/events", headers=headers)
        target = f"/console/signIn?next={page}&amp;ended=page"
        assert (events.status_code, events.text.splitlines()[0]) == (200, "event: over")
        assert f'<a class="btn" href="{target}">Sign in</a>' in events.text
        client.cookies.update(cookies)
        assert (await client.get(page)).headers["location"] == target.replace("&amp;", "&")


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in OWN if page.method == "POST"], ids=name_of)
async def test_no_form_is_taken_without_its_token(api: Api, visitor: httpx.AsyncClient, page: PageRoute) -> None:
    known = await objects(api)
    for token in ("", "00" * 16):
        answer = await visitor.post(filled(page, known), data={"formToken": token, "name": "Taken"})
        assert answer.status_code == 403, token
        assert "another session" in answer.text


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in OWN if page.path not in {*_PERSONAL, _EXPLANATION}], ids=name_of)
async def test_an_administrator_of_another_organization_gets_nothing(api: Api, page: PageRoute) -> None:
    known = await objects(api)
    _, organization, _ = await api.outsider()
    assert organization != api.organization
    async with browser(api) as client:
        await _sign_in_as_outsider(api, client)
        path = filled(page, known)
        if page.method == "GET":
            answer = await client.get(path)
        else:
            token = re.search(r'name="formToken" value="(\w+)"', (await client.get("/console/organizations")).text)
            assert token is not None
            answer = await client.post(path, data={"formToken": token[1], "name": "Taken", "workflow": "destroy"})
    assert answer.status_code in {403, 404}, answer.text
    assert "Default" not in answer.text, "not even the name of the organization is told"


async def test_an_outsider_is_explained_nothing(api: Api) -> None:
    async with browser(api) as client:
        await _sign_in_as_outsider(api, client)
        question = {"permission": "Read", "path": f"/environments/{api.environment}"}
        answer = await client.get(_EXPLANATION.replace("{id}", api.organization), params=question)
    assert "an organization that you do not belong to" in answer.text


async def _sign_in_as_outsider(api: Api, client: httpx.AsyncClient) -> None:
    """Sign in as somebody who administers an organization of their own, and belongs to no other."""
    created = accepted(await api.post("organizations", {"name": fresh_name("elsewhere")}))["id"]
    who = await person(api, "Administrator", organization=created)
    answer = await client.post("/console/signIn", data={"email": who.email, "password": who.password})
    assert answer.status_code == 303, answer.text


async def test_a_disabled_account_is_out_with_its_next_page(api: Api) -> None:
    people = f"organizations/{api.organization}/users"
    who = await person(api)
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": who.email, "password": who.password})
        assert (await client.get("/console/account")).status_code == 200
        accepted(await api.put(f"{people}/{who.id}", {"enabled": False}))
        answer = await client.get("/console/account")
    assert answer.status_code == 303
    assert "Max-Age=0" in answer.headers["set-cookie"]


async def test_the_api_does_not_take_the_cookie(visitor: httpx.AsyncClient) -> None:
    assert (await visitor.get("/api/1/organizations")).status_code == 401


async def test_pages_take_turns_with_requests_of_their_organization(api: Api, visitor: httpx.AsyncClient) -> None:
    path = f"/console/organizations/{api.organization}/roles"
    assert (await visitor.get(path)).status_code == 200
    turns = api.parts.turns
    # How many begin at once depends on how many other organizations sent requests lately.
    before = [asyncio.create_task(turns.begin(api.organization, 60)) for _ in range(ALONE)]
    page = asyncio.create_task(visitor.get(path))
    done, _ = await asyncio.wait({page}, timeout=2 * TURN_S)
    assert not done
    for turn in before:
        (await turn)()
    assert (await page).status_code == 200


async def test_a_page_waits_for_connections_in_the_turns_of_its_organization(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/console/organizations/{api.organization}/applications"
    await visitor.get(path)  # from here on, the process knows the visitor's organization
    tenants: list[str] = []
    lend = api.database.pool.lend

    async def noting() -> BoundedConnection:
        tenants.append(current_tenant.get())
        return await lend()

    monkeypatch.setattr(api.database.pool, "lend", noting)
    token = current_tenant.set("")
    try:
        assert (await visitor.get(path)).status_code == 200
    finally:
        current_tenant.reset(token)
    assert api.organization in tenants


async def test_the_start_of_the_server_leads_to_the_console(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")


@pytest.mark.parametrize("body", [b"a=%ff", b"x" * 1_100_000, b"&".join(b"a%d=1" % n for n in range(2_100)), b"a=%00"])
async def test_odd_forms_are_refused_in_good_form(visitor: httpx.AsyncClient, body: bytes) -> None:
    answer = await visitor.post("/console/organizations", content=body, headers=FORM)
    assert answer.status_code in {400, 413}
    assert "Request ID" in answer.text


async def test_every_page_has_the_policy_and_is_kept_nowhere(visitor: httpx.AsyncClient) -> None:
    for path in ("/console/organizations", "/console/nothing", "/console/signIn"):
        headers = (await visitor.get(path)).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"


async def test_files_may_be_kept_for_ever_and_are_those_of_the_package_alone(visitor: httpx.AsyncClient) -> None:
    assert "immutable" in (await visitor.get("/console/static/built/console.css")).headers["cache-control"]
    for name in ("../app.py", "built/../../app.py", "nothing.js", "%2e%2e/app.py"):
        assert (await visitor.get(f"/console/static/{name}")).status_code == 404


async def signed_in(client: httpx.AsyncClient, email: str = EMAIL, password: str = ADMINISTRATORS) -> str:
    """Sign in, and return the token of the forms."""
    answer = await client.post("/console/signIn", data={"email": email, "password": password})
    assert answer.status_code == 303
    token = re.search(r'name="formToken" value="(\w+)"', (await client.get("/console/account")).text)
    assert token is not None
    return token[1]


def copied(client: httpx.AsyncClient, api: Api) -> httpx.AsyncClient:
    """Return somebody who has got hold of the cookie."""
    thief = browser(api)
    thief.cookies = httpx.Cookies(client.cookies)
    return thief


async def test_signing_out_ends_the_session_for_every_copy_of_its_cookie(api: Api) -> None:
    async with browser(api) as client:
        token = await signed_in(client)
        async with copied(client, api) as thief:
            assert (await thief.get("/console/account")).status_code == 200
            assert (await client.post("/console/signOut", data={"formToken": token})).status_code == 303
            assert (await thief.get("/console/account")).status_code == 303


async def test_the_api_takes_no_session_of_the_console_and_the_console_none_of_the_api(api: Api) -> None:
    async with browser(api) as client:
        await signed_in(client)
        cookie = client.cookies["launchbay_session"]
    assert cookie.startswith("lbc_")
    assert (await api.caller(f"Bearer {cookie}").get("organizations")).status_code == 401
    async with browser(api) as client:
        client.cookies.set("launchbay_session", "eyJhbGciOiJFZERTQSJ9.e30.AAAA", domain="launchbay", path="/")
        assert (await client.get("/console/account")).status_code == 303


async def test_a_new_password_ends_every_other_session(api: Api) -> None:
    someone: Person = await person(api, "Guest")
    async with browser(api) as here, browser(api) as elsewhere:
        token = await signed_in(here, someone.email, PERSON_PASSWORD)
        await signed_in(elsewhere, someone.email, PERSON_PASSWORD)
        changed = {
            "currentPassword": PERSON_PASSWORD,
            "newPassword": "another one of theirs",
            "repeatedPassword": "another one of theirs",
        }
        answer = await here.post("/console/account/password", data={"formToken": token, **changed})
        assert answer.status_code == 303, answer.text
        assert "Password changed" in (await here.get("/console/account")).text
        assert (await elsewhere.get("/console/account")).status_code == 303


async def test_a_session_elsewhere_is_listed_and_ended(api: Api) -> None:
    someone: Person = await person(api, "Guest")
    async with browser(api) as here, browser(api) as elsewhere:
        token = await signed_in(here, someone.email, PERSON_PASSWORD)
        await signed_in(elsewhere, someone.email, PERSON_PASSWORD)
        page = (await here.get("/console/account")).text
        [path] = re.findall(r'action="(/console/sessions/\w+/end)"', page)
        assert page.count("This browser") == 1
        # Somebody else's is not found.
        async with browser(api) as other:
            foreign = await other.post(path, data={"formToken": await signed_in(other)})
            assert foreign.status_code == 404
        assert (await elsewhere.get("/console/account")).status_code == 200
        assert (await here.post(path, data={"formToken": token})).status_code == 303
        assert (await elsewhere.get("/console/account")).status_code == 303
