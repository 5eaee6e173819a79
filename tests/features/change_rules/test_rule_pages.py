"""The pages of rules: what is in force, what a version changed, what a text would refuse, and saving one."""

from html import unescape

import httpx
import pytest

from tests.support.pages import Page, browser, get, words_of
from tests.support.service import EMAIL, PERSON_PASSWORD, Api, accepted, fresh_name, own_service, person

api = own_service  # whose administrator administers the server

QUIET = "- name: quiet\n  when: $.kind == 'launch'\n  deny: Nothing is launched here.\n"
OTHER = QUIET.replace("launched here", "launched there")


def read_of(markup: str) -> str:
    """Return the words of a page as people read them."""
    return unescape(words_of(markup))


async def sent(client: httpx.AsyncClient, path: str, **fields: str) -> Page:
    """Send the form of the page, and return the page that follows."""
    token = (await get(client, path)).fields["formToken"]
    return Page(await client.post(path, data={"formToken": token, **fields}, follow_redirects=True))


async def test_rules_are_written_on_their_page_and_each_version_shows_what_it_changed(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = await api.offer()
    path = f"/console/environments/{environment}/change-rules"
    page = await get(visitor, path)
    assert "No rules yet." in read_of(page.answer.text)
    for number, text in enumerate((QUIET, OTHER), 1):
        saved = await sent(visitor, path, rules=text)
        assert f"Version {number} is in force." in read_of(saved.answer.text)
    found = accepted(await api.get(f"environments/{environment}/change-rules"))
    assert (found["version"], found["rules"]) == (2, OTHER)
    words = read_of((await get(visitor, path)).answer.text)
    assert f"Version 2 with 1 rule, by {EMAIL}" in words
    words = read_of((await get(visitor, f"{path}?version=2")).answer.text)
    assert "What version 2 changed" in words
    assert "deny: Nothing is launched here." in words
    assert "deny: Nothing is launched there." in words
    assert "What version 1 changed" in read_of((await get(visitor, f"{path}?version=1")).answer.text)
    overview = read_of((await get(visitor, f"/console/organizations/{api.organization}/change-rules")).answer.text)
    listed = accepted(await api.get(f"organizations/{api.organization}/environments"))
    name = next(each["name"] for each in listed if each["id"] == environment)
    assert f"{name} environment Version 2 {EMAIL}" in overview
    assert f'href="{path}"' in (await visitor.get(f"/console/environments/{environment}/settings")).text


async def test_a_check_names_the_changes_that_rules_would_have_refused_and_saves_nothing(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment, application = await api.offer(), await api.application()
    await api.settled(await api.launch(application, environmentId=environment))
    path = f"/console/environments/{environment}/change-rules"
    text = QUIET + "- {name: sizes, when: $.parameters.size > 3, deny: Too large.}\n"
    words = read_of((await sent(visitor, path, rules=text, do="check")).answer.text)
    assert "These rules would have refused 1 of the last" in words
    assert "launch_application" in words
    assert "Nothing is launched here." in words
    assert "Not compared, since the audit log has no parameters: sizes." in words
    assert accepted(await api.get(f"environments/{environment}/change-rules"))["version"] == 0


@pytest.mark.parametrize("do", ["check", ""])
async def test_an_error_in_rules_is_shown_with_its_line_and_column(
    api: Api, visitor: httpx.AsyncClient, do: str
) -> None:
    environment = await api.offer()
    path = f"/console/environments/{environment}/change-rules"
    page = await sent(visitor, path, rules="- name: a\n  when: $.kin == 1\n  deny: No.\n", do=do)
    assert page.status == (200 if do else 400)
    assert "Line 2, column 9: a: There is no fact 'kin'." in read_of(page.answer.text)
    assert "when: $.kin == 1" in unescape(page.answer.text), "the text is kept"
    assert page.answer.text.count("There is no fact") == 1
    assert "2    when: $.kin == 1\n           ^" in unescape(page.answer.text)
    assert ("Fix the highlighted field: " in page.answer.text) == (not do)
    assert accepted(await api.get(f"environments/{environment}/change-rules"))["version"] == 0


async def test_who_may_not_write_rules_reads_them_without_a_form(api: Api) -> None:
    environment = await api.offer()
    accepted(await api.put(f"environments/{environment}/change-rules", {"rules": QUIET}))
    made = {"name": fresh_name("reader"), "permissions": "- Read: [/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", made))
    someone = await person(api, made["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/environments/{environment}/change-rules")
        assert "Nothing is launched here." in page.answer.text
        assert "rules" not in page.fields
        assert "EditRules" in page.answer.text


async def test_a_form_that_a_rule_refuses_names_the_rule_its_facts_and_who_can_change_it(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = await api.offer()
    text = "- name: closed\n  when: $.kind == 'edit'\n  deny: Nothing changes here.\n"
    accepted(await api.put(f"environments/{environment}/change-rules", {"rules": text}))
    path = f"/console/environments/{environment}"
    token = (await get(visitor, f"{path}/settings")).fields["formToken"]
    answer = await visitor.post(f"{path}/name", data={"formToken": token, "name": fresh_name("other")})
    assert answer.status_code == 403
    words = read_of(answer.text)
    assert "Nothing changes here." in words
    assert "the rule 'closed', version 1 of the rules of the environment" in words
    assert 'The facts were kind: "edit".' in words
    assert "EditRules is held there by " in words
    query = f"permission=EditEnvironment&path=/environments/{environment}"
    shown = read_of((await visitor.get(f"/console/organizations/{api.organization}/explanation?{query}")).text)
    assert "Users who can do it: " in shown
    assert "deny by the rule 'closed', version 1" in shown
