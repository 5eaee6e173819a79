"""kill -9 in the middle of adoptions and of what takes them over: all or nothing, and nothing twice."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.adoption import STEADY, applied, state_text
from tests.support.drift import boxes
from tests.support.eventually import eventually
from tests.support.external_services import needs_tofu
from tests.support.servers import Remote, calling, killed, killed_amid, serving
from tests.support.service import accepted, fresh_name

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(400)]


async def _instances(remote: Remote, application: str) -> list[str]:
    return [each["id"] for each in await remote.read(f"applications/{application}/instances")]


async def test_an_adoption_is_whole_or_nothing_though_its_server_is_killed(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as server:
        async with calling(server) as remote:
            application = await remote.application(boxes(STEADY))
        path = f"applications/{application}/adoptions"
        for number, delay_s in enumerate((0.0, 0.02, 0.1)):
            # Many resources take long enough to be interrupted.
            state = state_text(f"lineage {number}", *(f"box{place}" for place in range(500)))
            body = {"launch": {"instanceName": f"shop {number}"}, "states": [{"component": "web", "state": state}]}
            async with calling(server) as remote:
                before = await _instances(remote, application)
                [is_done] = await killed_amid(server, remote.post(path, body), after_s=delay_s)
            async with killed(server) as remote:
                made = [each for each in await _instances(remote, application) if each not in before]
                assert made or not is_done
                if not made:  # nothing is left that would refuse the same state
                    made = [accepted(await remote.post(path, body))["instanceId"]]
                [instance] = made
                assert (await remote.read(f"instances/{instance}"))["status"] == "Running"
                found = await remote.read(f"instances/{instance}/adoption")
                assert (found["managed"], found["states"][0]["resourceCount"]) == ("observe", 500)


async def _planned(remote: Remote, change_set: str) -> Any:
    found = await eventually(
        lambda: remote.read(f"change-sets/{change_set}"),
        lambda found: found["plan"][0]["effects"]["status"] not in {"Waiting", "Planning"},
        within_s=90,
    )
    assert found["plan"][0]["effects"]["status"] == "Planned", found
    return found


@needs_tofu
async def test_what_takes_over_does_it_once_or_says_that_it_did_not_though_its_server_is_killed(tmp_path: Path) -> None:
    outcomes: set[str] = set()
    async with serving(tmp_path, {"LAUNCHBAY_SERVER_PROGRAMS": "opentofu"}) as server:
        for number, delay_s in enumerate((0.0, 0.05, 2.0)):
            ledger = tmp_path / f"ledger {number}"
            command = f"echo made >> '{ledger}'"
            made = f"""
resource "terraform_data" "made" {{
  provisioner "local-exec" {{ command = "{command}" }}
}}
"""
            body = {"states": [{"component": "web", "state": applied(tmp_path / f"world {number}")}]}
            async with calling(server) as remote:
                application = await remote.application(boxes(STEADY + made), fresh_name("shop"))
                adopted = accepted(await remote.post(f"applications/{application}/adoptions", body))
                instance = adopted["instanceId"]
                asked = {"act": "manage", "ids": [instance]}
                path = f"organizations/{remote.organization}/change-sets"
                change_set = accepted(await remote.post(path, asked))["id"]
                await _planned(remote, change_set)
                apply = remote.post(f"change-sets/{change_set}/apply")
                [is_done] = await killed_amid(server, apply, after_s=delay_s)
            async with killed(server) as remote:
                found = await remote.read(f"change-sets/{change_set}")
                managed = (await remote.read(f"instances/{instance}/adoption"))["managed"]
                assert (found["status"], managed) == ("Ready", "observe") or managed == "full"
                if found["status"] == "Ready":  # nothing has happened, so the same change set can be applied
                    assert not is_done
                    assert not ledger.exists()
                    accepted(await remote.post(f"change-sets/{change_set}/apply"))
                found = await eventually(
                    partial(remote.read, f"change-sets/{change_set}"),
                    lambda found: found["finishedAt"] is not None,
                    within_s=90,
                )
                lines = ledger.read_text().splitlines() if ledger.exists() else []
                outcomes.add(found["status"])
                if found["status"] == "Succeeded":
                    assert lines == ["made"]
                else:
                    assert len(lines) <= 1
                    assert "approved" in found["plan"][0]["message"]
                assert (await remote.read(f"instances/{instance}/adoption"))["managed"] == "full"
    assert "Succeeded" in outcomes
