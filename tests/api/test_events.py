"""Live events of an instance: what is told, in which order, from where on, to whom, and at what cost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest

from launchbay.clock import SystemClock
from launchbay.errors import TooManyRequests
from launchbay.limits import EVENT_HEARTBEAT_S
from launchbay.store.events import ANY_NUMBER, SILENT_S, StreamBounds, StreamCounts
from launchbay.tenants import Tenants
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.manifests import WORKFLOWS
from tests.support.network import stream
from tests.support.pages import browser, send
from tests.support.service import EMAIL, PASSWORD, UNKNOWN, Api, accepted, basic, person, refused, running_api, served

SIGNALS = """
launch:
  steps: []
  return: {size: {value: 1}, dbPassword: {value: "first one"}, label: {value: same}}
grow:
  steps: []
  return: {size: {value: 2}, dbPassword: {value: "second one"}, label: {value: same}}
destroy: {steps: []}
"""
LENIENT = """
launch: {steps: []}
go:
  steps:
    - odd: {action: serialize, parameters: {input: 1, format: XLS, ignoreFail: true}}
    - rest: {action: wait, precedingPhases: [odd], parameters: {delay: 600}}
"""


@pytest.fixture
async def instance(api: Api) -> str:
    return await api.running(WORKFLOWS, parameters={"label": "x"})


async def test_a_stream_begins_with_where_the_instance_stands(api: Api, port: int, instance: str) -> None:
    async with stream(port, instance) as events:
        assert events.response.status_code == 200
        assert events.response.headers["content-type"] == "text/event-stream"
        assert events.response.headers["cache-control"] == "no-store"
        first = await events.next()
        assert first is not None
        assert (first.name, first.data["status"]) == ("status", "Running")
        assert first.id is not None
        assert events.retry_ms == 2000


async def test_a_stream_of_a_busy_instance_begins_with_its_job_and_steps(api: Api, port: int, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "60"}))
    async with stream(port, instance) as events:
        await events.until("step", name="rest", status="Executing")
        assert events.of("status")[0]["status"] == "Executing"
        [job] = events.of("job")
        assert (job["name"], job["status"], job["errorMessage"]) == ("pause", "Executing", None)
        assert {step["name"] for step in events.of("step")} == {"first", "rest"}
        assert {step["job"] for step in events.of("step")} == {job["job"]}
    accepted(await api.delete(f"instances/{instance}?force=1"))


async def test_what_happens_is_told_in_its_order(api: Api, port: int, instance: str) -> None:
    async with stream(port, instance) as events:
        await events.next()
        accepted(await api.post(f"instances/{instance}/pause", {"seconds": "0"}))
        await events.until("status", status="Running")
        assert [job["status"] for job in events.of("job")] == ["Executing", "Succeeded"]
        assert [each["status"] for each in events.of("status")] == ["Running", "Executing", "Running"]
        last = {step["name"]: (step["status"], step["percentComplete"]) for step in events.of("step")}
        assert last == {"first": ("Succeeded", 100), "rest": ("Succeeded", 100)}
        names = [event.name for event in events.seen]
        assert names.index("job") < names.index("step") < len(names) - 1
        assert events.seen[-2].data["status"] == "Succeeded", "the job's end comes before the instance's new status"
        numbers = [event.id for event in events.seen if event.id is not None]
        assert numbers == sorted(set(numbers))


async def test_a_failed_job_tells_its_error_and_the_log_line(api: Api, port: int, instance: str) -> None:
    async with stream(port, instance) as events:
        accepted(await api.post(f"instances/{instance}/break", {}))
        ended = await events.until("job", status="Failed")
        assert "not a URL" in ended.data["errorMessage"] or "URL" in ended.data["errorMessage"]
        assert any(step["status"] == "Failed" and step["errorMessage"] for step in events.of("step"))
        lines = events.of("log")
        assert {"at", "level", "job", "step", "text"} == set(lines[0])
        told = [line["text"] for line in lines if line["level"] != "error"]
        assert [text.partition(" after ")[0] for text in told] == [
            "Job 2, 'break', started.",
            "Step 'stop' started.",
            "Step 'stop' failed",
            "Job 2, 'break', failed",
        ]
        assert any(line["level"] == "error" and line["step"] == "workflow#break/stop" for line in lines)


async def test_a_step_says_that_its_failure_is_ignored_and_a_job_that_it_was_cancelled(api: Api, port: int) -> None:
    instance = await api.running(LENIENT)
    async with stream(port, instance) as events:
        await events.next()
        accepted(await api.post(f"instances/{instance}/go", {}))
        await events.until("step", name="rest", status="Executing")
        ended = {step["name"]: (step["status"], step["ignored"]) for step in events.of("step")}
        assert (ended["odd"], ended["rest"]) == (("Failed", True), ("Executing", False))
    async with stream(port, instance) as events:
        known = await events.until("step", name="odd")
        assert known.data["ignored"], "a stream that begins later says it too"
        job = events.of("job")[0]["job"]
        assert events.of("job")[0]["cancelled"] is False
        accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
        assert (await events.until("job", status="Failed")).data["cancelled"] is True


async def test_a_signal_is_told_when_its_value_has_changed(api: Api, port: int) -> None:
    instance = await api.running(SIGNALS)
    async with stream(port, instance) as events:
        await events.next()
        accepted(await api.post(f"instances/{instance}/grow", {}))
        await events.until("status", status="Running")
        told = {signal["name"]: signal["value"] for signal in events.of("signal")}
        assert told == {"size": 2, "dbPassword": "********"}
        accepted(await api.post(f"instances/{instance}/grow", {}))
        await events.until("status", status="Running")
        assert len(events.of("signal")) == 2, "the same values again are no news"


async def test_a_stream_goes_on_where_the_last_one_was_cut(api: Api, port: int, instance: str) -> None:
    async with stream(port, instance) as events:
        await events.next()
        accepted(await api.post(f"instances/{instance}/pause", {"seconds": "0"}))
        await events.until("job", status="Executing")
        cut = events.last_id
        told = len(events.seen)
    await api.settled(instance)
    for text in ("one", "two"):
        await api.run(instance, "echo", text=text)
    async with stream(port, instance, after=cut) as events:
        for _ in range(3):
            await events.until("status", status="Running")
        assert [job["name"] for job in events.of("job")] == ["pause", "echo", "echo", "echo", "echo"]
        assert [each["status"] for each in events.of("status")][-5:] == ["Running", *["Executing", "Running"] * 2]
        assert {signal["value"] for signal in events.of("signal")} == {"two"}
    async with stream(port, instance, query=f"?after={cut}") as again:
        first = await again.next()
        assert first is not None
        assert first.id is not None
        assert cut is not None
        assert first.id > cut
    assert told >= 2


@pytest.mark.slow
async def test_no_line_of_the_log_is_lost_or_told_twice_by_a_client_that_comes_and_goes(
    api: Api, port: int, instance: str
) -> None:
    async with stream(port, instance) as events:
        await events.next()
        start = last = events.last_id

    async def runs() -> None:
        for _ in range(8):
            await api.run(instance, "break")

    running = asyncio.create_task(runs())
    lines: list[Any] = []
    is_quiet = False
    while not (running.done() and is_quiet):
        async with stream(port, instance, after=last) as events:
            try:
                for _ in range(5):
                    event = await events.next(timeout_s=1.0)
                    assert event is not None
                    lines += [(event.id, event.data["text"])] if event.name == "log" else []
                is_quiet = False
            except TimeoutError:
                is_quiet = True
            last = events.last_id
    await running
    log = accepted(await api.get(f"instances/{instance}/log", after=start))
    assert len(lines) >= 8
    assert lines == [(line["id"], line["text"]) for line in log]


@pytest.mark.parametrize("number", ["abc", "-1", "9" * 30, "", "1.5"])
async def test_a_number_that_is_none_of_ours_begins_anew(api: Api, port: int, instance: str, number: str) -> None:
    async with stream(port, instance, after=number) as events:
        first = await events.next()
        assert first is not None
        assert (first.name, first.data["status"]) == ("status", "Running")


async def test_who_may_not_read_the_instance_gets_no_stream(api: Api, instance: str) -> None:
    refused(await api.get(f"instances/{UNKNOWN}/events"), 404, "NotFound")
    refused(await (await api.member()).get(f"instances/{instance}/events"), 403, "NotAllowed")
    refused(await (await api.outsider())[0].get(f"instances/{instance}/events"), 403, "NotAllowed")
    refused(await api.caller(None).get(f"instances/{instance}/events"), 401, "NotAuthenticated")
    refused(await api.get(f"instances/{instance}/events?after=x"), 400)


async def test_head_answers_at_once(api: Api, instance: str) -> None:
    answer = await api.head(f"instances/{instance}/events")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")


async def test_the_stream_of_a_deleted_instance_ends(api: Api, port: int, instance: str) -> None:
    async with stream(port, instance) as events:
        await events.next()
        accepted(await api.delete(f"instances/{instance}?force=1"))
        assert await events.ended()
    refused(await api.get(f"instances/{instance}/events"), 404, "NotFound")


async def test_a_stream_ends_when_its_caller_may_not_read_any_more(api: Api, port: int, instance: str) -> None:
    guest = await person(api, "Guest")
    authorization = basic(guest.email, guest.password)
    async with stream(port, instance, authorization=authorization) as events:
        await events.next()
        accepted(await api.delete(f"organizations/{api.organization}/users/{guest.id}/roles", ["Guest"]))
        await api.run(instance, "echo")
        assert await events.ended()
        assert [each["status"] for each in events.of("status")] == ["Running"]


async def test_a_stream_ends_with_the_credentials_of_its_caller(
    api: Api, port: int, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.limits.EVENT_HEARTBEAT_S", 0.1)
    monkeypatch.setattr("launchbay.web.responses.EVENT_HEARTBEAT_S", 0.1)
    member = await person(api, "Guest")
    async with stream(port, instance, authorization=basic(member.email, member.password)) as events:
        await events.next()
        accepted(await api.delete(f"organizations/{api.organization}/users/{member.id}"))
        assert await events.ended()


@pytest.mark.slow
async def test_a_stream_ends_with_the_session_of_its_caller(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.limits.EVENT_HEARTBEAT_S", 0.1)
    monkeypatch.setattr("launchbay.web.responses.EVENT_HEARTBEAT_S", 0.1)
    url = databases.create()
    async with running_api(url, session_lifetime_s=2) as api, served(api) as port, browser(api) as visitor:
        instance = await api.running(None)
        page = await send(visitor, "/refreshToken", email=EMAIL, password=PASSWORD)
        answer = await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": page.token})
        async with stream(port, instance, authorization=f"Bearer {accepted(answer)['jwtBearer']}") as events:
            assert await events.next() is not None
            assert await events.ended()
    databases.drop(url)


class _Ahead(SystemClock):
    """Goes ahead of the real one."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@pytest.mark.slow  # a service with a clock of its own
