"""kill -9 while people are asked: neither the question nor the answer is lost, and nobody is asked twice."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.servers import Remote, calling, killed, serving
from tests.support.service import accepted

ASKING = """
launch:
  steps:
    - sign-off: {action: approval, parameters: {text: "Deploy?"}, output: {said: comment}}
  return: {said: {value: "{$.said}"}}
"""


@pytest.mark.faults
async def test_neither_question_nor_answer_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as server:
        async with calling(server) as remote:
            instance = await remote.launch(ASKING)
            approval = await _pending(remote, instance)
        async with killed(server) as remote:
            assert (await _pending(remote, instance))["id"] == approval["id"]
            accepted(await remote.post(f"approvals/{approval['id']}/approve", {"comment": "yes"}))
        async with killed(server) as remote:  # perhaps before the step has seen the answer
            document = await remote.settled(instance)
            assert document["status"] == "Running", document
            assert document["returnValues"]["said"] == "yes"
            assert len(await remote.read(f"instances/{instance}/approvals")) == 1


async def _pending(remote: Remote, instance: str) -> Any:
    return (await eventually(lambda: remote.read(f"instances/{instance}/approvals"), within_s=60))[0]
