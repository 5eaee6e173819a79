"""Emails about instances that end soon: who gets one, what it says, and how often."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from launchbay.errors import EgressFailed
from launchbay.features.lifetimes.mails import EndingMails, left
from launchbay.features.lifetimes.usecases import WarningRunner
from tests.support.databases import Databases
from tests.support.owner_mails import Mailbox, app_of, mails_of
from tests.support.service import EMAIL, Api, Caller, accepted, fresh_name, running_api


@pytest.fixture
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        yield api
    databases.drop(url)


async def mailed(
    api: Api, count: int = 1, *, hours: float = 0.5, caller: Caller | None = None, organization: str = ""
) -> list[str]:
    """Return instances of the caller that end soon, of an application whose owners hear of it."""
    caller = caller or api
    organization = organization or api.organization
    created = await caller.post(f"organizations/{organization}/applications", {"name": fresh_name("app")})
    path = f"applications/{accepted(created)['id']}"
    accepted(await caller.put_yaml(f"{path}/manifest", "launch: {steps: []}\n"))
    accepted(await caller.put(f"{path}/lifetime", {"mail": True}))
    launched = [await caller.post(f"{path}/launch", {"instanceName": f"shop{each}"}) for each in range(count)]
    ids = [accepted(each)["id"] for each in launched]
    await run(
        api,
        "WITH moved AS (UPDATE schedules SET created_at = now() - interval '5 days',"
        " due_at = now() + %s * interval '1 hour' WHERE instance_id = ANY (%s) AND kind = 'expiry'"
        " RETURNING instance_id, due_at)"
        " UPDATE instances SET destroy_at = due_at FROM moved WHERE id = instance_id",
        hours,
        ids,
    )
    return ids


async def run(api: Api, statement: str, *values: object) -> list[tuple[object, ...]]:
    async with api.database.transaction() as connection:
        answer = await connection.execute(statement, list(values))
        return await answer.fetchall() if answer.description else []


async def warn(api: Api) -> None:
    assert not await WarningRunner(app_of(api), has_mail=True).advance()


async def send(api: Api, box: Mailbox) -> list[tuple[str, str]]:
    """Send what is due, as another process does; return receivers and subjects of all emails so far."""
    await mails_of(api, EndingMails, box.server).advance()
    return box.sent


async def pass_minutes(api: Api, minutes: float) -> None:
    await run(api, "UPDATE expiry_warnings SET mail_at = mail_at - %s * interval '1 minute'", minutes)


async def owner(api: Api, *instances: str) -> tuple[str, str]:
    """Give instances to a new member that may read them; return their ID and address."""
    await api.member(*(f"Read: [/applications/*/instances/{each}]" for each in instances))
    [[user, email]] = await run(api, "SELECT id, email FROM users ORDER BY id DESC LIMIT 1")
    await run(api, "UPDATE instances SET owner_id = %s WHERE id = ANY (%s)", user, list(instances))
    return str(user), str(email)


async def test_who_may_no_longer_read_an_instance_hears_nothing_of_its_end(api: Api) -> None:
    gone, disabled, unread, serviced, seen = await mailed(api, 5)
    left_id, _ = await owner(api, gone)
    disabled_id, _ = await owner(api, disabled)
    unread_id, _ = await owner(api, unread)
    _, email = await owner(api, seen)
    service = {"name": "bot", "roles": ["Administrator"]}
    account = accepted(await api.post(f"organizations/{api.organization}/serviceAccounts", service))["id"]
    await run(api, "UPDATE instances SET owner_id = %s WHERE id = %s", account, serviced)
    await warn(api)
    await run(api, "DELETE FROM memberships WHERE user_id = %s", left_id)
    await run(api, "UPDATE users SET enabled = false WHERE id = %s", disabled_id)
    await run(api, "DELETE FROM role_assignments WHERE user_id = %s", unread_id)
    await run(api, "UPDATE users SET access_stamp = access_stamp + 1")
    box = Mailbox()
    assert await send(api, box) == [(email, "shop4 ends in 30 minutes")]
    await pass_minutes(api, 60)
    assert len(await send(api, box)) == 1, "nobody is asked for again"


SOONER = (
    "INSERT INTO schedules (id, instance_id, kind, workflow, due_at, owner_id)"
    " SELECT 'sooner', id, 'workflow', 'destroy', now() + interval '1 minute', owner_id FROM instances"
)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("UPDATE instances SET destroy_at = destroy_at + interval '1 day'", id="moved"),
        pytest.param("UPDATE instances SET destroy_at = NULL", id="taken away"),
        pytest.param("UPDATE instances SET status = 'Destroyed'", id="destroyed"),
        pytest.param(SOONER, id="destroyed sooner"),
        pytest.param("DELETE FROM lifetime_rules", id="no longer a rule"),
    ],
)
async def test_nobody_hears_of_an_end_that_is_not_so_any_more(api: Api, change: str) -> None:
    await mailed(api)
    await warn(api)
    await run(api, change)
    assert await send(api, Mailbox()) == []


async def test_an_email_that_comes_late_says_how_long_is_left_and_none_comes_after_the_end(api: Api) -> None:
    await mailed(api, hours=23)
    await warn(api)
    box = Mailbox()
    for minutes in (10, -10):
        await run(api, "UPDATE instances SET destroy_at = now() + %s * interval '1 minute'", minutes)
        await run(api, "UPDATE schedules SET due_at = now() + %s * interval '1 minute'", minutes)
        await run(api, "UPDATE expiry_warnings SET mail_at = now(), destroy_at = (SELECT destroy_at FROM instances)")
        assert await send(api, box) == [(EMAIL, "shop0 ends in 10 minutes")]


async def test_an_owner_gets_one_email_about_what_ends_at_a_time(api: Api) -> None:
    first, second = await mailed(api, 2)
    await warn(api)
    box = Mailbox()
    assert await send(api, box) == [(EMAIL, "2 instances end, the first in 30 minutes")]
    text = box.emails[0].text
    for name, instance in (("shop0", first), ("shop1", second)):
        assert f"- {name}: " in text
        assert f"  https://bay.example/console/instances/{instance}\n" in text
    assert text.count("UTC. Extend its life") == 2


async def test_after_a_crash_the_same_email_is_sent_again(api: Api) -> None:
    await mailed(api, 2)
    await warn(api)

    async def die() -> None:
        raise KeyboardInterrupt

    box = Mailbox(then=die)
    with pytest.raises(KeyboardInterrupt):
        await send(api, box)
    box.then = None
    assert len(await send(api, box)) == 1, "the process may still be at it"
    await mailed(api)
    await warn(api)  # of another instance, whose email is another one
    await pass_minutes(api, 15)
    await send(api, box)
    assert len(box.emails) == 3
    assert [email.message_id for email in box.emails].count(box.emails[0].message_id) == 2


async def test_a_mail_server_that_is_away_gets_the_email_later_and_one_that_refuses_never(api: Api) -> None:
    await mailed(api)
    await warn(api)
    box = Mailbox()
    for retryable in (True, False):

        async def fail(retryable: bool = retryable) -> None:
            raise EgressFailed("No.", retryable=retryable)

        box.then = fail
        await send(api, box)
        await pass_minutes(api, 15)
    assert len(await send(api, box)) == 2


async def test_two_processes_and_a_slow_mail_server_send_each_email_once(api: Api) -> None:
    instances = await mailed(api, 4)
    for instance in instances[1:]:
        await owner(api, instance)
    await warn(api)
    box = Mailbox()

    async def be_slow() -> None:
        await pass_minutes(api, 10)
        await send(api, Mailbox(box.emails))

    box.then = be_slow
    await send(api, box)
    assert len(box.sent) == len({to for to, _ in box.sent}) == 4


async def test_an_organization_with_many_emails_does_not_hold_up_another(api: Api) -> None:
    instances = await mailed(api, 4)
    for instance in instances:
        await owner(api, instance)
    await warn(api)
    other, organization, _ = await api.outsider()
    await mailed(api, caller=other, organization=organization)
    await warn(api)
    box = Mailbox()
    await send(api, box)
    assert ["outsider" in to for to, _ in box.sent] == [False, True, False, False, False]


def test_the_time_left_is_in_hours_or_minutes() -> None:
    times = [timedelta(hours=23, minutes=58), timedelta(minutes=59, seconds=50), timedelta(seconds=3)]
    assert [left(each) for each in times] == ["1 day", "1 hour", "1 minute"]
