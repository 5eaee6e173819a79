"""The log of a job: what the engine writes about it, its filters, its forms, and following it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launchbay import limits
from launchbay.store import events as store_events
from tests.support.applications import Ledger
from tests.support.network import answer
from tests.support.service import UNKNOWN, Api, accepted, refused

MANIFEST = """
application:
  interfaces: {manage: {call: bind(front#manage.call), rest: bind(front#manage.rest)}}
  components:
    front:
      type: workflow.Instance
      interfaces: {manage: {call: "receive-command(string password => )", rest: "receive-command(=> )"}}
      configuration:
        configuration.workflows:
          launch: {steps: [{prepare: {action: wait, parameters: {delay: "0"}}}]}
          call:
            steps: [{ask: {action: restcall, parameters: {retryCount: 1, command: "%s?{$.password}", method: get}}}]
          rest: {steps: [{sleep: {action: wait, parameters: {delay: 30 sec}}}]}
    back:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch: {steps: [{warm: {action: wait, parameters: {delay: "0"}}}]}
"""

WAITING = """
application:
  interfaces: {manage: {rest: bind(front#manage.rest)}}
  components:
    front:
      type: workflow.Instance
      interfaces: {manage: {rest: "receive-command(=> )"}}
      configuration:
        configuration.workflows:
          launch: {steps: [{sleep: {action: wait, parameters: {delay: "0"}}}]}
          rest: {steps: [{sleep: {action: wait, parameters: {delay: "0"}}}]}
"""


@pytest.fixture
async def instance(api: Api, ledger: Ledger) -> str:
    """An instance whose command `call` has failed, in both of its attempts."""
    ledger.server.routes["/ask"] = answer(503)
    instance = await api.running(MANIFEST % ledger.server.url("/ask"))
    await api.run(instance, "manage.call", password="hush-hush")
    return instance


async def lines(api: Api, instance: str, **query: Any) -> list[Any]:
    found: list[Any] = accepted(await api.get(f"instances/{instance}/log", **query))
    return found


def texts(found: list[Any]) -> list[str]:
    return [line["text"].partition(" after ")[0] for line in found]


async def test_the_engine_writes_begin_and_end_of_each_step_and_of_the_job(api: Api, instance: str) -> None:
    found = await lines(api, instance)
    assert texts(found)[0] == "Job 1, 'launch', started."
    assert {"Step 'prepare' started.", "Step 'prepare' succeeded", "Job 1, 'launch', succeeded"} <= set(texts(found))
    call = [line for line in found if line["step"] == "front#call/ask"]
    assert {(line["component"], line["stream"]) for line in call} == {("front", "system")}
    told = [(text, line["attempt"]) for text, line in zip(texts(call), call, strict=True) if text.startswith("Step")]
    assert told == [("Step 'ask' started.", 1), ("Step 'ask' starts again (attempt 2).", 2), ("Step 'ask' failed", 2)]
    assert found[-1]["text"].endswith("s.")
    assert texts(found)[-1] == "Job 2, 'manage.call', failed"


async def test_the_log_says_the_durations_that_the_record_has(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: []}\nrest: {steps: [{sleep: {action: wait, parameters: {delay: 0.2}}}]}\n"
    )
    job = await api.ran(instance, "rest")
    [step] = job["steps"]
    told = [line["text"] for line in await lines(api, instance, job=job["id"])]
    for begin, duration_ms in (
        (f"Job {job['number']}, 'rest', succeeded after ", job["durationMs"]),
        ("Step 'sleep' succeeded after ", step["durationMs"]),
    ):
        [text] = [each.removeprefix(begin) for each in told if each.startswith(begin)]
        number, unit = text.rstrip(".").split(" ")
        # Whole milliseconds, or tenths of a second.
        assert abs(float(number) * {"ms": 1, "s": 1000}[unit] - duration_ms) <= {"ms": 0, "s": 50}[unit], text


async def test_the_log_of_a_job_is_found_among_those_of_many_others(api: Api) -> None:
    """Each has all of its lines, which are read without those of the others (`launchbay_lines_of_job`)."""
    instance = await api.running(WAITING)
    for _ in range(9):
        await api.run(instance, "manage.rest")
    history = (await api.document(instance))["workflowHistory"]
    assert len(history) == 10

    for job in history:
        own = await lines(api, instance, job=job["id"])
        async with api.database.connection() as connection:
            found = await connection.execute(
                "SELECT count(*) FILTER (WHERE job_id = %(job)s), count(*) FILTER (WHERE id > first AND id <= last)"
                " FROM log_lines, launchbay_lines_of_job(%(job)s) WHERE instance_id = %(instance)s",
                {"job": job["id"], "instance": instance},
            )
            row = await found.fetchone()
        assert row is not None
        assert row[0] == len(own)
        assert row[1] <= len(own) * 5


async def test_filters_choose_lines_by_component_level_text_and_time(api: Api, instance: str) -> None:
    found = await lines(api, instance)
    assert await lines(api, instance, component="back") == [line for line in found if line["component"] == "back"]
    for level, shown in (("error", {"error"}), ("warning", {"warning", "error"})):
        chosen = await lines(api, instance, level=level)
        assert chosen == [line for line in found if line["level"] in shown]
        assert {line["level"] for line in chosen} == shown
    assert texts(await lines(api, instance, q="STEP 'WARM' STARTED")) == ["Step 'warm' started."]
    middle = found[len(found) // 2]["at"]
    assert await lines(api, instance, since=middle) == [line for line in found if line["at"] >= middle]
    assert await lines(api, instance, until=middle) == [line for line in found if line["at"] < middle]
    assert await lines(api, instance, tail=3) == found[-3:]
    assert await lines(api, instance, tail=2, q="'ask'") == [line for line in found if "'ask'" in line["text"]][-2:]
    assert await lines(api, instance, tail=2, component="back") == await lines(api, instance, component="back")
    refused(await api.get(f"instances/{instance}/log", level="loud"), 400)
    refused(await api.get(f"instances/{instance}/log", tail=0), 400)


async def test_no_search_finds_a_secret(api: Api, instance: str) -> None:
    assert not await lines(api, instance, q="hush")


async def test_pages_of_chosen_lines_lead_through_all_of_them(api: Api, instance: str) -> None:
    seen, path = [], f"instances/{instance}/log?limit=2&q=step"
    while path:
        page = await api.get(path)
        seen += accepted(page)
        path = page.headers.get("link", "").partition(">")[0].removeprefix("</api/1/")
    assert seen == await lines(api, instance, q="step")


async def test_a_log_is_a_list_lines_of_json_or_text(api: Api, instance: str) -> None:
    found = await lines(api, instance)
    by_header = await api.client.get(f"instances/{instance}/log", headers={"Accept": "application/x-ndjson"})
    assert by_header.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in by_header.text.splitlines()] == found
    text = await api.client.get(f"instances/{instance}/log?component=back", headers={"Accept": "text/plain, */*;q=0.5"})
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    first, _ = text.text.splitlines()
    assert first[23:] == "Z INFO back#launch/warm: Step 'warm' started."
    nothing = await api.client.get(f"instances/{instance}/log?q=no+such+text", headers={"Accept": "text/plain"})
    assert (nothing.status_code, nothing.text) == (200, "")


@asynccontextmanager
async def following(api: Api, instance: str, query: str, **headers: str) -> AsyncIterator[AsyncIterator[list[str]]]:
    """Follow a log; yields the lines of each event."""
    path = f"instances/{instance}/log?{query}"
    async with (
        asyncio.timeout(20),
        api.client.stream("GET", path, headers={"Accept": "text/event-stream", **headers}) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"

        async def events() -> AsyncIterator[list[str]]:
            event: list[str] = []
            async for line in response.aiter_lines():
                if line:
                    event.append(line)
                elif event and event[0].startswith("event:"):
                    yield event
                    event = []
                else:
                    event = []

        yield events()


async def test_a_followed_log_ends_with_the_job_and_resumes_after_a_line(api: Api, instance: str) -> None:
    jobs = accepted(await api.get(f"instances/{instance}/jobs"))
    found = await lines(api, instance, job=jobs[0]["id"])
    async with following(api, instance, f"job={jobs[0]['id']}") as events:
        seen = [event async for event in events]
    assert [json.loads(event[1].removeprefix("data: ")) for event in seen[:-1]] == found
    assert [event[0] for event in seen] == ["event: log"] * len(found) + ["event: end"]
    assert seen[-1][1] == 'data: {"status":"Failed"}'
    middle = seen[len(found) // 2]
    headers = {"Last-Event-ID": middle[2].removeprefix("id: ")}
    async with following(api, instance, f"job={jobs[0]['id']}", **headers) as events:
        assert [event async for event in events] == seen[len(found) // 2 + 1 :]


async def test_a_followed_log_says_nothing_about_the_job_of_another_instance(api: Api, instance: str) -> None:
    other = await api.running(MANIFEST % "http://localhost")
    [job, *_] = accepted(await api.get(f"instances/{other}/jobs"))
    for unknown in (job["id"], UNKNOWN):
        headers = {"Accept": "text/event-stream"}
        answer = await api.client.get(f"instances/{instance}/log?job={unknown}", headers=headers)
        refused(answer, 404, "NotFound")
        assert "Succeeded" not in answer.text


async def test_a_followed_log_brings_lines_as_they_are_written(api: Api, port: int, ledger: Ledger) -> None:
    instance = await api.running(MANIFEST % ledger.server.url("/ask"))
    started = await api.post(f"instances/{instance}/manage.rest", {})
    job = started.headers["launchbay-job"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    authorization = api.client.headers["authorization"]
    head = f"GET /api/1/instances/{instance}/log?job={job}&tail=1 HTTP/1.1\r\nHost: localhost\r\n"
    accept = "Accept: text/event-stream\r\n"
    writer.write(f"{head}{accept}Authorization: {authorization}\r\n\r\n".encode())
    async with asyncio.timeout(20):
        await reader.readuntil(b"event: log")
        accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
        rest = await reader.readuntil(b"event: end")
    lines = [json.loads(line.partition(b":")[2]) for line in rest.splitlines() if line.startswith(b"data:")]
    (cancelled,) = [line for line in lines if "Cancelled by" in line.get("text", "")]
    assert cancelled["level"] == "info", "no failure"
    assert b"Job 2, 'manage.rest', was cancelled after" in rest
    writer.close()


@pytest.mark.parametrize("form", ["application/json", "text/plain"])
async def test_every_form_of_a_long_log_begins_with_as_few_bytes_read_as_ndjson(
    api: Api, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    instance = await api.running("launch: {steps: []}")
    job = accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"]
    async with api.database.connection() as connection:
        await connection.execute(
            "INSERT INTO log_lines (instance_id, job_id, level, text, at)"
            " SELECT %s, %s, 'info', repeat('x', 500), now() FROM generate_series(1, 4000)",
            [instance, job],
        )
    read_bytes = 0
    real = store_events.list_log_lines

    async def counting(*given: Any, **values: Any) -> Any:
        nonlocal read_bytes
        rows = await real(*given, **values)
        read_bytes += sum(len(row.text) for row in rows)
        return rows

    monkeypatch.setattr(store_events, "list_log_lines", counting)

    async def before_first_byte(accept: str) -> int:
        """Return how many bytes of lines are read before the first byte of the body leaves."""
        nonlocal read_bytes
        read_bytes, at_first = 0, []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body" and message.get("body"):
                at_first.append(read_bytes)

        async def receive() -> Any:
            await asyncio.Event().wait()

        headers = {"host": "launchbay", "authorization": api.client.headers["authorization"], "accept": accept}
        path = f"/api/1/instances/{instance}/log"
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("launchbay", 80),
        }
        await api.parts.app(scope, receive, send)
        assert read_bytes >= 2_000_000
        return at_first[0]

    least = await before_first_byte("application/x-ndjson")
    assert 0 < least <= 128 * 1024
    assert await before_first_byte(form) / least <= 1.0


async def test_a_search_without_hits_gives_way_to_others(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = await api.running("launch: {steps: []}")
    job = accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"]
    async with api.database.connection() as connection:
        await connection.execute(
            "INSERT INTO log_lines (instance_id, job_id, level, text, at)"
            " SELECT %s, %s, 'info', repeat('x', 500), now() FROM generate_series(1, 2000)",
            [instance, job],
        )
    monkeypatch.setattr(limits, "LOG_SEARCH_TURN_BYTES", 100_000)
    monkeypatch.setattr(limits, "LOG_SEARCH_PAUSE_S", 0.05)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert accepted(await api.get(f"instances/{instance}/log?q=nowhere")) == []
    assert loop.time() - began_s >= 5 * 0.05  # a megabyte of lines is several turns
