"""Versions that come to the next environment by themselves when its gates are open."""

import asyncio
from typing import Any

import pytest

from tests.support.databases import until_locked
from tests.support.eventually import eventually
from tests.support.promotion import NEW, OLD, Way, way
from tests.support.service import Api, Caller, accepted, refused

pytestmark = pytest.mark.slow  # the work looks once a second


async def arrived(found: Way, number: int, version: int = NEW) -> Any:
    """Return an instance once it has a version."""
    await eventually(lambda: found.api.document(found.instances[number]), lambda found: found["version"] == version)
    return await found.api.settled(found.instances[number])


async def said(found: Way, part: str, number: int = 1) -> Any:
    """Return the environment of the board once its message contains a text."""
    return (await eventually(found.board, lambda found: part in (found[number]["message"] or "")))[number]


async def at_once(found: Way) -> None:
    """Let the work look again without its pause."""
    async with found.api.database.transaction() as connection:
        await connection.execute(
            "UPDATE promotion_attempts SET looks_at = now() WHERE application_id = %s", (found.application,)
        )


async def test_a_version_passes_all_environments_whose_gates_are_open(api: Api) -> None:
    found = await way(api, 3)
    await found.order({"automatic": True}, {"automatic": True, "soak": 3_600_000})
    await found.release()
    assert (await arrived(found, 1))["parameters"]["size"] == 2
    column = await said(found, "must run in", 2)
    assert (column["version"], column["candidate"]) == (OLD, NEW)
    await found.soaked()
    await at_once(found)
    await arrived(found, 2)
    assert [each["version"] for each in await found.board()] == [NEW, NEW, NEW]


async def test_approvals_are_waited_for_and_then_it_is_applied(api: Api) -> None:
    found = await way(api)
    await found.order({"automatic": True, "approvals": 1})
    await found.release()
    column = await said(found, "is Pending")
    other = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    accepted(await other.post(f"change-sets/{column['changeSetId']}/approve"))
    await at_once(found)
    await arrived(found, 1)


async def test_it_waits_while_the_environment_is_frozen(api: Api) -> None:
    found = await way(api)
    frozen = f"environments/{found.environments[1]}/freeze"
    accepted(await api.put(frozen, {"reason": "Incident 13."}))
    await found.order({"automatic": True})
    await found.release()
    await said(found, "Incident 13.")
    accepted(await api.delete(frozen))  # it wakes what waits
    await arrived(found, 1)
    assert (await found.board())[1]["message"] is None


async def test_a_refusal_without_an_end_is_tried_again_within_a_minute(api: Api) -> None:
    found = await way(api)
    accepted(await api.put(f"environments/{found.environments[1]}/freeze", {"reason": "Holidays."}))
    await found.order({"automatic": True})
    await found.release()
    await said(found, "Holidays.")
    async with api.database.transaction() as connection:
        cursor = await connection.execute(
            "SELECT looks_at < now() + interval '61 s' FROM promotion_attempts WHERE application_id = %s",
            (found.application,),
        )
        assert await cursor.fetchone() == (True,)


async def test_a_message_is_of_its_version(api: Api) -> None:
    found = await way(api)
    await found.order({"soak": 3_600_000})
    await found.release()
    async with api.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO promotion_attempts (application_id, environment_id, organization_id, message, version) "
            "VALUES (%s, %s, %s, 'Old news.', %s)",
            (found.application, found.environments[1], api.organization, NEW),
        )
    assert (await found.board())[1]["message"] == "Old news."
    await found.release(NEW + 1)
    assert (await found.board())[1]["message"] is None


async def test_what_somebody_promoted_by_hand_is_applied_when_its_gates_open(api: Api) -> None:
    found = await way(api)
    await found.order({"automatic": True, "soak": 3_600_000})
    await found.release()
    made = accepted(await found.propose())["changeSet"]
    assert made["status"] == "Ready"
    await found.soaked()
    await at_once(found)
    await arrived(found, 1)
    assert (await api.document(found.instances[1]))["version"] == NEW
    ended = accepted(await api.get(f"change-sets/{made['id']}"))
    assert ended["status"] in {"Applying", "Succeeded"}


async def test_a_change_set_that_can_no_longer_be_applied_is_made_again(api: Api) -> None:
    found = await way(api)
    await found.order({"automatic": True, "soak": 3_600_000})
    await found.release()
    stale = accepted(await found.propose())["changeSet"]["id"]
    accepted(await api.put(f"instances/{found.instances[1]}/configuration", {"parameters": {"size": 9}}))
    await api.settled(found.instances[1])
    await found.soaked()
    await at_once(found)
    assert (await arrived(found, 1))["parameters"]["size"] == 9
    assert accepted(await api.get(f"change-sets/{stale}"))["status"] == "Expired"


