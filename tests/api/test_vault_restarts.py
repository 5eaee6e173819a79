"""What a job learned from a vault survives the end of its server, sealed, and is still covered after it."""

from pathlib import Path

import pytest

from launchbay.actions import registry
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, running_api
from tests.support.services import (
    LEAK,
    SECRET,
    USER,
    assert_covered,
    everything_shown,
    everything_stored,
    made_vault,
    told,
)

_AGAIN = 'again: {steps: [{leak: {action: test.leak, parameters: {text: "{$.secret}"}}}]}'
SLOW = USER.replace(
    _AGAIN,
    """again:
            steps:
              - get: {action: vault.get-secret, parameters: {name: db}, output: {read: value}}
              - hold: {action: approval, precedingPhases: [get], parameters: {text: Go on?}}
              - leak: {action: test.leak, precedingPhases: [hold], parameters: {text: "{$.read}"}}""",
)
assert SLOW != USER


@pytest.mark.slow
async def test_a_job_goes_on_after_a_restart_with_the_secret_that_it_had_read(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = databases.create()
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, LEAK))
    async with running_api(url, data_dir=tmp_path) as api:
        vault = await made_vault(api, offered_by=api.environment)
        await told(api, vault, "set-secret", name="db", value=SECRET)
        instance = await api.running(SLOW)
        accepted(await api.post(f"instances/{instance}/actions.again", {}))
        await eventually(lambda: executing(api, instance), lambda found: "hold" in [step["name"] for step in found])
        await told(api, vault, "set-secret", name="db", value="another secret altogether")
        assert_covered(await everything_stored(api))
    LEAK.used.clear()
    async with running_api(url, data_dir=tmp_path) as api:
        [asked] = accepted(await api.get(f"instances/{instance}/approvals"))
        accepted(await api.post(f"approvals/{asked['id']}/approve", {}))
        document = await api.settled(instance)
        assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
        # The step was recorded as done with what it read then, and does not read again.
        assert LEAK.used == [SECRET]
        assert_covered(*await everything_shown(api, instance), await everything_stored(api))
    databases.drop(url)


async def executing(api: Api, instance: str) -> list[dict[str, str]]:
    document = await api.document(instance)
    return [step for step in document.get("workflow", {}).get("steps", []) if step["status"] == "Executing"]
