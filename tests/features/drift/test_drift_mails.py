"""Emails about drift: who gets one, what it says, and how often."""

from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from launchbay.clock import Clock, to_ms
from launchbay.egress.mail import Email, MailServer
from launchbay.features.drift import rows as store
from launchbay.features.drift.mails import DriftMails
from launchbay.features.drift.rules import Finding, count_new
from launchbay.store.database import Connection
from tests.support.changes import FINDING
from tests.support.databases import Databases
from tests.support.external_services import Postbox, postbox
from tests.support.owner_mails import mails_of
from tests.support.service import EMAIL, Api, accepted, running_api

pytestmark = pytest.mark.slow  # each starts a mail server
MANIFEST = "launch: {steps: []}\n"
YEARLY = {"cron": "0 0 1 1 *", "mail": True}
BOX, LOCK = (
    replace(FINDING, difference=replace(FINDING.difference, address=f"terraform_data.{name}"))
    for name in ("box", "lock")
)


@pytest.fixture
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url) as api:
        yield api
    databases.drop(url)


async def mailed(api: Api, name: str = "shop") -> str:
    """Return an instance whose owner gets emails, and that a check has found as it should be."""
    application = await api.application(MANIFEST)
    instance = await api.launch(application, instanceName=name)
    await api.settled(instance)
    accepted(await api.put(f"applications/{application}/drift-schedule", YEARLY))
    await found(api, instance)
    return instance


async def found(api: Api, instance: str, *findings: Finding) -> None:
    """Note what a check seems to have found."""
    async with api.database.transaction() as connection:
        made = "INSERT INTO drift_reports (instance_id, organization_id) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        await connection.execute(made, [instance, api.organization])
        noted = "UPDATE drift_reports SET findings = %s, new_findings = %s, waiting_since = NULL WHERE instance_id = %s"
        text = msgspec.json.encode(findings).decode()
        await connection.execute(noted, [text, count_new(findings, to_ms(api.clock.now())), instance])


async def pass_hours(api: Api, hours: float) -> None:
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE drift_mails SET mail_at = mail_at - %(h)s * interval '1 hour',"
            " sent_at = sent_at - %(h)s * interval '1 hour'",
            {"h": hours},
        )


async def send(api: Api, box: Postbox, server: MailServer | None = None) -> list[tuple[str, str]]:
    """Send what is due, and return subjects and texts of all letters so far."""
    await mails_of(api, DriftMails, server or box.server).advance()
    return [(each["Subject"], each.get_content()) for each in box.letters]


async def test_an_owner_hears_once_a_day_of_what_checks_find(api: Api) -> None:
    async with postbox() as box:
        shop, bar = await mailed(api), await mailed(api, "bar")
        silent = await api.running(MANIFEST, instanceName="silent")
        for instance in (shop, silent):
            await found(api, instance, BOX)
        await found(api, bar, BOX, LOCK)
        assert await send(api, box) == [], "the others of the same round of checks come first"

        await pass_hours(api, 1)
        [(subject, text)] = await send(api, box)

        assert box.letters[0]["To"] == EMAIL
        assert subject == "2 instances have drifted"
        lines = [each for each in text.splitlines() if each.startswith("- ")]
        base = "https://bay.example/console/instances"
        assert lines == [f"- bar: 2 findings, {base}/{bar}/drift", f"- shop: 1 finding, {base}/{shop}/drift"]
        await found(api, shop, BOX, LOCK)
        await pass_hours(api, 22)
        assert len(await send(api, box)) == 1, "a day isn't over"
        await pass_hours(api, 2)
        assert [each for each, _ in await send(api, box)] == [subject, subject]
        await pass_hours(api, 50)
        assert len(await send(api, box)) == 2, "nothing new was found"


async def test_nobody_hears_of_what_is_ignored_gone_or_no_longer_theirs(api: Api) -> None:
    async with postbox() as box:
        shop, bar = await mailed(api), await mailed(api, "bar")
        await found(api, shop, replace(BOX, state="ignored", until=9_000_000_000_000))
        await found(api, bar, BOX)
        await found(api, bar, replace(BOX, state="gone"))
        await pass_hours(api, 1)
        assert await send(api, box) == []

        await found(api, shop, BOX)
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE users SET enabled = false")
        await pass_hours(api, 1)
        assert await send(api, box) == []


