"""Requests of organizations take turns (decision 0098)."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from launchbay.fairness.other_servers import OtherServers
from launchbay.fairness.turns import ACTIVE_S, ALONE, CHUNKS_ALONE, COMPUTE_TURN_S, TOGETHER, TURN_S, RequestTurns
from launchbay.ids import new_id
from launchbay.store.database import Database
from tests.support.clock import without_waiting
from tests.support.databases import Databases


async def crowd(turns: RequestTurns, who: str, count: int, done: Counter[str], work_s: float = 0.002) -> None:
    """Let so many clients send requests one after the other, until cancelled."""

    async def client() -> None:
        while True:
            end = await turns.begin(who)
            await asyncio.sleep(work_s)
            end()
            done[who] += 1

    await asyncio.gather(*(client() for _ in range(count)))


@without_waiting
async def test_an_organization_that_is_alone_has_many_requests_under_way() -> None:
    turns = RequestTurns()
    ends = [await turns.begin("a") for _ in range(ALONE)]
    waiting = asyncio.create_task(turns.begin("a"))
    await asyncio.sleep(0)
    assert not waiting.done()
    ends[0]()
    await asyncio.wait_for(waiting, TURN_S / 2)


@without_waiting
async def test_a_flood_of_one_does_not_keep_another_from_its_turn() -> None:
    turns, done = RequestTurns(), Counter[str]()
    flood = asyncio.create_task(crowd(turns, "flood", 100, done))
    await asyncio.sleep(0.05)
    work = asyncio.create_task(crowd(turns, "work", 2, done))
    await asyncio.sleep(0.05)  # until the requests that had begun before have ended
    done.clear()
    await asyncio.sleep(1.0)
    for task in (flood, work):
        task.cancel()
    await asyncio.wait({flood, work})
    assert done["flood"] > 0
    assert done["work"] > 2 * done["flood"]


@without_waiting
async def test_organizations_of_one_creator_have_the_turns_of_one_organization() -> None:
    turns, done = RequestTurns(), Counter[str]()
    crowds = [asyncio.create_task(crowd(turns, f"ann/{number}", 4, done)) for number in range(20)]
    crowds.append(asyncio.create_task(crowd(turns, "work", 2, done)))
    await asyncio.sleep(0.1)  # until the requests that had begun before have ended
    done.clear()
    await asyncio.sleep(1.5)
    for task in crowds:
        task.cancel()
    await asyncio.wait(crowds)
    of_creator = [done[f"ann/{number}"] for number in range(20)]
    assert done["work"] > 2 * sum(of_creator)
    assert max(of_creator) - min(of_creator) <= 1


@without_waiting
async def test_a_long_request_lets_the_next_one_begin() -> None:
    turns = RequestTurns()
    for _ in range(ALONE):
        await turns.begin("a")
    end = await asyncio.wait_for(turns.begin("a"), 4 * TURN_S)
    end()
    end()  # twice is once


@without_waiting
async def test_a_client_that_goes_away_gives_its_turn_to_the_next() -> None:
    turns = RequestTurns()
    ends = [await turns.begin("a") for _ in range(ALONE)]
    gone, stays = asyncio.create_task(turns.begin("a")), asyncio.create_task(turns.begin("a"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait({gone})
    ends[0]()
    await asyncio.wait_for(stays, TURN_S / 2)

    admitted = asyncio.create_task(turns.begin("a"))
    after = asyncio.create_task(turns.begin("a"))
    await asyncio.sleep(0)
    ends[1]()
    admitted.cancel()  # after it was admitted, before it could begin
    await asyncio.wait({admitted})
    await asyncio.wait_for(after, TURN_S / 2)


@without_waiting
async def test_organizations_that_are_idle_do_not_count() -> None:
    turns = RequestTurns()
    (await turns.begin("b"))()
    await asyncio.sleep(2 * ACTIVE_S)
    for _ in range(ALONE):
        await asyncio.wait_for(turns.begin("a"), TURN_S / 2)


@without_waiting
async def test_who_waited_for_an_organization_begins_when_that_sends_nothing_anymore() -> None:
    requests = RequestTurns()
    turns = RequestTurns(CHUNKS_ALONE, requests)
    requests.notice("neighbor")
    await turns.begin("a", COMPUTE_TURN_S)  # and goes on
    waiting = asyncio.create_task(turns.begin("a", COMPUTE_TURN_S))
    await asyncio.sleep(0)
    assert not waiting.done()
    await asyncio.wait_for(waiting, 10 * ACTIVE_S)


@without_waiting
async def test_few_chunks_of_lists_are_read_at_once_even_by_who_is_alone() -> None:
    chunks = RequestTurns(CHUNKS_ALONE, RequestTurns())
    ends = [await chunks.begin("a") for _ in range(CHUNKS_ALONE)]
    waiting = asyncio.create_task(chunks.begin("a"))
    await asyncio.sleep(0)
    assert not waiting.done()
    ends[0]()
    await asyncio.wait_for(waiting, TURN_S / 2)


@without_waiting
async def test_chunks_of_a_flood_rest_even_where_nobody_else_sends_requests() -> None:
    """Other servers share the database, and perhaps the machine."""

    async def done_by(clients: int) -> int:
        chunks, done = RequestTurns(CHUNKS_ALONE, RequestTurns(), rests_alone=True), Counter[str]()
        readers = asyncio.create_task(crowd(chunks, "readers", clients, done))
        await asyncio.sleep(1.0)
        readers.cancel()
        await asyncio.wait({readers})
        return done["readers"]

    assert 0 < await done_by(4 * TOGETHER) < 0.5 * await done_by(TOGETHER)


@without_waiting
async def test_who_reads_lists_counts_among_those_that_send_requests() -> None:
    requests = RequestTurns()
    end = await RequestTurns(CHUNKS_ALONE, requests).begin("b")
    under_way = [await requests.begin("a") for _ in range(TOGETHER // 2)]
    waiting = asyncio.create_task(requests.begin("a"))
    await asyncio.sleep(0)
    assert not waiting.done()
    for each in (end, *under_way):
        each()
    (await asyncio.wait_for(waiting, TURN_S / 2))()


@without_waiting
async def test_after_a_request_that_started_a_job_a_flood_rests_longer() -> None:
    turns, done = RequestTurns(), Counter[str]()
    work = asyncio.create_task(crowd(turns, "work", 1, Counter()))

    async def flood(rest: float) -> float:
        started_s = asyncio.get_running_loop().time()
        clients = [asyncio.create_task(one(rest)) for _ in range(6 * TOGETHER)]
        await asyncio.wait(clients)
        return asyncio.get_running_loop().time() - started_s

    async def one(rest: float) -> None:
        end = await turns.begin("flood", rest=rest)
        await asyncio.sleep(0.01)
        end()
        done["flood"] += 1

    usual_s, longer_s = await flood(1.0), await flood(4.0)
    work.cancel()
    assert longer_s > 1.5 * usual_s


@without_waiting
async def test_a_flood_gives_way_to_an_organization_at_another_server_of_the_machine() -> None:
    turns, done = RequestTurns(), Counter[str]()
    flood = asyncio.create_task(crowd(turns, "flood", 20, done))
    await asyncio.sleep(0.3)
    alone, turns.elsewhere = done.total(), {"work": 1}
    await asyncio.sleep(0.3)
    done.clear()
    await asyncio.sleep(0.3)
    flood.cancel()
    await asyncio.wait({flood})
    assert 0 < done.total() < alone / 3
    turns.elsewhere = {"flood": 1}  # the same organization at both servers is alone
    ends = [await asyncio.wait_for(turns.begin("flood"), TURN_S) for _ in range(TOGETHER + 1)]
    for end in ends:
        end()


@without_waiting
async def test_a_flood_of_several_servers_gets_no_more_than_one_of_a_single_server() -> None:
    turns, done = RequestTurns(), Counter[str]()
    flood = asyncio.create_task(crowd(turns, "flood", 20, done, work_s=0.01))

    async def done_beside(elsewhere: Mapping[str, int]) -> int:
        turns.elsewhere = elsewhere
        await asyncio.sleep(0.15)
        done.clear()
        await asyncio.sleep(0.3)
        return done.total()

    here = await done_beside({"work": 1})
    each_of_three = await done_beside({"work": 1, "flood": 2})
    flood.cancel()
    await asyncio.wait({flood})
    assert 0 < each_of_three < here / 2


async def test_servers_of_one_machine_tell_each_other_who_sends_requests(databases: Databases) -> None:
    url = databases.create()
    async with Database(url, connections=1) as database:
        first, second, away = (OtherServers(database, RequestTurns(), machine) for machine in ("here", "here", "away"))
        mine, theirs = new_id(), new_id()
        await first.exchange([mine])
        await second.exchange([theirs])
        await away.exchange([new_id()])
        await first.exchange([mine])
        assert (heard(first), heard(second), heard(away)) == ({theirs: 1}, {mine: 1}, {})
        third = OtherServers(database, RequestTurns(), "here")
        await third.exchange([theirs, mine])
        await first.exchange([mine])
        assert heard(first) == {theirs: 2, mine: 1}
        async with database.connection() as connection:
            await connection.execute("UPDATE server_activity SET told_at = now() - interval '3 seconds'")
        await second.exchange([theirs])
        assert heard(second) == {}
        async with database.connection() as connection:
            await connection.execute("UPDATE server_activity SET told_at = now() - interval '2 minutes'")
        await second.exchange([theirs])
        async with database.connection() as connection:
            kept = await (await connection.execute("SELECT count(*) FROM server_activity")).fetchone()
        assert kept == (1,)


def heard(server: OtherServers) -> dict[str, int]:
    return {**server.turns.elsewhere}
