"""How long instances live: rules, extensions, and warnings before the end."""

import time
from typing import Any

import pytest

from launchbay.features.lifetimes import rows as store
from launchbay.features.lifetimes.mails import EndingMails
from launchbay.features.lifetimes.rules import WARNINGS_S
from launchbay.features.lifetimes.usecases import WarningRunner
from tests.support.databases import Databases
from tests.support.external_services import postbox
from tests.support.owner_mails import app_of, mails_of
from tests.support.service import EMAIL, Api, accepted, refused, running_api

MANIFEST = "launch: {steps: []}"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def lifetime(api: Api, instance: str) -> Any:
    return accepted(await api.get(f"instances/{instance}/lifetime"))


async def test_without_rules_a_launch_lives_for_an_hour_or_as_it_says(api: Api) -> None:
    application = await api.application(MANIFEST)
    one = await lifetime(api, await api.launch(application))
    assert abs(one["destroyAt"] - one["createdAt"] - HOUR_MS) < 5_000
    assert (one["latestAt"], one["extensions"], one["rules"]["mayNever"]) == (None, 0, True)
    assert [each["kind"] for each in one["coming"]] == ["destroy"]
    forever = await lifetime(api, await api.launch(application, destroyInterval=-1))
    assert (forever["destroyAt"], forever["coming"]) == (None, [])


async def test_rules_of_application_and_environment_hold_together(api: Api) -> None:
    application, environment = await api.application(MANIFEST), await api.offer()
    rules = {"defaultMs": 2 * DAY_MS, "greatestMs": 9 * DAY_MS, "extensions": 5}
    accepted(await api.put(f"applications/{application}/lifetime", rules))
    accepted(await api.put(f"environments/{environment}/lifetime", {"greatestMs": 3 * DAY_MS, "mayNever": False}))
    shown = accepted(await api.get(f"applications/{application}/lifetime"))
    assert shown == {**rules, "mayNever": True, "extendMs": None, "graceMs": None, "idleMs": None, "mail": False}
    body = {"environmentId": environment}
    preview = accepted(await api.post(f"applications/{application}/launch/preview", body))
    assert preview["destroyAfterMs"] == 2 * DAY_MS
    found = await lifetime(api, await api.launch(application, **body))
    assert abs(found["destroyAt"] - found["createdAt"] - 2 * DAY_MS) < 5_000
    assert found["latestAt"] == found["createdAt"] + 3 * DAY_MS
    assert [each["kind"] for each in found["coming"]] == ["warning", "warning", "destroy"]
    for wanted in (-1, 3 * DAY_MS + 1):
        answer = await api.post(f"applications/{application}/launch", {**body, "destroyInterval": wanted})
        assert "the rules for lifetimes" in refused(answer, 400, "LifetimeRule")
        told = accepted(
            await api.post(f"applications/{application}/launch/preview", {**body, "destroyInterval": wanted})
        )
        assert "the rules for lifetimes" in told["errors"][0]


