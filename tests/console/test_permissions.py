"""What is offered on pages is exactly what the person may do: each form of each page, and each that is not there."""

import re

import httpx
import pytest

from launchbay.console.request import PageRoute
from tests.support.page_world import GETS, address, one_of_everything, pages_of
from tests.support.pages import browser
from tests.support.served import PAGES
from tests.support.service import EMAIL, PERSON_PASSWORD, Api, accepted, fresh_name, person
from tests.support.service import PASSWORD as ADMINISTRATORS

ROLES = {
    "reader": "- Read: [/*]\n",
    "operator": "".join(
        f"- {name}: [/*]\n"
        for name in (
            *("Read", "CreateInstance", "EditInstance", "RunInstanceWorkflow", "ScheduleInstanceWorkflow"),
            "RunServiceCommand",
            "ApproveInstanceWorkflow",
        )
    ),
    "developer": "- Read: [/*]\n- CreateApplication: [/*]\n- EditApplication: [/*]\n- EditEnvironment: [/*]\n",
    "administrator": "",
}
# What the forms of pages send, so that nothing but a missing permission can refuse it with 403.
_POOL = "builtin:static_resource_pool"
WINDOW = {
    "reason": "Jubilee",
    "beginsAt": "",
    "endsAt": "",
    "firstDay": "2199-12-20",
    "lastDay": "2199-12-21",
    "zone": "UTC",
}
SENT: dict[str, dict[str, str]] = {
    "/console/organizations": {"name": "Another"},
    "/console/organizations/{id}/name": {"name": "Default"},
    "/console/archives": {"archive": "{}"},
    "/console/organizations/{id}/applications": {"name": "{fresh}"},
    "/console/organizations/{id}/start": {"choice": "empty"},
    "/console/applications/{id}/name": {"name": "{fresh}"},
    "/console/applications/{id}/revisions": {"name": "{fresh}", "version": "1"},
    "/console/revisions/{id}": {"name": "{fresh}", "version": "1"},
    "/console/applications/{id}/lifetime": {"greatest": "2 days"},
    "/console/applications/{id}/concurrency": {"key": "application", "of": "", "limit": "50", "when": "queue"},
    "/console/applications/{id}/sleep": {"sleepAt": "20:00", "wakeAt": "07:00", "zone": "UTC"},
    "/console/environments/{id}/sleep": {"sleepAt": "20:00", "wakeAt": "07:00", "zone": "UTC"},
    "/console/environments/{id}/lifetime": {"extend": "2 days"},
    "/console/environments/{id}/audiences": {"audiences": "vault"},
    "/console/environments/{id}/concurrency": {"key": "environment", "of": "", "limit": "50", "when": "queue"},
    "/console/applications/{id}/manifest": {"text": "launch: {steps: []}"},
    "/console/applications/{id}/source": {"url": "http://127.0.0.1:9/"},
    "/console/applications/{id}/launch": {"lifetime": "-1", "do": "launch"},
    "/console/instances/{id}/run": {"workflow": "launch", "do": "run"},
    "/console/instances/{id}/reschedule": {"schedule": "{schedule}", "do": "cancel"},
    "/console/instances/{id}/labels": {"labels": "team=quay"},
    "/console/instances/{id}/offers": {"environment": "{environment}"},
    "/console/instances/{id}/userData": {"userData": "{}"},
    "/console/instances/{id}/lifetime": {"lifetime": "-1"},
    "/console/instances/{id}/awake": {"hours": "2"},
    "/console/instances/{id}/configuration": {"do": "preview"},
    "/console/instances/{id}/end": {"do": "destroy"},
    "/console/organizations/{id}/views": {"name": "{fresh}", "do": "save", "q": "status:failed"},
    "/console/instances/{id}/schedules/{schedule}": {"do": "cancel"},
    "/console/instances/{id}/drift/{finding}": {"do": "watch"},
    "/console/instances/{id}/drift/put-back/{scope}": {"do": "end"},
    "/console/organizations/{id}/bulk": {"act": "label", "id": "{instance}", "labels": "a=b", "do": "begin"},
    "/console/organizations/{id}/bulk/{bulk}": {"do": "pause"},
    "/console/organizations/{id}/recurring": {
        "name": "{fresh}",
        "instance": "{instance}",
        "workflow": "linger",
        "cron": "0 7 * * *",
        "do": "create",
    },
    "/console/organizations/{id}/recurring/{recurring}": {"name": "{fresh}", "cron": "0 8 * * *"},
    "/console/organizations/{id}/recurring/{recurring}/pause": {"do": "pause"},
    "/console/applications/{id}/rollouts": {"do": "begin", "id": "{instance}", "version": "2"},
    "/console/applications/{id}/rollouts/{rollout}": {"do": "stop"},
    "/console/environments/{id}/changePolicy": {"approvals": "0", "organization": "{organization}"},
    "/console/organizations/{id}/changes/{change}/answer": {"do": "approve"},
    "/console/organizations/{id}/environments": {"name": "{fresh}"},
    "/console/environments/{id}/freeze": {"reason": "An incident."},
    "/console/applications/{id}/freeze": {"reason": "An incident."},
    "/console/environments/{id}/freeze-windows": WINDOW,
    "/console/applications/{id}/freeze-windows": WINDOW,
    "/console/environments/{id}/name": {"name": "{fresh}"},
    "/console/environments/{id}/policies": {"policies": "policies: {}"},
    "/console/organizations/{id}/services": {"name": "{fresh}", "type": "builtin:workflow_service"},
    "/console/services/{id}": {"name": "{fresh}"},
    "/console/services/{id}/command": {"command": "export"},
    "/console/organizations/{id}/roles": {"name": "{fresh}", "permissions": "[]"},
    "/console/organizations/{id}/groupRoles": {"group": "{fresh}", "role": "Guest"},
    "/console/roles/{id}": {"name": "{fresh}", "permissions": "[]"},
    "/console/organizations/{id}/users": {"email": "{fresh}@example.org"},
    "/console/organizations/{id}/users/{user}/enabled": {"do": "disable"},
    "/console/organizations/{id}/serviceAccounts": {"name": "{fresh}"},
    "/console/organizations/{id}/serviceAccounts/{account}": {"name": "{fresh}"},
    "/console/organizations/{id}/serviceAccounts/{account}/enabled": {"do": "enable"},
    "/console/organizations/{id}/serviceAccounts/{account}/accessTokens": {"tokenName": "{fresh}", "days": "1"},
    "/console/approvals/{id}": {"do": "approve"},
    "/console/organizations/{id}/git-sources": {
        "name": "{fresh}",
        "account": "{account}",
        "url": "https://x.example/y",
    },
    "/console/organizations/{id}/git-sources/{source}/settings": {
        "name": "{fresh}",
        "account": "{account}",
        "url": "https://x.example/y",
    },
    "/console/organizations/{id}/git-sources/{source}/pause": {"do": "pause"},
    "/console/organizations/{id}/git-sources/{source}/apply": {"commit": "5f" * 20},
    "/console/organizations/{id}/webhooks": {"url": "https://hooks.example/", "event": "status"},
    "/console/organizations/{id}/webhooks/{webhook}": {"event": "status"},
}
# Of the caller's own, for whoever has signed in.
_PERSONAL = re.compile(r"/console/(account|tokens|sessions|invitations|manifests|signOut|theme|signIn|newPassword)")
# Forms that this world has no occasion for; were they shown, they would have to be accepted all the same.
_NO_OCCASION = {
    "/console/applications/{id}/promotion",
    "/console/instances/{id}/take-over",  # only what is observed
    "/console/services/{id}/secrets",
    "/console/services/{id}/test",
    "/console/instances/{id}/secrets",
    "/console/instances/{id}/drift/{finding}",
    "/console/instances/{id}/undo-destroy",
    "/console/applications/{id}/source/refresh",
    "/console/environments/{id}/default",
    "/console/environments/{id}/lift-freeze",
    "/console/applications/{id}/lift-freeze",
    "/console/applications/{id}/manifest/impact",  # the editor asks it
    "/console/organizations/{id}/failures/{failure}",  # of several instances, which fail for one reason
    "/console/organizations/{id}/hostKeys/forget",
    "/console/organizations/{id}/webhooks/{webhook}/retry",
    "/console/organizations/{id}/users/{user}/unblock",
}
POSTS = [page for page in PAGES if page.method == "POST" and not _PERSONAL.match(page.path)]


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine, since these tests run jobs."""
    return working_service


def _fields(page: PageRoute, world: dict[str, str]) -> dict[str, str]:
    given = {"{fresh}": fresh_name("thing").replace(" ", "-"), **world}
    return {
        name: re.sub(r"\{\w+\}", lambda found: given[found[0]], text) for name, text in SENT.get(page.path, {}).items()
    }


async def _offered(client: httpx.AsyncClient, world: dict[str, str]) -> set[str]:
    """Return the actions of all forms on all pages that the person can open."""
    found: set[str] = set()
    for path in pages_of(world):
        answer = await client.get(path)
        assert answer.status_code in {200, 303, 403}, (path, answer.text)
        if answer.status_code != 200:
            continue
        for form in re.findall(r'<form method="post".*?</form>', answer.text, re.DOTALL):
            action = re.search(r'action="([^"]+)"', form)
            assert action is not None
            if "<button" in form:
                found.add(action[1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("role", list(ROLES))
async def test_a_form_is_shown_where_it_would_be_taken_and_nowhere_else(api: Api, role: str) -> None:
    world = await one_of_everything(api)
    email, password = EMAIL, ADMINISTRATORS
    if ROLES[role]:
        made = {"name": fresh_name(role), "permissions": ROLES[role]}
        accepted(await api.post(f"organizations/{api.organization}/roles", made))
        someone = await person(api, made["name"])
        email, password = someone.email, PERSON_PASSWORD
    wrong: list[str] = []
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": email, "password": password})
        offered = await _offered(client, world)
        token = re.search(r'name="formToken" value="(\w+)"', (await client.get("/console/account")).text)
        assert token is not None
        # What takes something away comes last.
        for page in sorted(POSTS, key=lambda each: each.path.endswith(("apply", "delete", "remove", "end", "enabled"))):
            path = address(page, world)
            answer = await client.post(path, data={"formToken": token[1], **_fields(page, world)})
            is_taken, is_shown = answer.status_code != 403, path in offered
            if is_taken != is_shown and not (is_taken and page.path in _NO_OCCASION):
                wrong.append(f"{page.path}: shown {is_shown}, answered with {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.features("sleep_windows")
async def test_a_box_that_may_not_be_changed_keeps_what_it_stands_for(api: Api) -> None:
    world = await one_of_everything(api)
    other = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("other")}))
    accepted(await api.put(f"instances/{world['instances']}/environments", {"environments": [other["id"]]}))
    entries = (
        "Read: [/*]",
        "EditInstance: [/*]",
        f"EditEnvironment: [/environments/{world['environments']}, /applications/*]",
    )
    made = {"name": fresh_name("narrow"), "permissions": "".join(f"- {entry}\n" for entry in entries)}
    accepted(await api.post(f"organizations/{api.organization}/roles", made))
    someone = await person(api, made["name"])
    path = f"/console/instances/{world['instances']}"
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        page = (await client.get(f"{path}/settings")).text
        box = re.search(rf'<input type="checkbox" name="environment" value="{other["id"]}"([^>]*)>', page)
        assert box is not None
        assert {"checked", "disabled"} <= set(box[1].split())
        token = re.search(r'name="formToken" value="(\w+)"', page)
        assert token is not None
        kept = re.findall(r'<input type="hidden" name="environment" value="(\w+)">', page)
        sent = {"formToken": token[1], "environment": [*kept, world["environments"]]}
        assert (await client.post(f"{path}/offers", data=sent)).status_code == 303
    offered = accepted(await api.get(f"instances/{world['instances']}/environments"))["environments"]
    assert {each if isinstance(each, str) else each["id"] for each in offered} == {other["id"], world["environments"]}


async def test_a_list_that_shows_nothing_for_want_of_permissions_says_so(api: Api) -> None:
    made = {"name": fresh_name("sees nothing"), "permissions": "- ApproveInstanceWorkflow: [/applications/none]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", made))
    someone = await person(api, made["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        for page, noun in (
            ("/applications", "applications"),
            ("/environments", "environments"),
            ("/services", "services"),
            ("/roles", "roles"),
        ):
            text = (await client.get(f"/console/organizations/{api.organization}{page}")).text
            assert f"No {noun} that you can see" in text, page


# Who sees little: one kind of object each, and nothing that it refers to.
NARROW = {
    "instances": "- Read: [/applications/*/instances/*]\n",
    "operated instances": "- Read: [/applications/*/instances/*]\n"
    "- EditInstance: [/applications/*/instances/*]\n- RunInstanceWorkflow: [/applications/*/instances/*]\n",
    "applications": "- Read: [/applications/*]\n",
    "environments": "- Read: [/environments/*]\n",
    "services": "- Read: [/services/*]\n",
    "people": "- Read: [/users/*]\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(NARROW))
async def test_a_page_links_to_nothing_that_its_reader_may_not_open(api: Api, kind: str) -> None:
    world = await one_of_everything(api)
    made = {"name": fresh_name("narrow"), "permissions": NARROW[kind]}
    accepted(await api.post(f"organizations/{api.organization}/roles", made))
    someone = await person(api, made["name"])
    linked: dict[str, set[str]] = {}
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        shown = [address(page, world) for page in GETS]
        shown += [world["resume"], world["cancel"], f"/console/organizations/{world['organizations']}/instances?q="]
        for path in shown:
            answer = await client.get(path)
            if answer.status_code == 200:
                for target in re.findall(r'<a [^>]*?href="(/console/[^"#?]*)', answer.text):
                    linked.setdefault(target, set()).add(path)
        refused = [
            f"{target} answers {answer.status_code}, linked by {', '.join(sorted(pages))}"
            for target, pages in sorted(linked.items())
            if (answer := await client.get(target)).status_code not in {200, 303}
        ]
    assert linked
    assert not refused, "\n".join(refused)