async def test_a_paused_schedule_sends_none_even_if_somebody_starts_a_check(api: Api) -> None:
    async with postbox() as box:
        shop = await mailed(api)
        application = accepted(await api.get(f"instances/{shop}"))["applicationId"]
        accepted(await api.put(f"applications/{application}/drift-schedule", {**YEARLY, "paused": True}))
        await found(api, shop, BOX)
        await pass_hours(api, 1)
        assert await send(api, box) == []

        accepted(await api.put(f"applications/{application}/drift-schedule", YEARLY))
        await found(api, shop, BOX, LOCK)
        await pass_hours(api, 1)

        [(_, text)] = await send(api, box)
        assert "shop: 2 findings" in text, "also what was found meanwhile, as it still differs"


async def test_a_mail_server_that_is_away_gets_the_same_email_later(api: Api) -> None:
    async with postbox() as box:
        await found(api, await mailed(api), BOX)
        await pass_hours(api, 1)
        away = MailServer(host="127.0.0.1", port=1, sender="bay@example.org", security="none")
        assert await send(api, box, away) == []
        await pass_hours(api, 1)
        assert [each for each, _ in await send(api, box)] == ["shop has drifted"]


async def test_what_is_found_while_an_email_is_sent_is_in_that_of_the_next_day(api: Api) -> None:
    async with postbox() as box:
        shop = await mailed(api)
        await found(api, shop, BOX)
        await pass_hours(api, 1)
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE drift_mails SET noted_at = noted_at - interval '1 hour'")
        sends = box.server.send

        class Slow:
            """A mail server during whose answer a check finds something else."""

            domain = box.server.domain

            async def send(self, email: Email, clock: Clock) -> object:
                await found(api, shop, BOX, LOCK)
                return await sends(email, clock)

        await send(api, box, cast("MailServer", Slow()))
        await pass_hours(api, 25)
        assert len(await send(api, box)) == 2


async def test_an_owner_hears_of_no_instance_that_they_may_no_longer_read(api: Api) -> None:
    async with postbox() as box:
        shop, bar = await mailed(api), await mailed(api, "bar")
        await api.member(f"Read: [/applications/*/instances/{bar}]")
        async with api.database.transaction() as connection:
            [[user, email]] = await (
                await connection.execute("SELECT id, email FROM users ORDER BY created_at DESC LIMIT 1")
            ).fetchall()
            await connection.execute("UPDATE instances SET owner_id = %s", [user])
        for instance in (shop, bar):
            await found(api, instance, BOX)
        await pass_hours(api, 1)

        [(subject, text)] = await send(api, box)

        assert (box.letters[0]["To"], subject) == (email, "bar has drifted")
        assert shop not in text

        async with api.database.transaction() as connection:
            await connection.execute("DELETE FROM memberships WHERE user_id = %s", [user])
            await connection.execute("UPDATE users SET access_stamp = access_stamp + 1 WHERE id = %s", [user])
        await found(api, bar, BOX, LOCK)
        await pass_hours(api, 25)
        assert len(await send(api, box)) == 1, "who has left the organization hears of nothing"


async def test_a_slow_mail_server_gets_each_email_once_from_two_servers(api: Api) -> None:
    async with postbox() as box:
        await found(api, await mailed(api), BOX)
        for _ in range(2):
            member = await api.member("Read: [/*]", "CreateInstance: [/*]")
            application = await api.application(MANIFEST)
            instance = accepted(await member.post(f"applications/{application}/launch", {}))["id"]
            await api.settled(instance)
            accepted(await api.put(f"applications/{application}/drift-schedule", YEARLY))
            await found(api, instance)
            await found(api, instance, BOX)
        await pass_hours(api, 1)
        sends = box.server.send

        class Slow:
            """A mail server that takes ten minutes, after which another server looks for what is due."""

            domain = box.server.domain

            async def send(self, email: Email, clock: Clock) -> object:
                answer = await sends(email, clock)
                await pass_hours(api, 1 / 6)
                await send(api, box)
                return answer

        await send(api, box, cast("MailServer", Slow()))

        assert len(box.letters) == 3
        assert len({each["To"] for each in box.letters}) == 3


async def test_what_is_found_after_an_email_had_nothing_to_say_waits_no_day(api: Api) -> None:
    async with postbox() as box:
        shop = await mailed(api)
        await found(api, shop, BOX)
        await found(api, shop, replace(BOX, state="gone"))
        await pass_hours(api, 1)
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE drift_mails SET noted_at = noted_at - interval '1 hour'")
        reads = store.list_for_mail

        async def late(connection: Connection, **given: Any) -> Any:
            nothing = await reads(connection, **given)
            await found(api, shop, BOX)
            return nothing

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "list_for_mail", late)
            assert await send(api, box) == []
        await pass_hours(api, 1)
        assert [each for each, _ in await send(api, box)] == ["shop has drifted"]