async def test_a_new_end_must_keep_the_rules(api: Api) -> None:
    application = await api.application(MANIFEST)
    accepted(await api.put(f"applications/{application}/lifetime", {"greatestMs": DAY_MS}))
    instance = await api.launch(application)
    path = f"instances/{instance}/destroyAt"
    refused(await api.put(path, {"destroyAt": -1}), 400, "LifetimeRule")
    refused(await api.put(path, {"destroyAt": int(time.time() * 1000) + 2 * DAY_MS}), 400, "LifetimeRule")
    accepted(await api.put(path, {"destroyAt": int(time.time() * 1000) + DAY_MS // 2}))
    accepted(await api.put(f"applications/{application}/lifetime", {}))
    accepted(await api.put(path, {"destroyAt": -1}))


async def test_an_extension_needs_its_permission_and_keeps_the_rules(api: Api) -> None:
    application = await api.application(MANIFEST)
    accepted(
        await api.put(
            f"applications/{application}/lifetime",
            {"extendMs": 2 * HOUR_MS, "extensions": 2, "greatestMs": 4 * HOUR_MS},
        )
    )
    instance = await api.launch(application)
    before = (await lifetime(api, instance))["destroyAt"]
    reader = await api.member(f"Read: [/applications/{application}/*]")
    refused(await reader.post(f"instances/{instance}/lifetime/extend", {"byMs": HOUR_MS}), 403)
    owner = await api.member("Read: [/*]", "RunInstanceWorkflow: [/applications/*/instances/*/workflows/extend]")
    path = f"instances/{instance}/lifetime/extend"
    assert accepted(await owner.post(path, {"byMs": HOUR_MS})) == {"destroyAt": before + HOUR_MS, "endsFirst": None}
    assert "2 hours at most, not 3 hours" in refused(await api.post(path, {"byMs": 3 * HOUR_MS}), 400, "LifetimeRule")
    accepted(await api.post(path, {"byMs": 2 * HOUR_MS - 60_000}))
    assert "allow 2 extensions" in refused(await api.post(path, {"byMs": HOUR_MS}), 400, "LifetimeRule")
    assert (await lifetime(api, instance))["extensions"] == 2


async def test_an_extension_beyond_a_hundred_years_is_refused(api: Api) -> None:
    instance = await api.launch(await api.application(MANIFEST))
    before = await lifetime(api, instance)
    for by_ms in (10**14, 10**15, 2**63 - 1):
        answer = await api.post(f"instances/{instance}/lifetime/extend", {"byMs": by_ms})
        assert "100 years" in refused(answer, 400, "LifetimeRule")
    assert await lifetime(api, instance) == before


async def test_a_whole_number_is_one_however_it_is_written(api: Api) -> None:
    path, headers = f"applications/{await api.application(MANIFEST)}/lifetime", {"content-type": "application/json"}
    accepted(await api.client.put(path, content='{"defaultMs": 1e7, "extensions": 5.0}', headers=headers))
    shown = accepted(await api.get(path))
    assert (shown["defaultMs"], shown["extensions"]) == (10_000_000, 5)
    assert (await api.client.put(path, content='{"defaultMs": 1.5}', headers=headers)).status_code == 400


@pytest.mark.parametrize(
    "rules", [{"defaultMs": -1, "mayNever": False}, {"greatestMs": 0}, {"defaultMs": 2, "greatestMs": 1}]
)
async def test_rules_that_contradict_each_other_are_refused(api: Api, rules: Any) -> None:
    application = await api.application(MANIFEST)
    refused(await api.put(f"applications/{application}/lifetime", rules), 400, "InvalidLifetime")


async def test_webhooks_are_warned_once_before_the_end(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False) as api:
        hook = {"url": "https://hooks.example.com/launchbay", "events": ["expiry"]}
        accepted(await api.post(f"organizations/{api.organization}/webhooks", hook))
        application = await api.application(MANIFEST)
        soon = await api.launch(application)
        late = await api.launch(application, destroyInterval=2 * DAY_MS)
        await api.launch(application)  # it ends within the hour, as who launched it knows
        await ends_in(api, {soon: 0.5, late: 20})
        assert [await warn(api), await warn(api)] == [2, 0]
        assert await warnings(api) == {(soon, 1), (late, 24)}
        await ends_in(api, {late: 0.9})  # moved, as by somebody who shortens its life
        assert await warn(api) == 1
        assert (late, 1) in await warnings(api)


async def test_a_scheduled_destroy_is_warned_of_as_any_other_end(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False) as api:
        hook = {"url": "https://hooks.example.com/launchbay", "events": ["expiry"]}
        accepted(await api.post(f"organizations/{api.organization}/webhooks", hook))
        application = await api.application(MANIFEST)
        soon, outlived, new = [await api.launch(application, destroyInterval=-1) for _ in range(3)]
        for instance in (soon, outlived, new):
            accepted(await api.post(f"instances/{instance}/destroy/schedule", {"interval": 20 * HOUR_MS}))
        accepted(await api.put(f"instances/{outlived}/destroyAt", {"destroyAt": int(time.time() * 1000) + DAY_MS // 4}))
        assert await warn(api) == 0  # who asked for it a moment ago knows
        async with api.database.connection() as connection:
            await connection.execute(
                "UPDATE schedules SET created_at = now() - interval '5 days' WHERE instance_id = ANY (%s)",
                [[soon, outlived]],
            )
        coming = (await lifetime(api, soon))["coming"]
        assert [each["kind"] for each in coming] == ["warning", "destroy"]
        assert [await warn(api), await warn(api)] == [2, 0]
        assert await causes(api) == {(soon, "schedule"), (outlived, "lifetime")}


@pytest.mark.slow
async def test_owners_are_told_by_email_where_the_rules_say_so(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False) as api, postbox() as box:
        told, untold = await api.application(MANIFEST), await api.application(MANIFEST)
        accepted(await api.put(f"applications/{told}/lifetime", {"mail": True}))
        one, other = await api.launch(told, instanceName="shop"), await api.launch(untold)
        await ends_in(api, {one: 0.5, other: 0.5})
        for _ in range(2):
            await WarningRunner(app_of(api), has_mail=True).advance()
            await mails_of(api, EndingMails, box.server).advance()
        (message,) = box.letters
        assert (message["To"], message["Subject"]) == (EMAIL, "shop ends in 30 minutes")


async def ends_in(api: Api, hours: dict[str, float]) -> None:
    """Let instances end in so many hours, as if somebody had said so days ago."""
    async with api.database.connection() as connection:
        for instance, in_hours in hours.items():
            await connection.execute(
                "WITH moved AS (UPDATE schedules SET created_at = now() - interval '5 days',"
                " due_at = now() + %s * interval '1 hour' WHERE instance_id = %s AND kind = 'expiry'"
                " RETURNING instance_id, due_at)"
                " UPDATE instances SET destroy_at = due_at FROM moved WHERE id = instance_id",
                [in_hours, instance],
            )


async def warn(api: Api) -> int | None:
    async with api.database.connection() as connection:
        return await store.warn(
            connection, ahead_s=list(WARNINGS_S), longest_s=max(WARNINGS_S), has_mail=False, count=100
        )


async def causes(api: Api) -> set[tuple[str, str]]:
    """Return the instances of the warnings for webhooks, with what ends them."""
    async with api.database.connection() as connection:
        answer = await connection.execute("SELECT body::json FROM webhook_deliveries WHERE event = 'expiry'")
        return {(row[0]["instance"], row[0]["expiry"]["cause"]) for row in await answer.fetchall()}


async def warnings(api: Api) -> set[tuple[str, int]]:
    """Return the instances of the warnings for webhooks, with the hours that they name."""
    async with api.database.connection() as connection:
        answer = await connection.execute("SELECT body::json FROM webhook_deliveries WHERE event = 'expiry'")
        return {(row[0]["instance"], row[0]["expiry"]["hours"]) for row in await answer.fetchall()}
