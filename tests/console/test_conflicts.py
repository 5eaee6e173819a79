"""Forms carry the state that they were made from: nobody's work is overwritten unseen, and nothing is lost."""

import re
from typing import Any

import httpx
import pytest
from markupsafe import escape

from tests.support.pages import get
from tests.support.served import IS_KERNEL, PAGES
from tests.support.service import Api, accepted, fresh_name


async def opened(visitor: httpx.AsyncClient, page: str, part: str = "") -> dict[str, Any]:
    """Return the hidden fields of the form at a path of the page."""
    text = (await get(visitor, page)).answer.text
    form = text.partition(f'action="{page}{part}"')[2]
    return {name: form.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("formToken", "seen")}


async def test_a_role_that_someone_else_has_saved_is_not_overwritten(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("role")
    body = {"name": name, "permissions": "- Read: [/applications/*]\n"}
    role = accepted(await api.post(f"organizations/{api.organization}/roles", body))["id"]
    page = f"/console/roles/{role}"
    hidden = await opened(visitor, page)
    theirs = {"name": name, "permissions": "- Read: [/environments/*]\n"}
    accepted(await api.put(f"roles/{role}", theirs))
    mine = {**hidden, "name": name, "permissions": "- Read: [/services/*]\n"}
    refused = await visitor.post(page, data=mine)
    assert refused.status_code == 412
    assert "Someone else has changed this" in refused.text
    assert "/services/*" in refused.text, "mine"
    assert "/environments/*" in refused.text, "theirs"
    assert accepted(await api.get(f"roles/{role}"))["permissions"] == theirs["permissions"]
    again = {**mine, "seen": refused.text.partition('name="seen" value="')[2].partition('"')[0]}
    assert (await visitor.post(page, data=again)).status_code == 303
    assert accepted(await api.get(f"roles/{role}"))["permissions"] == mine["permissions"]


async def test_another_mistake_does_not_make_a_conflict_unseen(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("role")
    role = accepted(
        await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": "- Read: [/*]\n"})
    )["id"]
    page = f"/console/roles/{role}"
    hidden = await opened(visitor, page)
    wrong = await visitor.post(page, data={**hidden, "name": name, "permissions": "- Nothing: [/*]\n"})
    assert wrong.status_code == 400
    accepted(await api.put(f"roles/{role}", {"name": name, "permissions": "- Read: [/services/*]\n"}))
    seen = wrong.text.partition('name="seen" value="')[2].partition('"')[0]
    answer = await visitor.post(
        page, data={**hidden, "seen": seen, "name": name, "permissions": "- Read: [/roles/*]\n"}
    )
    assert answer.status_code == 412


@pytest.mark.parametrize(
    ("part", "theirs", "fields", "shown"),
    [
        ("markers", {"markers": [{"name": "theirs"}]}, {"markers": "mine"}, "mine"),
        (
            "properties",
            {"properties": [{"name": "theirs", "value": 1, "type": "int"}]},
            {"name": "mine", "type": "int", "value": "2"},
            'value="mine"',
        ),
    ],
)
async def test_the_parts_of_an_environment_are_not_overwritten(
    api: Api, visitor: httpx.AsyncClient, part: str, theirs: dict[str, Any], fields: dict[str, str], shown: str
) -> None:
    environment = accepted(
        await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    )["id"]
    page = f"/console/environments/{environment}"
    hidden = await opened(visitor, page, f"/{part}")
    accepted(await api.put(f"environments/{environment}/{part}", theirs))
    refused = await visitor.post(f"{page}/{part}", data={**hidden, **fields})
    assert refused.status_code == 412
    assert shown in refused.text
    assert "theirs" in refused.text
    assert accepted(await api.get(f"environments/{environment}/{part}"))[part][0]["name"] == "theirs"
    current = await opened(visitor, page, f"/{part}")
    assert (await visitor.post(f"{page}/{part}", data={**current, **fields})).status_code == 303


async def test_policies_are_saved_when_nobody_else_was_faster(api: Api, visitor: httpx.AsyncClient) -> None:
    environment = accepted(
        await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    )["id"]
    page = f"/console/environments/{environment}"
    hidden = await opened(visitor, page, "/policies")
    policies = {**hidden, "policies": "policies:\n  a.b: 1\n"}
    assert (await visitor.post(f"{page}/policies", data=policies)).status_code == 303
    assert (await visitor.post(f"{page}/policies", data=policies)).status_code == 412


async def _object(api: Api, kind: str) -> str:
    """Make an object with the path of its page, below `/console/`."""
    root = f"organizations/{api.organization}"
    name = fresh_name(kind)
    body: dict[str, Any]
    if kind == "application":
        return f"applications/{await api.application('launch: {steps: []}' + chr(10), name)}"
    if kind == "environment":
        return f"environments/{accepted(await api.post(f'{root}/environments', {'name': name}))['id']}"
    if kind == "service":
        body = {"name": name, "typeId": "net.launchbay.Workflow"}
        types = accepted(await api.get(f"{root}/serviceTypes"))
        body["typeId"] = next(each["id"] for each in types if "orkflow" in each["name"])
        return f"services/{accepted(await api.post(f'{root}/services', body))['id']}"
    if kind == "webhook":
        body = {"url": "https://hooks.example.com/a", "events": ["job"]}
        return f"{root}/webhooks/{accepted(await api.post(f'{root}/webhooks', body))['id']}"
    if kind == "account":
        return f"{root}/serviceAccounts/{accepted(await api.post(f'{root}/serviceAccounts', {'name': name}))['id']}"
    if kind == "user":
        body = {"email": f"{name.replace(' ', '.')}@example.org", "name": name, "roles": ["Guest"]}
        made = accepted(await api.post(f"{root}/users", {**body, "password": "pelican crossing 7"}))
        return f"{root}/users/{made['id']}"
    instance = await api.launch(await api.application("launch: {steps: []}\nsail: {steps: []}\n"))
    if kind == "recurring":
        body = {"name": name, "cron": "0 7 * * *", "instanceId": instance, "workflow": "sail"}
        return f"{root}/recurring/{accepted(await api.post(f'{root}/recurring-schedules', body))['id']}"
    return root if kind == "organization" else f"instances/{instance}"


# A form that replaces what is stored: its object, its page and address below the object's, and what two people enter.
FORMS: dict[str, tuple[str, str, str, dict[str, Any], dict[str, Any]]] = {
    "/console/applications/{id}/name": ("application", "/settings", "/name", {"name": "one"}, {"name": "two"}),
    "/console/applications/{id}/onFailure": (
        "application",
        "/settings",
        "/onFailure",
        {"onFailure": "rollback"},
        {"onFailure": "keep"},
    ),
    **{
        f"/console/{kind}s/{{id}}/change-rules": (
            kind,
            "/change-rules",
            "/change-rules",
            {"rules": "# one\n"},
            {"rules": "# two\n"},
        )
        for kind in ("organization", "application", "environment")
    },
    "/console/environments/{id}/name": ("environment", "/settings", "/name", {"name": "one"}, {"name": "two"}),
    "/console/environments/{id}/services": ("environment", "", "/services", {"service": "{service}"}, {}),
    "/console/environments/{id}/changePolicy": (
        "environment",
        "{changes}",
        "/changePolicy",
        {"approvals": "1"},
        {"approvals": "2"},
    ),
    "/console/services/{id}": ("service", "", "", {"name": "one"}, {"name": "two"}),
    "/console/organizations/{id}/webhooks/{webhook}": (
        "webhook",
        "",
        "",
        {"url": "https://one.example.com/hook", "event": "job", "enabled": "1"},
        {"url": "https://two.example.com/hook", "event": "job", "enabled": "1"},
    ),
    "/console/organizations/{id}/recurring/{recurring}": (
        "recurring",
        "",
        "",
        {"name": "one", "cron": "0 8 * * *", "zone": "UTC"},
        {"name": "two", "cron": "0 9 * * *", "zone": "UTC"},
    ),
    "/console/organizations/{id}/users/{user}/roles": ("user", "", "/roles", {"role": "Administrator"}, {}),
    "/console/organizations/{id}/serviceAccounts/{account}": ("account", "", "", {"name": "one"}, {"name": "two"}),
    "/console/organizations/{id}/name": ("organization", "/usage", "/name", {"name": "one"}, {"name": "two"}),
    "/console/instances/{id}/labels": ("instance", "/settings", "/labels", {"labels": "a=1"}, {"labels": "a=2"}),
    "/console/instances/{id}/offers": ("instance", "/settings", "/offers", {"environment": "{environment}"}, {}),
    "/console/instances/{id}/userData": (
        "instance",
        "/settings",
        "/userData",
        {"userData": '{"a": 1}'},
        {"userData": '{"a": 2}'},
    ),
    "/console/instances/{id}/drift/schedule/{scope}": (
        "instance",
        "/drift",
        "/drift/schedule/instance",
        {"cron": "0 8 * * *", "zone": "UTC"},
        {"cron": "0 9 * * *", "zone": "UTC"},
    ),
    "/console/instances/{id}/drift/put-back/{scope}": (
        "instance",
        "/drift",
        "/drift/put-back/instance",
        {"addresses": "one.*", "mostPerDay": "1"},
        {"addresses": "two.*", "mostPerDay": "2"},
    ),
    "/console/instances/{id}/lifetime": (
        "instance",
        "/settings",
        "/lifetime",
        {"lifetime": "86400000"},
        {"lifetime": "604800000"},
    ),
}


@pytest.mark.parametrize("route", [each for each in FORMS if not IS_KERNEL or each in {page.path for page in PAGES}])
async def test_a_form_does_not_overwrite_what_someone_else_has_saved(
    api: Api, visitor: httpx.AsyncClient, route: str
) -> None:
    kind, page, address, theirs, mine = FORMS[route]
    path = f"/console/{await _object(api, kind)}"
    shown = f"/console/organizations/{api.organization}/changes" if page == "{changes}" else f"{path}{page}"
    places = {
        "{service}": lambda: _object(api, "service"),
        "{environment}": lambda: _object(api, "environment"),
    }
    for name, value in theirs.items():
        if value in places:
            theirs = {**theirs, name: (await places[value]()).rpartition("/")[2]}
    mine = {"organization": api.organization, **mine}

    async def hidden() -> dict[str, str]:
        text = (await get(visitor, shown)).answer.text
        form = text.partition(f'action="{path}{address}"')[2].partition("</form>")[0]
        found = {each: form.partition(f'name="{each}" value="')[2].partition('"')[0] for each in ("formToken", "seen")}
        assert all(found.values()), (shown, found)
        return found

    both = await hidden()
    first = await visitor.post(f"{path}{address}", data={**both, "organization": api.organization, **theirs})
    assert first.status_code == 303, first.text
    refused = await visitor.post(
        f"{path}{address}", data={**both, **mine}, headers={"Referer": f"http://launchbay{shown}"}
    )
    assert refused.status_code == 412
    assert "Someone else has changed this" in refused.text
    for name, value in mine.items():
        assert f'name="{name}" value="{escape(value)}"' in refused.text, "nothing of mine is lost"
    assert f'href="{shown}">Keep theirs' in refused.text
    after = await hidden()
    tag = refused.text.partition('name="seen" value="')[2].partition('"')[0]
    assert after["seen"] == tag != both["seen"], "theirs is what is stored, and what the page compares with"
    again = await visitor.post(f"{path}{address}", data={**both, **mine, "seen": tag})
    assert again.status_code == 303, again.text
    assert (await hidden())["seen"] != tag, "mine is stored"
    if kind == "organization":  # which other tests share
        last = await hidden()
        undo = {"name": "Default"} if address == "/name" else {}
        assert (await visitor.post(f"{path}{address}", data={**last, **undo})).status_code == 303


# Forms that don't replace what someone else could have stored since, and why.
OTHER_FORMS = {
    "makes something new": r"(archives|/organizations|git-sources|applications|revisions|environments|roles|users"
    r"|services|webhooks|serviceAccounts|bulk|recurring|rollouts|accessTokens|clone|launch|secondFactors|recoveryCodes"
    r"|account/tokens)$",
    "begins, answers or ends something": r"/(end|sign-out-everywhere|signOut|signIn|setUp|secondFactor|accept|decline"
    r"|leave|start|awake|drift|run|resume|cancel|reschedule|answer|apply|sync|test|retry|command|secrets|undo-destroy|check|impact"
    r"|refresh|take-over|promotion|freeze|lift-freeze|delete|remove|revoke|reset|unblock|forget)$|/(approvals|bulk|drift|failures|rollouts|schedules)/\{\w+\}$",
    "says which of two states it wants": r"/(enabled|pause|default)$",
    "is of the user alone": r"/(views|theme|password|newPassword|override-freeze)$",
    "compares by itself": r"/(configuration|manifest|source|restore|groupRoles|signInPolicy|policies|markers)$"
    r"|/(properties|audiences)$|/promotion/order$|/(applications|environments)/\{id\}/(lifetime|concurrency|sleep|freeze-windows)$"
    r"|/generations/\{number\}$|/git-sources/\{source\}/settings$|^/console/(roles|revisions)/\{id\}$",
}


def test_every_form_of_the_console_is_known_to_these_tests() -> None:
    for route in PAGES:
        reasons = [reason for reason, pattern in OTHER_FORMS.items() if re.search(pattern, route.path)]
        assert route.method == "GET" or route.path in FORMS or reasons, route.path


async def test_the_roles_of_a_group_are_not_overwritten(api: Api, visitor: httpx.AsyncClient) -> None:
    root, group = f"organizations/{api.organization}", fresh_name("crew")
    path = f"/console/{root}/groupRoles"
    token = (await get(visitor, f"/console/{root}/roles")).fields["formToken"]
    made = await visitor.post(path, data={"formToken": token, "group": group, "role": "Guest"})
    assert made.status_code == 303, made.text
    text = (await get(visitor, f"/console/{root}/roles")).answer.text.partition(f"<summary>{group}:")[2]
    seen = text.partition('name="seen" value="')[2].partition('"')[0]
    theirs = await visitor.post(path, data={"formToken": token, "group": group, "role": "Administrator", "seen": seen})
    assert theirs.status_code == 303
    mine = await visitor.post(path, data={"formToken": token, "group": group, "seen": seen})
    assert mine.status_code == 412
    assert "Administrator" in mine.text
    tag = mine.text.partition('name="seen" value="')[2].partition('"')[0]
    removed = await visitor.post(path, data={"formToken": token, "group": group, "seen": tag})
    assert removed.status_code == 303


async def test_the_rules_of_sign_in_are_not_overwritten(api: Api, visitor: httpx.AsyncClient) -> None:
    home = f"/console/organizations/{api.organization}"
    text = (await get(visitor, f"{home}/usage")).answer.text.partition(f'action="{home}/signInPolicy"')[2]
    token, seen = (text.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("formToken", "seen"))
    saved = await visitor.post(f"{home}/signInPolicy", data={"formToken": token, "seen": seen})
    assert saved.status_code == 303
    stale = {"formToken": token, "seen": "0" * 32, "secondFactorRequired": "1"}
    assert (await visitor.post(f"{home}/signInPolicy", data=stale)).status_code == 412