async def test_a_page_that_is_woken_all_the_time_ends_with_its_session(databases: Databases) -> None:
    """Within a heartbeat, by nothing that tells of the end, and with nothing to show of what woke it."""
    url, clock = databases.create(), _Ahead()
    async with (
        running_api(url, clock) as api,
        served(api) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as visitor,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        instance = await api.running(None)
        answer = await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        assert answer.status_code == 303, answer.text

        async def wake() -> None:
            while True:
                await connection.execute("SELECT pg_notify('launchbay_events', %s)", [instance])
                await asyncio.sleep(0.02)

        async with visitor.stream("GET", f"/console/instances/{instance}/events?parts=state") as page:
            lines = page.aiter_lines()
            assert "state" in await _named(lines)
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
                await other.execute("UPDATE console_sessions SET expires_at = now(), last_seen_at = 'epoch'")
            waking = asyncio.create_task(wake())
            clock.ahead_s = EVENT_HEARTBEAT_S
            async with asyncio.timeout(EVENT_HEARTBEAT_S / 2):  # which has passed for the service
                assert await _named(lines) == "event: over"
            waking.cancel()
            await asyncio.wait([waking])
    databases.drop(url)


async def _named(lines: AsyncIterator[str]) -> str:
    """Return the next line that names an event."""
    return await anext(line async for line in lines if line.startswith("event:"))


async def test_a_stream_ends_at_once_with_the_access_token_that_opened_it(api: Api, port: int, instance: str) -> None:
    path = f"organizations/{api.organization}/accessTokens"
    tokens = [accepted(await api.post(path, {})) for _ in range(2)]
    first, second = (stream(port, instance, authorization=f"Bearer {each['token']}") for each in tokens)
    async with first as ending, second as staying:
        for events in (ending, staying):
            assert await events.next() is not None
        accepted(await api.delete(f"{path}/{tokens[0]['id']}"))
        async with asyncio.timeout(5):
            assert await ending.ended()
        await api.run(instance, "launch")
        await staying.until("job", status="Succeeded")


@pytest.mark.slow
async def test_streams_end_at_once_when_their_person_signs_out_at_another_server(databases: Databases) -> None:
    """Of all kinds of credentials, long before the next look at a quiet instance."""
    url = databases.create()
    async with (
        running_api(url) as here,
        running_api(url, engine=False) as there,
        served(there) as port,
        browser(here) as visitor,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as console,
    ):
        instance = await here.running(None)
        who, other = await person(here, "Guest"), await person(here, "Guest")
        page = await send(visitor, "/refreshToken", email=who.email, password=who.password)
        answer = await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": page.token})
        await console.post("/console/signIn", data={"email": who.email, "password": who.password})
        live = console.stream("GET", f"/console/instances/{instance}/events")
        async with (
            stream(port, instance, authorization=basic(who.email, who.password)) as first,
            stream(port, instance, authorization=f"Bearer {accepted(answer)['jwtBearer']}") as second,
            stream(port, instance, authorization=basic(other.email, other.password)) as third,
            live as pages,
        ):
            for events in (first, second, third):
                assert await events.next() is not None
            lines = pages.aiter_lines()
            async for line in lines:
                if line == "event: results":
                    break
            accepted(await here.caller(basic(who.email, who.password)).delete("users/me/sessions"))
            async with asyncio.timeout(5):
                assert await first.ended()
                assert await second.ended()
                assert "event: over" in [line async for line in lines]
            await here.run(instance, "launch")
            await third.until("job", status="Succeeded")
    databases.drop(url)


@pytest.mark.slow
async def test_a_quiet_stream_shows_that_it_is_alive(
    api: Api, port: int, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.limits.EVENT_HEARTBEAT_S", 0.1)
    async with stream(port, instance) as events:
        await events.next()
        with pytest.raises(TimeoutError):
            await events.next(timeout_s=2.0)
        assert events.comments >= 3


async def test_streams_are_shared_between_organizations_and_a_closed_one_makes_room(
    api: Api, port: int, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.limits.EVENT_STREAMS", 5)
    outsider, organization, _ = await api.outsider()
    theirs = accepted(await outsider.post(f"organizations/{organization}/applications", {"name": "theirs"}))["id"]
    their_instance = accepted(await outsider.post(f"applications/{theirs}/launch", {}))["id"]
    async with AsyncExitStack() as open_streams:
        # Alone, an organization has four fifths.
        opened = [await open_streams.enter_async_context(stream(port, instance)) for _ in range(4)]
        for each in opened:
            await each.next()
        answer = await api.get(f"instances/{instance}/events")
        assert "your organization has too many event streams" in refused(answer, 429, "TooManyRequests")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await outsider.head(f"instances/{their_instance}/events")).status_code == 200
    await eventually(lambda: api.head(f"instances/{instance}/events"), lambda found: found.status_code != 429)


async def streams_known(api: Api) -> int:
    """Return how many event streams of its organization a server knows."""
    found = accepted(await api.get(f"organizations/{api.organization}/usage"))
    [streams] = [each["used"] for each in found if each["id"] == "eventStreams"]
    assert isinstance(streams, int)
    return streams


async def until_known(servers: tuple[Api, ...], streams: int) -> None:
    """Wait until each server knows so many."""
    for each in servers:
        await eventually(partial(streams_known, each), lambda found: found == streams)


@pytest.mark.slow
async def test_two_servers_count_event_streams_together(databases: Databases) -> None:
    url = databases.create()
    async with (
        running_api(url, quota_event_streams=8) as first,
        running_api(url, engine=False, quota_event_streams=8) as second,
        served(first) as port,
        served(second) as other_port,
    ):
        instance = await first.running(WORKFLOWS, parameters={"label": "x"})
        async with AsyncExitStack() as stack:
            for each in [port] * 5 + [other_port]:
                opened = await stack.enter_async_context(stream(each, instance))
                assert opened.response.status_code == 200
            await until_known((first, second), 6)
        await until_known((first, second), 0)
        async with AsyncExitStack() as stack:
            opening = [stack.enter_async_context(stream(each, instance)) for each in [port, other_port] * 6]
            statuses = [each.response.status_code for each in await asyncio.gather(*opening)]
            assert set(statuses) == {200, 429}
            # People of an organization leave each other a fifth of what is free.
            assert 4 <= statuses.count(200) <= 8
            await until_known((first, second), statuses.count(200))
        await until_known((first, second), 0)
        async with stream(port, instance) as events:
            await events.next()
            await until_known((second,), 1)
            await first.parts.feed.close()  # as a server that stops does, whatever its clients do
            await until_known((second,), 0)
    databases.drop(url)


async def test_streams_of_a_server_that_tells_nothing_any_more_do_not_count() -> None:
    counts = StreamCounts("here")
    counts.hear('{"process": "there", "streams": {"o": 3}}')
    counts.hear('{"process": "here", "streams": {"o": 9}}')
    counts.hear('["of a newer version"]')
    assert counts.of("o") == 3
    counts._heard_s["there"] -= SILENT_S
    assert counts.of("o") == 0


async def test_fifty_organizations_of_one_creator_leave_others_their_share_of_streams() -> None:
    tenants = Tenants()
    tenants.replace([(f"branch{number}", "ann") for number in range(50)] + [("own", "bob")])
    counts = StreamCounts("here", tenants)
    with ExitStack() as streams:

        def opened(organization: str, allowed: StreamBounds = ANY_NUMBER) -> int:
            number = 0
            with suppress(TooManyRequests):
                while True:
                    streams.enter_context(counts.counted(organization, f"{organization}{number}", allowed))
                    number += 1
            return number

        held = [opened(f"branch{number}") for number in range(50)]
        assert (sum(held), sum(number > 0 for number in held)) == (800, 1)
        assert opened("own") == 150  # down to the reserve
        assert [opened(f"new{number}") for number in range(60)] == [1] * 50 + [0] * 10
    assert counts.of(*(f"branch{number}" for number in range(50))) == 0
    with ExitStack() as streams:
        assert [opened(f"branch{number}", StreamBounds(8, 10)) for number in range(3)] == [8, 2, 0]


async def listeners(api: Api) -> list[int]:
    """Return the processes of PostgreSQL behind the connections that listen for events."""
    statement = (
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%seen_at < now()%'"
    )
    async with api.database.connection() as connection:
        return [pid for (pid,) in await (await connection.execute(statement)).fetchall()]


async def test_many_streams_share_one_connection(api: Api, port: int, instance: str) -> None:
    async with stream(port, instance) as first, stream(port, instance) as second, stream(port, instance) as third:
        for each in (first, second, third):
            await each.next()
        assert len(await listeners(api)) == 1
        await api.run(instance, "echo", text="hello")
        for each in (first, second, third):
            await each.until("signal", value="hello")


@pytest.mark.slow
async def test_open_streams_hold_no_connection_of_the_pool(api: Api, port: int, instance: str) -> None:
    pool = api.parts.database.pool
    async with AsyncExitStack() as open_streams:
        for _ in range(2 * pool.most + 1):
            await (await open_streams.enter_async_context(stream(port, instance))).next()
        # others lend for moments
        await eventually(lambda: not pool.used)
        accepted(await api.get(f"instances/{instance}"))


async def test_the_database_notifies_only_while_somebody_watches(api: Api, port: int, instance: str) -> None:
    async with await psycopg.AsyncConnection.connect(api.database.url, autocommit=True) as spy:
        await spy.execute("LISTEN launchbay_events")

        async def heard() -> set[str]:
            return {notification.payload async for notification in spy.notifies(timeout=0.3)}

        async with asyncio.timeout(5):
            while await heard():  # streams of other tests that are closing
                pass
        await api.run(instance, "echo")
        assert await heard() == set()
        async with stream(port, instance) as events:
            await events.next()
            await api.run(instance, "echo", text="again")
            assert await heard() == {instance}


async def test_events_go_on_after_the_listening_connection_was_cut(api: Api, port: int, instance: str) -> None:
    async with stream(port, instance) as events:
        await events.next()
        [listener] = await listeners(api)
        async with api.database.connection() as connection:
            await connection.execute("SELECT pg_terminate_backend(%s)", [listener])
        await api.run(instance, "echo", text="through")
        await events.until("signal", value="through")
        assert await listeners(api) not in ([], [listener])


@pytest.mark.slow
async def test_streams_end_when_the_server_stops(databases: Databases) -> None:
    url = databases.create()  # a service of its own, because it is stopped
    async with running_api(url) as api:
        instance = await api.running(WORKFLOWS, parameters={"label": "x"})
        async with served(api) as port, stream(port, instance) as events:
            await events.next()
            await api.parts.feed.close()
            assert await events.ended()
            answer = await api.get(f"instances/{instance}/events")
            assert answer.status_code in {200, 503}
    databases.drop(url)


_LINE = {"id", "at", "level", "job", "step", "text", "component", "attempt", "stream"}


async def test_the_log_is_read_whole_by_job_by_step_and_by_pages(api: Api, instance: str) -> None:
    for _ in range(3):
        await api.run(instance, "break")
    lines = accepted(await api.get(f"instances/{instance}/log"))
    assert [line["id"] for line in lines] == sorted({line["id"] for line in lines})
    assert all(set(line) == _LINE for line in lines)
    job, step = lines[-1]["job"], next(line["step"] for line in lines if line["step"])
    assert accepted(await api.get(f"instances/{instance}/log", job=job)) == [
        line for line in lines if line["job"] == job
    ]
    assert accepted(await api.get(f"instances/{instance}/log", step=step)) == [
        line for line in lines if line["step"] == step
    ]
    after = lines[1]["id"]
    assert accepted(await api.get(f"instances/{instance}/log", after=after)) == lines[2:]
    seen, path = [], f"instances/{instance}/log?limit=2&level=debug"
    while path:
        answer: httpx.Response = await api.get(path)
        seen += accepted(answer)
        path = answer.links.get("next", {}).get("url", "").removeprefix("/api/1/")
    assert seen == lines


async def test_secrets_in_the_log_are_covered(api: Api) -> None:
    manifest = """
    launch:
      parameters: [{apiToken: {default: none}}]
      steps: [{call: {action: restcall, parameters: {command: "no-url-{$.apiToken}", method: "{$.apiToken}"}}}]
    """
    instance = await api.launch(await api.application(manifest), parameters={"apiToken": "t0p-s3cret"})
    await api.settled(instance)
    answer = await api.get(f"instances/{instance}/log")
    assert accepted(answer)
    assert "t0p-s3cret" not in answer.text


async def test_the_log_of_what_one_may_not_read_is_refused(api: Api, instance: str) -> None:
    refused(await api.get(f"instances/{UNKNOWN}/log"), 404, "NotFound")
    refused(await (await api.member()).get(f"instances/{instance}/log"), 403, "NotAllowed")
    refused(await api.get(f"instances/{instance}/log?after=-1"), 400)
    refused(await api.get(f"instances/{instance}/log?limit=0"), 400)
