"""Wake-ups through a real NATS server: they make jobs start sooner, and change nothing else (decision 0108)."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from nats.js import api
from structlog.testing import capture_logs

from launchbay.clock import SystemClock
from launchbay.engine import dispatch as engine_dispatch
from launchbay.engine.dispatch import Dispatcher
from launchbay.engine.jetstream import ACK_WAIT_S, CONSUMER, JetStreamWakeUps, compare_stream, servers, wanted_stream
from launchbay.store import dispatch
from launchbay.store.database import Database
from tests.support.engine import Runs, ask, empty, insert_jobs, put, until, working
from tests.support.eventually import eventually
from tests.support.nats_server import NatsServer, nats_servers, url_of
from tests.support.network import tcp_proxy

STREAM = "tests"
SOON_S = 20.0  # on a busy machine, and long before a slow poll
WITHIN_S = 20.0


@pytest.fixture(scope="module")
def nats() -> Iterator[NatsServer]:
    with nats_servers() as [server]:
        yield server


@pytest.fixture
def slow_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls find nothing in the time of a test."""
    monkeypatch.setattr(engine_dispatch, "POLL_S", 60.0)


@contextlib.asynccontextmanager
async def connected(*addresses: str, stream: str = STREAM, replicas: int = 1) -> AsyncIterator[JetStreamWakeUps]:
    """The connection of a process to NATS."""
    wake_ups = JetStreamWakeUps("nats://" + ",".join(addresses), stream=stream, replicas=replicas)
    running = asyncio.create_task(wake_ups.run())
    try:
        await up(wake_ups)
        yield wake_ups
    finally:
        running.cancel()
        await asyncio.wait({running})


async def up(wake_ups: JetStreamWakeUps, *, is_up: bool = True) -> None:
    await eventually(lambda: wake_ups.is_up == is_up, within_s=WITHIN_S)


async def some(heard: list[str]) -> None:
    """Wait for an announcement."""
    await eventually(lambda: heard, within_s=WITHIN_S)


async def stream_info(wake_ups: JetStreamWakeUps) -> api.StreamInfo:
    assert wake_ups._client is not None
    return await wake_ups._client.jetstream().stream_info(STREAM)


async def make_ready(database: Database, organization: str, count: int = 1, *, first: int = 0) -> None:
    """Make jobs ready, and tell nobody."""
    async with database.connection() as connection:
        await insert_jobs(connection, [organization], count, first=first)


async def idle(database: Database) -> None:
    """Wait until the workers have done what they do at their start."""
    await until(
        database,
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND query LIKE '%UPDATE workers SET beat_at%'",
    )
    await asyncio.sleep(0.2)


def no_worker(database: Database, wake_ups: JetStreamWakeUps | None) -> Dispatcher:
    """The dispatcher of a server without an engine."""
    return Dispatcher(
        database,
        SystemClock(),
        concurrency=1,
        heartbeat_s=0.1,
        grace_s=0.0,
        stalled_after_s=1.0,
        park_after_s=5.0,
        wake_ups=wake_ups,
    )


@contextlib.asynccontextmanager
async def announcements(database: Database) -> AsyncIterator[list[str]]:
    """Yield what is announced through PostgreSQL in the block."""
    heard: list[str] = []
    heartbeat = dispatch.Heartbeat(database.url, 0, 60.0, heard.append, lambda: None)
    async with database.connection() as connection:
        await connection.execute("INSERT INTO workers (id, name) OVERRIDING SYSTEM VALUE VALUES (0, 'listener')")
    heartbeat.start()
    try:
        await some(heard)
        heard.clear()
        yield heard
    finally:
        await heartbeat.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("slow_polls")
async def test_a_job_that_is_accepted_elsewhere_wakes_one_worker_and_needs_no_announcement(
    database: Database, nats: NatsServer
) -> None:
    first, second = Runs(database), Runs(database)
    async with (
        connected(nats.address) as of_server,
        connected(nats.address) as of_first,
        connected(nats.address) as of_second,
        working(database, first, wake_ups=of_first),
        working(database, second, wake_ups=of_second),
        announcements(database) as heard,
    ):
        await idle(database)
        server = no_worker(database, of_server)
        for number in range(5):
            async with database.transaction() as connection:
                assert server.hold(connection, "acme", f"acme{number}") is None
                await insert_jobs(connection, ["acme"], first=number)
            await until(database, "SELECT count(*) = 0 FROM jobs WHERE status = 'Executing'", within_s=SOON_S)
        assert heard == []
        assert first.started.qsize() + second.started.qsize() == 5
        await no_message_is_left(of_server)


