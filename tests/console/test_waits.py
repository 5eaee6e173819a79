"""Every kind of wait, asked of every surface: API, console, command and tools say one sentence."""

import asyncio
import html
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import httpx
import httpx2
from mcp.client.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from launchbay.ids import new_id
from launchbay.model.job import WaitKind
from launchbay.model.waits import ISO_TIME
from tests.support.pages import get
from tests.support.service import EMAIL, PASSWORD, Api, accepted, basic, fresh_name, served
from tests.support.shell import Shell

MANIFEST = "launch: {steps: [{rest: {action: wait, parameters: {delay: 1}}}]}"
TOLD = ("retry", "resource", "machine", "peers", "instance")  # what steps say themselves
# How each kind begins. A new kind needs its line here, and its facts below.
SENTENCES: dict[str, str] = {
    "worker": "The job is waiting for a worker; none has sent a heartbeat recently.",
    "limit": "Waiting for its turn: at most 1 job at a time for lock 'db'; 0 have started.",
    "approval": "Waiting for approval by any user who may approve: Deploy 7?",
    "job": "Waiting for job 9, 'grow', of the instance ",
    **{kind: f"The step waits for a {kind}." for kind in TOLD},
    "time": "Step 'rest' of 'workflow' waits for its time.",
    "service": "Waiting for the launch of service 'db', instance ",
    "schedule": "Scheduled 'backup', due since 2026-01-02T03:04:05Z, is waiting for the end of 'launch', run by ",
    "sleep": "Sleeping since 2026-01-02T03:04:05Z, until 2099-01-02T03:04:05Z.",
    "destroy": "The instance is destroyed at 2099-01-02T03:04:05Z. Until then, undo-destroy takes this back.",
}
FACTS = """
INSERT INTO step_waits (job_id, path, fence, wait)
SELECT id, 'workflow#launch/' || kind, fence, json_build_object(
    'kind', kind, 'text', 'The step waits for a ' || kind || '.', 'ends_when', 'It comes.')::text
FROM jobs, unnest(%(told)s::text[]) AS kind WHERE id = %(job)s;
INSERT INTO steps (job_id, path, name, status, is_record, started_at, ends_at)
VALUES (%(job)s, 'workflow#launch/rest', 'rest', 'Executing', true, now(), now() + interval '1 hour');
INSERT INTO approvals
    (id, organization_id, instance_id, job_id, step, text, needed, requesters, not_by_requester, expires_at)
SELECT %(approval)s, organization_id, id, %(job)s, 'workflow#launch/ask', 'Deploy 7?', 1, '{}', false,
       now() + interval '1 hour'
FROM instances WHERE id = %(instance)s;
UPDATE jobs SET is_limited = true WHERE id = %(job)s;
INSERT INTO concurrency_places (job_id, organization_id, bucket, title, most, key, number, alike, is_held, is_destroy)
SELECT %(job)s, organization_id, 'lock db', %(title)s, 1, 'db', 1, '', false, false
FROM instances WHERE id = %(instance)s;
UPDATE jobs SET parent_job_id = %(job)s, number = 9, name = 'grow' WHERE id = %(other_job)s;
INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at, blocked)
VALUES (%(schedule)s, %(target)s, 'workflow', 'backup', '', '2026-01-02T03:04:05Z', true);
INSERT INTO instance_sleeps (instance_id, organization_id, is_asleep, since, due_at)
SELECT id, organization_id, true, '2026-01-02T03:04:05Z', '2099-01-02T03:04:05Z' FROM instances WHERE id = %(target)s;
UPDATE instances SET destroy_at = NULL WHERE id IN (%(target)s, %(ending)s);
INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at, undo_workflow)
VALUES (%(destroy)s, %(ending)s, 'workflow', 'destroy', '', '2099-01-02T03:04:05Z', '')
"""
LAUNCHING = """
UPDATE jobs SET started_at = now() WHERE id = %(job)s;
DELETE FROM ready WHERE job_id = %(job)s;
INSERT INTO instance_links (instance_id, component, target_id, kind) VALUES (%(instance)s, 'db', %(target)s, 'service')
"""


async def launched(api: Api) -> tuple[str, str]:
    body = {"instanceName": fresh_name("ship")}
    started = await api.post(f"applications/{await api.application(MANIFEST)}/launch", body)
    return accepted(started)["id"], started.headers["launchbay-job"]


async def change(api: Api, statements: str, **values: Any) -> None:
    async with api.database.connection() as connection:
        for each in statements.split(";\n"):
            await connection.execute(each, values)


async def printed(shell: Shell, *words: str) -> str:
    """Return what a command prints, without what the server in this process logs meanwhile."""
    lines = (await asyncio.to_thread(shell.good, *words)).splitlines()
    return "\n".join(line for line in lines if not line.startswith("level="))


