"""kill -9 while people are asked: neither the question nor the answer is lost, and nobody is asked twice."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.servers import Process, administrator_of
from tests.support.service import YAML

ASKING = """
launch:
  steps:
    - sign-off: {action: approval, parameters: {text: "Deploy?"}, output: {said: comment}}
  return: {said: {value: "{$.said}"}}
"""


@pytest.mark.faults
async def test_neither_question_nor_answer_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path)
    server.start()
    try:
        async with administrator_of(server) as client:
            [organization] = (await client.get("organizations")).json()
            created = await client.post(f"organizations/{organization['id']}/applications", json={"name": "a"})
            path = f"applications/{created.json()['id']}"
            (await client.put(f"{path}/manifest", content=ASKING, headers=YAML)).raise_for_status()
            instance = (await client.post(f"{path}/launch", json={})).json()["id"]
            approval = await _pending(client, instance)
        server.kill()
        server.start()
        async with administrator_of(server) as client:
            again = await _pending(client, instance)
            assert again["id"] == approval["id"]
            answered = await client.post(f"approvals/{approval['id']}/approve", json={"comment": "yes"})
            assert answered.status_code == 200, answered.text
        server.kill()  # perhaps before the step has seen the answer
        server.start()
        async with administrator_of(server) as client:
            document = (
                await eventually(
                    lambda: client.get(f"instances/{instance}"),
                    lambda found: found.json()["status"] != "Executing",
                    within_s=60,
                )
            ).json()
            assert document["status"] == "Running", document
            assert document["returnValues"]["said"] == "yes"
            assert len((await client.get(f"instances/{instance}/approvals")).json()) == 1
    finally:
        server.end()


async def _pending(client: httpx.AsyncClient, instance: str) -> Any:
    found = (
        await eventually(lambda: client.get(f"instances/{instance}/approvals"), lambda found: found.json(), within_s=60)
    ).json()
    return found[0]