async def no_message_is_left(wake_ups: JetStreamWakeUps) -> None:
    await eventually(lambda: stream_info(wake_ups), lambda found: not found.state.messages, within_s=WITHIN_S)


@pytest.mark.usefixtures("slow_polls")
async def test_more_jobs_than_one_worker_takes_wake_the_others_too(database: Database, nats: NatsServer) -> None:
    first, second = Runs(database, holding=True), Runs(database, holding=True)
    async with (
        connected(nats.address) as of_first,
        connected(nats.address) as of_second,
        working(database, first, wake_ups=of_first),
        working(database, second, wake_ups=of_second),
    ):
        await idle(database)
        await make_ready(database, "acme", 16)
        assert await of_first.offer(["acme"])
        for _ in range(8):  # four fifths of ten places are an organization's
            await first.next()
            await second.next()
        for runs in (first, second):
            runs.go.set()
        await empty(database)


@pytest.mark.usefixtures("slow_polls")
async def test_a_message_for_an_organization_that_has_all_its_places_here_goes_to_another_worker(
    database: Database, nats: NatsServer
) -> None:
    full, free = Runs(database, holding=True), Runs(database)
    async with (
        connected(nats.address) as of_full,
        working(database, full, wake_ups=of_full, concurrency=5),
    ):
        await idle(database)
        await put(database, "acme", 4)
        for _ in range(4):
            await full.next()
        async with connected(nats.address) as of_free, working(database, free, wake_ups=of_free):
            await idle(database)
            await make_ready(database, "acme", first=4)
            assert await of_free.offer(["acme"])
            assert await free.next() == "acme4"
            full.go.set()
            await empty(database)


async def test_a_backlog_of_one_organization_does_not_delay_another(database: Database, nats: NatsServer) -> None:
    runs = Runs(database, holding=True)
    async with connected(nats.address) as wake_ups, working(database, runs, wake_ups=wake_ups):
        await idle(database)
        await make_ready(database, "acme", 100)
        await wake_ups.offer(["acme"])
        started = [await runs.next() for _ in range(8)]
        assert started == [f"acme{number}" for number in range(8)]
        await make_ready(database, "beta")
        await wake_ups.offer(["beta"])
        assert await runs.next() == "beta0"
        runs.go.set()
        await empty(database)


async def test_messages_that_come_twice_or_too_late_run_nothing_twice(database: Database, nats: NatsServer) -> None:
    runs = Runs(database)
    async with connected(nats.address) as wake_ups, working(database, runs, wake_ups=wake_ups):
        await idle(database)
        await make_ready(database, "acme")
        for _ in range(5):
            assert await wake_ups.offer(["acme", "nobody's", ""])
        assert await runs.next() == "acme0"
        await empty(database)
        for _ in range(5):
            assert await wake_ups.offer(["acme"])
        await no_message_is_left(wake_ups)
        assert runs.started.empty()
        assert await ask(database, "SELECT fence FROM jobs") == (1,)


@pytest.mark.usefixtures("slow_polls")
async def test_a_message_that_a_worker_took_and_lost_is_another_ones_and_its_late_acknowledgement_costs_nothing(
    database: Database, nats: NatsServer
) -> None:
    runs = Runs(database)
    async with connected(nats.address) as stuck:
        await stuck.offer(["acme"])
        taken = await stuck.take()
        assert taken is not None
        assert taken.organization_id == "acme"
        async with connected(nats.address) as wake_ups, working(database, runs, wake_ups=wake_ups):
            await idle(database)
            await make_ready(database, "acme")
            assert await runs.next(within_s=ACK_WAIT_S + WITHIN_S) == "acme0"
            await empty(database)
            await no_message_is_left(wake_ups)
    async with connected(nats.address) as wake_ups:
        await stale_acknowledgement(wake_ups)