async def answers(
    api: Api, visitor: httpx.AsyncClient, shell: Shell, url: str, instance: str, job: str
) -> dict[str, str]:
    """Return what each surface says about an instance."""
    headers = {"Authorization": basic(EMAIL, PASSWORD)}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        McpClient(streamable_http_client(f"{url}/mcp", http_client=http)) as agent,
    ):
        told: list[Any] = [
            await agent.call_tool("read_instance", {"instance": instance}),
            await agent.call_tool("read_job", {"job": job}),
        ]
    page = (await get(visitor, f"/console/instances/{instance}")).answer.text
    return {
        "API": (await api.document(instance))["waitingFor"],
        "console": html.unescape(re.sub("</?time[^>]*>", "", page)),
        "command": await printed(shell, "status", instance),
        "command, as JSON": json.loads(await printed(shell, "status", instance, "-o", "json"))["waitingFor"],
        "tools": "".join(content.text for each in told for content in each.content),
    }


def said_by(surface: str, sentence: str) -> str:
    """Return a sentence with its times as a surface shows them."""

    def shown(found: re.Match[str]) -> str:
        at = datetime.fromisoformat(found[1])
        if surface == "console":
            return f"{at:%-d %b %H:%M}"
        return f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if surface == "command" else found[1]

    return ISO_TIME.sub(shown, sentence)


async def test_each_kind_of_wait_is_said_by_every_surface(api: Api, visitor: httpx.AsyncClient, tmp_path: Path) -> None:
    assert set(SENTENCES) == set(get_args(WaitKind))
    (instance, job), (_, other_job), (consumer, consumer_job), (target, target_job), (ending, ending_job) = [
        await launched(api) for _ in range(5)
    ]
    names = {"instance": instance, "job": job, "other_job": other_job, "target": target, "ending": ending}
    await change(
        api, FACTS, **names, told=list(TOLD), title="lock 'db'", approval=new_id(), schedule=new_id(), destroy=new_id()
    )
    await change(api, LAUNCHING, instance=consumer, job=consumer_job, target=target)
    async with served(api) as port:
        url = f"http://127.0.0.1:{port}"
        variables = {"LAUNCHBAY_URL": url, "LAUNCHBAY_EMAIL": EMAIL, "LAUNCHBAY_PASSWORD": PASSWORD}
        shell = Shell(tmp_path, {**variables, "LAUNCHBAY_ORGANIZATION": api.organization})
        of_job = await answers(api, visitor, shell, url, instance, job)
        of_instance = await answers(api, visitor, shell, url, target, target_job)
        of_end = await answers(api, visitor, shell, url, ending, ending_job)
        of_service = await answers(api, visitor, shell, url, consumer, consumer_job)
    for surface in of_job:
        for kind, sentence in SENTENCES.items():
            said = {
                "service": of_service,
                "schedule": of_instance,
                "sleep": of_instance,
                "destroy": of_end,
            }.get(kind, of_job)[surface]
            expected = said_by(surface, sentence)
            if (surface, kind) == ("console", "destroy"):
                expected = 'id="waiting-destroy"'  # a box of its own, with the button that takes it back
            assert expected in said, f"{surface} doesn't say: {expected}"
    # The jobs say the same, one by one, except for what only an instance waits for.
    waits = [wait for each in (job, consumer_job) for wait in accepted(await api.get(f"jobs/{each}"))["waitingFor"]]
    assert {each["kind"] for each in waits} == set(SENTENCES) - {"schedule", "sleep", "destroy"}
    for each in waits:
        assert each["text"].startswith(SENTENCES[each["kind"]])
        assert each["endsWhen"]


CALLS = """
UPDATE jobs SET parent_job_id = %(job)s, number = 9, name = 'grow' WHERE id = ANY (%(called)s);
INSERT INTO approvals
    (id, organization_id, instance_id, job_id, step, text, needed, requesters, not_by_requester, expires_at)
SELECT lpad(to_hex(each), 24, 'd'), organization_id, id, %(job)s, 'workflow#launch/ask' || each, 'Deploy?', 1, '{}',
       false, now() + interval '1 hour'
FROM instances, generate_series(1, 25) AS each WHERE id = %(instance)s
"""


async def test_waits_are_bounded_and_name_called_instances_only_to_their_readers(api: Api) -> None:
    application = await api.application(MANIFEST)
    begun = [await api.post(f"applications/{application}/launch", {"instanceName": f"barge-{n}"}) for n in range(24)]
    [instance, *others] = [accepted(each)["id"] for each in begun]
    [job, *called] = [each.headers["launchbay-job"] for each in begun]
    await change(api, CALLS, instance=instance, job=job, called=called)
    reader = await api.member(f"Read: [/applications/*/instances/{instance}]")
    assert (await reader.get(f"instances/{others[0]}")).status_code == 403
    for caller, knows in ((api, True), (reader, False)):
        said = accepted(await caller.get(f"instances/{instance}"))["waitingFor"]
        found = accepted(await caller.get(f"instances/{instance}/jobs/{job}"))
        kinds = [each["kind"] for each in found["waitingFor"]]
        assert (kinds.count("job"), kinds.count("approval")) == (21, 21)
        for text in (said, " ".join(each["text"] for each in found["waitingFor"])):
            assert "And for 3 more jobs." in text
            assert "And for 5 more approvals." in text
            assert ("'barge-1'" in text) is knows
        assert {each["instanceName"] for each in found["children"]} == (
            {f"barge-{n}" for n in range(1, 24)} if knows else {"an instance that you can't see"}
        )
    stranger, *_ = await api.outsider()
    assert (await stranger.get(f"instances/{instance}/jobs/{job}")).status_code == 403
