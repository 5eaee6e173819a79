"""kill -9 while a program of an action works: it ends with its server, and the step goes on from what was kept."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.external_services import needs_tofu
from tests.support.servers import Process, administrator_of, is_alive, pids
from tests.support.service import BUSY

pytestmark = [pytest.mark.faults, needs_tofu]


def module(work: Path) -> str:
    """Two resources: one that notes in a ledger that it was made, and one that then waits for a file."""
    return f"""
resource "terraform_data" "first" {{
  provisioner "local-exec" {{
    command = "echo made >> {work}/ledger"
  }}
}}
resource "terraform_data" "second" {{
  depends_on = [terraform_data.first]
  provisioner "local-exec" {{
    command = "echo $$ >> {work}/pids; until [ -e {work}/go-on ]; do sleep 0.2; done"
  }}
}}
"""


def escaped(text: str) -> str:
    """Return a text as it stands in a manifest's parameters."""
    return text.replace("$", "$$").replace("{", "{{").replace("}", "}}")


async def test_what_was_made_before_the_kill_is_not_made_again_and_nothing_works_on(tmp_path: Path) -> None:
    step = {"infra": {"action": "opentofu", "parameters": {"module": escaped(module(tmp_path))}}}
    settings = {"LAUNCHBAY_SERVER_PROGRAMS": "opentofu"}
    command = ["serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
    server = Process(command, tmp_path, settings=settings)
    server.start()
    try:
        async with administrator_of(server) as client:
            instance = await _launched(client, {"launch": {"steps": [step]}})
            await eventually(lambda: len(pids(tmp_path / "pids")) == 1)
            await asyncio.sleep(2)  # some looks at the state
        server.kill()
        await eventually(lambda: not any(map(is_alive, pids(tmp_path / "pids"))))

        server.start()
        await eventually(lambda: len(pids(tmp_path / "pids")) == 2)
        (tmp_path / "go-on").touch()

        async with administrator_of(server) as client:
            assert await _status(client, instance) == "Running"
            assert (tmp_path / "ledger").read_text() == "made\n"
            (await client.post(f"instances/{instance}/destroy", json={})).raise_for_status()
            assert await _status(client, instance) == "Destroyed"
    finally:
        server.end()


async def _launched(client: httpx.AsyncClient, manifest: dict[str, Any]) -> str:
    [organization] = (await client.get("organizations")).json()
    created = await client.post(f"organizations/{organization['id']}/applications", json={"name": "a"})
    path = f"applications/{created.json()['id']}"
    yaml = {"Content-Type": "application/x-yaml"}
    (await client.put(f"{path}/manifest", content=json.dumps(manifest), headers=yaml)).raise_for_status()
    return str((await client.post(f"{path}/launch", json={})).json()["id"])


async def _status(client: httpx.AsyncClient, instance: str) -> str:
    answer = await eventually(
        lambda: client.get(f"instances/{instance}"), lambda answer: answer.json()["status"] not in BUSY, within_s=90
    )
    assert answer.json()["errorMessage"] is None, answer.json()["errorMessage"]
    return str(answer.json()["status"])