async def stale_acknowledgement(wake_ups: JetStreamWakeUps) -> None:
    """Acknowledge a message after a newer one took its place."""
    await wake_ups.offer(["acme"])
    old = await wake_ups.take()
    await wake_ups.offer(["acme"])
    assert old is not None
    await old.acknowledge()
    new = await wake_ups.take()
    assert new is not None, "the acknowledgement took the newer message away"
    await new.acknowledge()
    await no_message_is_left(wake_ups)


async def test_a_worker_that_was_declared_dead_gets_a_message_and_no_job(database: Database, nats: NatsServer) -> None:
    async with connected(nats.address) as wake_ups:
        dead = Runs(database)
        async with working(database, dead, wake_ups=wake_ups, heartbeat_s=60.0):
            await idle(database)
            async with database.connection() as connection:
                await connection.execute("DELETE FROM workers")
            await make_ready(database, "acme")
            await wake_ups.offer(["acme"])
            await no_message_is_left(wake_ups)
            assert dead.started.empty()
            assert await ask(database, "SELECT count(*) FROM ready") == (1,)


@pytest.mark.slow
@pytest.mark.usefixtures("slow_polls")
async def test_without_nats_postgresql_announces_and_nats_is_used_again_when_it_is_back(database: Database) -> None:
    runs = Runs(database)
    with nats_servers() as [server]:
        async with (
            connected(server.address) as wake_ups,
            working(database, runs, wake_ups=wake_ups),
            announcements(database) as heard,
        ):
            await idle(database)
            accepting = no_worker(database, wake_ups)
            server.kill()
            await up(wake_ups, is_up=False)
            await make_ready(database, "away")
            accepting.announce("away")
            assert await runs.next(within_s=SOON_S) == "away0"
            await some(heard)  # a poll of the worker may have been faster
            server.start()
            await up(wake_ups)
            heard.clear()
            await make_ready(database, "back")
            accepting.announce("back")
            assert await runs.next(within_s=SOON_S) == "back0"
            assert heard == []
            await empty(database)


@pytest.mark.usefixtures("slow_polls")
async def test_a_process_starts_without_nats_and_connects_when_it_comes(database: Database) -> None:
    runs = Runs(database)
    with nats_servers() as [server]:
        server.kill()
        wake_ups = JetStreamWakeUps(url_of([server]), stream=STREAM, replicas=1)
        running = asyncio.create_task(wake_ups.run())
        async with working(database, runs, wake_ups=wake_ups):
            await put(database, "acme")
            assert await runs.next(within_s=SOON_S) == "acme0"
            assert not wake_ups.is_up
            server.start()
            await up(wake_ups)
            await empty(database)
        running.cancel()
        await asyncio.wait({running})


async def test_jobs_whose_stream_is_deleted_run_and_the_stream_is_made_again(
    database: Database, nats: NatsServer
) -> None:
    runs = Runs(database)
    async with connected(nats.address) as wake_ups:
        assert wake_ups._client is not None
        await make_ready(database, "acme", 3)
        await wake_ups.offer(["acme"])
        await wake_ups._client.jetstream().delete_stream(STREAM)
        async with working(database, runs, wake_ups=wake_ups):
            for _ in range(3):
                await runs.next()
            await empty(database)
        await eventually(lambda: wake_ups.offer(["acme"]), within_s=WITHIN_S)


@pytest.mark.slow
async def test_a_lost_consumer_is_made_again(nats: NatsServer) -> None:
    async with connected(nats.address) as wake_ups:
        assert wake_ups._client is not None
        await wake_ups._client.jetstream().delete_consumer(STREAM, CONSUMER)
        async with asyncio.timeout(WITHIN_S):
            found = None
            while found is None:
                await wake_ups.offer(["acme"])
                found = await wake_ups.take()
        await found.acknowledge()


async def test_a_stream_of_that_name_that_is_something_elses_is_left_alone(nats: NatsServer) -> None:
    async with connected(nats.address) as owner:
        assert owner._client is not None
        foreign = owner._client.jetstream()
        await foreign.add_stream(name="orders", subjects=["orders.>"])
        await foreign.publish("orders.new", b"1")
        other = JetStreamWakeUps(url_of([nats]), stream="orders", replicas=1)
        running = asyncio.create_task(other.run())
        await eventually(lambda: "belongs to something else" in other._problem, within_s=WITHIN_S)
        assert not other.is_up
        assert not await other.offer(["acme"])
        assert (await foreign.stream_info("orders")).state.messages == 1
        running.cancel()
        await asyncio.wait({running})


