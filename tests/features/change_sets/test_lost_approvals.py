"""Approvals of people who have left count nowhere, and are shown so."""

from typing import Any

import pytest

from tests.support.pages import browser, get, words_of
from tests.support.service import EMAIL, PASSWORD, Api, accepted, fresh_name, own_service, person, refused

api = own_service  # whose administrator administers the server

ROLE = "- Read: [/*]\n- ApproveInstanceWorkflow: [/*]\n"


async def leave(api: Api, how: str, user_id: str, role_id: str) -> None:
    """Let somebody lose the right to approve."""
    users = f"organizations/{api.organization}/users/{user_id}"
    if how == "disabled":
        accepted(await api.put(users, {"enabled": False}))
    elif how == "removed":
        accepted(await api.delete(users))
    else:
        accepted(await api.put(f"roles/{role_id}", {"name": fresh_name("reader"), "permissions": "- Read: [/*]\n"}))


async def approved(api: Api, rules: str | None) -> tuple[str, Any, str]:
    """Return a change set that needs one approval and has it, who gave it, and the role that lets them."""
    environment, application = await api.offer(), await api.application()
    if rules is None:
        accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    else:
        accepted(await api.put(f"environments/{environment}/change-rules", {"rules": rules}))
    body = {"act": "launch", "applicationId": application, "launch": {"environmentId": environment}}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
    name = fresh_name("approver")
    role = accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": ROLE}))
    approver = await person(api, name)
    accepted(await approver.post(f"change-sets/{made}/approve"))
    return f"change-sets/{made}", approver, role["id"]


@pytest.mark.parametrize("how", ["disabled", "removed", "lost the right"])
@pytest.mark.parametrize("rules", [None, "- {name: two-eyes, require: {approvals: 1}, because: Ask.}"])
async def test_an_approval_of_somebody_who_left_counts_no_longer_and_is_shown_so(
    api: Api, how: str, rules: str | None
) -> None:
    change_set, approver, role = await approved(api, rules)
    shown = accepted(await api.get(change_set))
    assert [(each["email"], each["counts"]) for each in shown["answers"]] == [(approver.email, True)]
    assert "for somebody who applies it" in shown["waitingFor"]
    await leave(api, how, approver.id, role)
    shown = accepted(await api.get(change_set))
    assert [(each["email"], each["counts"]) for each in shown["answers"]] == [(approver.email, False)]
    assert " for 1 approval by others than " in shown["waitingFor"]
    assert f"{approver.email} approved it, and has lost the permission." in shown["waitingFor"]
    said = refused(await api.post(f"{change_set}/apply"), 409, "ChangeSetPending")
    assert f"{approver.email} approved it, and has lost the permission" in said
    assert accepted(await api.get(change_set))["status"] == "Pending"
    other = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    accepted(await other.post(f"{change_set}/approve"))
    accepted(await api.post(f"{change_set}/apply"))


async def test_the_page_of_a_change_set_shows_which_approvals_count_no_longer(api: Api) -> None:
    change_set, approver, role = await approved(api, None)
    await leave(api, "disabled", approver.id, role)
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        page = f"/console/organizations/{api.organization}/changes/{change_set.partition('/')[2]}"
        text = words_of((await get(visitor, page)).answer.text)
    assert f"This approval no longer counts: {approver.email} has lost the permission." in text
