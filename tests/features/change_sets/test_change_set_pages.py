"""Change sets in the console: saved on a form, decided, applied, compared with results."""

import re
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.pages import ORIGIN, Page, browser, get
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person

SHOP = """\
application:
  configuration: { input.size: 1 }
  interfaces:
    input: { size: bind(web#input.size) }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { size: configuration(int) } }
      configuration:
        configuration.triggers: { input.size: grow }
        configuration.workflows: { launch: { steps: [] }, grow: { steps: [] } }
    cache:
      type: workflow.Instance
      configuration: { configuration.workflows: { launch: { steps: [] } } }
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def sent(visitor: httpx.AsyncClient, path: str, page: Page, **fields: Any) -> httpx.Response:
    form = {"formToken": page.fields["formToken"], **fields}
    return await visitor.post(path, data=form, headers={"Origin": ORIGIN})


async def _saved(visitor: httpx.AsyncClient, path: str, **fields: str) -> tuple[str, Page]:
    """Save what a form would do; return path and page of the change set."""
    answer = await sent(visitor, path, await get(visitor, path), do="save change set", **fields)
    assert answer.status_code == 303, Page(answer).text
    made = answer.headers["location"]
    return made, await get(visitor, made)


async def _size(api: Api, instance: str) -> Any:
    """Return the size of a shop, as it was given or by default."""
    return (await api.document(instance))["parameters"]["input.size"]


async def _ended(visitor: httpx.AsyncClient, path: str) -> Page:
    return await eventually(lambda: get(visitor, path), lambda page: "data-refresh" not in page.attributes)


async def _asked(client: httpx.AsyncClient, home: str) -> set[str]:
    """Return the change sets that wait for the person."""
    listed = await get(client, f"{home}/changes")
    return set(re.findall(r'href="([^"]+)">[^<]*</a> <span class="chip">for you<', listed.answer.text))


@pytest.mark.slow
async def test_a_change_is_saved_on_its_form_and_shown_with_all_that_it_does(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.running(SHOP, instanceName="Shop (winter)")
    path, page = await _saved(
        visitor,
        f"/console/instances/{instance}/configuration",
        **{"parameter:input.size": "3", "changeComment": "More room for the sale\nHW-412", "changeRollback": "1"},
    )
    assert path.startswith(f"/console/organizations/{api.organization}/changes/")
    text = " ".join(page.text.split())
    for words in (
        "More room for the sale",
        "Ready to apply",
        "Change Shop (winter)",
        "Rolls back an instance if its change fails",
        "webChangesinput.size 1 → 3",
        "Runsweb#grow",
        "1 componentStays as it is",
        "Changes 1, keeps 1of 2 components",
        "EditInstance",
        "The environment asks for no approval.",
        "Nothing has changed since this was saved.",
    ):
        assert words in text, words
    assert (await _size(api, instance)) == 1, "nothing is applied yet"
    listed = await get(visitor, f"/console/organizations/{api.organization}/changes")
    assert path in listed.links
    assert "More room for the sale" in listed.text
    applied = await sent(visitor, f"{path}/apply", page)
    assert applied.headers["location"] == path
    ended = await _ended(visitor, path)
    assert "As it was shown" in ended.text
    assert "Result compared" in ended.text
    assert f"{path}/apply" not in ended.answer.text
    again = await sent(visitor, f"{path}/apply", page)
    assert again.status_code == 409
    assert "it is Succeeded" in Page(again).text


async def test_the_apply_of_a_directory_is_shown_and_applied(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("lab")
    body = {
        "act": "apply",
        "files": {f"environments/{name}.yaml": "markers: [<b>blue]\n", f"applications/{name}/manifest.yaml": SHOP},
    }
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
    path = f"/console/organizations/{api.organization}/changes/{made}"
    page = await get(visitor, path)
    text = " ".join(page.text.split())
    for words in (
        "Apply a directory",
        "4 changes",
        f"environment {name}created",
        f"manifest of application {name}created, version 2",
        "+- <b>blue",
        "environment default isn't in the directory",
        "CreateEnvironment",
        "Nothing has changed since this was saved.",
        "No instance starts, stops or changes its version",
    ):
        assert words in text, words
    assert path in (await get(visitor, f"/console/organizations/{api.organization}/changes")).links
    assert (await sent(visitor, f"{path}/apply", page)).headers["location"] == path
    ended = await get(visitor, path)
    assert "As it was shown" in ended.text
    assert "Result compared" in ended.text
    again = await sent(visitor, f"{path}/apply", page)
    assert (again.status_code, "it is Succeeded" in Page(again).text) == (409, True)


async def test_a_directory_asks_those_who_may_approve_all_that_it_touches(api: Api) -> None:
    home, name = f"organizations/{api.organization}", fresh_name("asked")
    environment = accepted(await api.post(f"{home}/environments", {"name": name}))["id"]
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    role = {"name": fresh_name("partly"), "permissions": "- Read: [/*]\n- ApproveInstanceWorkflow: [/applications/*]\n"}
    accepted(await api.post(f"{home}/roles", role))
    body = {"act": "apply", "files": {f"environments/{name}.yaml": "markers: [blue]\n"}}
    made = accepted(await api.post(f"{home}/change-sets", body))["id"]
    path = f"/console/{home}/changes/{made}"
    for given, is_asked in ((role["name"], False), ("Administrator", True)):
        someone = await person(api, given)
        async with browser(api) as client:
            await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
            assert (path in await _asked(client, f"/console/{home}")) is is_asked
            page = await get(client, path)
            assert ("You aren't an approver of this change set." in page.text) is not is_asked
            answered = await sent(client, f"{path}/answer", page, do="approve")
            assert answered.status_code == (303 if is_asked else 403)
            assert path not in await _asked(client, f"/console/{home}")
    assert accepted(await api.get(f"change-sets/{made}"))["status"] == "Ready"


async def test_launches_and_destructions_are_saved_too(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(SHOP)
    name = fresh_name("shop")
    path, page = await _saved(
        visitor, f"/console/applications/{application}/launch", instanceName=name, lifetime="-1", source=":2"
    )
    assert f"Launch {name}" in page.text
    assert "Starts 2" in page.text
    await sent(visitor, f"{path}/apply", page)
    ended = await _ended(visitor, path)
    instance = next(link for link in ended.links if re.fullmatch(r"/console/instances/\w{24}", link))
    path, page = await _saved(visitor, f"{instance}/end", changeComment="")
    assert f"Destroy {name}" in page.text
    assert "Stops 2" in page.text
    await sent(visitor, f"{path}/apply", page)
    assert "As it was shown" in (await _ended(visitor, path)).text
    assert (await api.document(instance.rpartition("/")[2]))["status"] == "Destroyed"


async def test_a_stale_change_set_names_what_has_changed_and_is_not_applied(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.running(SHOP)
    path, page = await _saved(visitor, f"/console/instances/{instance}/configuration", **{"parameter:input.size": "3"})
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}))
    await api.settled(instance)
    stale = await get(visitor, path)
    assert "The present parameter input.size is new." in stale.text
    assert "Ready to apply" not in stale.text.partition("Life of the change set")[0]
    assert "It is stale: save a new change set" in stale.answer.text
    refused = await sent(visitor, f"{path}/apply", page)
    assert refused.status_code == 409
    assert "The present parameter input.size is new." in Page(refused).text
    assert (await _size(api, instance)) == 2


async def test_the_page_of_a_change_set_leads_to_the_others(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(SHOP)
    path = f"organizations/{api.organization}/change-sets"
    body = {"act": "launch", "applicationId": application, "launch": {}}
    first, second = [accepted(await api.post(path, {**body, "comment": each}))["id"] for each in ("First", "Second")]
    home = f"/console/organizations/{api.organization}/changes"
    beside = (await get(visitor, f"{home}/{first}")).answer.text.partition("Other change sets")[2]
    assert f'href="{home}/{second}">Second</a>' in beside
    assert f"{home}/{first}" not in beside


async def test_another_person_approves_or_rejects_and_the_author_may_not(api: Api, visitor: httpx.AsyncClient) -> None:
    environment = await api.offer()
    instance = await api.launch(await api.application(SHOP), environmentId=environment)
    await api.settled(instance)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1, "roleId": None}))
    home = f"/console/organizations/{api.organization}"
    someone = await person(api, "Administrator")
    for verdict, status in (("reject", "Rejected"), ("approve", "Ready to apply")):
        path, page = await _saved(
            visitor, f"/console/instances/{instance}/configuration", **{"parameter:input.size": "3"}
        )
        assert "0 of 1 approval" in page.text
        assert "You made it, so someone else decides." in page.text
        assert "1 approval is missing" in page.text
        assert (await sent(visitor, f"{path}/answer", page, do="approve")).status_code == 403
        async with browser(api) as client:
            await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
            assert "for your approval." in (await get(client, f"{home}/approvals")).text
            elsewhere = (await get(client, f"{home}/environments")).answer.text
            assert re.search(r'Approvals</span> <span class="count wait">[1-9]', elsewhere), "the navigation counts it"
            assert path in (await get(client, home)).links  # among what waits for somebody on the overview
            assert path in await _asked(client, home)
            asked = await get(client, path)
            answered = await sent(client, f"{path}/answer", asked, do=verdict, comment="Looked at it")
            assert answered.status_code == 303
            assert path not in await _asked(client, home)
        decided = await get(visitor, path)
        assert status in decided.text
        assert "Looked at it" in decided.text
    deleted = await sent(visitor, f"{path}/delete", await get(visitor, f"{path}/delete"))
    assert deleted.headers["location"] == f"{home}/changes"
    assert (await visitor.get(path)).status_code == 404


async def test_the_author_confirms_what_a_program_proposed(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(SHOP)
    body = {"act": "destroy", "ids": [instance], "confirm": True}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
    home = f"/console/organizations/{api.organization}"
    path = f"{home}/changes/{made['id']}"
    assert path in await _asked(visitor, home)
    page = await get(visitor, path)
    assert "A person has to confirm it." in page.text
    assert (await sent(visitor, f"{path}/answer", page, do="approve", comment="Fine")).status_code == 303
    assert "Ready to apply" in (await get(visitor, path)).text


async def test_a_refused_change_is_not_saved_and_keeps_its_comment(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(SHOP)
    path = f"/console/instances/{instance}/configuration"
    before = accepted(await api.get(f"organizations/{api.organization}/change-sets"))
    fields = {"parameter:input.size": "many", "changeComment": "Ten times the room", "do": "save change set"}
    page = Page(await sent(visitor, path, await get(visitor, path), **fields))
    assert "field-error" in page.answer.text
    assert "Ten times the room" in page.text
    assert accepted(await api.get(f"organizations/{api.organization}/change-sets")) == before


async def test_many_instances_are_saved_as_one_change_set(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(SHOP)
    instances = [await api.launch(application) for _ in range(2)]
    for instance in instances:
        await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", SHOP.replace("input.size: 1", "input.size: 4")))
    home = f"/console/organizations/{api.organization}"
    form = await get(visitor, f"{home}/bulk/new?act=reconfigure&id={instances[0]}&id={instances[1]}")
    fields = {"act": "reconfigure", "id": instances, "do": "save change set"}
    without = Page(await sent(visitor, f"{home}/bulk", form, **fields, parameters='{"input.size": 3}'))
    assert without.status == 400
    assert "needs the version" in without.text
    answer = await sent(visitor, f"{home}/bulk", form, **fields, version="3")
    page = await get(visitor, answer.headers["location"])
    text = " ".join(page.text.split())
    assert "Change the version of 2 instances" in text
    assert text.count("version 2 → 3") == 2
    assert "Changes 2, keeps 2" in text


async def test_the_policy_of_an_environment_is_set_where_change_sets_are_listed(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = await api.offer()
    path = f"/console/organizations/{api.organization}/changes"
    page = await get(visitor, path)
    fields = {"organization": api.organization, "role": ""}
    target = f"/console/environments/{environment}/changePolicy"
    wrong = Page(await sent(visitor, target, page, **fields, approvals="many"))
    assert wrong.status == 400
    assert "Expected a number from 0 to 20" in wrong.text
    policy = {"approvals": 2, "roleId": None, "plansBeforeApproval": True}
    accepted(await api.put(f"environments/{environment}/changePolicy", policy | {"approvals": 0}))
    assert (await sent(visitor, target, page, **fields, approvals="2")).headers["location"] == path
    assert accepted(await api.get(f"environments/{environment}/changePolicy")) == policy
    assert "2 people, never the author" in " ".join((await get(visitor, path)).text.split())
    role = accepted(
        await api.post(
            f"organizations/{api.organization}/roles", {"name": fresh_name("lead"), "permissions": "- Read: [/*]\n"}
        )
    )
    unknown = Page(await sent(visitor, target, page, **fields | {"role": "nobody"}, approvals="1"))
    assert unknown.status == 400
    assert "You can see no role 'nobody'." in unknown.text
    named = fields | {"role": role["name"]}
    assert (await sent(visitor, target, await get(visitor, path), **named, approvals="1")).status_code == 303
    assert accepted(await api.get(f"environments/{environment}/changePolicy"))["roleId"] == role["id"]
    assert f'value="{role["name"]}"' in (await get(visitor, path)).answer.text