async def test_changed_settings_reach_a_stream_and_a_consumer_that_exist(nats: NatsServer) -> None:
    async with connected(nats.address) as old:
        assert old._client is not None
        at = old._client.jetstream()
        changed: dict[str, Any] = {"subjects": [f"{STREAM}.ready.*", f"{STREAM}.old"], "max_msgs": 7, "max_age": 3_600}
        await at.update_stream(dataclasses.replace(wanted_stream(STREAM, 1), **changed))
        consumer = (await at.consumer_info(STREAM, CONSUMER)).config
        await at.add_consumer(STREAM, dataclasses.replace(consumer, ack_wait=9, max_deliver=3))
        assert set(await compare_stream(f"nats://{nats.address}", stream=STREAM, replicas=1)) == {
            f"subjects: {STREAM}.ready.* {STREAM}.old instead of {STREAM}.ready.*",
            "max_msgs: 7 instead of -1",
            "max_age: 3600000000000 instead of 0",
            "ack_wait: 9000000000 instead of 1000000000",
            "max_deliver: 3 instead of -1",
        }
        old._suspect(TimeoutError())
        await up(old)
        assert (await stream_info(old)).config.max_msgs == 7, "a process that runs changes nothing back"
    async with connected(nats.address) as new:
        config = (await stream_info(new)).config
        assert (config.subjects, config.max_msgs, config.max_age) == ([f"{STREAM}.ready.*"], -1, 0)
    assert await compare_stream(f"nats://{nats.address}", stream=STREAM, replicas=1) == []


async def test_a_stream_works_on_as_it_is_where_the_server_refuses_the_change(nats: NatsServer) -> None:
    async with connected(nats.address) as old:
        assert old._client is not None
        at = old._client.jetstream()
        await at.delete_stream(STREAM)
        await at.add_stream(dataclasses.replace(wanted_stream(STREAM, 1), storage=api.StorageType.FILE))
    with capture_logs() as lines:
        async with connected(nats.address) as wake_ups:
            assert await wake_ups.offer(["acme"])
            message = await wake_ups.take()
            assert message is not None
            await message.acknowledge()
            assert wake_ups._client is not None
            await wake_ups._client.jetstream().delete_stream(STREAM)
    [refused] = [line for line in lines if line["event"] == "dispatch.stream_differs"]
    assert refused["differs"] == ["storage: file instead of memory"]
    assert "can not change storage type" in refused["error"]


@pytest.mark.slow
async def test_a_cluster_gets_the_replicas_that_the_settings_say() -> None:
    with nats_servers(3) as cluster:
        addresses = [server.address for server in cluster]
        async with connected(*addresses) as one:
            assert (await stream_info(one)).config.num_replicas == 1
        async with connected(*addresses, replicas=3) as three:
            assert (await stream_info(three)).config.num_replicas == 3


@pytest.mark.slow
async def test_a_worker_whose_way_to_nats_falls_silent_polls_and_comes_back(
    database: Database, nats: NatsServer
) -> None:
    runs = Runs(database)
    async with (
        tcp_proxy(nats.port) as proxy,
        connected(nats.address) as of_server,
        connected(f"127.0.0.1:{proxy.port}") as of_worker,
        working(database, runs, wake_ups=of_worker),
    ):
        await idle(database)
        proxy.flowing.clear()
        await make_ready(database, "acme")
        assert await of_server.offer(["acme"])
        assert await runs.next(within_s=WITHIN_S) == "acme0"
        await up(of_worker, is_up=False)
        proxy.flowing.set()
        await up(of_worker)
        await no_message_is_left(of_server)
        assert runs.started.empty(), "what arrived late ran nothing"
        await empty(database)


def test_an_address_may_have_several_hosts_with_one_account() -> None:
    assert servers("tls://user:s,e@one,two:4333") == ["tls://user:s,e@one", "tls://user:s,e@two:4333"]