async def test_a_change_set_that_expired_is_made_again(api: Api) -> None:
    found = await way(api)
    await found.order({"automatic": True, "soak": 3_600_000})
    await found.release()
    expired = accepted(await found.propose())["changeSet"]["id"]
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE change_sets SET expires_at = now() WHERE id = %s", (expired,))
    await found.soaked()
    await at_once(found)
    await arrived(found, 1)


async def setter(api: Api) -> Caller:
    return await api.member(
        "Read: [/*]", "EditInstance: [/*]", "EditApplication: [/*]", "EditEnvironment: [/*]", "CreateInstance: [/*]"
    )


async def test_it_stops_once_who_set_the_order_may_not_promote_anymore(api: Api) -> None:
    found = await way(api)
    someone = await setter(api)
    await found.order({"automatic": True, "soak": 3_600_000}, caller=someone)
    await found.release()
    await said(found, "must run in")
    async with api.database.transaction() as connection:
        await connection.execute(
            "DELETE FROM role_assignments WHERE user_id = (SELECT author_id FROM promotion_orders WHERE owner_id = %s)",
            (found.application,),
        )
    await found.soaked()
    await at_once(found)
    await said(found, "Automatic promotion has stopped")
    assert (await api.document(found.instances[1]))["version"] == OLD
    # Who may do it saves the order again.
    await found.order({"automatic": True})
    await arrived(found, 1)


async def promotions(found: Way) -> list[str]:
    """Return the IDs of the application's promotions."""
    async with found.api.database.transaction() as connection:
        cursor = await connection.execute(
            "SELECT change_set_id FROM promotions WHERE application_id = %s", (found.application,)
        )
        return [str(row[0]) for row in await cursor.fetchall()]


async def test_a_rejected_version_is_tried_again_only_by_a_person(api: Api) -> None:
    found = await way(api)
    await found.order({"automatic": True, "approvals": 1})
    await found.release()
    column = await said(found, "is Pending")
    other = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    accepted(await other.post(f"change-sets/{column['changeSetId']}/reject"))
    await at_once(found)
    column = await said(found, "is Rejected")
    assert await promotions(found) == [column["changeSetId"]]
    made = accepted(await found.propose())
    assert made["isNew"], "a person may promote it again"
    assert sorted(await promotions(found)) == sorted([column["changeSetId"], made["changeSet"]["id"]])


async def test_a_rule_about_who_acts_later_holds_for_it(api: Api) -> None:
    found = await way(api)
    rules = "- name: no\n  when: $.kind == 'reconfigure'\n  deny: Not while we move.\n"
    accepted(await api.put(f"environments/{found.environments[1]}/change-rules", {"rules": rules}))
    await found.order({"automatic": True})
    await found.release()
    await said(found, "Not while we move.")
    direct = await api.put(f"instances/{found.instances[1]}/configuration", {"manifestVersion": NEW})
    refused(direct, 403)
    accepted(await api.put(f"environments/{found.environments[1]}/change-rules", {"rules": ""}))
    await at_once(found)
    await arrived(found, 1)


async def test_what_holds_the_organization_waits_for_no_promotion_and_none_waits_for_it(api: Api) -> None:
    found = await way(api)
    await found.order({"automatic": True, "soak": 3_600_000})
    await found.release()
    await said(found, "must run in")
    await found.soaked()
    async with api.database.transaction() as holder, asyncio.timeout(20):
        await holder.execute("SELECT FROM organizations WHERE id = %s FOR NO KEY UPDATE", (api.organization,))
        await at_once(found)
        await api.round_of("promotions")
        await holder.execute(  # as an order does that is saved with a condition
            "DELETE FROM promotion_attempts WHERE application_id = %s", (found.application,)
        )
    await arrived(found, 1)


async def test_who_promotes_by_hand_locks_the_organization_before_the_promotion(api: Api) -> None:
    found = await way(api)
    await found.order({"automatic": True, "soak": 3_600_000})
    await found.release()
    key = f"launchbay promotion {found.application} {found.environments[1]}"
    async with api.database.transaction() as holder, asyncio.timeout(20):
        await holder.execute("SELECT FROM organizations WHERE id = %s FOR NO KEY UPDATE", (api.organization,))
        by_hand = asyncio.create_task(found.propose())
        await until_locked(found.api.database.url, statement="FROM organizations")
        # Automatic promotion locks it now, as who holds the organization.
        cursor = await holder.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))", (key,))
        assert await cursor.fetchone() == (True,)
    accepted(await by_hand)
    await found.soaked()
    await at_once(found)
    await arrived(found, 1)
