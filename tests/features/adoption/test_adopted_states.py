"""Instances of what somebody made without Launchbay, with the real program."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.adoption import STEADY, adopted, applied
from tests.support.databases import Databases
from tests.support.drift import boxes, checked, drift_of, open_findings
from tests.support.eventually import eventually
from tests.support.external_services import needs_tofu
from tests.support.service import Api, accepted, refused, running_api

pytestmark = [needs_tofu, pytest.mark.slow]
BOX = "terraform_data.box"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


async def status(api: Api, instance: str) -> str:
    return str(accepted(await api.get(f"instances/{instance}"))["status"])


async def listed(api: Api, instance: str) -> Any:
    found = accepted(await api.get(f"organizations/{api.organization}/instances", observed="true"))
    return next((each for each in found if each["id"] == instance), None)


async def take_over(api: Api, instance: str, **approval: Any) -> Any:
    """Make the change set that takes an instance over, and apply it once its plan is there."""
    made = accepted(
        await api.post(f"organizations/{api.organization}/change-sets", {"act": "manage", "ids": [instance]})
    )
    shown = await eventually(
        lambda: api.read(f"change-sets/{made['id']}"),
        lambda found: found["plan"][0]["effects"]["status"] not in {"Waiting", "Planning"},
        within_s=90,
    )
    accepted(await api.post(f"change-sets/{made['id']}/apply", approval))
    await api.settled(instance)
    return shown["plan"][0]["effects"]


async def test_what_runs_becomes_an_instance_of_which_a_plan_changes_nothing(api: Api, tmp_path: Path) -> None:
    state = applied(tmp_path / "shop")

    instance = await adopted(api, state, instanceName="shop")

    assert await status(api, instance) == "Running"
    drift = await drift_of(api, instance)
    assert (drift["status"], drift["problem"], open_findings(drift)) == ("Checked", None, {})
    found = accepted(await api.get(f"instances/{instance}/adoption"))
    assert (found["managed"], found["states"][0]["lineage"]) == ("observe", json.loads(state)["lineage"])
    assert found["states"][0]["resources"] == ["terraform_data.box", "terraform_data.lock"]
    row = await listed(api, instance)
    assert (row["isObserved"], row["health"], row["components"]["running"]) == (True, "Healthy", 1)


async def test_the_first_check_shows_how_what_runs_differs_from_the_manifest(api: Api, tmp_path: Path) -> None:
    instance = await adopted(api, applied(tmp_path / "shop", size=7))

    [finding] = (await drift_of(api, instance))["findings"]
    assert (finding["address"], finding["from"], finding["to"]) == (BOX, {"input": 1}, {"input": 7})


async def test_a_dry_run_says_what_it_would_adopt_and_leaves_nothing(api: Api, tmp_path: Path) -> None:
    application = await api.application(boxes(STEADY))
    states = [{"component": "web", "state": applied(tmp_path / "shop")}]

    said = accepted(await api.post(f"applications/{application}/adoptions", {"states": states, "dryRun": True}))

    assert (said["instanceId"], said["leftOut"]) == (None, [])
    assert said["states"][0]["resources"] == ["terraform_data.box", "terraform_data.lock"]
    assert accepted(await api.get(f"applications/{application}/instances")) == []


async def test_nothing_changes_what_is_only_observed(api: Api, tmp_path: Path) -> None:
    instance = await adopted(api, applied(tmp_path / "shop", size=7))
    attempts = {
        "launch": api.post(f"instances/{instance}/launch", {}),
        "schedule": api.post(f"instances/{instance}/launch/schedule", {"interval": 60_000}),
        "reconfigure": api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}),
    }
    for name, attempt in attempts.items():
        answer = await attempt
        assert answer.status_code in {403, 409}, (name, answer.text)
        assert "only observed" in answer.text, name
        assert "act manage" in answer.text, name
    assert await status(api, instance) == "Running"


async def test_two_adoptions_of_one_state_are_one_and_the_other_names_it(api: Api, tmp_path: Path) -> None:
    state = applied(tmp_path / "shop")
    instance = await adopted(api, state, instanceName="the first")
    application = await api.application(boxes(STEADY))
    body = {"states": [{"component": "web", "state": state}]}

    error = refused(await api.post(f"applications/{application}/adoptions", body), 400)

    assert "'the first'" in str(error)
    assert instance in str(error)


async def test_destroying_what_is_only_observed_forgets_it_and_leaves_it(api: Api, tmp_path: Path) -> None:
    made = tmp_path / "made"
    module = (
        STEADY
        + f"""
resource "terraform_data" "file" {{
  provisioner "local-exec" {{
    when    = destroy
    command = "touch {made}"
  }}
}}
"""
    )
    state = applied(tmp_path / "shop", module)
    instance = await adopted(api, state, manifest=boxes(module))

    accepted(await api.post(f"instances/{instance}/destroy", {}))
    await api.settled(instance)

    assert await status(api, instance) == "Destroyed"
    assert not made.exists(), "what the module does when its resources are destroyed"
    async with api.database.connection() as connection:
        for table in ("kept_documents", "adoptions"):
            left = await (
                await connection.execute(f"SELECT 1 FROM {table} WHERE instance_id = %s", [instance])
            ).fetchall()
            assert left == [], table
    again = await adopted(api, state)
    assert await status(api, again) == "Running"


async def test_a_change_set_takes_it_over_with_the_plan_that_was_shown(api: Api, tmp_path: Path) -> None:
    instance = await adopted(api, applied(tmp_path / "shop", size=7))

    effects = await take_over(api, instance)

    assert [each["address"] for step in effects["steps"] for each in step["effects"]][:1] == [BOX]
    assert await status(api, instance) == "Running"
    assert accepted(await api.get(f"instances/{instance}/adoption"))["managed"] == "full"
    assert await listed(api, instance) is None
    assert open_findings(await checked(api, instance)) == {}
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 3}}))
    await api.settled(instance)
    assert await status(api, instance) == "Running"
